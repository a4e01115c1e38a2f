// What the errors of MongoDB's servers and of its driver mean.
#pragma once

#include <cstdint>

#include "idmint/result.h"
#include "mongo/driver.h"

namespace idmint::mongo {

// Numbers of the server that callers look for.
inline constexpr std::int64_t kUnauthorized = 13;
inline constexpr std::int64_t kNamespaceNotFound = 26;
inline constexpr std::int64_t kIndexNotFound = 27;
inline constexpr std::int64_t kMaxTimeExpired = 50;
inline constexpr std::int64_t kQueryPlanKilled = 175;
inline constexpr std::int64_t kUpdateOperationFailed = 218;  // applyOps: it found no document
inline constexpr std::int64_t kTransactionTooOld = 225;      // the session has a later number
inline constexpr std::int64_t kDuplicateKey = 11000;

// What an error says of the command that failed.
struct Meaning {
  Code code;
  bool applied;  // whether it may have been: false only where it certainly was not
  bool passing;  // asking again may help
};

// A number that is not known is kUnknown and may have been applied; a failure of the driver that is
// not known may pass besides.
[[nodiscard]] Meaning meaning_of(std::int64_t number) noexcept;
[[nodiscard]] Meaning meaning_of(const bson_error_t& error) noexcept;

// The code of a command that may be sent again whatever became of it, as one that only reads.
// kUnavailable: nobody answered, or the member that did stops, steps down, recovers or has ended
// the cursor. kOutOfRange: a capped collection rolled over what was to be read next.
// kPermissionDenied: a right is missing. kUnauthenticated. kAlreadyExists: a unique index has the
// key. kFailedPrecondition: any other refusal.
[[nodiscard]] Code code_of_repeatable(const bson_error_t& error) noexcept;

}  // namespace idmint::mongo
