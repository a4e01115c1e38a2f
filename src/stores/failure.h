// What stores on servers say of calls that fail.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "idmint/result.h"

namespace idmint::stores {

// What is sent to a server.
enum class Kind : std::uint8_t {
  kRead,     // it changes nothing: after a failure it may be sent again
  kWrite,    // allowed in a store in doubt too
  kHandOut,  // hands out or makes something: refused in a store in doubt
};

// Whether nobody is at the address of a server, which is known at once.
enum class Absent : std::uint8_t {
  kNo,  // or it is not known
  kRefused,
  kNoSuchHost,  // the resolver knows that there is no such name
};

// Why it was not carried out, or there is no connection.
struct Failure {
  Error error{};         // its code is that of a call that did nothing else
  std::string reason{};  // what the engine calls it, such as an SQLSTATE; empty: it has no name
  bool passing = false;  // nothing was done, and another attempt may succeed soon
  bool begun = false;    // a part of it may have been done, also where the code says otherwise
  Absent absent = Absent::kNo;
};

// The failure to look up the name of a server's host. `unknown`: the resolver knows that there is
// no such name.
[[nodiscard]] inline Failure not_resolved(std::string why, bool unknown) {
  return {.error = {Code::kUnavailable, std::move(why) + "; check the host name"},
          .passing = true,
          .absent = unknown ? Absent::kNoSuchHost : Absent::kNo};
}
// Asks the resolver whether it knows that there is no host of that name. Takes as long as the
// resolver takes.
[[nodiscard]] bool is_no_host(const std::string& name);

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
