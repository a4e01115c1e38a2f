// The outcome of a failed call, by its error code.
#pragma once

#include "idmint/result.h"

namespace idmint {

// Whether the code promises that nothing was applied, except for a part of a script of Redis after
// kPermissionDenied. Such an error must not hide an unknown outcome of an earlier attempt or of a
// commit.
[[nodiscard]] constexpr bool was_not_applied(Code code) noexcept {
  return code == Code::kUnavailable || code == Code::kResourceExhausted ||
         code == Code::kPermissionDenied;
}

// Whether the call may have been applied, now or later.
[[nodiscard]] constexpr bool outcome_unknown(Code code) noexcept {
  return code == Code::kUnknown || code == Code::kDeadlineExceeded;
}

}  // namespace idmint
