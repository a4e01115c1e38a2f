// convert: an id in another spelling, encoding or format of the same bits.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/errors.h"
#include "base/text.h"
#include "cli/bson.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "cli/read_id.h"
#include "cli/source_options.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/encoding.h"
#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/uuid.h"
#include "terminal/exit_status.h"

namespace idmint::cli {

namespace {

// As given; empty: not given.
struct ConvertOptions {
  std::vector<std::string> ids;
  std::string to;
  std::string from;
  std::optional<std::string> prefix;
  std::string check;
  std::optional<std::string> width;
} convert_options;

void add_convert(CLI::App& command) {
  add_texts(command, convert_options.ids);
  command.add_option("--to", convert_options.to, "An encoding, a format or a spelling: see below")
      ->required()
      ->type_name("WHAT");
  command
      .add_option("--from", convert_options.from,
                  "What the ids are: FORMAT, ENCODING or FORMAT:ENCODING")
      ->type_name("WHAT");
  command.add_option("--prefix", convert_options.prefix, "Of a TypeID, or to print before the id")
      ->type_name("P");
  command.add_option("--check", convert_options.check, "Check symbols to print after the id")
      ->type_name("C");
  command
      .add_option("--width", convert_options.width,
                  "Of an integer in an encoding: N characters (as many as 64 bits take)")
      ->type_name("N");
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
struct Conversion {
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

Result<Conversion> wanted(const ConvertOptions& given) {
  Conversion wanted;
  wanted.form.prefix = given.prefix.value_or("");
  const Result<int> width = width_of(given.width);
  if (!width) return std::unexpected(width.error());
  wanted.form.width = *width;
  if (!given.check.empty()) {
    const Result<Check> check = check_named(given.check);
    if (!check) return std::unexpected(check.error());
    wanted.form.check = *check;
  }
  const auto* const target = std::ranges::find(kTargets, given.to, &Target::name);
  if (target != kTargets.end()) {
    wanted.target = target;
    wanted.keep_prefix = target->print == as_type_id && !given.prefix;
    if (given.width) return refuse("--width is for integers in an encoding: leave it out");
    const bool has_check = wanted.form.check != Check::kNone;
    if ((target->takes == Takes::kNothing && !wanted.form.prefix.empty()) ||
        (target->takes != Takes::kForm && has_check)) {
      return refuse("--to " + given.to + " takes no " + (has_check ? "--check" : "--prefix") +
                    ": leave it out, or take an encoding");
    }
    return wanted;
  }
  const Result<Encoding> encoding = encoding_named(given.to);
  if (!encoding) {
    std::string names;
    for (const Target& row : kTargets) names += std::string(row.name) + ", ";
    return refuse(
        "--to is \"" + shortened(given.to) + "\": give one of " + names +
        "or an encoding: canonical, decimal, hex, base32, base32-lower, base32hex, base36, "
        "base58, base62");
  }
  wanted.form.encoding = *encoding;
  return wanted;
}

Result<void> run_convert(Context& context) {
  const Result<Conversion> to = wanted(convert_options);
  if (!to) return std::unexpected(to.error());
  const std::string& from = convert_options.from;
  detail::Reader reader(system_clock().now());
  const auto convert = [&](std::string_view text, std::size_t line) {
    const Result<Id> id = from.empty() ? read_likeliest(text, reader) : read_from(text, from);
    Result<std::string> printed = id ? (*to)(text, *id) : std::unexpected(id.error());
    if (printed) {
      if (context.json) *printed = json_converted(text, *printed);
      context.out.write(*printed + "\n");
      return;
    }
    context.out.flush();
    Error& error = printed.error();
    context.status = exit_status(error.code);
    error.message = place_of(line) + "\"" + shortened(text) + "\": " + error.message;
    report(error, context.json);
  };
  return for_each_text(context, convert_options.ids, convert);
}

}  // namespace

const Command kConvert = {"convert", "Print ids in another encoding, spelling or format",
                          add_convert, run_convert,
                          R"(The bits stay the same. --to takes
  an encoding   canonical, decimal, hex, base32, base32-lower, base32hex,
                base36, base58, base62: of fixed width, and in the order of the
                ids; of an integer --width N says which (as 64 bits take)
  a format      uuid, ulid, typeid (128 bits); object-id, xid (96 bits);
                integer (64 bits). A TypeID keeps its prefix, or gets --prefix
  a spelling    of a UUID: upper, braces, urn, bare (no dashes), microsoft (the
                first three fields in the other byte order); bson: MongoDB's
                Extended JSON, of UUIDs in subtype 4
Without --from the likeliest reading is taken if it is clear, and else the
readings are named.

Examples:
  $ idmint convert 01890a5d-ac96-774b-bcce-b302099a8057 --to base58
  $ idmint convert 01890a5d-ac96-774b-bcce-b302099a8057 --to typeid --prefix user
  $ idmint convert 02tcRIyrxLXTR81B3dqdOx --from uuid:base62 --to uuid
  $ idmint convert 01ARZ3NDEKTSV4RRFFQ69G5FAV --to bson
  $ idmint next uuid7 -n 3 | idmint convert - --to base62
)"};

}  // namespace idmint::cli
