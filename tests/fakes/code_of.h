// The code of a Result, for a test, and its message for the reader of a failure.
#pragma once

#include <string>

#include "idmint/result.h"

namespace idmint::fakes {

// Code{0}, which no error has, for a value. The error of an insert holds the one that it ended
// with.
[[nodiscard]] Code code_of(const auto& result) {
  if (result) return Code{0};
  if constexpr (requires { result.error().error.code; }) {
    return result.error().error.code;
  } else {
    return result.error().code;
  }
}

// Empty for a value.
[[nodiscard]] std::string why(const auto& result) {
  if (result) return "";
  if constexpr (requires { result.error().error.message(); }) {
    return result.error().error.message();
  } else {
    return result.error().message();
  }
}

}  // namespace idmint::fakes
