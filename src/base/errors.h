// Errors as return values: `return fail(...)` in a function that returns a Result of any type.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/result.h"

namespace idmint {

// "text; clause", or "clause" if `text` is empty.
inline void add_clause(std::string& text, std::string_view clause) {
  if (!text.empty()) text += "; ";
  text += clause;
}

// One more clause at the end of the message.
inline void add_outcome(Error& error, std::string_view clause) {
  add_clause(error.outcome, clause);
}

// The last part of the message, for words that belong to it.
[[nodiscard]] inline std::string& end_of(Error& error) {
  return error.outcome.empty() ? error.what : error.outcome;
}

// The error with the subject.
[[nodiscard]] inline Error about(std::string subject, Error error) {
  error.subject = std::move(subject);
  return error;
}

// The error with the place.
[[nodiscard]] inline Error at_place(std::string_view place, Error error) {
  error.place = place;
  return error;
}

// For an error whose `what` names other places: its subject and place become part of `what`, and no
// service shows it to its clients.
[[nodiscard]] IDMINT_EXPORT Error naming_places(Error error);

// "CONTEXT: MESSAGE". The subject and the place become part of `what`.
[[nodiscard]] IDMINT_EXPORT Error in_context(std::string_view context, Error error);

[[nodiscard]] inline std::unexpected<Error> fail(Code code, std::string message,
                                                 Advice advice = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(advice)});
}

// kInvalidArgument: the request is wrong whatever the state of the system.
[[nodiscard]] inline std::unexpected<Error> refuse(std::string message, Advice advice = {}) {
  return fail(Code::kInvalidArgument, std::move(message), std::move(advice));
}

// "what: why", with the advice of `why`.
[[nodiscard]] inline std::unexpected<Error> refused(std::string_view what, Error why) {
  why.code = Code::kInvalidArgument;
  return std::unexpected(in_context(what, std::move(why)));
}

}  // namespace idmint
