// Errors as return values: `return fail(...)` in a function that returns a Result of any type.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/result.h"

namespace idmint {

[[nodiscard]] inline std::unexpected<Error> fail(Code code, std::string message,
                                                 Advice advice = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(advice)});
}

// kInvalidArgument: the request is wrong whatever the state of the system.
[[nodiscard]] inline std::unexpected<Error> refuse(std::string message, Advice advice = {}) {
  return fail(Code::kInvalidArgument, std::move(message), std::move(advice));
}

// "what: why", with the advice of `why`.
[[nodiscard]] inline std::unexpected<Error> refused(std::string_view what, const Error& why) {
  return refuse(std::string(what) + ": " + why.message, why.advice);
}

}  // namespace idmint
