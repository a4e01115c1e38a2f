#include "engines/sql/adopted_record.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "store/backend.h"

namespace idmint::stores::sql {
namespace {

constexpr std::string_view kStripeNumber = "{k}";

// The names are put into statements, so that only harmless ones are allowed.
Result<void> check_sql_name(std::string_view what, std::string_view name) {
  constexpr std::size_t kLongest = 63;
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  if (!name.empty() && name.size() <= kLongest &&
      name.find_first_not_of(kLetters) == std::string_view::npos)
    return {};
  return refuse("the " + std::string(what) + " " + shown(name) +
                " cannot be put into a statement: its name must be 1 to 63 of A-Z a-z 0-9 _");
}

Result<void> check_table(const AdoptionRules& rules, std::string_view table) {
  std::string_view name = table;
  if (!rules.schema.empty()) {
    const std::size_t dot = table.find('.');
    const std::string_view schema = table.substr(0, dot);
    if (Result<void> ok = check_sql_name("schema", schema); !ok) return ok;
    if (schema == "idmint")
      return refuse("the table " + shown(table) + " is idmint's own: name one of an application");
    name.remove_prefix(dot + 1);
  }
  if (Result<void> ok = check_sql_name("table", name); !ok) return ok;
  if (name.starts_with("idmint_"))
    return refuse("the table " + shown(table) + " is idmint's own: name one of an application");
  return {};
}

Result<void> check_value(std::string_view value) {
  constexpr std::size_t kLongest = 200;
  const auto fits = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (!value.empty() && value.size() <= kLongest && std::ranges::all_of(value, fits)) return {};
  return refuse("the key " + shown(value) +
                R"( cannot be adopted: it must be 1 to 200 ASCII characters without " or \)");
}

std::string forms_of(const AdoptionRules& rules) {
  std::string forms;
  for (const AdoptedKind& kind : rules.kinds) {
    if (!forms.empty()) forms += ", or ";
    forms += kind.form;
  }
  for (const std::string_view recipe : rules.recipes) {
    const std::size_t end = recipe.find(' ');
    forms += "; " + std::string(recipe.substr(0, end)) + " alone is " +
             std::string(recipe.substr(end + 1));
  }
  return forms;
}

// The text with each of the marks replaced.
struct Mark {
  std::string_view mark;
  std::string text;
};
std::string replaced(std::string_view text, std::span<const Mark> marks) {
  std::string out;
  while (!text.empty()) {
    const auto mark =
        std::ranges::find_if(marks, [&](const Mark& each) { return text.starts_with(each.mark); });
    if (mark == marks.end()) {
      out += text.front();
      text.remove_prefix(1);
    } else {
      out += mark->text;
      text.remove_prefix(mark->mark.size());
    }
  }
  return out;
}

// The row that two values of the key name, as the database compares them.
constexpr std::string_view kInBoth =
    "SELECT 1 FROM {table} r WHERE r.{key} = $1 AND r.{key} = $2 LIMIT 1";

// A dotted name in quotes.
std::string in_quotes(std::string_view name, char quote) {
  std::string text(1, quote);
  for (const char c : name) {
    if (c == '.')
      text += {quote, '.', quote};
    else
      text += c;
  }
  return text + quote;
}

// The replacements of the marks that differ between the statements of a record.
struct Filling {
  std::string value{};
  std::string target{};
  std::string more{};
  std::string rows{};
};
std::string statement(const AdoptionRules& rules, const AdoptedRecord& record, std::string_view sql,
                      const Filling& filling) {
  const std::array of_condition = {Mark{"{key}", "r." + in_quotes(record.key, rules.quote)},
                                   Mark{"{value}", filling.value}};
  const std::array marks = {
      Mark{"{table}", in_quotes(record.table, rules.quote)},
      Mark{"{name}", record.table},
      Mark{"{key}", in_quotes(record.key, rules.quote)},
      Mark{"{column}", in_quotes(record.column, rules.quote)},
      Mark{"{field}", record.column},
      Mark{"{key_field}", record.key},
      Mark{"{ahead}", record.holds_last ? "1" : "0"},
      Mark{"{one}", replaced(record.key.empty() ? rules.no_key : rules.one, of_condition)},
      Mark{"{value}", filling.value},
      Mark{"{target}", filling.target},
      Mark{"{more}", filling.more},
      Mark{"{rows}", filling.rows},
  };
  return replaced(sql, marks);
}

}  // namespace

std::string to_text(const AdoptedRecord& record) {
  std::string text = std::string(record.kind->name) + ":" + record.table;
  if (!record.key.empty()) text += "/" + record.key + "=" + record.value;
  if (!record.column.empty()) text += (record.holds_last ? ":last=" : ":next=") + record.column;
  return text;
}

// Names have none of / = : here, and the value of a key may have all of them.
Result<AdoptedRecord> record_from_text(const AdoptionRules& rules, std::string_view text) {
  const auto none = [&] {
    return refuse("cannot adopt " + shown(text) + ": write " + forms_of(rules));
  };
  const std::string_view kind_name = text.substr(0, text.find(':'));
  if (const auto never = std::ranges::find(rules.not_adopted, kind_name, &NotAdopted::name);
      never != rules.not_adopted.end())
    return refuse("cannot adopt " + shown(text) + ": " + std::string(never->why));
  const auto kind = std::ranges::find(rules.kinds, kind_name, &AdoptedKind::name);
  if (kind == rules.kinds.end() || kind_name.size() == text.size()) return none();
  AdoptedRecord record{.kind = &*kind};
  std::string_view rest = text.substr(kind_name.size() + 1);
  if (kind->counting != Counting::kNone) {
    const std::size_t colon = rest.rfind(':');
    if (colon == std::string_view::npos) return none();
    const std::string_view counting = rest.substr(colon + 1);
    record.holds_last = counting.starts_with("last=");
    const bool may_hold_next = kind->counting == Counting::kEither;
    if (!record.holds_last && !(may_hold_next && counting.starts_with("next="))) return none();
    record.column = counting.substr(5);
    rest = rest.substr(0, colon);
    if (Result<void> ok = check_sql_name("column", record.column); !ok)
      return std::unexpected(std::move(ok.error()));
  }
  record.table = rest.substr(0, rest.find('/'));
  if (record.table.size() < rest.size()) {
    const std::string_view key = rest.substr(record.table.size() + 1);
    const std::size_t equals = key.find('=');
    if (!kind->of_row || equals == std::string_view::npos) return none();
    record.key = key.substr(0, equals);
    record.value = key.substr(equals + 1);
    if (Result<void> ok = check_sql_name("column", record.key); !ok)
      return std::unexpected(std::move(ok.error()));
    if (Result<void> ok = check_value(record.value); !ok)
      return std::unexpected(std::move(ok.error()));
  } else if (kind->of_row && kind->counting != Counting::kEither) {
    return none();
  }
  if (!rules.schema.empty() && !record.table.contains('.'))
    record.table.insert(0, std::string(rules.schema) + ".");
  if (Result<void> ok = check_table(rules, record.table); !ok)
    return std::unexpected(std::move(ok.error()));
  if (!record.key.empty() && record.key == record.column)
    return refuse("the column " + record.key + " cannot count and tell the rows apart as well");
  return record;
}

Result<ColumnName> column_named(const AdoptionRules& rules, std::string_view table,
                                std::string_view column) {
  ColumnName name{.table = std::string(table)};
  if (!rules.schema.empty() && !table.contains('.'))
    name.table.insert(0, std::string(rules.schema) + ".");
  if (Result<void> ok = check_table(rules, name.table); !ok)
    return std::unexpected(std::move(ok.error()));
  if (Result<void> ok = check_sql_name("column", column); !ok)
    return std::unexpected(std::move(ok.error()));
  name.quoted_table = in_quotes(name.table, rules.quote);
  name.quoted_column = in_quotes(column, rules.quote);
  return name;
}

bool has_stripes(const AdoptedRecord& record) { return record.value.contains(kStripeNumber); }

AdoptedRecord of_stripe(AdoptedRecord record, std::int64_t stripe) {
  if (const std::size_t at = record.value.find(kStripeNumber); at != std::string::npos)
    record.value.replace(at, kStripeNumber.size(), std::to_string(stripe));
  return record;
}

std::string place_of(const AdoptedRecord& record) {
  if (!record.kind->of_row) return "the " + std::string(record.kind->name) + " " + record.table;
  if (record.key.empty()) return "the row of " + record.table;
  return "the row " + record.key + " = " + shown(record.value) + " of " + record.table;
}

std::string counted_column(const AdoptedRecord& record) {
  if (record.column.empty()) return "";
  std::string column = record.table + "." + record.column;
  std::ranges::transform(column, column.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return column;
}

AdoptedStatements::AdoptedStatements(const AdoptionRules& rules, const AdoptedRecord& record,
                                     int number)
    : look_name_("adopted_look_" + std::to_string(number)),
      look_(statement(rules, record, record.kind->look, {.value = "$1"})),
      both_name_("adopted_both_" + std::to_string(number)),
      both_(statement(rules, record, kInBoth, {})) {
  const std::int64_t most = record.kind->rows ? kMostListed : 1;
  std::string more;
  for (std::int64_t count = 1; count <= most; count = count < 16 ? count + 1 : 2 * count) {
    while (std::cmp_less(more.size(), (count - 1) * 5)) more += ",($4)";
    advances_.push_back({count,
                         "adopted_advance_" + std::to_string(number) + "_" + std::to_string(count),
                         statement(rules, record, record.kind->advance,
                                   {.value = "$4", .more = more, .rows = std::to_string(count)})});
  }
}

Query AdoptedStatements::advance(std::int64_t count, bool all) const {
  auto at = std::ranges::lower_bound(advances_, count, {}, &Advance::count);
  if (at == advances_.end() || (!all && at->count > count && at != advances_.begin())) --at;
  return {at->name.c_str(), at->sql.c_str(), Kind::kHandOut};
}

std::string raise_to(const AdoptionRules& rules, const AdoptedRecord& record, std::int64_t target) {
  std::string literal = "'";
  for (const char c : record.value) literal += c == '\'' ? "''" : std::string(1, c);
  return statement(rules, record, record.kind->raise,
                   {.value = literal + "'", .target = std::to_string(target)});
}

// ---- as the definition of a sequence has it

Result<Adoptable> RecordAdoption::read(std::string_view text, bool guarded) const {
  if (guarded)
    return refuse(
        "a validator is for documents of MongoDB: leave it out, and give the column a CHECK that "
        "refuses what is past the last value");
  std::string whole(text);
  for (const std::string_view recipe : rules_.recipes) {
    const std::string_view name = recipe.substr(0, recipe.find(' '));
    if (text == name) whole = recipe.substr(name.size() + 1);
  }
  const Result<AdoptedRecord> record = record_from_text(rules_, whole);
  if (!record) return std::unexpected(record.error());
  return Adoptable{.record = to_text(*record),
                   .first = record->column.empty() || record->holds_last ? 1 : 0};
}

// The other programs of the record use the values as they are, and count as its kind says.
Result<void> RecordAdoption::check(const SequenceDefinition& definition) const {
  const std::string sequence = "sequence " + definition.name;
  const bool striped = definition.strategy == Strategy::kStriped;
  const Result<AdoptedRecord> record = record_from_text(rules_, definition.adopted);
  if (!record) return refused(sequence, record.error());
  if (striped && record->kind->counting != Counting::kEither)
    return refuse(sequence + " has stripes, and " + sql::place_of(*record) +
                      " counts for one: adopt it as counter or cached",
                  {.remedy = Remedy::kSetOption, .values = {"strategy"}});
  if (has_stripes(*record) != striped)
    return refuse(sequence +
                  (striped ? " has stripes, each in a row of its own: write {k} in the value of "
                             "the key for the number of the stripe"
                           : " has one record: {k} in the value of its key is for stripes"));
  if (!record->kind->steps) {
    if (Result<void> ok = must_count_by_one(definition, sql::place_of(*record)); !ok) return ok;
  }
  if (record->holds_last) {
    if (auto ok = must_begin_above_0(definition.first, sequence, record->column); !ok) return ok;
  }
  if (const std::string text = to_text(*record); text != definition.adopted)
    return refuse(sequence + " adopts " + shown(definition.adopted) + ": write it as " +
                  shown(text));
  return {};
}

std::string RecordAdoption::place_of(std::string_view record) const {
  const Result<AdoptedRecord> read = record_from_text(rules_, record);
  return read ? read->table : std::string();
}

}  // namespace idmint::stores::sql
