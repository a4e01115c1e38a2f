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

namespace idmint::advice {

namespace {

template <class T>
Result<Id> as_id(Result<T> parsed) {
  if (!parsed) return std::unexpected(std::move(parsed.error()));
  return Id{*parsed};
}

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

struct Origin {
  std::string_view name;
  Result<Id> (*read)(std::string_view text);
  bool encodes;  // may be followed by ":" and an encoding
};
constexpr std::array kOrigins = {
    Origin{"uuid", [](std::string_view t) { return as_id(Uuid::parse(t)); }, true},
    Origin{"ulid", [](std::string_view t) { return as_id(Ulid::parse(t)); }, true},
    Origin{"typeid", read_type_id, false},
    Origin{"object-id", [](std::string_view t) { return as_id(ObjectId::parse(t)); }, true},
    Origin{"xid", [](std::string_view t) { return as_id(Xid::parse(t)); }, true},
    Origin{"ksuid", [](std::string_view t) { return as_id(Ksuid::parse(t)); }, true},
    Origin{"snowflake", [](std::string_view t) { return as_id(Snowflake::parse(t)); }, true},
    Origin{"integer", [](std::string_view t) { return read_integer(t); }, true},
    Origin{"digits", [](std::string_view t) { return idmint::parse(t, "digits"); }, true},
    Origin{"microsoft", read_microsoft, false},
    Origin{"bson", id_from_bson, false},
};

// The format of bits without further information, by their number. All formats of a size print
// alike, except in the canonical spelling.
struct Size {
  std::size_t bytes;
  std::string_view format;
};
constexpr std::array kSizes = {Size{8, "snowflake"}, Size{12, "object-id"}, Size{16, "uuid"},
                               Size{20, "ksuid"}};

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
  for (const Origin& origin : kOrigins) {
    names += (names.empty() ? "" : ", ") + std::string(origin.name);
  }
  return names;
}

// Integers and Snowflakes are both numbers, UUIDs and ULIDs both 128 bits, and so on.
struct Bits {
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(const Snowflake& id) const { return id.to_string(); }
  std::string operator()(const Digits& id) const { return id.to_string(); }
  std::string operator()(const auto& id) const { return {id.bytes().begin(), id.bytes().end()}; }
};

bool same_bits(const Id& a, const Id& b) { return std::visit(Bits{}, a) == std::visit(Bits{}, b); }

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
  const auto* const origin = std::ranges::find(kOrigins, format, &Origin::name);
  if (colon != std::string_view::npos) {
    const Result<Encoding> encoding = encoding_named(from.substr(colon + 1));
    if (!encoding) return std::unexpected(encoding.error());
    if (origin == kOrigins.end() || !origin->encodes) {
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
  if (origin != kOrigins.end()) return origin->read(text);
  const Result<Encoding> encoding = encoding_named(from);
  if (!encoding || *encoding == Encoding::kCanonical) {
    return refuse("\"" + std::string(from) +
                  "\" is neither a format nor an encoding: give one of " + names_of_origins() +
                  ", an encoding, or FORMAT:ENCODING such as uuid:base58");
  }
  for (const Size& size : kSizes) {
    if (encoded_width(*encoding, size.bytes) == text.size()) {
      return read_in(*encoding, text, size.format);
    }
  }
  if (*encoding == Encoding::kDecimal) return as_id(Snowflake::parse(text));
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
    const auto* const origin = std::ranges::find(kOrigins, family(reading.format), &Origin::name);
    Result<Id> id = origin->read(canonical);
    if (!id) continue;
    std::string from(reading.format);
    const auto fields = reader.fields(reading);
    for (const detail::FoundField& field : fields) {
      if (field.name != "encoding") continue;
      from = std::string(origin->name) + ":" + std::string(std::get<std::string_view>(field.value));
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
