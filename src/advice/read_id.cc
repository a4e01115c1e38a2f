#include "advice/read_id.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "advice/bson.h"
#include "base/errors.h"
#include "idmint/definition.h"
#include "idmint/encoding.h"
#include "idmint/form.h"
#include "idmint/uuid.h"
#include "ids/format.h"

namespace idmint::advice {

namespace {

Result<Id> read_microsoft(std::string_view text) {
  const Result<Uuid> uuid = Uuid::parse(text);
  if (!uuid) return std::unexpected(uuid.error());
  return Id{Uuid::from_microsoft_bytes(uuid->bytes())};
}

Result<Id> read_type_id(std::string_view text) {
  const Result<TypeId> id = TypeId::parse(text);
  if (!id) return std::unexpected(id.error());
  return Id{id->uuid()};
}

// ---- the origin of an id

// An origin that is no kind of id.
struct Spelling {
  std::string_view name;
  Result<Id> (*read)(std::string_view text);
};
constexpr std::array kSpellings = {Spelling{"typeid", read_type_id},
                                   Spelling{"microsoft", read_microsoft},
                                   Spelling{"bson", id_from_bson}};

Result<Id> read_kind(const Format& kind, std::string_view text) {
  return kind.name == "integer" ? read_integer(text) : kind.parse(text);
}

// Null: there is no such origin.
Result<Id> (*spelling_named(std::string_view name))(std::string_view text) {
  const auto* const found = std::ranges::find(kSpellings, name, &Spelling::name);
  return found == kSpellings.end() ? nullptr : found->read;
}

// The format of bits without further information, by their number. All formats of a size print
// alike, except in the canonical spelling; the first of them stands for all.
const Format* kind_of_size(Encoding encoding, std::size_t chars) {
  const auto fits = [&](const Format* kind) {
    return !kind->decimal && encoded_width(encoding, kind->bytes) == chars;
  };
  const auto found = std::ranges::find_if(kinds(), fits);
  return found == kinds().end() ? nullptr : *found;
}

Result<Id> read_in(Encoding encoding, std::string_view text, std::string_view format) {
  return parse(text, format, Form{.encoding = encoding});
}

// The format's name without the version of a UUID.
std::string_view family(std::string_view format) {
  if (format.starts_with("uuid")) return "uuid";
  if (format.starts_with("unix-")) return "integer";
  if (format == "object-id-classic") return "object-id";
  return format;
}

std::string names_of_origins() {
  std::string names;
  for (const Format* const kind : kinds()) names += std::string(kind->name) + ", ";
  for (const Spelling& spelling : kSpellings) names += std::string(spelling.name) + ", ";
  names.resize(names.size() - 2);
  return names;
}

// Integers and Snowflakes are both numbers, UUIDs and ULIDs both 128 bits, and so on. Digits are
// the number that they look like.
bool same_bits(const Id& a, const Id& b) {
  const auto bits = [](const Id& id) {
    if (const auto* const digits = std::get_if<Digits>(&id)) return digits->to_string();
    const IdBytes bytes = bytes_of(id);
    if (bytes.size == sizeof(std::uint64_t)) {
      return std::to_string(static_cast<std::uint64_t>(number_of(bytes.span())));
    }
    return std::string(bytes.span().begin(), bytes.span().end());
  };
  return bits(a) == bits(b);
}

}  // namespace

Result<Id> read_integer(std::string_view text, const Form& form) {
  Result<Id> id = parse(text, "integer", form);
  if (id) return id;
  if (form.width == 0) {
    Result<Id> larger = parse(text, "snowflake", form);
    if (larger && std::get<Snowflake>(*larger).value() > std::uint64_t{kLargestValue})
      return larger;
  }
  if (form == Form{})
    return refuse("expected a decimal number without leading zeros, at most " +
                  std::to_string(std::numeric_limits<std::uint64_t>::max()));
  return id;
}

Result<Id> read_from(std::string_view text, std::string_view from, Words words) {
  const std::size_t colon = from.find(':');
  const std::string_view format = family(from.substr(0, colon));
  const Format* const kind = find_kind(format);
  if (colon != std::string_view::npos) {
    const Result<Encoding> encoding = encoding_named(from.substr(colon + 1));
    if (!encoding) return std::unexpected(encoding.error());
    if (kind == nullptr) {
      return refuse("\"" + std::string(format) + "\" has no encodings: give " +
                    spelled(words, "from") + " FORMAT:ENCODING with a format such as uuid");
    }
    // Fewer characters than the width of 64 bits: the width that it was printed with.
    const bool narrow = format == "integer" && *encoding != Encoding::kCanonical &&
                        *encoding != Encoding::kDecimal && !text.empty() &&
                        text.size() < encoded_width(*encoding, sizeof(std::int64_t));
    const Form form{.encoding = *encoding, .width = narrow ? static_cast<int>(text.size()) : 0};
    return format == "integer" ? read_integer(text, form) : parse(text, format, form);
  }
  if (kind != nullptr) return read_kind(*kind, text);
  if (auto* const read = spelling_named(format)) return read(text);
  const Result<Encoding> encoding = encoding_named(from);
  if (!encoding || *encoding == Encoding::kCanonical) {
    return refuse("\"" + std::string(from) +
                  "\" is neither a format nor an encoding: give one of " + names_of_origins() +
                  ", an encoding, or FORMAT:ENCODING such as uuid:base58");
  }
  if (const Format* const found = kind_of_size(*encoding, text.size())) {
    return read_in(*encoding, text, found->name);
  }
  if (*encoding == Encoding::kDecimal) return parsed_as<Snowflake>(text);
  return refuse("as " + std::string(from) +
                " it has no number of characters that an id takes: say "
                "which with " +
                spelled(words, "from") + " FORMAT:" + std::string(from));
}

Result<Id> read_likeliest(std::string_view text, detail::Reader& reader, Words words) {
  const std::string option = spelled(words, "from");
  if (text.starts_with('{') && text.find('$') != std::string_view::npos) return id_from_bson(text);
  struct Candidate {
    Id id;
    std::string from;
    int permille;
  };
  std::vector<Candidate> candidates;
  for (const detail::FoundReading& reading : reader.read(text)) {
    char room[detail::kMaxValueChars];
    const std::string_view canonical(room, detail::print_value(reading.canonical, room));
    const Format* const kind = find_kind(family(reading.format));
    Result<Id> id =
        kind != nullptr ? read_kind(*kind, canonical) : spelling_named(reading.format)(canonical);
    if (!id) continue;
    std::string from(reading.format);
    const auto fields = reader.fields(reading);
    for (const detail::FoundField& field : fields) {
      if (field.name != "encoding") continue;
      from = std::string(kind->name) + ":" + std::string(std::get<std::string_view>(field.value));
    }
    // The same bits convert to the same texts.
    const auto same = [&](const Candidate& other) { return same_bits(other.id, *id); };
    if (std::ranges::none_of(candidates, same)) {
      candidates.push_back({*std::move(id), std::move(from), reading.permille});
    }
  }
  if (candidates.empty()) {
    return std::unexpected(
        Error{Code::kNotFound,
              "it is no id of a known format: look for missing or extra characters, or "
              "say what it is with " +
                  option});
  }
  if (candidates.size() > 1 && candidates[1].permille * 2 > candidates[0].permille) {
    return refuse("it can be read in more than one way: say which with " + option + " " +
                  candidates[0].from + " or " + option + " " + candidates[1].from);
  }
  return candidates[0].id;
}

}  // namespace idmint::advice
