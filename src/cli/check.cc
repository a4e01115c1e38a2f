// check: whether texts are valid ids: check symbols, form and canonical spelling.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advice/read_id.h"
#include "base/errors.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "cli/source_options.h"
#include "cli/store_option.h"
#include "idmint/clock.h"
#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/mint.h"
#include "idmint/uuid.h"
#include "ids/format.h"
#include "ids/readings.h"
#include "mint/sequence_facts.h"
#include "terminal/exit_status.h"

namespace idmint::cli {

namespace {

// As given; empty: not given.
struct CheckOptions {
  std::vector<std::string> ids;
  std::string as;
  std::string check;
  std::optional<std::string> prefix;
  std::string encoding;
  std::optional<std::string> digits;
  std::optional<std::string> width;
};

void add_check(CLI::App& command, CheckOptions& given) {
  add_texts(command, given.ids);
  command
      .add_option("--as", given.as, "What they must be: ids of a format, or of a sequence or pool")
      ->type_name("WHAT");
  command
      .add_option("--check", given.check,
                  "Check symbols they must have: luhn, damm, verhoeff, mod11-10, mod97-10, mod37")
      ->type_name("C");
  command.add_option("--prefix", given.prefix, "What they must begin with")->type_name("P");
  command.add_option("--encoding", given.encoding, "Their encoding, such as base58")
      ->type_name("E");
  command.add_option("--digits", given.digits, "How many decimal digits they must have, 1 to 36")
      ->type_name("N");
  command
      .add_option("--width", given.width,
                  "How many characters an integer has in the encoding (as many as 64 bits take)")
      ->type_name("N");
  add_store(command, Stays::kNo);
}

// The requirements on a text.
struct Standard {
  std::string format{};   // "uuid", "digits"; empty: any, in its canonical spelling
  bool as_typed = false;  // digits with separators allowed
  int version = 0;        // UUID version; 0: any
  Form form{};
  std::optional<Definition> sequence{};  // the texts must be values of it
};

// The form and the range of the sequence's definition.
Result<Standard> standard_of_sequence(const Context& context, const CheckOptions& ids,
                                      const Form& form) {
  if (form != Form{} || ids.digits) {
    return refuse(
        "how the ids of a sequence are printed is settled in its definition: leave out "
        "--prefix, --encoding, --check, --digits and --width");
  }
  Mint mint = open_mint(context, Access::kReadOnly);
  Result<SequenceStatus> status = mint.peek(ids.as);
  if (!status) return std::unexpected(std::move(status.error()));
  return Standard{.format = is_pool(*status) ? "snowflake" : "integer",
                  .form = idmint::form(status->definition),
                  .sequence = status->definition};
}

// The options of a form. --digits is handled separately, because a Form has it for integers only.
Result<Form> form_of(const CheckOptions& ids) {
  Form form{.prefix = ids.prefix.value_or("")};
  const Result<int> width = advice::width_of("--width", ids.width);
  if (!width) return std::unexpected(width.error());
  form.width = *width;
  if (!ids.check.empty()) {
    const Result<Check> check = check_named(ids.check);
    if (!check) return std::unexpected(check.error());
    form.check = *check;
  }
  if (!ids.encoding.empty()) {
    const Result<Encoding> encoding = encoding_named(ids.encoding);
    if (!encoding) return std::unexpected(encoding.error());
    form.encoding = *encoding;
  }
  return form;
}

Result<Standard> standard_of(const Context& context, const CheckOptions& ids) {
  Result<Form> form = form_of(ids);
  if (!form) return std::unexpected(form.error());
  Standard standard{.form = *std::move(form)};
  if (ids.as.empty()) {
    if (standard.form == Form{} && !ids.digits) return standard;
    if (standard.form.width != 0) {  // only integers have a width
      standard.format = "integer";
      if (Result<void> valid = validate(standard.form, standard.format); !valid) {
        return std::unexpected(std::move(valid.error()));
      }
      return standard;
    }
    if (standard.form.encoding != Encoding::kCanonical &&
        standard.form.encoding != Encoding::kDecimal) {
      return refuse(
          "--encoding " + ids.encoding +
          " may hold ids of many formats: say of which with --as FORMAT, such as --as uuid");
    }
    standard.format = "digits";
    standard.as_typed = true;
  } else if (ids.as.size() == 5 && ids.as.starts_with("uuid") && ids.as[4] >= '1' &&
             ids.as[4] <= '8') {
    standard.format = "uuid";
    standard.version = ids.as[4] - '0';
  } else if (find_kind(ids.as) != nullptr || ids.as == "typeid") {
    standard.format = ids.as;
  } else {
    return standard_of_sequence(context, ids, standard.form);
  }
  if (standard.format == "typeid") {
    Form rest = standard.form;
    rest.prefix.clear();
    if (rest != Form{} || ids.digits)
      return refuse("a typeid has one form: leave out --encoding, --check, --digits and --width");
    return standard;
  }
  if (Result<void> valid = validate(standard.form, standard.format); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  return standard;
}

// The fault of a text; empty: none.
class Checker {
 public:
  Checker(Standard standard, std::size_t digits)
      : standard_(std::move(standard)), digits_(digits), reader_(system_clock().now()) {}

  struct Verdict {
    std::string format;
    std::string problem;
  };

  Verdict operator()(std::string_view text) {
    if (standard_.format.empty()) return any(text);
    Verdict verdict{.format = standard_.format, .problem = {}};
    if (standard_.format == "typeid") {
      verdict.problem = type_id_problem(text);
      return verdict;
    }
    const std::string joined = standard_.as_typed ? joined_digits(text) : std::string(text);
    const bool any_integer = standard_.format == "integer" && !standard_.sequence;
    const Result<Id> id = any_integer ? advice::read_integer(joined, standard_.form)
                                      : parse(joined, standard_.format, standard_.form);
    if (!id) {
      verdict.problem = id.error().message();
    } else if (digits_ != 0 && digits_in(text) != digits_) {
      verdict.problem = "it has " + std::to_string(digits_in(text)) + " digits instead of " +
                        std::to_string(digits_);
    } else if (standard_.sequence) {
      const auto problem = [&](const auto& its) { return problem_of(*id, its); };
      verdict.problem = std::visit(problem, *standard_.sequence);
    } else if (standard_.version != 0) {
      const Uuid& uuid = std::get<Uuid>(*id);
      if (!uuid.has_rfc_variant()) {
        verdict.problem = "its variant is not that of RFC 9562";
      } else if (uuid.version() != standard_.version) {
        verdict.problem = "it is a UUID of version " + std::to_string(uuid.version()) +
                          " instead of " + std::to_string(standard_.version);
      }
    }
    return verdict;
  }

 private:
  // The text without the single blanks and dashes with which people separate long numbers; the
  // prefix stays.
  [[nodiscard]] std::string joined_digits(std::string_view text) const {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const std::size_t prefix =
        text.starts_with(standard_.form.prefix) ? standard_.form.prefix.size() : 0;
    std::string joined;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool between = i >= std::max<std::size_t>(prefix, 1) && i + 1 < text.size() &&
                           is_digit(text[i - 1]) && is_digit(text[i + 1]);
      if (!between || (text[i] != ' ' && text[i] != '-')) joined += text[i];
    }
    return joined;
  }

  Verdict any(std::string_view text) {
    const auto readings = reader_.read(text);
    if (readings.empty()) return {.format = {}, .problem = "it is no id of a known format"};
    const detail::FoundReading& likeliest = readings.front();
    Verdict verdict{.format = std::string(likeliest.format), .problem = {}};
    if (!std::holds_alternative<std::string_view>(likeliest.canonical)) {
      char room[detail::kMaxValueChars];
      verdict.problem = "it is not in the canonical spelling, which is " +
                        std::string(room, detail::print_value(likeliest.canonical, room));
    }
    return verdict;
  }

  [[nodiscard]] static std::string problem_of(const Id& id, const SequenceDefinition& sequence) {
    const auto value = std::get<std::int64_t>(id);
    if (value >= sequence.first && value <= sequence.last) return {};
    return "its value is " + std::to_string(value) + ", and those of " + sequence.name + " are " +
           std::to_string(sequence.first) + " to " + std::to_string(sequence.last);
  }

  [[nodiscard]] static std::string problem_of(const Id& id, const PoolDefinition& pool) {
    const Result<SnowflakeParts> parts = pool.layout.decode(std::get<Snowflake>(id));
    if (!parts) return parts.error().message();
    if (parts->worker < pool.workers) return {};
    return "its worker id is " + std::to_string(parts->worker) + ", and those of " + pool.name +
           " are 0 to " + std::to_string(pool.workers - 1);
  }

  [[nodiscard]] std::string type_id_problem(std::string_view text) const {
    const Result<TypeId> id = TypeId::parse(text);
    if (!id) return id.error().message();
    if (!standard_.form.prefix.empty() && id->prefix() != standard_.form.prefix) {
      return "its prefix is \"" + id->prefix() + "\" instead of \"" + standard_.form.prefix + "\"";
    }
    return {};
  }

  const Standard standard_;
  const std::size_t digits_;  // required number of digits; 0: any
  detail::Reader reader_;
};

Result<void> run_check(Context& context, const CheckOptions& given) {
  std::size_t digits = 0;  // any number of them
  if (given.digits) {
    const Result<std::int64_t> number = whole_number("--digits", *given.digits, 1, 36);
    if (!number) return std::unexpected(number.error());
    digits = static_cast<std::size_t>(*number);
  }
  Result<Standard> standard = standard_of(context, given);
  if (!standard) return std::unexpected(standard.error());
  Checker checker(*std::move(standard), digits);
  return for_each_text(context, given.ids, [&](std::string_view text, std::size_t) {
    const Checker::Verdict verdict = checker(text);
    if (!verdict.problem.empty()) context.status = exit_status(Code::kNotFound);
    if (context.json) {
      context.out.write(json_checked(text, verdict.format, verdict.problem) + "\n");
    } else if (verdict.problem.empty()) {
      context.out.write_line(std::string(text) + ": valid (" + verdict.format + ")");
    } else {
      context.out.write_line(shortened(text) + ": not valid: " + verdict.problem);
    }
  });
}

}  // namespace

const Command kCheck = {
    "check", "Say whether ids are valid: check symbols, form, spelling",
    with_options<CheckOptions, add_check, run_check>,
    R"(Each id gets a line, which says that it is valid and of which format, or what is
wrong. If one is not valid, the exit status is 3. Without options an id is valid
if its likeliest reading is spelled as the format prints it. With --check,
--prefix or --digits, and without --as, an id is decimal digits, which single
blanks or dashes may separate, as on a card. Ids of a sequence must have its
form, and values in its range; ids of a pool must have its form, its layout and
one of its worker ids. Whether they were issued is not known.

Examples:
  $ idmint check 79927398713 --check luhn
  $ idmint check 017f22e2-79b0-7cc3-98c4-dc0c0c07398f --as uuid7
  $ idmint check user_01h455vb4pex5vsknk084sn02q --as typeid --prefix user
  $ idmint next uuid4 -n 3 | idmint check -
  $ idmint create cards --digits 16 --strategy permuted --check luhn
  $ idmint next cards -n 3 | idmint check - --as cards
)"};

}  // namespace idmint::cli
