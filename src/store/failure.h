// The failures of calls to stores on servers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "idmint/result.h"

namespace idmint::stores {

// The kind of a request to a server.
enum class Kind : std::uint8_t {
  kRead,     // it changes nothing: after a failure it may be sent again
  kWrite,    // allowed in a store in doubt too
  kHandOut,  // hands out or makes something: refused in a store in doubt
};

// Why it was not carried out, or there is no connection.
struct Failure {
  Error error{};         // its code is that of a call that did nothing else
  std::string reason{};  // what the engine calls it, such as an SQLSTATE; empty: it has no name
  bool passing = false;  // nothing was done, and another attempt may succeed soon
  bool begun = false;    // a part of it may have been done, also where the code says otherwise
};

// It has no answer, for that reason: the connection broke.
[[nodiscard]] inline Failure unanswered(Kind kind, std::string why) {
  if (kind == Kind::kRead) return {.error = {Code::kUnavailable, std::move(why)}, .passing = true};
  return {.error = {Code::kUnknown, std::move(why) + "; it may have been done or not"}};
}

// It has no answer at its deadline.
[[nodiscard]] inline Failure late(Kind kind) {
  if (kind == Kind::kRead)
    return {.error = {Code::kUnavailable, "no answer in time"}, .passing = true};
  return {.error = {Code::kDeadlineExceeded,
                    "no answer in time; it may have been done or not, now or later"}};
}

}  // namespace idmint::stores
