// The meaning of errors of MongoDB's servers and driver.
#pragma once

#include <cstdint>

#include "idmint/result.h"
#include "mongo/driver.h"

namespace idmint::mongo {

// Error numbers of the server that callers check.
inline constexpr std::int64_t kUnauthorized = 13;
inline constexpr std::int64_t kNamespaceNotFound = 26;
inline constexpr std::int64_t kDatabaseDifferCase = 13297;
inline constexpr std::int64_t kIndexNotFound = 27;
inline constexpr std::int64_t kMaxTimeExpired = 50;
inline constexpr std::int64_t kQueryPlanKilled = 175;
inline constexpr std::int64_t kUpdateOperationFailed = 218;  // applyOps: it found no document
inline constexpr std::int64_t kTransactionTooOld = 225;      // the session has a later number
inline constexpr std::int64_t kDuplicateKey = 11000;

// The meaning of an error for the failed command.
struct Meaning {
  Code code;
  bool applied;  // may have been applied; false only if it certainly was not
  bool passing;  // a repeat may help
};

// An unknown number is kUnknown and may have been applied. An unknown failure of the driver may
// also be transient.
[[nodiscard]] Meaning meaning_of(std::int64_t number) noexcept;
[[nodiscard]] Meaning meaning_of(const bson_error_t& error) noexcept;

// The code for a command that can always be repeated, such as a read.
// - kUnavailable: nobody answered, or the member that did stops, steps down, recovers or has ended
//   the cursor.
// - kOutOfRange: a capped collection has overwritten the next entry.
// - kPermissionDenied: a permission is missing.
// - kUnauthenticated: the log-in failed.
// - kAlreadyExists: a unique index has the key.
// - kFailedPrecondition: any other refusal.
[[nodiscard]] Code code_of_repeatable(const bson_error_t& error) noexcept;

}  // namespace idmint::mongo
