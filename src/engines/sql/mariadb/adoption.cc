// A store in MariaDB adopts rows that programs count in, and ticket tables, in which each REPLACE
// of one row takes an AUTO_INCREMENT value.
//
// A take is a compound statement: one transaction in one round trip. It locks idmint's own row of
// the counter first, and writes into its `next` the value that comes after those that it took: the
// floor. A record below it was set back, and nothing is taken from it. As the row is locked before
// the record is read, the floor never overtakes the record, and no take is under way when close()
// returns. Its only rows are sent after the commit.
#include <array>
#include <string_view>

#include "engines/sql/adopted_record.h"
#include "engines/sql/mariadb/schema.h"

namespace idmint::stores::mariadb {
namespace {

using sql::AdoptedKind;
using sql::Counting;

// The column {column} and its table, as m.
#define IDMINT_COLUMN                                                                        \
  "(SELECT f.COLUMN_TYPE AS type, f.EXTRA AS extra, i.ENGINE <=> 'InnoDB' AS safe,"          \
  " CAST(LEAST(i.AUTO_INCREMENT, 9223372036854775807) AS SIGNED) AS next,"                   \
  " CASE CONCAT(f.DATA_TYPE, IF(f.COLUMN_TYPE LIKE '%unsigned%', ' unsigned', ''))"          \
  "  WHEN 'tinyint' THEN 127 WHEN 'tinyint unsigned' THEN 255"                               \
  "  WHEN 'smallint' THEN 32767 WHEN 'smallint unsigned' THEN 65535"                         \
  "  WHEN 'mediumint' THEN 8388607 WHEN 'mediumint unsigned' THEN 16777215"                  \
  "  WHEN 'int' THEN 2147483647 WHEN 'int unsigned' THEN 4294967295"                         \
  "  WHEN 'bigint' THEN 9223372036854775807 WHEN 'bigint unsigned' THEN 9223372036854775807" \
  "  END AS most"                                                                            \
  " FROM information_schema.COLUMNS f JOIN information_schema.TABLES i"                      \
  "  ON i.TABLE_SCHEMA = f.TABLE_SCHEMA AND i.TABLE_NAME = f.TABLE_NAME"                     \
  " WHERE f.TABLE_SCHEMA = DATABASE() AND f.TABLE_NAME = '{name}'"                           \
  "  AND f.COLUMN_NAME = '{field}') m"
#define IDMINT_UNSAFE \
  " WHEN NOT m.safe THEN '{name} is not of InnoDB: ALTER TABLE {name} ENGINE = InnoDB'"

// ---- rows

constexpr std::string_view kLookAtRow =
    "SELECT CAST(LEAST(r.{column}, 9223372036854775806) AS SIGNED) + {ahead},"
    " m.most - 1 + {ahead},"
    " CASE WHEN m.most IS NULL THEN CONCAT('{field} is of type ', m.type, ': make it a bigint')"
    "  WHEN r.{column} IS NULL THEN '{field} is NULL'" IDMINT_UNSAFE
    " ELSE '' END FROM {table} r JOIN " IDMINT_COLUMN " WHERE {one} LIMIT 2";

// Begins a take. If something may be taken, i_floor has the floor. A variable hides a column of the
// same name: no column has these names.
#define IDMINT_BEGIN(variables)                                               \
  "BEGIN NOT ATOMIC DECLARE i_floor, " variables                              \
  " BIGINT DEFAULT NULL;"                                                     \
  " DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;"     \
  " START TRANSACTION;"                                                       \
  " SELECT c.next INTO i_floor FROM idmint_counters c"                        \
  "  WHERE c.name = $1 AND NOT c.closed AND c.last >= $5 AND c.adopted <> ''" \
  "  AND EXISTS (SELECT 1 FROM idmint_store t WHERE " IDMINT_TRUSTED ") FOR UPDATE;"

constexpr std::string_view kTakeFromRow = IDMINT_BEGIN("i_next, i_rows, i_count")
    " SELECT MIN(CAST(r.{column} AS SIGNED) + {ahead}), COUNT(*) INTO i_next, i_rows"
    "  FROM {table} r WHERE {one} FOR UPDATE;"
    " IF i_rows = 1 AND i_next >= i_floor AND $5 - i_next + 1 >= $3 THEN"
    "  SET i_count = LEAST($2, $5 - i_next + 1);"
    "  UPDATE {table} r SET r.{column} = i_next + i_count - {ahead} WHERE {one};"
    "  UPDATE idmint_counters c SET c.next = i_next + i_count WHERE c.name = $1;"
    " END IF;"
    " COMMIT;"
    " SELECT i_next, 1, i_count, 1 FROM DUAL WHERE i_count IS NOT NULL;"
    " END";

constexpr std::string_view kRaiseRow =
    "UPDATE {table} r SET r.{column} = {target} - {ahead}"
    " WHERE {one} AND r.{column} < {target} - {ahead}";

// ---- tickets

constexpr std::string_view kLookAtTickets =
    "SELECT m.next, m.most,"
    " CASE WHEN m.extra NOT LIKE '%auto_increment%' THEN '{field} is no AUTO_INCREMENT "
    "column'" IDMINT_UNSAFE
    "  WHEN NOT EXISTS (SELECT 1 FROM information_schema.STATISTICS k"
    "    WHERE k.TABLE_SCHEMA = DATABASE() AND k.TABLE_NAME = '{name}' AND k.NON_UNIQUE = 0"
    "    GROUP BY k.INDEX_NAME HAVING COUNT(*) = 1 AND MAX(k.COLUMN_NAME) = '{key_field}')"
    "   THEN '{key_field} has no unique index of its own, and REPLACE would add rows for ever'"
    "  ELSE '' END,"
    " CASE WHEN @@global.auto_increment_increment <> $2"
    "   OR ($2 > 1 AND @@global.auto_increment_offset <> $3)"
    "   THEN CONCAT('the server counts in steps of ', @@global.auto_increment_increment,"
    "    ' from ', @@global.auto_increment_offset, ' on (auto_increment_increment,"
    " auto_increment_offset), and this counter in steps of ', $2, ' from ', $3,"
    "    ' on')"
    "  ELSE '' END, @@global.auto_increment_increment, @@global.auto_increment_offset"
    " FROM " IDMINT_COLUMN
    " LEFT JOIN (SELECT 1 FROM {table} LIMIT 1) there ON TRUE";  // checks the right to read it

// A row for each value that is wanted, of which each replaces the one before. As the server sees
// how many there are, it gives them one run of values. (Of rows from a SELECT it does not, and
// locks AUTO_INCREMENT for the whole statement: programs that use REPLACE at the same time then
// fail with error 1467.)
//
// The server has the steps in which it counts, and each connection has those of the server when it
// began, or others that it set. The statement counts as the server does now, if that is as the
// counter does: so programs on two servers that share out the values take none of each other's.
//
// AUTO_INCREMENT may be set back after it was read, too: then the table gives a value below the
// floor.
constexpr std::string_view kTakeTickets =
    IDMINT_BEGIN("i_first, i_stride, i_next, i_last, i_count, i_given")
    " SELECT c.first, c.stride INTO i_first, i_stride FROM idmint_counters c WHERE c.name = $1;"
    " SELECT LEAST(m.next, $5 + 1) + MOD(MOD(i_first, i_stride) + i_stride - MOD(m.next, i_stride), i_stride)"
    "  INTO i_next FROM " IDMINT_COLUMN
    " WHERE m.safe;"
    " IF i_next >= i_floor AND $5 - i_next >= (LEAST($2, {rows}) - 1) * i_stride"
    "  AND @@global.auto_increment_increment = i_stride AND (i_stride = 1"
    "   OR @@global.auto_increment_offset = MOD(i_first + i_stride - 1, i_stride) + 1) THEN"
    "  SET STATEMENT auto_increment_increment = @@global.auto_increment_increment,"
    "   auto_increment_offset = @@global.auto_increment_offset FOR"
    "   REPLACE INTO {table} ({key}) VALUES ({value}){more};"
    "  SET i_next = LAST_INSERT_ID();"
    "  SELECT CAST(r.{column} AS SIGNED) INTO i_last FROM {table} r WHERE {one};"
    "  IF i_next < i_floor THEN ROLLBACK;"
    "  ELSE"
    "   UPDATE idmint_counters c SET c.next = LEAST(GREATEST(i_next, i_last),"
    "    $5 - MOD($5 - i_first, i_stride)) + i_stride WHERE c.name = $1;"
    "   SET i_given = i_last - i_next = ({rows} - 1) * i_stride"
    "     AND MOD(i_next - i_first, i_stride) = 0,"
    "    i_count = LEAST($2, {rows}, ($5 - i_next) DIV i_stride + 1);"
    "  END IF;"
    " END IF;"
    " COMMIT;"
    " SELECT i_next, i_stride, i_count, i_given FROM DUAL WHERE i_count >= $3;"
    " END";
#undef IDMINT_BEGIN

// Takes values, as the programs do: one that is drawn with an increment of half of the way moves
// AUTO_INCREMENT by that in one step, the caller asks again until it is there, and of the last step
// one value is drawn. So it ends at the target, if nobody else takes values meanwhile, and
// otherwise only as far above it as they moved it. A row with a value of its own would take one
// that a program was given already and has not written: to that program the server says that its
// key is there twice. So such a row, which moves AUTO_INCREMENT past it, is for targets that are
// further away than programs come meanwhile. It never moves it down.
//
// The values are of those that the server gives, and not of another that it shares them with.
constexpr std::string_view kRaiseTickets =
    "BEGIN NOT ATOMIC DECLARE i_step, i_next, i_by BIGINT DEFAULT NULL;"
    " SET i_step = @@global.auto_increment_increment;"
    " SELECT m.next + MOD(MOD({target}, i_step) + i_step - MOD(m.next, i_step), i_step)"
    "  INTO i_next FROM " IDMINT_COLUMN
    " WHERE m.next < {target};"
    " SET i_by = (({target} - i_next) DIV i_step + 1) DIV 2 * i_step;"
    " IF i_by > 65535 THEN"
    "  REPLACE INTO {table} ({column}, {key}) VALUES ({target} - i_step, {value});"
    " ELSEIF i_by > 0 THEN"
    "  SET STATEMENT auto_increment_increment = i_by,"
    "   auto_increment_offset = MOD(i_next - 1, i_by) + 1 FOR"
    "   REPLACE INTO {table} ({key}) VALUES ({value});"
    " END IF;"
    " END";

#undef IDMINT_UNSAFE
#undef IDMINT_COLUMN

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
    AdoptedKind{.name = "tickets",
                .form = "tickets:TABLE/KEY=VALUE:last=COLUMN for REPLACE INTO TABLE (KEY) VALUES "
                        "(VALUE), whose AUTO_INCREMENT column is the id",
                .of_row = true,
                .counting = Counting::kLast,
                .steps = true,
                .rows = true,
                .look = kLookAtTickets,
                .advance = kTakeTickets,
                .raise = kRaiseTickets},
};
// As Flickr described it.
constexpr std::array<std::string_view, 1> kRecipes = {"tickets tickets:Tickets64/stub=a:last=id"};

constexpr std::array kNotAdopted = {sql::NotAdopted{
    "auto_increment",
    "MariaDB gives an AUTO_INCREMENT value only to a row that is inserted, and idmint has no row "
    "for your table; create the sequence without a record, raise it past the table's "
    "AUTO_INCREMENT "
    "(SHOW CREATE TABLE; the column itself lacks the ids of rows that were deleted) while no "
    "program "
    "inserts, and from then on let all of them insert the ids that idmint gives"}};

}  // namespace

constinit const sql::AdoptionRules Dialect::kAdoptionRules{.kinds = kKinds,
                                                           .recipes = kRecipes,
                                                           .schema = "",
                                                           .quote = '`',
                                                           .one = "{key} = {value}",
                                                           .no_key = "{value} = ''",
                                                           .not_adopted = kNotAdopted};
constinit const sql::RecordAdoption Dialect::kAdoption{Dialect::kAdoptionRules};

}  // namespace idmint::stores::mariadb
