#include "mint/sequence_wish.h"

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

// The wish, completed with the store's defaults for the adopted record. `adoption`: null if the
// store adopts none.
Result<SequenceWish> with_record(SequenceWish wish, const Adoption* adoption,
                                 std::string& adopted) {
  if (!wish.adopt) {
    if (wish.validator) return refuse("a validator is for adopted documents: say which");
    if (wish.make || wish.where)
      return refuse(std::string(wish.make ? "to make a missing record is" : "a query is") +
                    " for what is adopted: say what, or leave it out");
    return wish;
  }
  adopted = *wish.adopt;
  if (adoption == nullptr && adopted.empty())
    return refuse("what is to be adopted has no name: give it, or leave it out");
  if (adoption == nullptr) return wish;
  if (wish.where) {
    Result<std::string> named = adoption->with_query(*wish.adopt, *wish.where);
    if (!named) return std::unexpected(std::move(named.error()));
    wish.adopt = *std::move(named);
  }
  if (wish.make && !adoption->makes_missing())
    return refuse("only documents of MongoDB are made: make the record yourself, with its value");
  Result<Adoptable> record = adoption->read(*wish.adopt, wish.validator);
  if (!record) return std::unexpected(std::move(record.error()));
  adopted = std::move(record->record);
  // The record's defaults for one strategy do not apply to another.
  const std::optional<Strategy> usual = record->strategy;
  const bool same = !usual || !wish.strategy || *wish.strategy == name(*usual);
  if (!wish.strategy && usual) wish.strategy = name(*usual);
  if (!wish.stripes && same) wish.stripes = record->stripes;
  if (!wish.step && same) wish.step = record->step;
  if (!wish.digits && !wish.width && !wish.max && !wish.encoding) wish.digits = record->digits;
  if (!wish.start) wish.start = record->first;
  if (!wish.max && !wish.digits && !wish.width && record->last < kLargestValue)
    wish.max = record->last;
  return wish;
}

// The prefix, the check and the encoding.
Result<Form> form_of(const SequenceWish& wish) {
  Form form{.prefix = wish.prefix.value_or("")};
  if (wish.encoding) {
    const Result<Encoding> encoding = encoding_named(*wish.encoding);
    if (!encoding) return std::unexpected(encoding.error());
    form.encoding = *encoding;
  }
  if (wish.check) {
    const Result<Check> check = check_named(*wish.check);
    if (!check) return std::unexpected(check.error());
    form.check = *check;
  }
  return form;
}

Result<Definition> pool_of(const SequenceWish& wish) {
  struct Unused {
    std::string_view name;
    bool given;
  };
  for (const Unused& unused :
       {Unused{"strategy", wish.strategy.has_value()}, Unused{"start", wish.start.has_value()},
        Unused{"max", wish.max.has_value()}, Unused{"stripes", wish.stripes.has_value()},
        Unused{"step", wish.step.has_value()}, Unused{"key", wish.key.has_value()},
        Unused{"stride", wish.stride.has_value()}, Unused{"offset", wish.offset.has_value()},
        Unused{"digits", wish.digits.has_value()}, Unused{"width", wish.width.has_value()},
        Unused{"no_leading_zeros", wish.no_leading_zeros}, Unused{"adopt", wish.adopt.has_value()},
        Unused{"validator", wish.validator}, Unused{"make", wish.make},
        Unused{"where", wish.where.has_value()}}) {
    if (unused.given)
      return refuse("a pool of worker ids takes no " + std::string(unused.name) +
                    ": leave it out; its ids follow from its layout");
  }
  const Result<SnowflakeLayout> layout =
      parse_snowflake_layout(wish.layout.value_or("sequence-generator"));
  if (!layout) return refuse("layout: " + layout.error().message());
  Result<Form> form = form_of(wish);
  if (!form) return std::unexpected(std::move(form.error()));
  if (wish.workers && (*wish.workers < 1 || *wish.workers > LeaseTable::kMaxWorkers))
    return refuse("workers is " + std::to_string(*wish.workers) +
                  ": give how many worker ids there are, 1 to " +
                  std::to_string(LeaseTable::kMaxWorkers) + ", as far as the layout has them");
  PoolDefinition pool{.name = wish.name,
                      .layout = *layout,
                      .workers = wish.workers.value_or(0),
                      .largest_count = wish.largest_count.value_or(0),
                      .form = *std::move(form)};
  if (Result<void> valid = validate(pool); !valid) return std::unexpected(std::move(valid.error()));
  return pool;
}

}  // namespace

Result<Definition> definition_of(const SequenceWish& wanted, std::string_view store) {
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
  const Result<SequenceWish> completed = with_record(wanted, adoption, definition.adopted);
  if (!completed) return std::unexpected(completed.error());
  const SequenceWish& wish = *completed;
  if (wish.strategy) {
    const Result<Strategy> strategy = strategy_named(*wish.strategy);
    if (!strategy) return std::unexpected(strategy.error());
    definition.strategy = *strategy;
  } else if (wish.stripes) {
    definition.strategy = Strategy::kStriped;
  }
  definition.stripes = wish.stripes.value_or(definition.stripes);
  if (wish.stride.has_value() != wish.offset.has_value())
    return refuse(wish.stride ? "a stride without an offset: say which of the " +
                                    std::to_string(*wish.stride) +
                                    " servers this one is, from 1 on, as two with one offset "
                                    "give the same values"
                              : "an offset without a stride: say how many servers there are",
                  option(wish.stride ? "offset" : "stride"));
  definition.stride = wish.stride.value_or(definition.stride);
  if (wanted.step && *wanted.step > kLargestStep)
    return refuse("step is " + std::to_string(*wanted.step) + ": give " +
                  std::to_string(kLargestStep) +
                  " or less, as a program that ends loses the rest of its range");
  definition.step = wish.step.value_or(definition.step);
  definition.make_adopted = wish.make;
  definition.largest_count = wish.largest_count.value_or(definition.largest_count);
  definition.key = wish.key.value_or("");
  const Result<Form> given = form_of(wish);
  if (!given) return std::unexpected(given.error());
  Form& form = definition.form = *given;
  constexpr auto most_digits = static_cast<std::int64_t>(Digits::kMaxChars);
  if (wish.digits && (*wish.digits < 1 || *wish.digits > most_digits)) {
    return refuse("digits is " + std::to_string(*wish.digits) +
                  ": give how many decimal digits are printed, 1 to " +
                  std::to_string(most_digits));
  }
  form.digits = static_cast<int>(wish.digits.value_or(0));
  if (wish.width && (*wish.width < 1 || !std::in_range<int>(*wish.width))) {
    return refuse("width is " + std::to_string(*wish.width) +
                  ": give how many characters the encoding prints");
  }
  form.width = static_cast<int>(wish.width.value_or(0));
  if (wish.digits && form.encoding != Encoding::kCanonical && form.encoding != Encoding::kDecimal) {
    return refuse(
        "digits counts decimal digits, and " + std::string(name(form.encoding)) +
        " has others: leave out the encoding; or give width, how many characters it is to "
        "print, in place of digits");
  }
  if (wish.no_leading_zeros && !wish.digits) {
    return refuse("without a number of digits there are no leading zeros to leave out: say digits");
  }
  if (Result<void> valid = validate(form, "integer"); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  if (wish.digits && !wish.max) {
    if (Result<void> enough = leaves_enough(form); !enough)
      return std::unexpected(std::move(enough.error()));
  }
  if (wish.digits && !wish.max && integer_width(form) > kFullDigits) {
    return refuse("not all numbers of " + std::to_string(integer_width(form)) +
                  " digits can be values, of which the largest is " +
                  std::to_string(kLargestValue) + ": give digits " +
                  std::to_string(form.digits - integer_width(form) + kFullDigits) +
                  " at most, or say with max how far the values go");
  }
  definition.last = wish.max ? *wish.max : last_of(definition);
  if (wish.start) {
    definition.first = *wish.start;
  } else if (wish.no_leading_zeros && !has_digit(form.prefix)) {
    definition.first = smallest_as_long_as(largest_integer(form));
  } else if (wish.digits && order(definition.strategy) == Order::kNone) {
    definition.first = 0;
  }
  if (wish.stride) {
    Result<SequenceDefinition> moved =
        with_offset(std::move(definition), *wish.stride, *wish.offset);
    if (!moved) return std::unexpected(std::move(moved.error()));
    definition = *std::move(moved);
  }
  SequenceDefinition checked = definition;
  if (wish.over_stores) checked.adopted.clear();  // only a sequence that names its stores may adopt
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
