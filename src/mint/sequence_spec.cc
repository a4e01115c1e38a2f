#include "mint/sequence_spec.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "idmint/digits.h"
#include "idmint/encoding.h"
#include "idmint/snowflake.h"
#include "ids/form_width.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/counter_store.h"

namespace idmint {

namespace {

Advice option(std::string member) {
  return {.remedy = Remedy::kSetOption, .values = {std::move(member)}};
}

bool has_digit(const std::string& text) {
  return std::ranges::any_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// 10, 100, ...: the smallest number with the same number of digits.
std::int64_t smallest_as_long_as(std::int64_t number) {
  std::int64_t power = 1;
  while (power <= number / 10) power *= 10;
  return power;
}

// Digits count those of the prefix, too. Who writes the year into the prefix seldom means that:
// with digits 6 "INV-2026-" leaves two for the number. A prefix of digits alone, as that of a card,
// is a part of the number.
Result<void> leaves_enough(const Form& form) {
  const int left = integer_width(form);
  const auto in_prefix = static_cast<int>(
      std::ranges::count_if(form.prefix, [](char c) { return c >= '0' && c <= '9'; }));
  const bool is_number = in_prefix == static_cast<int>(form.prefix.size());
  if (in_prefix == 0 || left > in_prefix || (is_number && left == in_prefix)) return {};
  const std::string wanted = std::to_string(form.digits + in_prefix);
  return refuse("digits is " + std::to_string(form.digits) + ", and " + std::to_string(in_prefix) +
                    " of them are in the prefix " + shown(form.prefix) + ", which leaves " +
                    std::to_string(left) + " for numbers up to " +
                    std::to_string(largest_integer(form)) + ": give digits " + wanted + " for " +
                    std::to_string(form.digits) +
                    " behind the prefix, or if so few are meant, max " +
                    std::to_string(largest_integer(form)),
                option("digits=" + wanted));
}

// All numbers with this many digits fit an integer.
constexpr int kFullDigits = 18;

std::int64_t last_of(const SequenceDefinition& definition) {
  // The value after the last one of a counter must be storable. What is out of range is rejected
  // later.
  const auto within = [](std::int64_t value, std::int64_t most) {
    return value >= 1 && value <= most ? value : 1;
  };
  std::int64_t stride = within(definition.stride, SequenceDefinition::kMaxStride);
  if (definition.strategy == Strategy::kInterleaved)
    stride *= within(definition.stripes, SequenceDefinition::kMaxStripes);
  return std::min(largest_last(stride), largest_integer(definition.form));
}

// The spec, completed with the store's defaults for the adopted record. `adoption`: null if the
// store adopts none.
Result<SequenceSpec> with_record(SequenceSpec spec, const Adoption* adoption,
                                 std::string& adopted) {
  if (!spec.adopt) {
    if (spec.validator) return refuse("a validator is for adopted documents: say which");
    if (spec.make || spec.where)
      return refuse(std::string(spec.make ? "to make a missing record is" : "a query is") +
                    " for what is adopted: say what, or leave it out");
    return spec;
  }
  adopted = *spec.adopt;
  if (adoption == nullptr && adopted.empty())
    return refuse("what is to be adopted has no name: give it, or leave it out");
  if (adoption == nullptr) return spec;
  if (spec.where) {
    Result<std::string> named = adoption->with_query(*spec.adopt, *spec.where);
    if (!named) return std::unexpected(std::move(named.error()));
    spec.adopt = *std::move(named);
  }
  if (spec.make && !adoption->makes_missing())
    return refuse("only documents of MongoDB are made: make the record yourself, with its value");
  Result<Adoptable> record = adoption->read(*spec.adopt, spec.validator);
  if (!record) return std::unexpected(std::move(record.error()));
  adopted = std::move(record->record);
  // The record's defaults for one strategy do not apply to another.
  const std::optional<Strategy> usual = record->strategy;
  const bool same = !usual || !spec.strategy || *spec.strategy == name(*usual);
  if (!spec.strategy && usual) spec.strategy = name(*usual);
  if (!spec.stripes && same) spec.stripes = record->stripes;
  if (!spec.step && same) spec.step = record->step;
  if (!spec.digits && !spec.width && !spec.max && !spec.encoding) spec.digits = record->digits;
  if (!spec.start) spec.start = record->first;
  if (!spec.max && !spec.digits && !spec.width && record->last < kLargestValue)
    spec.max = record->last;
  return spec;
}

// The prefix, the check and the encoding.
Result<Form> form_of(const SequenceSpec& spec) {
  Form form{.prefix = spec.prefix.value_or("")};
  if (spec.encoding) {
    const Result<Encoding> encoding = encoding_named(*spec.encoding);
    if (!encoding) return std::unexpected(encoding.error());
    form.encoding = *encoding;
  }
  if (spec.check) {
    const Result<Check> check = check_named(*spec.check);
    if (!check) return std::unexpected(check.error());
    form.check = *check;
  }
  return form;
}

Result<Definition> pool_of(const SequenceSpec& spec) {
  struct Unused {
    std::string_view name;
    bool given;
  };
  for (const Unused& unused :
       {Unused{"strategy", spec.strategy.has_value()}, Unused{"start", spec.start.has_value()},
        Unused{"max", spec.max.has_value()}, Unused{"stripes", spec.stripes.has_value()},
        Unused{"step", spec.step.has_value()}, Unused{"key", spec.key.has_value()},
        Unused{"stride", spec.stride.has_value()}, Unused{"offset", spec.offset.has_value()},
        Unused{"digits", spec.digits.has_value()}, Unused{"width", spec.width.has_value()},
        Unused{"no_leading_zeros", spec.no_leading_zeros}, Unused{"adopt", spec.adopt.has_value()},
        Unused{"validator", spec.validator}, Unused{"make", spec.make},
        Unused{"where", spec.where.has_value()}}) {
    if (unused.given)
      return refuse("a pool of worker ids takes no " + std::string(unused.name) +
                    ": leave it out; its ids follow from its layout");
  }
  const Result<SnowflakeLayout> layout =
      parse_snowflake_layout(spec.layout.value_or("sequence-generator"));
  if (!layout) return refuse("layout: " + layout.error().message());
  Result<Form> form = form_of(spec);
  if (!form) return std::unexpected(std::move(form.error()));
  if (spec.workers && (*spec.workers < 1 || *spec.workers > LeaseTable::kMaxWorkers))
    return refuse("workers is " + std::to_string(*spec.workers) +
                  ": give how many worker ids there are, 1 to " +
                  std::to_string(LeaseTable::kMaxWorkers) + ", as far as the layout has them");
  PoolDefinition pool{.name = spec.name,
                      .layout = *layout,
                      .workers = spec.workers.value_or(0),
                      .largest_count = spec.largest_count.value_or(0),
                      .form = *std::move(form)};
  if (Result<void> valid = validate(pool); !valid) return std::unexpected(std::move(valid.error()));
  return pool;
}

}  // namespace

Result<Definition> definition_of(const SequenceSpec& wanted, std::string_view store) {
  if (wanted.kind == "pool") return pool_of(wanted);
  if (wanted.kind && *wanted.kind != "sequence")
    return refuse("kind is \"" + *wanted.kind + "\": give sequence or pool", option("kind"));
  if (wanted.layout || wanted.workers)
    return refuse(std::string(wanted.layout ? "a layout is" : "workers are") +
                      " for a pool of worker ids: give kind pool, or leave it out",
                  option("kind"));
  if (wanted.strategy == "pool")
    return refuse("a pool is of a kind of its own: give kind pool and no strategy", option("kind"));
  SequenceDefinition definition{.name = wanted.name};
  const Adoption* const adoption = stores::adoption_of(store);
  const Result<SequenceSpec> completed = with_record(wanted, adoption, definition.adopted);
  if (!completed) return std::unexpected(completed.error());
  const SequenceSpec& spec = *completed;
  if (spec.strategy) {
    const Result<Strategy> strategy = strategy_named(*spec.strategy);
    if (!strategy) return std::unexpected(strategy.error());
    definition.strategy = *strategy;
  } else if (spec.stripes) {
    definition.strategy = Strategy::kStriped;
  }
  definition.stripes = spec.stripes.value_or(definition.stripes);
  if (spec.stride.has_value() != spec.offset.has_value())
    return refuse(spec.stride ? "a stride without an offset: say which of the " +
                                    std::to_string(*spec.stride) +
                                    " servers this one is, from 1 on, as two with one offset "
                                    "give the same values"
                              : "an offset without a stride: say how many servers there are",
                  option(spec.stride ? "offset" : "stride"));
  definition.stride = spec.stride.value_or(definition.stride);
  if (wanted.step && *wanted.step > kLargestStep)
    return refuse("step is " + std::to_string(*wanted.step) + ": give " +
                  std::to_string(kLargestStep) +
                  " or less, as a program that ends loses the rest of its range");
  definition.step = spec.step.value_or(definition.step);
  definition.make_adopted = spec.make;
  definition.largest_count = spec.largest_count.value_or(definition.largest_count);
  definition.key = spec.key.value_or("");
  const Result<Form> given = form_of(spec);
  if (!given) return std::unexpected(given.error());
  Form& form = definition.form = *given;
  constexpr auto most_digits = static_cast<std::int64_t>(Digits::kMaxChars);
  if (spec.digits && (*spec.digits < 1 || *spec.digits > most_digits)) {
    return refuse("digits is " + std::to_string(*spec.digits) +
                  ": give how many decimal digits are printed, 1 to " +
                  std::to_string(most_digits));
  }
  form.digits = static_cast<int>(spec.digits.value_or(0));
  if (spec.width && (*spec.width < 1 || !std::in_range<int>(*spec.width))) {
    return refuse("width is " + std::to_string(*spec.width) +
                  ": give how many characters the encoding prints");
  }
  form.width = static_cast<int>(spec.width.value_or(0));
  if (spec.digits && form.encoding != Encoding::kCanonical && form.encoding != Encoding::kDecimal) {
    return refuse(
        "digits counts decimal digits, and " + std::string(name(form.encoding)) +
        " has others: leave out the encoding; or give width, how many characters it is to "
        "print, in place of digits");
  }
  if (spec.no_leading_zeros && !spec.digits) {
    return refuse("without a number of digits there are no leading zeros to leave out: say digits");
  }
  if (Result<void> valid = validate(form, "integer"); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  if (spec.digits && !spec.max) {
    if (Result<void> enough = leaves_enough(form); !enough)
      return std::unexpected(std::move(enough.error()));
  }
  if (spec.digits && !spec.max && integer_width(form) > kFullDigits) {
    return refuse("not all numbers of " + std::to_string(integer_width(form)) +
                  " digits can be values, of which the largest is " +
                  std::to_string(kLargestValue) + ": give digits " +
                  std::to_string(form.digits - integer_width(form) + kFullDigits) +
                  " at most, or say with max how far the values go");
  }
  definition.last = spec.max ? *spec.max : last_of(definition);
  if (spec.start) {
    definition.first = *spec.start;
  } else if (spec.no_leading_zeros && !has_digit(form.prefix)) {
    definition.first = smallest_as_long_as(largest_integer(form));
  } else if (spec.digits && order(definition.strategy) == Order::kNone) {
    definition.first = 0;
  }
  if (spec.stride) {
    Result<SequenceDefinition> moved =
        with_offset(std::move(definition), *spec.stride, *spec.offset);
    if (!moved) return std::unexpected(std::move(moved.error()));
    definition = *std::move(moved);
  }
  SequenceDefinition checked = definition;
  if (spec.over_stores) checked.adopted.clear();  // only a sequence that names its stores may adopt
  if (Result<void> valid = validate(checked); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  if (adoption != nullptr && !definition.adopted.empty()) {
    if (Result<void> valid = adoption->check(definition); !valid) {
      return std::unexpected(std::move(valid.error()));
    }
  }
  return definition;
}

}  // namespace idmint
