// Errors are values. Every call that can fail returns a Result; no exception crosses a public
// header (std::bad_alloc aside: out of memory is not an answer a caller can act on here).
#pragma once

#if __cplusplus <= 202002L
#error "idmint needs C++23 (-std=c++23)"
#endif

#include <expected>
#include <string>
#include <string_view>

#include "idmint/export.h"

namespace idmint {

// What the caller should do, by the names and numbers of google.rpc.Code.
enum class Code : int {
  kUnknown =
      2,  // May have been applied. Never assume it was not; asking again costs at most a gap.
  kInvalidArgument = 3,  // The request is wrong whatever the state of the system: mend the request.
  kDeadlineExceeded = 4,  // Ran out of time. May have been applied, as kUnknown.
  kNotFound = 5,          // No such source, sequence or counter: create it first.
  kAlreadyExists = 6,     // The name is taken.
  kPermissionDenied = 7,  // The caller may not; asking again does not help.
  kResourceExhausted =
      8,  // Out of disk, of queue places, of attempts. Was not applied: free some, ask again.
  kFailedPrecondition = 9,  // The state of the system forbids it until somebody changes that state.
  kOutOfRange = 11,         // Past the last value. The source never wraps round; it stays so.
  kUnimplemented = 12,      // Not built in, or not offered by this store.
  kInternal = 13,           // A bug in idmint. Please report it.
  kUnavailable = 14,        // Was not applied. The same call may succeed later.
  kDataLoss =
      15,  // Stored state is damaged, missing or has gone back. Stop, and look at the store.
  kUnauthenticated = 16,  // No valid credentials.
};

// The google.rpc name, such as "OUT_OF_RANGE".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Code code) noexcept;

struct Error {
  Code code = Code::kUnknown;
  std::string
      message;  // What failed, where, and what to do; one line, no trailing full stop or newline.

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = std::expected<T, Error>;

}  // namespace idmint
