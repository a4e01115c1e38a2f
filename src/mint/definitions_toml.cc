#include "mint/definitions_toml.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "idmint/encoding.h"
#include "idmint/form.h"
#include "mint/sequence_facts.h"
#include "mint/sequence_spec.h"
#include "mint/toml.h"

namespace idmint {

namespace {

struct IntegerKey {
  std::string_view name;
  std::optional<std::int64_t> SequenceSpec::* value;
};
constexpr std::array kIntegers = {IntegerKey{"start", &SequenceSpec::start},
                                  IntegerKey{"max", &SequenceSpec::max},
                                  IntegerKey{"stride", &SequenceSpec::stride},
                                  IntegerKey{"offset", &SequenceSpec::offset},
                                  IntegerKey{"stripes", &SequenceSpec::stripes},
                                  IntegerKey{"step", &SequenceSpec::step},
                                  IntegerKey{"digits", &SequenceSpec::digits},
                                  IntegerKey{"width", &SequenceSpec::width},
                                  IntegerKey{"workers", &SequenceSpec::workers},
                                  IntegerKey{"largest_count", &SequenceSpec::largest_count}};

struct TextKey {
  std::string_view name;
  std::optional<std::string> SequenceSpec::* value;
};
constexpr std::array kTexts = {
    TextKey{"strategy", &SequenceSpec::strategy}, TextKey{"key", &SequenceSpec::key},
    TextKey{"prefix", &SequenceSpec::prefix},     TextKey{"encoding", &SequenceSpec::encoding},
    TextKey{"check", &SequenceSpec::check},       TextKey{"adopt", &SequenceSpec::adopt},
    TextKey{"kind", &SequenceSpec::kind},         TextKey{"layout", &SequenceSpec::layout},
    TextKey{"where", &SequenceSpec::where}};

struct FlagKey {
  std::string_view name;
  bool SequenceSpec::* value;
};
constexpr std::array kFlags = {FlagKey{"no_leading_zeros", &SequenceSpec::no_leading_zeros},
                               FlagKey{"validator", &SequenceSpec::validator},
                               FlagKey{"make", &SequenceSpec::make}};

Result<SequenceSpec> read_table(std::string_view name, const toml::table& table) {
  SequenceSpec given{.name = std::string(name)};
  for (const auto& [key, node] : table) {
    const auto* const integer = std::ranges::find(kIntegers, key.str(), &IntegerKey::name);
    const auto* const text = std::ranges::find(kTexts, key.str(), &TextKey::name);
    const auto* const flag = std::ranges::find(kFlags, key.str(), &FlagKey::name);
    if (integer != kIntegers.end()) {
      const auto* const value = node.as_integer();
      if (value == nullptr) {
        return at_line(node.source(), std::string(key.str()) + " is not a whole number");
      }
      given.*(integer->value) = value->get();
    } else if (text != kTexts.end()) {
      const auto* const value = node.as_string();
      if (value == nullptr) {
        return at_line(node.source(), std::string(key.str()) + " is not a text in quotes");
      }
      given.*(text->value) = value->get();
    } else if (flag != kFlags.end()) {
      const auto* const value = node.as_boolean();
      if (value == nullptr) {
        return at_line(node.source(), std::string(key.str()) + " is neither true nor false");
      }
      given.*(flag->value) = value->get();
    } else if (key.str() == "over") {
      auto refused = at_line(key.source(),
                             "a file does not name stores, whose URLs may have passwords: create "
                             "the sequence over several stores by itself");
      refused.error().advice = {.remedy = Remedy::kSetOption, .values = {"over"}};
      return refused;
    } else {
      std::string known;
      for (const IntegerKey& row : kIntegers) known += std::string(row.name) + ", ";
      for (const TextKey& row : kTexts) known += std::string(row.name) + ", ";
      for (const FlagKey& row : kFlags) known += std::string(row.name) + ", ";
      known.resize(known.size() - 2);
      return at_line(key.source(),
                     "there is no key " + quoted_key(key.str()) + ": use one of " + known);
    }
  }
  return given;
}

}  // namespace

Result<std::vector<Definition>> definitions_from_toml(std::string_view text,
                                                      std::string_view store) {
  if (text.size() > kLongestToml) {
    return std::unexpected(
        Error{Code::kInvalidArgument,
              "the file has more than " + std::to_string(kLongestToml) + " bytes: split it"});
  }
  const Result<toml::table> parsed = parse_toml(text, "a sequence is [sequence.NAME] and its keys");
  if (!parsed) return std::unexpected(parsed.error());
  struct Found {
    toml::source_position where;
    Definition definition;
  };
  std::vector<Found> found;
  for (const auto& [key, node] : *parsed) {
    if (key.str() != "sequence" || !node.is_table()) {
      return at_line(key.source(), "there is no " + quoted_key(key.str()) +
                                       " here: write a [sequence.NAME] for each sequence");
    }
    for (const auto& [name, sequence] : *node.as_table()) {
      const toml::table* const table = sequence.as_table();
      if (table == nullptr) {
        return at_line(name.source(), quoted_key(name.str()) + " is no table: write [sequence." +
                                          std::string(name.str().substr(0, 60)) + "]");
      }
      const Result<SequenceSpec> given = read_table(name.str(), *table);
      if (!given) return std::unexpected(given.error());
      Result<Definition> definition = definition_of(*given, store);
      if (!definition) return at_line(name.source(), definition.error().message());
      found.push_back({name.source().begin, *std::move(definition)});
    }
  }
  // toml++ sorts by name, so this restores the order of the file. Not a stable sort: that of
  // libstdc++ 12 uses functions that C++17 deprecates.
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    if (a.where == b.where) return name(a.definition) < name(b.definition);
    return a.where < b.where;
  });
  std::vector<Definition> definitions;
  for (Found& each : found) definitions.push_back(std::move(each.definition));
  return definitions;
}

namespace {

// Escaped for a TOML basic string. REQUIRES: UTF-8 without control characters.
std::string toml_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// The keys of one table.
class Table {
 public:
  explicit Table(std::string& text) : text_(text) {}

  void write(std::string_view key, std::string_view value) {
    text_ += std::string(key) + " = \"" + std::string(value) + "\"\n";  // no " or backslash
  }
  void write(std::string_view key, std::int64_t value) {
    text_ += std::string(key) + " = " + std::to_string(value) + "\n";
  }
  void write_unless(std::int64_t usual, std::string_view key, std::int64_t value) {
    if (value != usual) write(key, value);
  }

  void write(const SequenceDefinition& sequence) {
    const SequenceDefinition plain;
    write("strategy", name(sequence.strategy));
    write("start", sequence.first);
    write("max", sequence.last);
    if (sequence.stride != plain.stride) {
      write("stride", sequence.stride);
      write("offset", sequence.offset());
    }
    write_unless(plain.stripes, "stripes", sequence.stripes);
    write_unless(plain.step, "step", sequence.step);
    write_unless(plain.largest_count, "largest_count", sequence.largest_count);
    write_unless(0, "digits", sequence.form.digits);
    if (!sequence.key.empty()) {
      text_ += "# In another store this key gives the same values again: leave it out there.\n";
      write("key", sequence.key);
    }
    write(sequence.form);
    if (!sequence.adopted.empty()) write("adopt", toml_escaped(sequence.adopted));
  }

  void write(const PoolDefinition& pool) {
    write("kind", "pool");
    write("layout", to_string(pool.layout));
    write_unless(0, "workers", pool.workers);
    write_unless(0, "largest_count", pool.largest_count);
    write(pool.form);
  }

 private:
  void write(const Form& form) {
    if (!form.prefix.empty()) write("prefix", form.prefix);
    if (form.encoding != Encoding::kCanonical) write("encoding", name(form.encoding));
    write_unless(0, "width", form.width);
    if (form.check != Check::kNone) write("check", name(form.check));
  }

  std::string& text_;
};

// The reason why a definition is left out of a file, in the order of the comments.
enum class Absence : std::uint8_t { kMultiStore, kMoving, kMoved, kRetired };
constexpr std::array<std::string_view, 4> kAbsences = {
    "# Over several stores, which a file does not name, so left out here:\n",
    "# Being moved from one store to another, so left out until that is done:\n",
    "# Moved to another store, so left out here:\n",
    "# Retired, so left out here; in the store that they are of, these names cannot be given "
    "again:\n"};

// Nothing: the file has it.
std::optional<Absence> absence_of(const Definition& definition) {
  if (const Move* const move = move_of(definition))
    return move->stage == Move::Stage::kGone ? Absence::kMoved : Absence::kMoving;
  if (is_retired(definition)) return Absence::kRetired;
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  if (sequence != nullptr && sequence->is_multi_store()) return Absence::kMultiStore;
  return std::nullopt;
}

// The line of a comment that names it, with the other store of a move.
std::string named_as_absent(const Definition& definition) {
  std::string line = "#   " + name(definition);
  if (const Move* const move = move_of(definition))
    line += (move->stage == Move::Stage::kArriving ? ", from " : ", to ") + move->url;
  return line + "\n";
}

}  // namespace

std::string to_toml(std::span<const Definition> definitions) {
  std::string text;
  std::array<std::string, kAbsences.size()> absent;
  for (const Definition& definition : definitions) {
    if (const std::optional<Absence> absence = absence_of(definition)) {
      absent[static_cast<std::size_t>(*absence)] += named_as_absent(definition);
      continue;
    }
    if (text.empty()) {
      text =
          "# A sequence is of one store. Applied to another, each of these begins anew there, and "
          "the\n# same values come again.\n\n";
    }
    const bool dotted = name(definition).contains('.');
    const std::string mark(dotted ? 1 : 0, '"');
    text += text.ends_with("\n\n") ? "[sequence." : "\n[sequence.";
    text.append(mark).append(name(definition)).append(mark).append("]\n");
    std::visit([&](const auto& its) { Table(text).write(its); }, definition);
  }
  for (std::size_t i = 0; i < absent.size(); ++i) {
    if (absent[i].empty()) continue;
    if (!text.empty()) text += "\n";
    text.append(kAbsences[i]).append(absent[i]);
  }
  return text;
}

}  // namespace idmint
