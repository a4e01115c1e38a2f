#include "idmint/result.h"

#include <utility>

#include "base/errors.h"

namespace idmint {

std::string_view name(Code code) noexcept {
  switch (code) {
    case Code::kUnknown:
      return "UNKNOWN";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kOutOfRange:
      return "OUT_OF_RANGE";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kInternal:
      return "INTERNAL";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kDataLoss:
      return "DATA_LOSS";
    case Code::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

std::string Error::message() const {
  std::string text = subject;
  if (!place.empty()) text += (text.empty() ? "" : " in ") + place;
  if (!text.empty() && !what.empty()) text += ": ";
  text += what;
  if (!outcome.empty()) add_clause(text, outcome);
  return text;
}

Error naming_places(Error error) {
  std::string outcome = std::exchange(error.outcome, {});
  error.what = error.message();
  error.outcome = std::move(outcome);
  error.subject.clear();
  error.place.clear();
  return error;
}

Error in_context(std::string_view context, Error error) {
  error = naming_places(std::move(error));
  error.what = std::string(context) + ": " + error.what;
  return error;
}

}  // namespace idmint
