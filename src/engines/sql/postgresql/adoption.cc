// A store in PostgreSQL adopts rows that programs count in, and sequences.
//
// A take locks idmint's own row of the counter first, and writes into its `next` the value that
// comes after those that it took: the floor. A record below it was set back, and nothing is taken
// from it. As the row is locked before the record is read, the floor never overtakes the record,
// and no take is under way when close() returns. The row gives the transaction a commit record too,
// which is flushed before the answer. Without one the value of a sequence would be answered
// although the log record that says so, which may be another transaction's, is in no file yet;
// after a crash it came again.
#include <array>

#include "engines/sql/adopted_record.h"
#include "engines/sql/postgresql/schema.h"

namespace idmint::stores::postgresql {
namespace {

using sql::AdoptedKind;
using sql::Counting;

#define IDMINT_COUNTER                                                                            \
  "WITH RECURSIVE c AS MATERIALIZED (SELECT first, last, next FROM idmint.counters"               \
  "  WHERE name = $1 AND NOT closed AND last >= $5::bigint AND adopted <> '' AND " IDMINT_TRUSTED \
  " FOR NO KEY UPDATE)"
// The floor of the counter, from the CTE `taken`.
#define IDMINT_FLOOR(next)                                                         \
  ", floor AS (UPDATE idmint.counters k SET next = greatest(k.next, (SELECT " next \
  " FROM taken)) WHERE k.name = $1 AND EXISTS (SELECT FROM taken))"

// ---- rows

// The largest number that the column holds; NULL: it does not count in whole numbers.
#define IDMINT_CAPACITY                                                     \
  "CASE pg_typeof(r.{column})::text WHEN 'bigint' THEN 9223372036854775807" \
  " WHEN 'integer' THEN 2147483647 WHEN 'smallint' THEN 32767 END"
constexpr std::string_view kLookAtRow =
    "SELECT CASE WHEN " IDMINT_CAPACITY
    " IS NOT NULL THEN least(r.{column}::text::bigint, 9223372036854775806) + {ahead} END,"
    " (" IDMINT_CAPACITY
    " - 1 + {ahead})::bigint,"
    " CASE WHEN " IDMINT_CAPACITY
    " IS NULL THEN '{field} is of type ' || pg_typeof(r.{column})::text || ': make it a bigint'"
    "  WHEN r.{column} IS NULL THEN '{field} is NULL'"
    "  WHEN t.relkind <> 'r' THEN '{name} is no ordinary table'"
    "  WHEN t.relpersistence <> 'p' THEN '{name} is empty after a crash: ALTER TABLE {name} SET "
    "LOGGED, and see that the row is past every value in use'"
    "  ELSE '' END"
    " FROM {table} r JOIN pg_catalog.pg_class t ON t.oid = '{table}'::regclass WHERE {one} LIMIT 2";

// The row is locked first, so that what it had can be returned; and then it has that still. No sum
// overflows: 0 <= first and last < 2^63 - 1, and a value outside of them stands for the nearest.
constexpr std::string_view kTakeFromRow = IDMINT_COUNTER
    ", old AS MATERIALIZED (SELECT r.{column}::bigint AS value, c.next - {ahead} AS least,"
    "  greatest(least(r.{column}::bigint, $5::bigint + 1 - {ahead}), c.next - {ahead}) + {ahead}"
    "   AS next"
    "  FROM c, {table} r JOIN pg_catalog.pg_class t ON t.oid = '{table}'::regclass"
    "  WHERE t.relpersistence = 'p' AND {one} FOR UPDATE OF r),"
    " taken AS (UPDATE {table} r SET {column} = r.{column}"
    "   + least($2::bigint, $5::bigint - old.next + 1)"
    "  FROM old WHERE {one} AND old.value >= old.least AND $5::bigint - old.next + 1 >= $3::bigint"
    "  RETURNING old.next AS value, r.{column} - old.value AS count)" IDMINT_FLOOR(
        "max(value + count)") " SELECT value, 1, count, true FROM taken";

constexpr std::string_view kRaiseRow =
    "UPDATE {table} r SET {column} = {target} - {ahead}"
    " WHERE {one} AND r.{column} < {target} - {ahead}";

// ---- sequences

constexpr std::string_view kLookAtSequence =
    "SELECT CASE WHEN q.is_called THEN least(q.last_value, 9223372036854775806) + 1"
    "  ELSE q.last_value END, least(s.seqmax, 9223372036854775806),"
    " CASE WHEN s.seqincrement > 1 THEN 'it counts in steps of ' || s.seqincrement || ': a program"
    " that takes blocks (HiLo, pooled) uses ' || s.seqincrement || ' values for each that it"
    " gives, and idmint would hand out some of the same. Leave it as it is, and let those programs"
    " take their ids from a sequence of idmint''s own that begins above every id in use'"
    "  WHEN s.seqincrement < 1 THEN 'it counts down: use a sequence of idmint''s own'"
    "  WHEN s.seqcycle"
    "   THEN 'at its end it begins anew, and gives its values twice: if it never came to its end,"
    " ALTER SEQUENCE {name} NO CYCLE; otherwise use a sequence of idmint''s own'"
    "  WHEN s.seqcache <> 1 THEN 'each connection takes ' || s.seqcache || ' values at once, of"
    " which a raise cannot recall any: ALTER SEQUENCE {name} CACHE 1'"
    "  WHEN t.relpersistence <> 'p' THEN 'it is not as before after a crash: ALTER SEQUENCE {name}"
    " SET LOGGED, and see that its next value is above every value in use'"
    "  ELSE '' END"
    " FROM {table} q, pg_catalog.pg_sequence s JOIN pg_catalog.pg_class t ON t.oid = s.seqrelid"
    " WHERE s.seqrelid = '{table}'::regclass AND $1::text = ''";

// Values are taken one by one, until there are as many in one run as are wanted. If another program
// took one in between, a new run begins, or, if the old one will do, it is returned and the one
// value after it is passed over. It never sets the sequence, which could set it back. The state of
// the sequence (q) is read after the row of the counter was locked.
constexpr std::string_view kTakeFromSequence = IDMINT_COUNTER
    ", s AS MATERIALIZED (SELECT s.seqrelid::regclass AS id, c.next AS floor, least($2::bigint,"
    "   $5::bigint - q.before) AS wanted"
    "  FROM c, LATERAL (SELECT q.last_value - CASE WHEN q.is_called THEN 0 ELSE 1 END AS before"
    "   FROM {table} q WHERE c.next >= 0 OFFSET 0) q,"
    "  pg_catalog.pg_sequence s JOIN pg_catalog.pg_class t ON t.oid = s.seqrelid"
    "  WHERE s.seqrelid = '{table}'::regclass AND s.seqincrement = 1 AND NOT s.seqcycle"
    "   AND s.seqcache = 1 AND t.relpersistence = 'p' AND $4::text = '' AND q.before >= c.next - 1),"
    " taken AS (SELECT nextval(s.id) AS value, 1::bigint AS run, 1::bigint AS tries"
    "  FROM s WHERE s.wanted >= $3::bigint"
    "  UNION ALL"
    "  SELECT n.value, CASE WHEN n.value = taken.value + 1 THEN taken.run + 1 ELSE 1 END,"
    "   taken.tries + 1 FROM taken, s,"
    "   LATERAL (SELECT nextval(s.id) AS value WHERE taken.run > 0 OFFSET 0) n"
    "  WHERE taken.run < s.wanted"
    "   AND (taken.run = taken.tries OR ($3::bigint > 1 AND taken.tries < 50 * $3::bigint)))"
    IDMINT_FLOOR("max(least(value, $5::bigint)) + 1")
    " SELECT value - run + 1, 1, run, run >= $3::bigint FROM taken, s"
    " WHERE value - run + 1 >= s.floor AND value <= $5::bigint ORDER BY run DESC LIMIT 1";

// The first statement keeps those who take from it out until the end of the transaction.
constexpr std::string_view kRaiseSequence =
    "ALTER SEQUENCE {table} NO CYCLE;"
    "SELECT setval('{table}', {target} - 1) FROM {table} q"
    " WHERE q.last_value < {target} - CASE WHEN q.is_called THEN 1 ELSE 0 END";

constexpr std::array kKinds = {
    AdoptedKind{.name = "row",
                .form =
                    "row:TABLE/KEY=VALUE:next=COLUMN where the column holds the value that comes "
                    "next, or last= where it holds the one that came last (a table of one row "
                    "needs no /KEY=VALUE)",
                .of_row = true,
                .counting = Counting::kEither,
                .steps = false,
                .rows = false,
                .look = kLookAtRow,
                .advance = kTakeFromRow,
                .raise = kRaiseRow},
    AdoptedKind{.name = "sequence",
                .form = "sequence:NAME, which for a serial or identity column is what "
                        "pg_get_serial_sequence('TABLE', 'COLUMN') says",
                .of_row = false,
                .counting = Counting::kNone,
                .steps = false,
                .rows = false,
                .look = kLookAtSequence,
                .advance = kTakeFromSequence,
                .raise = kRaiseSequence},
};

}  // namespace

constinit const sql::AdoptionRules Dialect::kAdoptionRules{.kinds = kKinds,
                                                           .recipes = {},
                                                           .schema = "public",
                                                           .quote = '"',
                                                           .one = "{key} = {value}",
                                                           .no_key = "{value}::text = ''"};
constinit const sql::RecordAdoption Dialect::kAdoption{Dialect::kAdoptionRules};

}  // namespace idmint::stores::postgresql
