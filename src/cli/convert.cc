// convert: an id in another spelling, encoding or format of the same bits.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/bson.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "cli/read_id.h"
#include "idmint/clock.h"
#include "idmint/counter_store.h"
#include "idmint/encoding.h"
#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/type_id.h"

namespace idmint::cli {

namespace {

std::unexpected<Error> refuse(std::string why) {
  return std::unexpected(Error{Code::kInvalidArgument, std::move(why)});
}

// The id in the other format of as many bits.
template <class T>
Result<Id> regard_as(const Id& id) {
  const auto with_bytes_of = [&id](const auto& value) -> Result<Id> {
    if constexpr (requires { T{value.bytes()}; }) {
      return Id{T{value.bytes()}};
    } else {
      return refuse("ids of format " + std::string(format_of(id)) +
                    " have not as many bits as what --to names: take an encoding, such as hex");
    }
  };
  return std::visit(with_bytes_of, id);
}

Result<Id> regard_as_number(const Id& id) {
  if (std::holds_alternative<std::int64_t>(id) || std::holds_alternative<Snowflake>(id)) return id;
  return refuse("it is not a number of 64 bits: take --to decimal for its bits as one number");
}

Result<std::string> print(const Id& id, const Form& form) {
  if (Result<void> valid = validate(form, format_of(id)); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  return to_string(id, form);
}

template <class T>
Result<std::string> as_format(const Id& id, const Form& form) {
  const Result<Id> other = regard_as<T>(id);
  if (!other) return std::unexpected(other.error());
  return print(*other, form);
}

template <UuidSpelling kSpelling>
Result<std::string> as_spelling(const Id& id, const Form&) {
  const Result<Id> uuid = regard_as<Uuid>(id);
  if (!uuid) return std::unexpected(uuid.error());
  return std::get<Uuid>(*uuid).to_string(kSpelling);
}

// What a program reads that takes Microsoft's bytes for those of RFC 9562.
Result<std::string> as_microsoft(const Id& id, const Form&) {
  const Result<Id> uuid = regard_as<Uuid>(id);
  if (!uuid) return std::unexpected(uuid.error());
  return Uuid{std::get<Uuid>(*uuid).microsoft_bytes()}.to_string();
}

Result<std::string> as_type_id(const Id& id, const Form& form) {
  const Result<Id> uuid = regard_as<Uuid>(id);
  if (!uuid) return std::unexpected(uuid.error());
  const Result<TypeId> type_id = TypeId::make(form.prefix, std::get<Uuid>(*uuid));
  if (!type_id) return std::unexpected(type_id.error());
  return type_id->to_string();
}

Result<std::string> as_bson(const Id& id, const Form&) {
  if (std::optional<std::string> text = bson(id)) return *std::move(text);
  return refuse("BSON has no type for it: UUIDs, ObjectIds and integers up to 2^63-1 have one");
}

Result<std::string> as_number(const Id& id, const Form& form) {
  const Result<Id> number = regard_as_number(id);
  if (!number) return std::unexpected(number.error());
  return print(*number, form);
}

// What --to may be, besides an encoding.
struct Target {
  std::string_view name;
  Result<std::string> (*print)(const Id& id, const Form& form);
  enum class Takes : std::uint8_t { kForm, kPrefix, kNothing } takes;
};
using Takes = Target::Takes;
constexpr std::array kTargets = {
    Target{"uuid", as_format<Uuid>, Takes::kForm},
    Target{"ulid", as_format<Ulid>, Takes::kForm},
    Target{"typeid", as_type_id, Takes::kPrefix},
    Target{"object-id", as_format<ObjectId>, Takes::kForm},
    Target{"xid", as_format<Xid>, Takes::kForm},
    Target{"integer", as_number, Takes::kForm},
    Target{"upper", as_spelling<UuidSpelling::kUpper>, Takes::kNothing},
    Target{"braces", as_spelling<UuidSpelling::kBraces>, Takes::kNothing},
    Target{"urn", as_spelling<UuidSpelling::kUrn>, Takes::kNothing},
    Target{"bare", as_spelling<UuidSpelling::kNoDashes>, Takes::kNothing},
    Target{"microsoft", as_microsoft, Takes::kNothing},
    Target{"bson", as_bson, Takes::kNothing},
};

// With a width, which is for integers only.
Result<std::string> in_width(const Id& id, const Form& form) {
  Id integer = id;
  if (const auto* const snowflake = std::get_if<Snowflake>(&id)) {
    if (snowflake->value() > std::uint64_t{kLargestValue}) {
      return refuse("it is no integer of a sequence, which --width is for: leave that out");
    }
    integer = static_cast<std::int64_t>(snowflake->value());
  }
  const auto* const value = std::get_if<std::int64_t>(&integer);
  if (value != nullptr && validate(form, "integer") && *value > largest_integer(form)) {
    return refuse("it takes more than " + std::to_string(form.width) + " characters in " +
                  std::string(name(form.encoding)) + ": give a larger --width");
  }
  return print(integer, form);
}

// What --to, --prefix, --check and --width ask for.
struct Wanted {
  const Target* target = nullptr;  // null: the encoding of the form
  Form form;
  bool keep_prefix = false;  // that of the TypeID which it was

  [[nodiscard]] Result<std::string> operator()(std::string_view text, const Id& id) const {
    Form own = form;
    if (keep_prefix) {
      if (const Result<TypeId> was = TypeId::parse(text)) own.prefix = was->prefix();
    }
    if (target != nullptr) return target->print(id, own);
    if (own.width != 0) return in_width(id, own);
    // The decimal number that it is, and not its eight bytes.
    if (own.encoding == Encoding::kDecimal && std::holds_alternative<Snowflake>(id)) {
      own.encoding = Encoding::kCanonical;
    }
    return print(id, own);
  }
};

Result<Wanted> wanted(const IdArguments& ids) {
  Wanted wanted;
  wanted.form.prefix = ids.prefix.value_or("");
  wanted.form.width = ids.width;
  if (!ids.check.empty()) {
    const Result<Check> check = check_named(ids.check);
    if (!check) return std::unexpected(check.error());
    wanted.form.check = *check;
  }
  const auto* const target = std::ranges::find(kTargets, ids.to, &Target::name);
  if (target != kTargets.end()) {
    wanted.target = target;
    wanted.keep_prefix = target->print == as_type_id && !ids.prefix;
    if (ids.width != 0) return refuse("--width is for integers in an encoding: leave it out");
    const bool has_check = wanted.form.check != Check::kNone;
    if ((target->takes == Takes::kNothing && !wanted.form.prefix.empty()) ||
        (target->takes != Takes::kForm && has_check)) {
      return refuse("--to " + ids.to + " takes no " + (has_check ? "--check" : "--prefix") +
                    ": leave it out, or take an encoding");
    }
    return wanted;
  }
  const Result<Encoding> encoding = encoding_named(ids.to);
  if (!encoding) {
    std::string names;
    for (const Target& row : kTargets) names += std::string(row.name) + ", ";
    return refuse(
        "--to is \"" + shortened(ids.to) + "\": give one of " + names +
        "or an encoding: canonical, decimal, hex, base32, base32-lower, base32hex, base36, "
        "base58, base62");
  }
  wanted.form.encoding = *encoding;
  return wanted;
}

}  // namespace

Result<void> run_convert(Context& context) {
  const Arguments& arguments = context.arguments;
  const Result<Wanted> to = wanted(arguments.ids);
  if (!to) return std::unexpected(to.error());
  const std::string& from = arguments.ids.from;
  detail::Reader reader(system_clock().now());
  const auto convert = [&](std::string_view text, std::size_t line) {
    const Result<Id> id = from.empty() ? read_likeliest(text, reader) : read_from(text, from);
    Result<std::string> printed = id ? (*to)(text, *id) : std::unexpected(id.error());
    if (printed) {
      if (arguments.json) *printed = json_converted(text, *printed);
      context.out.write(*printed + "\n");
      return;
    }
    context.out.flush();
    Error& error = printed.error();
    context.status = exit_status(error.code);
    error.message = place_of(line) + "\"" + shortened(text) + "\": " + error.message;
    report(error, arguments.json);
  };
  return for_each_text(context, convert);
}

}  // namespace idmint::cli
