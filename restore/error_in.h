// Passes on the error of a call: `return error_in(opened);`.
#pragma once

#include <expected>
#include <utility>

#include "idmint/result.h"

namespace idmint::restore {

// The error of a failed call, for a function that returns a Result of another type. Takes it out of
// `failed`, unless that is const.
template <class T>
[[nodiscard]] std::unexpected<Error> error_in(Result<T>& failed) {
  return std::unexpected(std::move(failed.error()));
}
template <class T>
[[nodiscard]] std::unexpected<Error> error_in(const Result<T>& failed) {
  return std::unexpected(failed.error());
}

// Whether a call succeeded, without what it returned.
template <class T>
[[nodiscard]] Result<void> only_error(Result<T> done) {
  return done ? Result<void>{} : error_in(done);
}

}  // namespace idmint::restore
