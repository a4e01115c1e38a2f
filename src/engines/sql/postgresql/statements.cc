#include "engines/sql/postgresql/schema.h"
#include "engines/sql/store.h"

namespace idmint::stores::postgresql {
namespace {

// ---- counters

// How many values are left is (last - next + stride) / stride, as in CounterState::left(). The
// value that a raise moves to is that of CounterBounds::at_or_above(). No sum overflows:
// 0 <= first, next <= last + stride <= 2^63 - 1.
constexpr Query kAdvance{
    "advance",
    "UPDATE idmint.counters SET taken_from = next,"
    " next = next + least($2::bigint, (last - next + stride) / stride) * stride"
    " WHERE name = $1 AND NOT closed AND adopted = '' AND (last - next + stride) / stride >= "
    "$3::bigint"
    "  AND " IDMINT_TRUSTED " RETURNING taken_from, stride, (next - taken_from) / stride, true",
    Kind::kHandOut, "SELECT and UPDATE on idmint.counters and SELECT on idmint.trusted"};

// Statements that change many counters lock them in one order, so that no two wait for each other.
#define IDMINT_LOCKED                                             \
  "WITH locked AS MATERIALIZED (SELECT name FROM idmint.counters" \
  "  WHERE name = ANY($1::text[]) AND " IDMINT_OWN_STORE          \
  "  ORDER BY name FOR UPDATE)"                                   \
  " UPDATE idmint.counters c "
// The end once it is lifted to $3.
#define IDMINT_LAST                                                                            \
  "CASE WHEN $3::bigint <= 9223372036854775806 - (stride - 1) THEN greatest(last, $3::bigint)" \
  " ELSE last END"
constexpr Query kLift{
    "lift",
    IDMINT_LOCKED
    "SET last = " IDMINT_LAST
    ", next = CASE WHEN adopted <> '' THEN next ELSE greatest(next, first"
    "  + (least(greatest($2::bigint, first), " IDMINT_LAST
    " + 1) - first + (stride - 1)) / stride * stride) END, closed = closed OR $4::bigint = 1"
    " FROM locked WHERE c.name = locked.name"
    " RETURNING c.name, first, last, stride, next, closed, adopted",
    Kind::kWrite, "SELECT and UPDATE on idmint.counters"};
#undef IDMINT_LAST
constexpr Query kRaiseFloorOfAdopted{
    "raise_floor_of_adopted",
    IDMINT_LOCKED
    "SET next = greatest(next, least($2::bigint, last + stride)) FROM locked"
    " WHERE c.name = locked.name",
    Kind::kWrite, "SELECT and UPDATE on idmint.counters"};
#undef IDMINT_LOCKED

constexpr Query kCreate{
    "create",
    "INSERT INTO idmint.counters (name, first, last, stride, next, taken_from, closed, adopted)"
    " SELECT name, first, last, stride, next, next, false, adopted FROM unnest($1::text[],"
    "  $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])"
    "  AS new (name, first, last, stride, adopted, next)"
    " WHERE " IDMINT_TRUSTED " ORDER BY name ON CONFLICT DO NOTHING",
    Kind::kHandOut, "SELECT and INSERT on idmint.counters and SELECT on idmint.trusted"};
constexpr Query kPeek{"peek",
                      "SELECT name, first, last, stride, next, closed, adopted FROM idmint.counters"
                      " WHERE name = ANY($1::text[])",
                      Kind::kRead, "SELECT on idmint.counters"};
// $2 begins the names that a prefix does not find.
constexpr Query kList{"list",
                      "SELECT name, first, last, stride, next, closed, adopted FROM idmint.counters"
                      " WHERE starts_with(name, $1) OR starts_with(name, $2)",
                      Kind::kRead, "SELECT on idmint.counters"};
constexpr Query kAdopters{"adopters",
                          "SELECT name, adopted FROM idmint.counters WHERE adopted <> ''",
                          Kind::kRead, "SELECT on idmint.counters"};

// ---- claims

constexpr Query kCreateSpace{"create_space",
                             "INSERT INTO idmint.spaces (name, closed) SELECT $1, false"
                             " WHERE " IDMINT_TRUSTED " ON CONFLICT DO NOTHING",
                             Kind::kHandOut,
                             "SELECT and INSERT on idmint.spaces and SELECT on idmint.trusted"};
// The space stays open until the end, as those who claim lock it together. If it is there, open and
// trusted, each row has a number that was free, or one row has none.
constexpr Query kClaim{
    "claim",
    "WITH space AS MATERIALIZED (SELECT name FROM idmint.spaces"
    "  WHERE name = $1 AND NOT closed AND " IDMINT_TRUSTED
    " FOR SHARE),"
    " won AS (INSERT INTO idmint.claims (space, key)"
    "  SELECT space.name, wanted.key FROM space, unnest($2::bigint[]) AS wanted (key)"
    "  ORDER BY wanted.key ON CONFLICT DO NOTHING RETURNING key),"
    " counted AS (INSERT INTO idmint.claimed (space, part, claimed)"
    "  SELECT space.name, pg_backend_pid() % 16, (SELECT count(*) FROM won) FROM space"
    "  WHERE EXISTS (SELECT FROM won) ON CONFLICT (space, part)"
    "  DO UPDATE SET claimed = idmint.claimed.claimed + excluded.claimed)"
    " SELECT won.key, won.key IS NOT NULL FROM space LEFT JOIN won ON true",
    Kind::kHandOut,
    "SELECT and UPDATE on idmint.spaces, SELECT and INSERT on idmint.claims, SELECT, INSERT and "
    "UPDATE on idmint.claimed, and SELECT on idmint.trusted"};
constexpr Query kSpace{"space", "SELECT closed FROM idmint.spaces WHERE name = $1", Kind::kRead,
                       "SELECT on idmint.spaces"};
constexpr Query kClaimed{
    "claimed", "SELECT coalesce(sum(claimed), 0)::bigint FROM idmint.claimed WHERE space = $1",
    Kind::kRead, "SELECT on idmint.claimed"};
constexpr Query kContains{"contains",
                          "SELECT 1 FROM idmint.claims WHERE space = $1 AND key = $2::bigint",
                          Kind::kRead, "SELECT on idmint.claims"};
constexpr Query kCloseSpace{
    "close_space", "UPDATE idmint.spaces SET closed = true WHERE name = $1 AND " IDMINT_OWN_STORE,
    Kind::kWrite, "SELECT and UPDATE on idmint.spaces"};

// ---- worker ids

#define IDMINT_MS(time) "(extract(epoch FROM " time ") * 1000)::bigint"
#define IDMINT_ROW                                               \
  "worker, token, holder, generation, minted_until, " IDMINT_MS( \
      "held_until") ", taken_from, nonce, " IDMINT_MS("clock_timestamp()")

constexpr Query kCreatePool{
    "create_pool",
    "WITH made AS (INSERT INTO idmint.pools (name, workers) SELECT $1, $2::bigint"
    "  WHERE " IDMINT_TRUSTED
    " ON CONFLICT DO NOTHING RETURNING name, workers)"
    " INSERT INTO idmint.workers (pool, worker, holder, generation, minted_until, taken_from,"
    "  held_until)"
    " SELECT made.name, each.worker, '', 0, 0, 0, 'epoch'"
    " FROM made, generate_series(0::bigint, made.workers - 1) AS each (worker)",
    Kind::kHandOut,
    "SELECT and INSERT on idmint.pools, INSERT on idmint.workers, and SELECT on idmint.trusted"};
constexpr Query kPool{"pool", "SELECT workers FROM idmint.pools WHERE name = $1", Kind::kRead,
                      "SELECT on idmint.pools"};
constexpr Query kWorker{
    "worker", "SELECT " IDMINT_ROW " FROM idmint.workers WHERE pool = $1 AND worker = $2::bigint",
    Kind::kRead, "SELECT on idmint.workers"};
constexpr Query kWorkers{
    "workers", "SELECT " IDMINT_ROW " FROM idmint.workers WHERE pool = $1 ORDER BY worker",
    Kind::kRead, "SELECT on idmint.workers"};
#define IDMINT_FREE "token IS NULL OR held_until <= clock_timestamp()"
constexpr Query kFreeWorkers{
    "free_workers",
    "SELECT " IDMINT_ROW
    " FROM idmint.workers WHERE pool = $1 AND (token = $2::uuid OR " IDMINT_FREE
    ") ORDER BY (token IS NOT DISTINCT FROM $2::uuid) DESC, minted_until, worker LIMIT $3::bigint",
    Kind::kRead, "SELECT on idmint.workers"};
constexpr Query kFreeWorkersFrom{
    "free_workers_from",
    "SELECT " IDMINT_ROW
    " FROM idmint.workers WHERE pool = $1 AND worker >="
    "  $3::bigint % (SELECT max(worker) + 1 FROM idmint.workers WHERE pool = $1)"
    "  AND minted_until <= $2::bigint AND (" IDMINT_FREE ") ORDER BY worker LIMIT $4::bigint",
    Kind::kRead, "SELECT on idmint.workers"};
#undef IDMINT_FREE

// The nil UUID stands for NULL in what is expected and in what is to be.
#define IDMINT_NIL "'00000000-0000-0000-0000-000000000000'"
#define IDMINT_SWAPPED                                                                     \
  "worker, old_token, old_generation, old_minted_until, old_taken_from, old_nonce, token," \
  " holder, generation, minted_until, taken_from, nonce, held_for"
#define IDMINT_SWAP_BY(swaps)                                                               \
  "UPDATE idmint.workers w SET token = nullif(s.token, " IDMINT_NIL                         \
  "), generation = s.generation, minted_until = s.minted_until, taken_from = s.taken_from," \
  "  nonce = nullif(s.nonce, " IDMINT_NIL                                                   \
  "), holder = CASE WHEN s.token = s.old_token THEN w.holder ELSE s.holder END,"            \
  "  held_until = clock_timestamp() + s.held_for * interval '1 millisecond'"                \
  " FROM " swaps                                                                            \
  " WHERE w.pool = $1 AND w.worker = s.worker"                                              \
  "  AND coalesce(w.token, " IDMINT_NIL                                                     \
  ") = s.old_token"                                                                         \
  "  AND w.generation = s.old_generation AND w.minted_until = s.old_minted_until"           \
  "  AND w.taken_from = s.old_taken_from"                                                   \
  "  AND coalesce(w.nonce, " IDMINT_NIL ") = s.old_nonce AND "
constexpr Query kSwap{
    "swap_worker",
    IDMINT_SWAP_BY("(VALUES ($2::bigint, $3::uuid, $4::bigint, $5::bigint, $6::bigint, $7::uuid,"
                   "  $8::uuid, $9::text, $10::bigint, $11::bigint, $12::bigint, $13::uuid,"
                   "  $14::bigint)) AS s (" IDMINT_SWAPPED ")") "($16::bigint < 0 OR"
    " abs(" IDMINT_MS("statement_timestamp()") " - $15::bigint) <= $16::bigint)"
    " AND " IDMINT_TRUSTED,
    Kind::kHandOut, "SELECT and UPDATE on idmint.workers and SELECT on idmint.trusted"};
// The rows are locked in one order, so that no two statements wait for each other: the planner
// looks each up by the primary key, as it expects few with a LIMIT that it does not know. Should it
// do otherwise, one of two is ended, and sent again.
constexpr Query kSwapMany{
    "swap_workers",
    IDMINT_SWAP_BY(
        "(SELECT * FROM unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[],"
        "  $7::uuid[], $8::uuid[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[],"
        "  $13::uuid[], $14::bigint[]) AS each (" IDMINT_SWAPPED
        ") ORDER BY worker LIMIT $15::bigint) s") IDMINT_OWN_STORE,
    Kind::kWrite, "SELECT and UPDATE on idmint.workers"};
#undef IDMINT_SWAP_BY
#undef IDMINT_SWAPPED
#undef IDMINT_NIL

constexpr Query kMoment{"moment",
                        "SELECT (" IDMINT_TRUSTED ")::int, " IDMINT_MS("clock_timestamp()"),
                        Kind::kRead, "SELECT on idmint.trusted"};

#undef IDMINT_ROW
#undef IDMINT_MS

// ---- the catalog

constexpr Query kDefine{"define",
                        "INSERT INTO idmint.definitions (name, json) SELECT $1, $2"
                        " WHERE " IDMINT_TRUSTED " ON CONFLICT DO NOTHING",
                        Kind::kHandOut,
                        "SELECT and INSERT on idmint.definitions and SELECT on idmint.trusted"};
constexpr Query kReplace{"replace",
                         "UPDATE idmint.definitions SET json = $3 WHERE name = $1 AND json = $2"
                         " AND " IDMINT_OWN_STORE,
                         Kind::kWrite, "SELECT and UPDATE on idmint.definitions"};
constexpr Query kFindDefinition{"find_definition",
                                "SELECT json FROM idmint.definitions WHERE name = $1", Kind::kRead,
                                "SELECT on idmint.definitions"};
constexpr Query kListDefinitions{"list_definitions",
                                 "SELECT name, json FROM idmint.definitions WHERE name > $1 "
                                 "ORDER BY name LIMIT $2",
                                 Kind::kRead, "SELECT on idmint.definitions"};

constexpr Query kClock{"clock", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                       Kind::kRead};

// ---- columns of others

constexpr Query kDescribe{
    "describe",
    "SELECT t.typcategory = 'N', t.typcategory = 'S', format_type(a.atttypid, a.atttypmod)"
    " FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
    " WHERE a.attrelid = to_regclass($1) AND $2::text <> '' AND a.attname = $3"
    "  AND a.attnum > 0 AND NOT a.attisdropped",
    Kind::kRead};

}  // namespace

// Texts are compared by their bytes; an index serves that if its collation is "C".
constinit const sql::ColumnStatements Dialect::kColumnStatements{
    .describe = kDescribe,
    .largest_number =
        "SELECT trunc(max({column})::numeric)::bigint FROM {table}"
        " WHERE {column} BETWEEN $1::bigint AND $2::bigint",
    .largest_texts =
        "SELECT {column}::text FROM {table} WHERE {column} COLLATE \"C\" >= $1::text"
        " AND ({column} COLLATE \"C\" < $2::text"
        "  OR ({column} COLLATE \"C\" = $2::text AND $3::bigint = 1))"
        " ORDER BY {column} COLLATE \"C\" DESC LIMIT 100",
    .any_text = "SELECT {column}::text FROM {table} WHERE {column} <> '' LIMIT 1"};

extern const sql::Statements kStatements;
constinit const sql::Statements kStatements{.counters = {.create = kCreate,
                                                         .advance = kAdvance,
                                                         .lift = kLift,
                                                         .raise_floor = kRaiseFloorOfAdopted,
                                                         .peek = kPeek,
                                                         .list = kList,
                                                         .adopters = kAdopters},
                                            .claims = {.create_space = kCreateSpace,
                                                       .insert = kClaim,
                                                       .space = kSpace,
                                                       .claimed = kClaimed,
                                                       .contains = kContains,
                                                       .close_space = kCloseSpace},
                                            .workers = {.create_pool = kCreatePool,
                                                        .pool = kPool,
                                                        .worker = kWorker,
                                                        .workers = kWorkers,
                                                        .free = kFreeWorkers,
                                                        .free_from = kFreeWorkersFrom,
                                                        .swap = kSwap,
                                                        .swap_many = kSwapMany,
                                                        .moment = kMoment},
                                            .definitions = {.insert = kDefine,
                                                            .swap = kReplace,
                                                            .read = kFindDefinition,
                                                            .list = kListDefinitions},
                                            .clock = kClock};

}  // namespace idmint::stores::postgresql
