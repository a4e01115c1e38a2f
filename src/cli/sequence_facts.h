// What can be told of a sequence from its stored state, the same in tables and in JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "idmint/mint.h"

namespace idmint::cli {

// The value that comes next, before it is printed as its sequence prints values; nothing where that
// is not settled, as there are many counters or none.
[[nodiscard]] inline std::optional<std::int64_t> next_value(const SequenceStatus& status) noexcept {
  return status.definition.strategy == Strategy::kPermuted ? status.permuted : status.next;
}

// Of a permuted sequence: how many of its values have come, or were passed over.
[[nodiscard]] inline std::optional<std::int64_t> next_index(const SequenceStatus& status) noexcept {
  return status.definition.strategy == Strategy::kPermuted ? status.next : std::nullopt;
}

[[nodiscard]] inline std::string_view state_name(const SequenceStatus& status) noexcept {
  if (status.definition.retired) return "retired";
  if (status.error && status.error->code == Code::kFailedPrecondition) return "closed";
  if (status.error && status.error->code != Code::kUnavailable) return "damaged";
  if (status.left != 0) return "open";
  return status.definition.layout ? "all owned" : "used up";
}

}  // namespace idmint::cli
