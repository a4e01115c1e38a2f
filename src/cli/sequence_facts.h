// What can be told of a sequence from its stored state, the same in tables and in JSON.
#pragma once

#include <string_view>

#include "idmint/mint.h"

namespace idmint::cli {

[[nodiscard]] inline std::string_view state_name(const SequenceStatus& status) noexcept {
  if (status.definition.retired) return "retired";
  if (status.error && status.error->code == Code::kFailedPrecondition) return "closed";
  if (status.error && status.error->code != Code::kUnavailable) return "damaged";
  return status.left == 0 ? "used up" : "open";
}

}  // namespace idmint::cli
