// The meaning of PostgreSQL's error codes (SQLSTATE) for a call.
#pragma once

#include <string_view>

#include "idmint/result.h"

namespace idmint::stores::postgresql {

struct Meaning {
  Code code;
  bool passing;  // the same statement may succeed soon: it is worth another attempt
};

inline constexpr std::string_view kInsufficientPrivilege = "42501";
// A division by zero, which a statement has in another process than that of its connection (see
// IDMINT_TRUSTED).
inline constexpr std::string_view kOtherBackend = "22012";

// The code is of a statement that the server refused and rolled back, or of a refused connection.
// Empty: the connection failed before the server answered.
[[nodiscard]] Meaning meaning_of(std::string_view sqlstate);

// The remedy, to be put behind the server's message: "; ...", or nothing.
[[nodiscard]] std::string_view advice_for(std::string_view sqlstate);

}  // namespace idmint::stores::postgresql
