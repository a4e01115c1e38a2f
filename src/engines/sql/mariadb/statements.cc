#include "engines/sql/mariadb/schema.h"
#include "engines/sql/store.h"

namespace idmint::stores::mariadb {
namespace {

// ---- counters

#define IDMINT_COLUMNS "name, first, last, stride, next, taken_from, granted, closed, adopted"
#define IDMINT_SAME \
  "s.name, s.first, s.last, s.stride, s.next, s.taken_from, s.granted, s.closed, s.adopted"
#define IDMINT_LEFT(of) "(" of "last - " of "next + " of "stride) DIV " of "stride"
// The counters of a list of names. They are looked up one by one, and never all read.
#define IDMINT_NAMED                                                                          \
  " FROM JSON_TABLE($1, '$[*]' COLUMNS (name VARCHAR(2048) CHARACTER SET latin1 PATH '$')) w" \
  " STRAIGHT_JOIN idmint_counters s FORCE INDEX (PRIMARY) ON s.name = UNHEX(w.name)"

// How many values are left is (last - next + stride) / stride, as in CounterState::left(). The
// value that a raise moves to is that of CounterBounds::at_or_above(). No sum overflows:
// 0 <= first, next <= last + stride <= 2^63 - 1. schema.h says why it has this form.
constexpr Query kAdvance{
    "advance",
    "INSERT INTO idmint_counters (" IDMINT_COLUMNS ") SELECT " IDMINT_SAME
    " FROM idmint_counters s JOIN idmint_store t ON " IDMINT_TRUSTED
    " WHERE s.name = $1 AND NOT s.closed AND s.adopted = '' AND " IDMINT_LEFT("s.") " >= $3"
    " ON DUPLICATE KEY UPDATE"
    " granted = NOT idmint_counters.closed AND " IDMINT_LEFT("idmint_counters.") " >= $3,"
    " taken_from = idmint_counters.next,"
    " next = idmint_counters.next + IF(idmint_counters.granted,"
    "  LEAST($2, " IDMINT_LEFT("idmint_counters.") ") * idmint_counters.stride, 0)"
    " RETURNING taken_from, stride, (next - taken_from) DIV stride, granted",
    Kind::kHandOut};

#define IDMINT_CHANGE                                                                 \
  "INSERT INTO idmint_counters (" IDMINT_COLUMNS ") SELECT " IDMINT_SAME IDMINT_NAMED \
  " WHERE " IDMINT_OWN_STORE
#define IDMINT_UPDATE " ORDER BY s.name ON DUPLICATE KEY UPDATE "
// Assignments are made in their order: `next` is lifted within the new end.
constexpr Query kLift{
    "lift",
    IDMINT_CHANGE IDMINT_UPDATE
    "last = IF($3 <= 9223372036854775806 - (idmint_counters.stride - 1),"
    "  GREATEST(idmint_counters.last, $3), idmint_counters.last),"
    " next = IF(idmint_counters.adopted <> '', idmint_counters.next,"
    "  GREATEST(idmint_counters.next, idmint_counters.first"
    "  + (LEAST(GREATEST($2, idmint_counters.first), idmint_counters.last + 1)"
    "  - idmint_counters.first + (idmint_counters.stride - 1)) DIV idmint_counters.stride"
    "  * idmint_counters.stride)),"
    " closed = IF($4 = 1, 1, idmint_counters.closed)"
    " RETURNING name, first, last, stride, next, closed, adopted",
    Kind::kWrite};
constexpr Query kRaiseFloorOfAdopted{"raise_floor_of_adopted",
                                     IDMINT_CHANGE IDMINT_UPDATE
                                     "next = GREATEST(idmint_counters.next, LEAST($2, "
                                     "idmint_counters.last + idmint_counters.stride))"
                                     " RETURNING name, next, 1",
                                     Kind::kWrite};
#undef IDMINT_UPDATE
#undef IDMINT_CHANGE

constexpr Query kCreate{
    "create",
    "INSERT INTO idmint_counters (" IDMINT_COLUMNS
    ")"
    " SELECT UNHEX(w.name), w.first, w.last, w.stride, w.next, w.next, 0, 0,"
    "  UNHEX(w.adopted) FROM idmint_store t"
    " JOIN JSON_TABLE($1, '$[*]' COLUMNS (name VARCHAR(2048) CHARACTER SET latin1 PATH '$[0]',"
    "  first BIGINT PATH '$[1]', last BIGINT PATH '$[2]', stride BIGINT PATH '$[3]',"
    "  adopted VARCHAR(2000) CHARACTER SET latin1 PATH '$[4]', next BIGINT PATH '$[5]')) w"
    " WHERE " IDMINT_TRUSTED
    " ORDER BY w.name"
    " ON DUPLICATE KEY UPDATE closed = idmint_counters.closed",
    Kind::kHandOut};
constexpr Query kPeek{
    "peek", "SELECT s.name, s.first, s.last, s.stride, s.next, s.closed, s.adopted" IDMINT_NAMED,
    Kind::kRead};
constexpr Query kList{"list",
                      "SELECT name, first, last, stride, next, closed, adopted FROM idmint_counters"
                      " WHERE name >= $1 AND LEFT(name, LENGTH($1)) = $1 ORDER BY name",
                      Kind::kRead};
constexpr Query kAdopters{
    "adopters", "SELECT name, adopted FROM idmint_counters WHERE adopted <> ''", Kind::kRead};
#undef IDMINT_NAMED
#undef IDMINT_LEFT
#undef IDMINT_SAME
#undef IDMINT_COLUMNS

// ---- claims

constexpr Query kCreateSpace{"create_space",
                             "INSERT INTO idmint_spaces (name, closed)"
                             " SELECT $1, 0 FROM idmint_store t WHERE " IDMINT_TRUSTED
                             " ON DUPLICATE KEY UPDATE closed = idmint_spaces.closed",
                             Kind::kHandOut};
// The space stays open until the end, as those who claim lock it together. The rows are the numbers
// that were free: IGNORE leaves out those that are there, without a row.
constexpr Query kClaim{"claim",
                       "INSERT IGNORE INTO idmint_claims (space, number)"
                       " SELECT s.name, w.number FROM idmint_spaces s"
                       " JOIN idmint_store t ON " IDMINT_TRUSTED
                       " JOIN JSON_TABLE($2, '$[*]' COLUMNS (number BIGINT PATH '$')) w"
                       " WHERE s.name = $1 AND NOT s.closed ORDER BY w.number LOCK IN SHARE MODE"
                       " RETURNING number, 1",
                       Kind::kHandOut};
constexpr Query kSpace{"space", "SELECT closed FROM idmint_spaces WHERE name = $1", Kind::kRead};
constexpr Query kClaimed{"claimed", "SELECT COUNT(*) FROM idmint_claims WHERE space = $1",
                         Kind::kRead};
constexpr Query kContains{
    "contains", "SELECT 1 FROM idmint_claims WHERE space = $1 AND number = $2", Kind::kRead};
constexpr Query kCloseSpace{
    "close_space", "UPDATE idmint_spaces SET closed = 1 WHERE name = $1 AND " IDMINT_OWN_STORE,
    Kind::kWrite};

// ---- worker ids

#define IDMINT_NOW "CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)"
#define IDMINT_NIL "00000000000000000000000000000000"
#define IDMINT_ROW \
  "worker, token, holder, generation, minted_until, held_until, taken_from, nonce, " IDMINT_NOW

// Fails with a duplicate key where the pool was made meanwhile.
constexpr Query kCreatePool{
    "create_pool",
    "INSERT INTO idmint_workers (pool, worker, holder, generation, minted_until, taken_from,"
    "  held_until, granted)"
    " SELECT $1, w.worker, '', 0, 0, 0, 0, 0 FROM idmint_store t"
    " JOIN JSON_TABLE($2, '$[*]' COLUMNS (worker BIGINT PATH '$')) w"
    " WHERE " IDMINT_TRUSTED
    " AND NOT EXISTS (SELECT 1 FROM idmint_workers p WHERE p.pool = $1)"
    " ORDER BY w.worker",
    Kind::kHandOut};
constexpr Query kPool{
    "pool", "SELECT COUNT(*) AS n FROM idmint_workers WHERE pool = $1 HAVING n > 0", Kind::kRead};
constexpr Query kWorker{"worker",
                        "SELECT " IDMINT_ROW " FROM idmint_workers WHERE pool = $1 AND worker = $2",
                        Kind::kRead};
constexpr Query kWorkers{
    "workers", "SELECT " IDMINT_ROW " FROM idmint_workers WHERE pool = $1 ORDER BY worker",
    Kind::kRead};
#define IDMINT_FREE "token IS NULL OR held_until <= " IDMINT_NOW
// Whole rows are long to sort, as a holder may be.
constexpr Query kFreeWorkers{
    "free_workers",
    "SELECT w.worker, w.token, w.holder, w.generation, w.minted_until, w.held_until, w.taken_from,"
    "  w.nonce, " IDMINT_NOW
    " FROM (SELECT worker, token <=> $2 AS own FROM idmint_workers"
    "  WHERE pool = $1 AND (token <=> $2 OR " IDMINT_FREE
    ") ORDER BY own DESC, minted_until, worker LIMIT $3) c"
    " JOIN idmint_workers w ON w.pool = $1 AND w.worker = c.worker",
    Kind::kRead};
constexpr Query kFreeWorkersFrom{
    "free_workers_from",
    "SELECT " IDMINT_ROW
    " FROM idmint_workers WHERE pool = $1 AND worker >="
    "  $3 % (SELECT MAX(p.worker) + 1 FROM idmint_workers p WHERE p.pool = $1)"
    "  AND minted_until <= $2 AND (" IDMINT_FREE ") ORDER BY worker LIMIT $4",
    Kind::kRead};
#undef IDMINT_FREE

constexpr Query kSwap{
    "swap_worker",
    "UPDATE idmint_workers SET holder = IF(token <=> NULLIF($8, x'" IDMINT_NIL
    "'), holder, $9),"
    "  token = NULLIF($8, x'" IDMINT_NIL
    "'), generation = $10, minted_until = $11,"
    "  taken_from = $12, nonce = NULLIF($13, x'" IDMINT_NIL "'), held_until = " IDMINT_NOW
    " + $14"
    " WHERE pool = $1 AND worker = $2 AND token <=> NULLIF($3, x'" IDMINT_NIL
    "')"
    "  AND generation = $4 AND minted_until = $5 AND taken_from = $6"
    "  AND nonce <=> NULLIF($7, x'" IDMINT_NIL
    "')"
    "  AND ($16 < 0 OR ABS(CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - $15) <= $16)"
    "  AND EXISTS (SELECT 1 FROM idmint_store t WHERE " IDMINT_TRUSTED ")",
    Kind::kHandOut};
// UUIDs and holders are hexadecimal digits; none stand for NULL. The rows are locked in the order
// of the list, by their primary key.
#define IDMINT_HEX(digits) " VARCHAR(" digits ") CHARACTER SET latin1"
#define IDMINT_UUID(digits) "NULLIF(UNHEX(" digits "), '')"
constexpr Query kSwapMany{
    "swap_workers",
    "UPDATE JSON_TABLE($2, '$[*]' COLUMNS (worker BIGINT PATH '$[0]',"
    "  old_token" IDMINT_HEX("32") " PATH '$[1]', old_generation BIGINT PATH '$[2]',"
    "  old_minted_until BIGINT PATH '$[3]', old_taken_from BIGINT PATH '$[4]',"
    "  old_nonce" IDMINT_HEX("32") " PATH '$[5]',"
    "  token" IDMINT_HEX("32") " PATH '$[6]', holder" IDMINT_HEX("8192") " PATH '$[7]',"
    "  generation BIGINT PATH '$[8]', minted_until BIGINT PATH '$[9]',"
    "  taken_from BIGINT PATH '$[10]', nonce" IDMINT_HEX("32") " PATH '$[11]',"
    "  held_for BIGINT PATH '$[12]')) s"
    " STRAIGHT_JOIN idmint_workers w FORCE INDEX (PRIMARY) ON w.pool = $1 AND w.worker = s.worker"
    " SET w.token = " IDMINT_UUID("s.token") ", w.generation = s.generation,"
    "  w.minted_until = s.minted_until, w.taken_from = s.taken_from,"
    "  w.nonce = " IDMINT_UUID("s.nonce") ","
    "  w.holder = IF(s.token = s.old_token, w.holder, UNHEX(s.holder)),"
    "  w.held_until = " IDMINT_NOW " + s.held_for"
    " WHERE w.token <=> " IDMINT_UUID("s.old_token") " AND w.generation = s.old_generation"
    "  AND w.minted_until = s.old_minted_until AND w.taken_from = s.old_taken_from"
    "  AND w.nonce <=> " IDMINT_UUID("s.old_nonce") " AND " IDMINT_OWN_STORE,
    Kind::kWrite};
#undef IDMINT_UUID
#undef IDMINT_HEX
#undef IDMINT_NIL

constexpr Query kMoment{
    "moment", "SELECT EXISTS (SELECT 1 FROM idmint_store t WHERE " IDMINT_TRUSTED "), " IDMINT_NOW,
    Kind::kRead};

#undef IDMINT_ROW
#undef IDMINT_NOW

// ---- the catalog

constexpr Query kDefine{"define",
                        "INSERT IGNORE INTO idmint_definitions (name, json)"
                        " SELECT $1, $2 FROM idmint_store t WHERE " IDMINT_TRUSTED,
                        Kind::kHandOut};
constexpr Query kReplace{"replace",
                         "UPDATE idmint_definitions SET json = $3 WHERE name = $1 AND json = $2"
                         " AND " IDMINT_OWN_STORE,
                         Kind::kWrite};
constexpr Query kFindDefinition{"find_definition",
                                "SELECT json FROM idmint_definitions WHERE name = $1", Kind::kRead};
constexpr Query kListDefinitions{
    "list_definitions",
    "SELECT name, json FROM idmint_definitions WHERE name > $1 ORDER BY name LIMIT $2",
    Kind::kRead};

constexpr Query kClock{"clock", "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)",
                       Kind::kRead};

// ---- columns of others

constexpr Query kDescribe{
    "describe",
    "SELECT NUMERIC_PRECISION IS NOT NULL, CHARACTER_MAXIMUM_LENGTH IS NOT NULL, COLUMN_TYPE"
    " FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = $2 AND COLUMN_NAME = $3",
    Kind::kRead};

}  // namespace

// Texts are compared by their bytes, for which no index serves.
constinit const sql::ColumnStatements Dialect::kColumnStatements{
    .describe = kDescribe,
    .largest_number =
        "SELECT CAST(FLOOR(MAX({column})) AS SIGNED) FROM {table}"
        " WHERE {column} BETWEEN $1 AND $2",
    .largest_texts =
        "SELECT {column} FROM {table} WHERE BINARY CONVERT({column} USING utf8mb4) >= BINARY $1"
        " AND (BINARY CONVERT({column} USING utf8mb4) < BINARY $2"
        "  OR (BINARY CONVERT({column} USING utf8mb4) = BINARY $2 AND $3 = 1))"
        " ORDER BY BINARY CONVERT({column} USING utf8mb4) DESC LIMIT 100",
    .any_text = "SELECT {column} FROM {table} WHERE {column} <> '' LIMIT 1"};

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

}  // namespace idmint::stores::mariadb
