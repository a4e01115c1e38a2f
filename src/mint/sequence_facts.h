// Facts derived from the stored state of a sequence, the same in tables and in JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/id.h"
#include "idmint/mint.h"
#include "idmint/sequence.h"
#include "ids/form_width.h"
#include "sequences/moved.h"

namespace idmint {

// The values of a sequence, or the worker ids of a pool; both ends inclusive.
struct Ends {
  std::int64_t first;
  std::int64_t last;
};
[[nodiscard]] inline Ends ends_of(const Definition& definition) noexcept {
  if (const auto* const sequence = std::get_if<SequenceDefinition>(&definition))
    return {sequence->first, sequence->last};
  return {0, std::get<PoolDefinition>(definition).workers - 1};
}

// The first and the last value of a sequence as they are printed. Nothing: it is a pool.
[[nodiscard]] inline std::optional<std::pair<std::string, std::string>> first_and_last_id(
    const Definition& definition) {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  if (sequence == nullptr) return std::nullopt;
  const Form its = settled(sequence->form, sequence->last);
  const std::int64_t last = sequence->last - (sequence->last - sequence->first) % sequence->stride;
  return std::pair(to_string(Id{sequence->first}, its), to_string(Id{last}, its));
}

// How many values a sequence gives in all, and how many worker ids a pool has. A random sequence
// stops before it has given each (Occupancy).
[[nodiscard]] inline std::int64_t size_of(const Definition& definition) noexcept {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  if (sequence == nullptr) return std::get<PoolDefinition>(definition).workers;
  const std::int64_t values = sequence->size();
  return sequence->strategy == Strategy::kRandom ? most_claims(values) : values;
}

// Empty: its counter is idmint's own, or it has no counter.
[[nodiscard]] inline std::string_view adopted_of(const Definition& definition) noexcept {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  return sequence != nullptr ? sequence->adopted : std::string_view();
}

[[nodiscard]] inline bool is_pool(const SequenceStatus& status) noexcept {
  return std::holds_alternative<PoolDefinition>(status.definition);
}

[[nodiscard]] inline bool has_strategy(const Definition& definition, Strategy strategy) noexcept {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  return sequence != nullptr && sequence->strategy == strategy;
}

// The next value, before the form is applied; nothing if there are several counters or none.
[[nodiscard]] inline std::optional<std::int64_t> next_value(const SequenceStatus& status) noexcept {
  return has_strategy(status.definition, Strategy::kPermuted) ? status.permuted : status.next;
}

// A permuted sequence: the number of its values that have come or were skipped.
[[nodiscard]] inline std::optional<std::int64_t> next_index(const SequenceStatus& status) noexcept {
  return has_strategy(status.definition, Strategy::kPermuted) ? status.next : std::nullopt;
}

// For a sequence over several stores: how many of them `left` counts.
[[nodiscard]] inline std::size_t stores_counted(const SequenceStatus& status) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      status.stripes, [](const StripeStatus& stripe) { return stripe.next.has_value(); }));
}

// One of the words that openapi.json lists. "closed": a retire was cut off, or somebody closed a
// counter by hand. "refused": a store cannot be used as it is, such as for its settings; of several
// stores, one of them.
[[nodiscard]] inline std::string_view state_name(const SequenceStatus& status) noexcept {
  const bool moves = move_of(status.definition) != nullptr;
  if (is_retired(status.definition)) return moves ? "moved" : "retired";
  if (moves && status.error) return "moving";
  const bool refused = status.error && status.error->code == Code::kFailedPrecondition;
  if (status.error && !refused && status.error->code != Code::kUnavailable) return "damaged";
  if (status.closed) return "closed";
  if (refused) return "refused";
  if (status.left != 0) return "open";
  return is_pool(status) ? "all owned" : "used up";
}

}  // namespace idmint
