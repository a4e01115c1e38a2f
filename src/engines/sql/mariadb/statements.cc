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
constexpr Query kRaise{
    "raise",
    IDMINT_CHANGE IDMINT_UPDATE
    "next = IF(idmint_counters.adopted <> '', idmint_counters.next,"
    "  GREATEST(idmint_counters.next, idmint_counters.first"
    "  + (LEAST(GREATEST($2, idmint_counters.first), idmint_counters.last + 1)"
    "  - idmint_counters.first + (idmint_counters.stride - 1)) DIV idmint_counters.stride"
    "  * idmint_counters.stride))"
    " RETURNING name, next, adopted <> ''",
    Kind::kWrite};
constexpr Query kRaiseFloorOfAdopted{"raise_floor_of_adopted",
                                     IDMINT_CHANGE IDMINT_UPDATE
                                     "next = GREATEST(idmint_counters.next, LEAST($2, "
                                     "idmint_counters.last + idmint_counters.stride))"
                                     " RETURNING name, next, 1",
                                     Kind::kWrite};
constexpr Query kExtend{
    "extend",
    IDMINT_CHANGE " AND $2 <= 9223372036854775806 - (s.stride - 1)" IDMINT_UPDATE
                  "last = GREATEST(idmint_counters.last, $2) RETURNING name, first, last, stride",
    Kind::kWrite};
constexpr Query kClose{"close", IDMINT_CHANGE IDMINT_UPDATE "closed = 1 RETURNING name",
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
#define IDMINT_CLOCKS_AGREE \
  "($9 < 0 OR ABS(CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) - $8) <= $9)"
#define IDMINT_FREE(of) \
  "(" of "token <=> $2 OR " of "token IS NULL OR " of "held_until <= " IDMINT_NOW ")"
#define IDMINT_OWN_FIRST " ORDER BY (s.token <=> $2) DESC, s.minted_until, s.worker LIMIT 1"
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
// See schema.h for its form: of those who want one row at once, one is granted it.
constexpr Query kAcquire{
    "acquire",
    "INSERT INTO idmint_workers (pool, worker, token, holder, generation, minted_until, taken_from,"
    "  held_until, nonce, granted)"
    " SELECT s.pool, s.worker, s.token, s.holder, s.generation, s.minted_until, s.taken_from,"
    "  s.held_until, s.nonce, s.granted"
    " FROM idmint_workers s JOIN idmint_store t ON " IDMINT_TRUSTED
    " WHERE s.pool = $1 AND s.minted_until <= $5 AND " IDMINT_FREE("s.")
    " AND " IDMINT_CLOCKS_AGREE IDMINT_OWN_FIRST
    " ON DUPLICATE KEY UPDATE"
    " granted = idmint_workers.minted_until <= $5 AND " IDMINT_FREE("idmint_workers.") ","
    " generation = idmint_workers.generation"
    "  + IF(idmint_workers.granted AND NOT (idmint_workers.token <=> $2), 1, 0),"
    " token = IF(idmint_workers.granted, $2, idmint_workers.token),"
    " holder = IF(idmint_workers.granted, $6, idmint_workers.holder),"
    " taken_from = IF(idmint_workers.granted, GREATEST(idmint_workers.minted_until, $3),"
    "  idmint_workers.taken_from),"
    " minted_until = IF(idmint_workers.granted, GREATEST(idmint_workers.minted_until + 1, $3 + $4),"
    "  idmint_workers.minted_until),"
    " held_until = IF(idmint_workers.granted, " IDMINT_NOW " + $7, idmint_workers.held_until)"
    " RETURNING worker, generation, taken_from, minted_until, granted",
    Kind::kHandOut};
constexpr Query kFreeWorker{"free_worker",
                            "SELECT s.minted_until, " IDMINT_NOW
                            " FROM idmint_workers s WHERE s.pool = $1 AND " IDMINT_FREE("s.")
                                IDMINT_OWN_FIRST,
                            Kind::kRead};
constexpr Query kExtendLease{"extend_lease",
                             "UPDATE idmint_workers SET minted_until = GREATEST(minted_until, $10),"
                             "  held_until = " IDMINT_NOW
                             " + $7, nonce = $6"
                             " WHERE pool = $1 AND worker = $2 AND token = $3 AND generation = $4"
                             "  AND (minted_until = $5 OR (nonce = $6 AND minted_until >= $10))"
                             "  AND " IDMINT_CLOCKS_AGREE
                             " AND EXISTS (SELECT 1 FROM idmint_store t WHERE " IDMINT_TRUSTED ")",
                             Kind::kHandOut};
constexpr Query kRelease{"release",
                         "UPDATE idmint_workers SET token = NULL, holder = ''"
                         " WHERE pool = $1 AND worker = $2 AND token = $3 AND generation = $4"
                         "  AND " IDMINT_OWN_STORE,
                         Kind::kWrite};
constexpr Query kRaiseFloor{"raise_floor",
                            "UPDATE idmint_workers SET token = NULL, holder = '', generation = $3,"
                            "  taken_from = GREATEST(minted_until, $2),"
                            "  minted_until = GREATEST(minted_until, $2) WHERE pool = $1"
                            "  AND " IDMINT_OWN_STORE,
                            Kind::kWrite};
constexpr Query kWorker{"worker",
                        "SELECT " IDMINT_ROW " FROM idmint_workers WHERE pool = $1 AND worker = $2",
                        Kind::kRead};
constexpr Query kWorkers{
    "workers", "SELECT " IDMINT_ROW " FROM idmint_workers WHERE pool = $1 ORDER BY worker",
    Kind::kRead};

#undef IDMINT_ROW
#undef IDMINT_OWN_FIRST
#undef IDMINT_FREE
#undef IDMINT_CLOCKS_AGREE
#undef IDMINT_NOW

// ---- the catalog

constexpr Query kDefine{"define",
                        "INSERT INTO idmint_definitions (name, json)"
                        " SELECT $1, $2 FROM idmint_store t WHERE " IDMINT_TRUSTED
                        " ON DUPLICATE KEY UPDATE json = idmint_definitions.json",
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
constinit const sql::ColumnStatements Engine::kColumnStatements{
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
                                                         .raise = kRaise,
                                                         .raise_floor = kRaiseFloorOfAdopted,
                                                         .extend = kExtend,
                                                         .close = kClose,
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
                                                        .acquire = kAcquire,
                                                        .free_worker = kFreeWorker,
                                                        .extend = kExtendLease,
                                                        .release = kRelease,
                                                        .raise_floor = kRaiseFloor,
                                                        .worker = kWorker,
                                                        .workers = kWorkers},
                                            .definitions = {.define = kDefine,
                                                            .replace = kReplace,
                                                            .find = kFindDefinition,
                                                            .list = kListDefinitions},
                                            .clock = kClock};

}  // namespace idmint::stores::mariadb
