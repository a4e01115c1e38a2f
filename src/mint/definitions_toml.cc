#include "mint/definitions_toml.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_WINDOWS_COMPAT 0
#include <toml++/impl/preprocessor.h>
// toml++ 3.3 takes for granted that a key begins with a character of keys, and then checks it: what
// the text decides ([.b"] does) must be neither an assertion nor an assumption of the optimiser.
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(...) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "idmint/check_symbol.h"
#include "idmint/encoding.h"
#include "idmint/form.h"
#include "mint/sequence_wish.h"

namespace idmint {

namespace {

// One line, whatever the parser says of a character.
std::unexpected<Error> at_line(const toml::source_region& where, std::string what) {
  std::ranges::replace_if(what, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return std::unexpected(Error{
      Code::kInvalidArgument, "line " + std::to_string(where.begin.line) + ": " + std::move(what)});
}

std::string quoted(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 60)) shown += c >= ' ' && c < 0x7f ? c : '?';
  return shown + (text.size() > 60 ? "...\"" : "\"");
}

struct IntegerKey {
  std::string_view name;
  std::optional<std::int64_t> SequenceWish::* value;
};
constexpr std::array kIntegers = {IntegerKey{"start", &SequenceWish::start},
                                  IntegerKey{"max", &SequenceWish::max},
                                  IntegerKey{"stripes", &SequenceWish::stripes},
                                  IntegerKey{"step", &SequenceWish::step},
                                  IntegerKey{"digits", &SequenceWish::digits},
                                  IntegerKey{"largest_count", &SequenceWish::largest_count}};

struct TextKey {
  std::string_view name;
  std::optional<std::string> SequenceWish::* value;
};
constexpr std::array kTexts = {
    TextKey{"strategy", &SequenceWish::strategy}, TextKey{"key", &SequenceWish::key},
    TextKey{"prefix", &SequenceWish::prefix}, TextKey{"encoding", &SequenceWish::encoding},
    TextKey{"check", &SequenceWish::check}};

constexpr std::string_view kNoLeadingZeros = "no_leading_zeros";

Result<SequenceWish> read_table(std::string_view name, const toml::table& table) {
  SequenceWish given{.name = std::string(name)};
  for (const auto& [key, node] : table) {
    const auto* const integer = std::ranges::find(kIntegers, key.str(), &IntegerKey::name);
    const auto* const text = std::ranges::find(kTexts, key.str(), &TextKey::name);
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
    } else if (key.str() == kNoLeadingZeros) {
      const auto* const value = node.as_boolean();
      if (value == nullptr) {
        return at_line(node.source(), std::string(key.str()) + " is neither true nor false");
      }
      given.no_leading_zeros = value->get();
    } else {
      std::string known;
      for (const IntegerKey& row : kIntegers) known += std::string(row.name) + ", ";
      for (const TextKey& row : kTexts) known += std::string(row.name) + ", ";
      known += kNoLeadingZeros;
      return at_line(key.source(),
                     "there is no key " + quoted(key.str()) + ": use one of " + known);
    }
  }
  return given;
}

}  // namespace

Result<std::vector<Definition>> definitions_from_toml(std::string_view text) {
  if (text.size() > kLongestToml) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "the file has " + std::to_string(text.size()) + " bytes, of " +
                                     std::to_string(kLongestToml) + " at most: split it"});
  }
  constexpr std::string_view mark = "\xef\xbb\xbf";  // of UTF-8; toml++ 3.3 trips over one alone
  while (text.starts_with(mark)) text.remove_prefix(mark.size());
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return at_line(parsed.error().source(),
                   "no TOML: " + std::string(parsed.error().description()));
  }
  struct Found {
    toml::source_position where;
    Definition definition;
  };
  std::vector<Found> found;
  for (const auto& [key, node] : parsed.table()) {
    if (key.str() != "sequence" || !node.is_table()) {
      return at_line(key.source(), "there is no " + quoted(key.str()) +
                                       " here: write a [sequence.NAME] for each sequence");
    }
    for (const auto& [name, sequence] : *node.as_table()) {
      const toml::table* const table = sequence.as_table();
      if (table == nullptr) {
        return at_line(name.source(), quoted(name.str()) + " is no table: write [sequence." +
                                          std::string(name.str().substr(0, 60)) + "]");
      }
      const Result<SequenceWish> given = read_table(name.str(), *table);
      if (!given) return std::unexpected(given.error());
      Result<Definition> definition = definition_of(*given);
      if (!definition) return at_line(name.source(), std::move(definition.error().message));
      found.push_back({name.source().begin, *std::move(definition)});
    }
  }
  // toml++ has them by name. Not a stable sort: libstdc++ 12 makes it of what C++17 deprecates.
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    if (a.where == b.where) return a.definition.name < b.definition.name;
    return a.where < b.where;
  });
  std::vector<Definition> definitions;
  for (Found& each : found) definitions.push_back(std::move(each.definition));
  return definitions;
}

std::string to_toml(std::span<const Definition> definitions) {
  const Definition plain;
  std::string text;
  for (const Definition& definition : definitions) {
    if (definition.retired) continue;
    const bool dotted = definition.name.find('.') != std::string::npos;
    const std::string mark(dotted ? 1 : 0, '"');
    text += text.empty() ? "[sequence." : "\n[sequence.";
    text.append(mark).append(definition.name).append(mark).append("]\n");
    const auto write_text = [&](std::string_view key, std::string_view value) {
      text += std::string(key) + " = \"" + std::string(value) + "\"\n";  // never " or a backslash
    };
    const auto write = [&](std::string_view key, std::int64_t value) {
      text += std::string(key) + " = " + std::to_string(value) + "\n";
    };
    write_text("strategy", name(definition.strategy));
    write("start", definition.first);
    write("max", definition.last);
    if (definition.stripes != plain.stripes) write("stripes", definition.stripes);
    if (definition.step != plain.step) write("step", definition.step);
    if (definition.largest_count != plain.largest_count) {
      write("largest_count", definition.largest_count);
    }
    if (definition.form.digits != 0) write("digits", definition.form.digits);
    if (!definition.key.empty()) write_text("key", definition.key);
    if (!definition.form.prefix.empty()) write_text("prefix", definition.form.prefix);
    if (definition.form.encoding != Encoding::kCanonical) {
      write_text("encoding", name(definition.form.encoding));
    }
    if (definition.form.check != Check::kNone) write_text("check", name(definition.form.check));
  }
  return text;
}

}  // namespace idmint
