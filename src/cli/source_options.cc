#include "cli/source_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "base/quantity.h"
#include "base/text.h"
#include "idmint/digits.h"
#include "idmint/encoding.h"
#include "ids/lease_table.h"
#include "mint/sequence_spec.h"
#include "terminal/output.h"

namespace idmint::cli {

void add_form(CLI::App& command, FormTexts& form) {
  command.add_option("--prefix", form.prefix, "Print this before each id; for typeid its type")
      ->type_name("TEXT");
  command
      .add_option("--encoding", form.encoding,
                  "decimal, hex, base32, base32-lower, base32hex, base36, base58 or base62")
      ->type_name("E");
  command
      .add_option("--check", form.check,
                  "After each id: luhn; of decimal digits damm, verhoeff, mod11-10 or mod97-10; of "
                  "base32 mod37")
      ->type_name("C");
  command
      .add_option("--digits", form.digits,
                  "Exactly N decimal digits, those of the prefix and of the check included")
      ->type_name("N");
  command.add_flag("--no-leading-zeros", form.no_leading_zeros, "The first digit is not 0");
}

void add_snowflake(CLI::App& command, FormatTexts& format) {
  command
      .add_option(
          "--worker", format.worker,
          "snowflake: a worker id that no other generator uses (0 to 1023 in the default "
          "layout); or where it comes from: env:NAME, a variable; ordinal, the N of a host name "
          "web-N; address, or address:INTERFACE, the low bits of the IP address; mac, a hash of "
          "the hardware addresses, or random (both unique in practice only)")
      ->type_name("W");
  command
      .add_option("--layout", format.layout,
                  "snowflake: a preset (idmint formats --layouts) or fields such as 41t10w12s")
      ->type_name("L");
  command.add_option("--epoch", format.epoch, "snowflake: when its time begins")->type_name("TIME");
  command.add_option("--unit", format.unit, "snowflake: what its time counts (1ms)")
      ->type_name("T");
  command
      .add_option(
          "--run-ahead", format.run_ahead,
          "snowflake: go on ahead of the clock by this much, instead of waiting; 5s at most")
      ->type_name("T");
}

void add_timeout(CLI::App& command, std::optional<std::string>& timeout, const std::string& usual) {
  command.add_option("--timeout", timeout, "The longest wait for the store (" + usual + ")")
      ->type_name("DURATION");
}

Result<std::chrono::milliseconds> timeout_option(const std::optional<std::string>& given,
                                                 std::chrono::milliseconds usual) {
  if (!given) return usual;
  constexpr std::chrono::hours kMost{24};
  const auto wait = parse_duration(*given);
  if (!wait || *wait < std::chrono::milliseconds{1} || *wait > kMost)
    return refuse("--timeout is \"" + shortened(*given) +
                  "\": give how long to wait for the store, such as 500ms, 20s or 2min, 24h at "
                  "most");
  return std::chrono::floor<std::chrono::milliseconds>(*wait);
}

std::size_t digits_in(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return c >= '0' && c <= '9'; }));
}

namespace {

bool is_decimal(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

constexpr std::int64_t kMostDigits = Digits::kMaxChars;

// --digits is left to the caller, because it has another meaning for each kind of source.
Result<Form> form_of(const FormTexts& given) {
  Form form;
  form.prefix = given.prefix.value_or("");
  if (given.encoding) {
    const Result<Encoding> encoding = encoding_named(*given.encoding);
    if (!encoding) return refused("--encoding", encoding.error());
    form.encoding = *encoding;
  }
  if (given.check) {
    const Result<Check> check = check_named(*given.check);
    if (!check) return refused("--check", check.error());
    form.check = *check;
  }
  return form;
}

// N includes the digits of the prefix; a prefix with other characters precedes the layout.
Result<void> read_digits(const FormTexts& given, FormatOptions& options) {
  Result<Form> form = form_of(given);
  if (!form) return std::unexpected(form.error());
  DigitsLayout layout{.check = std::exchange(form->check, Check::kNone),
                      .leading_zeros = !given.no_leading_zeros};
  if (given.digits) {
    const Result<std::int64_t> digits = whole_number("--digits", *given.digits, 1, kMostDigits);
    if (!digits) return std::unexpected(digits.error());
    layout.digits = static_cast<int>(*digits);
  }
  if (is_decimal(form->prefix)) {
    layout.prefix = std::exchange(form->prefix, {});
  } else {
    const auto in_prefix = static_cast<int>(digits_in(form->prefix));
    layout.digits -= in_prefix;
    if (given.digits && in_prefix != 0 && layout.digits <= in_prefix)
      return refuse("--digits " + *given.digits + " counts the " + std::to_string(in_prefix) +
                    " of the prefix, too, which leaves " +
                    std::to_string(std::max(layout.digits, 0)) + ": give --digits " +
                    std::to_string(layout.digits + 2 * in_prefix) + " for " + *given.digits +
                    " behind it");
  }
  if (Result<void> valid = layout.validate(); !valid) return refused("--digits", valid.error());
  options.digits = std::move(layout);
  if (*form != Form{}) options.form = *std::move(form);
  return {};
}

Result<SnowflakeLayout> layout_of(const FormatTexts& given) {
  std::string text = given.layout.value_or("sequence-generator");
  if (given.epoch) text += " epoch " + *given.epoch;
  if (given.unit) text += " unit " + *given.unit;
  return layout_option(text);
}

// The limits of the generator's options, in the words of the command line.
Result<std::chrono::nanoseconds> run_ahead_of(std::string_view text) {
  const SnowflakeOptions usual;
  const std::chrono::nanoseconds most = usual.max_drift - usual.window;
  const auto ahead = parse_duration(text);
  if (!ahead) return refused("--run-ahead", ahead.error());
  if (*ahead > most) {
    return refuse("--run-ahead is " + shortened(text) + ": give " +
                  std::to_string(std::chrono::floor<std::chrono::seconds>(most).count()) +
                  "s at most");
  }
  return *ahead;
}

// A name that a shell can set.
bool is_variable(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && is_letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

Result<void> read_snowflake(const FormatTexts& given, FormatOptions& options) {
  const Result<SnowflakeLayout> layout = layout_of(given);
  if (!layout) return std::unexpected(layout.error());
  if (given.layout || given.epoch || given.unit) options.layout = *layout;
  if (given.run_ahead) {
    const auto ahead = run_ahead_of(*given.run_ahead);
    if (!ahead) return std::unexpected(ahead.error());
    options.run_ahead = *ahead;
  }
  if (!given.worker) return {};
  const std::string_view worker = *given.worker;
  const std::size_t colon = worker.find(':');
  const std::string_view name = colon == worker.npos ? "" : worker.substr(colon + 1);
  if (worker == "mac") {
    options.worker = Worker{.from = Worker::From::kHardware};
  } else if (worker == "ordinal") {
    options.worker = Worker{.from = Worker::From::kOrdinal};
  } else if (worker == "address" || (worker.starts_with("address:") && !name.empty())) {
    options.worker = Worker{.from = Worker::From::kAddress, .name = std::string(name)};
  } else if (worker.starts_with("env:") && is_variable(name)) {
    options.worker = Worker{.from = Worker::From::kEnvironment, .name = std::string(name)};
  } else if (worker == "random") {
    if (options.run_ahead && *options.run_ahead > std::chrono::nanoseconds{}) {
      return refuse(
          "--run-ahead is for a worker id that stays, so that what ran ahead is known after a "
          "restart: give a number or mac with --worker, or leave it out");
    }
    options.worker = Worker{.from = Worker::From::kRandom};
  } else {
    const Result<std::int64_t> id = whole_number("the worker id (--worker, IDMINT_WORKER)",
                                                 *given.worker, 0, layout->max_worker());
    if (!id) {
      return refuse(id.error().message() +
                    ", or env:NAME, ordinal, address, address:INTERFACE, mac or random");
    }
    options.worker = Worker{.id = static_cast<std::uint32_t>(*id)};
  }
  return {};
}

// 12 hexadecimal digits, with or without : or - between bytes.
std::optional<HardwareAddress> hardware_address(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ':' && c != '-') digits += c;
  }
  HardwareAddress address{};
  if (digits.size() != 2 * address.size()) return std::nullopt;
  for (std::size_t i = 0; i < address.size(); ++i) {
    const char* const at = digits.data() + 2 * i;
    if (const auto [end, why] = std::from_chars(at, at + 2, address[i], 16);
        why != std::errc{} || end != at + 2) {
      return std::nullopt;
    }
  }
  return address;
}

Result<void> read_uuid(const FormatTexts& given, FormatOptions& options) {
  if (given.node) {
    if (*given.node == "random") {
      options.node = UuidNode{.from = UuidNode::From::kRandom};
    } else if (*given.node == "mac") {
      options.node = UuidNode{.from = UuidNode::From::kHardware};
    } else if (const auto address = hardware_address(*given.node)) {
      options.node = UuidNode{.from = UuidNode::From::kGiven, .address = *address};
    } else {
      return refuse("--node is \"" + shortened(*given.node) +
                    "\": give mac, random or 12 hexadecimal digits");
    }
  }
  if (given.domain) {
    struct Name {
      std::string_view name;
      DceDomain domain;
    };
    constexpr std::array names = {Name{"person", DceDomain::kPerson},
                                  Name{"group", DceDomain::kGroup}, Name{"org", DceDomain::kOrg}};
    const auto* const row = std::ranges::find(names, *given.domain, &Name::name);
    if (row == names.end()) {
      return refuse("--domain is \"" + shortened(*given.domain) + "\": give person, group or org");
    }
    options.domain = row->domain;
  }
  if (given.local_id) {
    const Result<std::int64_t> id =
        whole_number("--local-id", *given.local_id, 0, std::numeric_limits<std::uint32_t>::max());
    if (!id) return std::unexpected(id.error());
    options.local_id = static_cast<std::uint32_t>(*id);
  }
  return {};
}

}  // namespace

Result<SnowflakeLayout> layout_option(std::string_view text) {
  return advice::layout_option("--layout", text);
}

Result<FormatOptions> format_options(std::string_view format, const FormatTexts& texts) {
  FormatTexts given = texts;
  if (const char* const value = std::getenv("IDMINT_WORKER");
      format == "snowflake" && !given.worker && value != nullptr && *value != '\0')
    given.worker = value;
  FormatOptions options;
  if (Result<void> read = read_uuid(given, options); !read) return std::unexpected(read.error());
  if (given.worker || given.layout || given.epoch || given.unit || given.run_ahead) {
    if (Result<void> read = read_snowflake(given, options); !read) {
      return std::unexpected(read.error());
    }
  }
  if (given.window) {
    const auto window = parse_duration(*given.window);
    if (!window) return refused("--window", window.error());
    if (*window > std::chrono::hours{1})
      return refuse("--window is " + shortened(*given.window) + ": give 1h at most");
    options.window = *window;
  }
  if (format == "digits") {
    if (Result<void> read = read_digits(given.form, options); !read) {
      return std::unexpected(read.error());
    }
    return options;
  }
  if (given.form.digits || given.form.no_leading_zeros) {
    return refuse(
        "--digits and --no-leading-zeros are for \"digits\", and for sequences when they "
        "are created: leave them out");
  }
  Result<Form> form = form_of(given.form);
  if (!form) return std::unexpected(form.error());
  if (format == "typeid") options.type = std::exchange(form->prefix, {});
  if (*form != Form{}) options.form = *std::move(form);
  return options;
}

Result<Definition> definition(std::string_view name, const SequenceTexts& given,
                              std::string_view store) {
  SequenceSpec spec{.name = std::string(name),
                    .kind = given.kind,
                    .layout = given.layout,
                    .strategy = given.strategy,
                    .prefix = given.form.prefix,
                    .encoding = given.form.encoding,
                    .check = given.form.check,
                    .no_leading_zeros = given.form.no_leading_zeros,
                    .adopt = given.adopt,
                    .validator = given.validator,
                    .make = given.make,
                    .where = given.where,
                    .over_stores = given.over_stores};
  struct Number {
    std::string_view option;
    const std::optional<std::string>& text;
    std::int64_t least;
    std::int64_t most;
    std::optional<std::int64_t>& value;
  };
  const std::array numbers = {
      Number{"--digits", given.form.digits, 1, kMostDigits, spec.digits},
      Number{"--width", given.form.width, 1, kMostWidth, spec.width},
      Number{"--start", given.start, 0, kLargestValue, spec.start},
      Number{"--max", given.max, 0, kLargestValue, spec.max},
      Number{"--stride", given.stride, 1, SequenceDefinition::kMaxStride, spec.stride},
      Number{"--offset", given.offset, 1, SequenceDefinition::kMaxStride, spec.offset},
      Number{"--stripes", given.stripes, 2, SequenceDefinition::kMaxStripes, spec.stripes},
      Number{"--step", given.step, 1, kLargestStep, spec.step},
      Number{"--workers", given.workers, 1, LeaseTable::kMaxWorkers, spec.workers},
      Number{"--largest-count", given.largest_count, 1, kLargestValue, spec.largest_count},
  };
  for (const Number& number : numbers) {
    if (!number.text) continue;
    const Result<std::int64_t> value =
        whole_number(number.option, *number.text, number.least, number.most);
    if (!value) return std::unexpected(value.error());
    number.value = *value;
  }
  return definition_of(spec, store);
}

}  // namespace idmint::cli
