// What a store in MariaDB adopts: rows that programs count in, and ticket tables, in which each
// REPLACE of one row takes an AUTO_INCREMENT value.
//
// A take locks idmint's own row of the counter in share mode, so no take is under way when close()
// returns.
#include <array>
#include <string_view>

#include "stores/mariadb/schema.h"
#include "stores/sql/adopted_record.h"

namespace idmint::stores::mariadb {
namespace {

using sql::AdoptedKind;
using sql::Answer;
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

// What a program's own UPDATE does, with LAST_INSERT_ID for where it began. The caller knows the
// last value, and so how many it took. Signed, as a difference of unsigned numbers below 0 is an
// error.
#define IDMINT_NEXT "(CAST(r.{column} AS SIGNED) + {ahead})"
constexpr std::string_view kTakeFromRow =
    "UPDATE {table} r JOIN idmint_counters c ON c.name = $1"
    " JOIN idmint_store t ON " IDMINT_TRUSTED " SET r.{column} = LAST_INSERT_ID(" IDMINT_NEXT
    ") + LEAST($2, $5 - " IDMINT_NEXT
    " + 1) - {ahead}"
    " WHERE {one} AND NOT c.closed AND c.last >= $5 AND c.adopted <> ''"
    "  AND " IDMINT_NEXT " BETWEEN c.first AND $5 AND $5 - " IDMINT_NEXT " + 1 >= $3";
#undef IDMINT_NEXT

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
    "    ' on: give the sequence that stride and offset, or SET GLOBAL those of the server')"
    "  ELSE '' END, @@global.auto_increment_increment, @@global.auto_increment_offset"
    " FROM " IDMINT_COLUMN
    " LEFT JOIN (SELECT 1 FROM {table} LIMIT 1) there ON TRUE";  // who may not read it is told so

// A row for each value that is wanted, of which each replaces the one before. As the server sees
// how many there are, it gives them one run of values. (Of rows from a SELECT it does not, and
// locks AUTO_INCREMENT for the whole statement: programs that use REPLACE at the same time then
// fail with error 1467.) Where nothing may be taken the subquery for the first row has two rows,
// and the statement fails with error 1242.
//
// The server has the steps in which it counts, and each connection has those of the server when it
// began, or others that it set. The statement counts as the server does now, if that is as the
// counter does: so programs on two servers that share out the values take none of each other's.
// From AUTO_INCREMENT up to the next value of the counter.
#define IDMINT_UP "MOD(MOD(c.first, c.stride) + c.stride - MOD(m.next, c.stride), c.stride)"
constexpr std::string_view kTakeTickets =
    "SET STATEMENT auto_increment_increment = @@global.auto_increment_increment,"
    " auto_increment_offset = @@global.auto_increment_offset FOR"
    " REPLACE INTO {table} ({key}) VALUES ((SELECT IF(EXISTS(SELECT 1 FROM idmint_counters c"
    " JOIN idmint_store t ON " IDMINT_TRUSTED " JOIN " IDMINT_COLUMN
    " WHERE c.name = $1 AND NOT c.closed AND c.last >= $5 AND c.adopted <> ''"
    "  AND m.next > c.first - c.stride"
    "  AND $5 - m.next - " IDMINT_UP
    " >= (LEAST($2, {rows}) - 1) * c.stride AND m.safe"
    "  AND @@auto_increment_increment = c.stride"
    "  AND (c.stride = 1 OR @@auto_increment_offset = MOD(c.first + c.stride - 1, c.stride) + 1)"
    "  LOCK IN SHARE MODE),"
    " {value}, (SELECT 1 UNION ALL SELECT 2)))){more} RETURNING {column}";
#undef IDMINT_UP

// A row with a larger value moves AUTO_INCREMENT past it; one with a smaller value does not.
constexpr std::string_view kRaiseTickets =
    "REPLACE INTO {table} ({column}, {key}) VALUES ({target} - 1, {value})";

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
                .answer = Answer::kFirst,
                .look = kLookAtRow,
                .advance = kTakeFromRow,
                .raise = kRaiseRow},
    AdoptedKind{.name = "tickets",
                .form = "tickets:TABLE/KEY=VALUE:last=COLUMN for REPLACE INTO TABLE (KEY) VALUES "
                        "(VALUE), whose AUTO_INCREMENT column is the id",
                .of_row = true,
                .counting = Counting::kLast,
                .steps = true,
                .answer = Answer::kList,
                .look = kLookAtTickets,
                .advance = kTakeTickets,
                .raise = kRaiseTickets},
};
// As Flickr described it.
constexpr std::array<std::string_view, 1> kRecipes = {"tickets tickets:Tickets64/stub=a:last=id"};

constexpr std::array kNotAdopted = {sql::NotAdopted{
    "auto_increment",
    "MariaDB gives an AUTO_INCREMENT value only to a row that is inserted, and idmint has no row "
    "for your table; create the sequence without a record, raise it past the column (raise "
    "--from-table TABLE.COLUMN) while no program inserts, and from then on let all of them insert "
    "the ids that idmint gives"}};

}  // namespace

constinit const sql::AdoptionRules Engine::kAdoptionRules{.kinds = kKinds,
                                                          .recipes = kRecipes,
                                                          .schema = "",
                                                          .quote = '`',
                                                          .one = "{key} = {value}",
                                                          .no_key = "{value} = ''",
                                                          .not_adopted = kNotAdopted};
constinit const sql::RecordAdoption Engine::kAdoption{Engine::kAdoptionRules};

}  // namespace idmint::stores::mariadb
