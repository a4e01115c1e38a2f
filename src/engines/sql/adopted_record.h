// The records of other programs that counters of an SQL server adopt, the texts that name them, and
// the statements for each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/sql/query.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "store/adoption.h"
#include "store/counter_store.h"

namespace idmint::stores::sql {

// The clause of a text that names the counting column.
enum class Counting : std::uint8_t {
  kEither,  // next=COLUMN or last=COLUMN
  kLast,    // last=COLUMN
  kNone,    // nothing
};

// A way of counting in SQL. In its statements {table}, {key} and {column} stand for these names,
// {name}, {key_field} and {field} for the same as texts, and {ahead} for the distance from the
// column to the next value. {one} is a condition that table r has the row of the record, whose key
// has the value {value}.
struct AdoptedKind {
  std::string_view name;
  std::string_view form;  // of its text, for messages
  bool of_row;            // it has KEY=VALUE, which one that counts in either way can leave out
  Counting counting;
  bool steps;  // the other programs count in steps, and from an offset on, as the server says
  bool rows;   // a take has a row for each of {rows} values; {more} are those of all but the first
  // value of the key 1, and of one with steps the stride 2 and the offset 3 of the counter -> the
  // next value, the largest last value, what is wrong, or an empty text, and of one with steps what
  // is wrong with the settings of the server, and the stride and the offset of these; a row for
  // each that there is, two at most
  std::string_view look;
  // counter 1, count 2, least 3, value of the key 4, the last value as the caller knows it 5
  // -> a row as of CounterStatements::advance; nothing, or kOutOfRange, where the counter is closed
  // or not trusted, too little is left, or the record is below the floor, `next` in idmint's own
  // row of the counter. It locks that row before it reads the record, so that none is under way
  // when the counter is closed, and raises the floor past what it takes in the same transaction.
  std::string_view advance;
  // One atomic max, without values: {target} is what the next value is to be at least.
  std::string_view raise;
};

// A kind of record that a text may name, but in which nobody can count beside its programs.
struct NotAdopted {
  std::string_view name;  // as of a kind
  std::string_view why;   // and what to do instead
};

// The kinds of records of an engine, its recipes, and its rules for names.
struct AdoptionRules {
  std::span<const AdoptedKind> kinds;
  std::span<const std::string_view> recipes;  // "NAME TEXT": the text that a name stands for
  std::string_view schema;  // where a table without a schema is; empty: tables have none
  char quote;               // around a name
  std::string_view one;     // {one} of a record with a key, with {key} and {value}
  std::string_view no_key;  // {one} of a record without, with {value}, an empty text
  std::span<const NotAdopted> not_adopted{};
};

struct AdoptedRecord {
  const AdoptedKind* kind = nullptr;
  std::string table{};   // with its schema, if tables have one
  std::string key{};     // the column that tells its row from others; empty: the table has one row
  std::string value{};   // of the key; {k}: the stripe
  std::string column{};  // empty: the kind needs none
  bool holds_last = false;  // the column has the latest value; otherwise the next one

  friend bool operator==(const AdoptedRecord&, const AdoptedRecord&) = default;
};

// KIND:TABLE, then /KEY=VALUE, then :next=COLUMN or :last=COLUMN, as far as the kind has them; and
// the inverse. kInvalidArgument: another text, or a name in it that cannot be adopted.
[[nodiscard]] std::string to_text(const AdoptedRecord& record);
[[nodiscard]] Result<AdoptedRecord> record_from_text(const AdoptionRules& rules,
                                                     std::string_view text);

// A column of a table of another program.
struct ColumnName {
  std::string table{};         // with its schema, if tables have one
  std::string quoted_table{};  // as statements have it
  std::string quoted_column{};
};
// kInvalidArgument: not such names.
[[nodiscard]] Result<ColumnName> column_named(const AdoptionRules& rules, std::string_view table,
                                              std::string_view column);

// Whether each stripe has its own row: the value of the key has {k}.
[[nodiscard]] bool has_stripes(const AdoptedRecord& record);
// The row of a stripe, or the record itself if there are no stripes.
[[nodiscard]] AdoptedRecord of_stripe(AdoptedRecord record, std::int64_t stripe);
// "the row name = 'orders' of public.counters", for messages.
[[nodiscard]] std::string place_of(const AdoptedRecord& record);
// TABLE.COLUMN of the column that the record counts in, whatever its row, in lower case, as a
// database may take names. Two records that read one column differently, as the next and as the
// last value, hand out the same values. Empty: the kind has no column.
[[nodiscard]] std::string counted_column(const AdoptedRecord& record);

// A counter that is made, and where it begins: an adopted one at the value that its record has.
struct NewRow {
  NewCounter counter{};
  std::int64_t next = 0;
};

// The statements of records that differ in the value of the key only.
class AdoptedStatements {
 public:
  // `number`: no other statements of the store have it.
  AdoptedStatements(const AdoptionRules& rules, const AdoptedRecord& record, int number);
  AdoptedStatements(const AdoptedStatements&) = delete;
  AdoptedStatements& operator=(const AdoptedStatements&) = delete;

  [[nodiscard]] Query look() const { return {look_name_.c_str(), look_.c_str(), Kind::kRead}; }
  // A row if two values of the key are of one. REQUIRES: the records have a key.
  [[nodiscard]] Query both() const { return {both_name_.c_str(), both_.c_str(), Kind::kRead}; }
  // The statement for `count` values. A kind with {rows} has statements for some numbers of values:
  // this is the one for the next number above, or if not `all`, below.
  [[nodiscard]] Query advance(std::int64_t count, bool all) const;

 private:
  struct Advance {
    std::int64_t count;
    std::string name;
    std::string sql;
  };

  std::string look_name_;
  std::string look_;
  std::string both_name_;
  std::string both_;
  std::vector<Advance> advances_;  // sorted by count; one of a kind without {rows}
};
// The most values that one statement of a kind with {rows} takes.
inline constexpr std::int64_t kMostListed = 4096;
[[nodiscard]] std::string raise_to(const AdoptionRules& rules, const AdoptedRecord& record,
                                   std::int64_t target);

// Adoption in an SQL server.
class RecordAdoption final : public Adoption {
 public:
  explicit constexpr RecordAdoption(const AdoptionRules& rules) : rules_(rules) {}
  // The name of a recipe, or the text of a record.
  Result<Adoptable> read(std::string_view text, bool guarded) const override;
  Result<void> check(const SequenceDefinition& definition) const override;
  // The table.
  std::string place_of(std::string_view record) const override;

 private:
  const AdoptionRules& rules_;
};

}  // namespace idmint::stores::sql
