#include "advice/conversion.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "advice/bson.h"
#include "base/errors.h"
#include "base/text.h"
#include "idmint/definition.h"
#include "idmint/encoding.h"
#include "idmint/uuid.h"
#include "ids/format.h"

namespace idmint::advice {

namespace {

// The form to print in, and the words for errors.
struct Wanted {
  const Form& form;
  Words words;
};

// The id of the other kind with the same bits.
Result<Id> regard_as(const Format& kind, const Id& id, Words words) {
  const IdBytes bytes = bytes_of(id);
  if (bytes.size != kind.bytes) {
    return refuse("ids of format " + std::string(format_of(id)) +
                  " have not as many bits as what " + spelled(words, "to") +
                  " names: take an encoding, such as hex");
  }
  return kind.from_bytes(bytes.span());
}

Result<Id> regard_as_uuid(const Id& id, Words words) {
  return regard_as(*find_kind("uuid"), id, words);
}

Result<Id> regard_as_number(const Id& id, Words words) {
  if (std::holds_alternative<std::int64_t>(id)) return id;
  if (const IdBytes bytes = bytes_of(id); bytes.size == sizeof(std::uint64_t)) {
    return Id{Snowflake{static_cast<std::uint64_t>(number_of(bytes.span()))}};
  }
  return refuse("it is not a number of 64 bits: take " + spelled(words, "to") +
                " decimal for its bits as one number");
}

Result<std::string> print_in(const Id& id, const Form& form) {
  if (Result<void> valid = validate(form, format_of(id)); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  return to_string(id, form);
}

template <UuidSpelling kSpelling>
Result<std::string> as_spelling(const Id& id, const Wanted& wanted) {
  const Result<Id> uuid = regard_as_uuid(id, wanted.words);
  if (!uuid) return std::unexpected(uuid.error());
  return std::get<Uuid>(*uuid).to_string(kSpelling);
}

// The UUID as read by a program that takes Microsoft's bytes for those of RFC 9562.
Result<std::string> as_microsoft(const Id& id, const Wanted& wanted) {
  const Result<Id> uuid = regard_as_uuid(id, wanted.words);
  if (!uuid) return std::unexpected(uuid.error());
  return Uuid{std::get<Uuid>(*uuid).microsoft_bytes()}.to_string();
}

Result<std::string> as_type_id(const Id& id, const Wanted& wanted) {
  const Result<Id> uuid = regard_as_uuid(id, wanted.words);
  if (!uuid) return std::unexpected(uuid.error());
  const Result<TypeId> type_id = TypeId::make(wanted.form.prefix, std::get<Uuid>(*uuid));
  if (!type_id) return std::unexpected(type_id.error());
  return type_id->to_string();
}

Result<std::string> as_bson(const Id& id, const Wanted& /*wanted*/) {
  if (std::optional<std::string> text = bson(id)) return *std::move(text);
  return refuse("BSON has no type for it: UUIDs, ObjectIds and integers up to 2^63-1 have one");
}

Result<std::string> as_number(const Id& id, const Wanted& wanted) {
  const Result<Id> number = regard_as_number(id, wanted.words);
  if (!number) return std::unexpected(number.error());
  return print_in(*number, wanted.form);
}

}  // namespace

// A target of a conversion other than an encoding.
struct ConversionTarget {
  std::string_view name;
  Result<std::string> (*print)(const Id& id, const Wanted& wanted);
  enum class Takes : std::uint8_t { kForm, kPrefix, kNothing } takes;
};

namespace {

using Target = ConversionTarget;
using Takes = Target::Takes;
constexpr std::array kTargets = {
    Target{"typeid", as_type_id, Takes::kPrefix},
    Target{"integer", as_number, Takes::kForm},
    Target{"upper", as_spelling<UuidSpelling::kUpper>, Takes::kNothing},
    Target{"braces", as_spelling<UuidSpelling::kBraces>, Takes::kNothing},
    Target{"urn", as_spelling<UuidSpelling::kUrn>, Takes::kNothing},
    Target{"bare", as_spelling<UuidSpelling::kNoDashes>, Takes::kNothing},
    Target{"microsoft", as_microsoft, Takes::kNothing},
    Target{"bson", as_bson, Takes::kNothing},
};

// A kind that has as many bits as another one, so that something else can be printed as it. Null:
// `name` is none. Numbers have the target "integer".
const Format* target_kind(std::string_view name) {
  const Format* const kind = find_kind(name);
  if (kind == nullptr || kind->decimal || kind->name == "snowflake") return nullptr;
  const bool has_peer = std::ranges::any_of(kinds(), [kind](const Format* other) {
    return other != kind && other->bytes == kind->bytes;
  });
  return has_peer ? kind : nullptr;
}

Result<std::string> as_kind(const Format& kind, const Id& id, const Wanted& wanted) {
  const Result<Id> other = regard_as(kind, id, wanted.words);
  if (!other) return std::unexpected(other.error());
  return print_in(*other, wanted.form);
}

// The id with a width, which only integers take.
Result<std::string> in_width(const Id& id, const Wanted& wanted) {
  const Form& form = wanted.form;
  const std::string option = spelled(wanted.words, "width");
  Id integer = id;
  if (const auto* const snowflake = std::get_if<Snowflake>(&id)) {
    if (snowflake->value() > std::uint64_t{kLargestValue}) {
      return refuse("it is no integer of a sequence, which " + option + " is for: leave that out");
    }
    integer = static_cast<std::int64_t>(snowflake->value());
  }
  const auto* const value = std::get_if<std::int64_t>(&integer);
  if (value != nullptr && validate(form, "integer") && *value > largest_integer(form)) {
    return refuse("it takes more than " + std::to_string(form.width) + " characters in " +
                  std::string(name(form.encoding)) + ": give a larger " + option);
  }
  return print_in(integer, form);
}

}  // namespace

Result<Conversion> Conversion::make(const ConversionTexts& given, Words words) {
  const auto option = [words](std::string_view its_name) { return spelled(words, its_name); };
  Conversion made;
  made.words_ = words;
  made.form_.prefix = given.prefix.value_or("");
  const Result<int> width = width_of(option("width"), given.width);
  if (!width) return std::unexpected(width.error());
  made.form_.width = *width;
  if (!given.check.empty()) {
    const Result<Check> check = check_named(given.check);
    if (!check) return std::unexpected(check.error());
    made.form_.check = *check;
  }
  const auto* const target = std::ranges::find(kTargets, given.to, &Target::name);
  made.kind_ = target_kind(given.to);
  if (given.width && (target != kTargets.end() || made.kind_ != nullptr))
    return refuse(option("width") + " is for integers in an encoding: leave it out");
  if (made.kind_ != nullptr) return made;
  if (target != kTargets.end()) {
    made.target_ = target;
    made.keep_prefix_ = target->print == as_type_id && !given.prefix;
    const bool has_check = made.form_.check != Check::kNone;
    if ((target->takes == Takes::kNothing && !made.form_.prefix.empty()) ||
        (target->takes != Takes::kForm && has_check)) {
      return refuse(option("to") + " " + given.to + " takes no " +
                    option(has_check ? "check" : "prefix") + ": leave it out, or take an encoding");
    }
    return made;
  }
  const Result<Encoding> encoding = encoding_named(given.to);
  if (!encoding) {
    std::string names;
    for (const Format* const kind : kinds()) {
      if (target_kind(kind->name) != nullptr) names += std::string(kind->name) + ", ";
    }
    for (const Target& row : kTargets) names += std::string(row.name) + ", ";
    return refuse(
        option("to") + " is \"" + shortened(given.to) + "\": give one of " + names +
        "or an encoding: canonical, decimal, hex, base32, base32-lower, base32hex, base36, "
        "base58, base62");
  }
  made.form_.encoding = *encoding;
  return made;
}

Result<std::string> Conversion::operator()(std::string_view text, const Id& id) const {
  Form own = form_;
  if (keep_prefix_) {
    if (const Result<TypeId> was = TypeId::parse(text)) own.prefix = was->prefix();
  }
  if (kind_ != nullptr) return as_kind(*kind_, id, {own, words_});
  if (target_ != nullptr) return target_->print(id, {own, words_});
  if (own.width != 0) return in_width(id, {own, words_});
  // The decimal number itself, not its eight bytes.
  if (own.encoding == Encoding::kDecimal && std::holds_alternative<Snowflake>(id)) {
    own.encoding = Encoding::kCanonical;
  }
  return print_in(id, own);
}

}  // namespace idmint::advice
