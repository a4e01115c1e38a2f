#include "mongo/errors.h"

#include <algorithm>
#include <array>

#include "base/outcome.h"

namespace idmint::mongo {

namespace {

struct ServerError {
  std::int64_t number;
  Meaning meaning;
};

// Error numbers of the server (its error_codes.yml), for a command that failed as a whole.
constexpr std::array kServerErrors = {
    ServerError{6, {Code::kUnknown, true, true}},                 // HostUnreachable
    ServerError{7, {Code::kUnknown, true, true}},                 // HostNotFound
    ServerError{13, {Code::kPermissionDenied, false, false}},     // Unauthorized
    ServerError{18, {Code::kUnauthenticated, false, false}},      // AuthenticationFailed
    ServerError{20, {Code::kFailedPrecondition, false, false}},   // IllegalOperation
    ServerError{24, {Code::kUnknown, true, true}},                // LockTimeout
    ServerError{26, {Code::kNotFound, false, false}},             // NamespaceNotFound
    ServerError{43, {Code::kUnknown, true, false}},               // CursorNotFound
    ServerError{50, {Code::kDeadlineExceeded, true, false}},      // MaxTimeMSExpired
    ServerError{59, {Code::kUnimplemented, false, false}},        // CommandNotFound
    ServerError{64, {Code::kDeadlineExceeded, true, false}},      // WriteConcernFailed
    ServerError{67, {Code::kFailedPrecondition, false, false}},   // CannotCreateIndex
    ServerError{73, {Code::kInvalidArgument, false, false}},      // InvalidNamespace
    ServerError{85, {Code::kFailedPrecondition, false, false}},   // IndexOptionsConflict
    ServerError{86, {Code::kFailedPrecondition, false, false}},   // IndexKeySpecsConflict
    ServerError{89, {Code::kUnknown, true, true}},                // NetworkTimeout
    ServerError{91, {Code::kUnknown, true, true}},                // ShutdownInProgress
    ServerError{112, {Code::kUnknown, true, true}},               // WriteConflict
    ServerError{121, {Code::kFailedPrecondition, false, false}},  // DocumentValidationFailure
    ServerError{133, {Code::kUnknown, true, true}},               // FailedToSatisfyReadPreference
    ServerError{134, {Code::kUnknown, true, true}},       // ReadConcernMajorityNotAvailableYet
    ServerError{136, {Code::kOutOfRange, false, false}},  // CappedPositionLost
    ServerError{148, {Code::kFailedPrecondition, false, false}},  // ReadConcernMajorityNotEnabled
    ServerError{166, {Code::kFailedPrecondition, false, false}},  // CommandNotSupportedOnView
    ServerError{175, {Code::kUnknown, true, false}},              // QueryPlanKilled
    ServerError{189, {Code::kUnknown, true, true}},               // PrimarySteppedDown
    ServerError{202, {Code::kUnknown, true, true}},           // NetworkInterfaceExceededTimeLimit
    ServerError{237, {Code::kUnknown, true, false}},          // CursorKilled
    ServerError{241, {Code::kOutOfRange, false, false}},      // ConversionFailure
    ServerError{262, {Code::kDeadlineExceeded, true, true}},  // ExceededTimeLimit
    ServerError{365, {Code::kUnknown, true, true}},           // TemporarilyUnavailable
    ServerError{384, {Code::kUnknown, true, true}},           // ConnectionError
    ServerError{9001, {Code::kUnknown, true, true}},          // SocketException
    ServerError{10003, {Code::kFailedPrecondition, false, false}},  // CannotGrowDocumentInCapped...
    ServerError{10107, {Code::kUnavailable, false, true}},          // NotWritablePrimary
    ServerError{11000, {Code::kAlreadyExists, false, false}},       // DuplicateKey
    ServerError{11600, {Code::kUnknown, true, true}},               // InterruptedAtShutdown
    ServerError{11601, {Code::kUnknown, true, false}},              // Interrupted: by an operator
    ServerError{11602, {Code::kUnknown, true, true}},       // InterruptedDueToReplStateChange
    ServerError{13435, {Code::kUnavailable, false, true}},  // NotPrimaryNoSecondaryOk
    ServerError{13436, {Code::kUnavailable, false, true}},  // NotPrimaryOrSecondary
};

struct DriverError {
  std::uint32_t domain;
  std::uint32_t code;  // 0: any
  Meaning meaning;
};

// The driver's own errors; the first matching row counts.
constexpr std::array kDriverErrors = {
    DriverError{MONGOC_ERROR_SERVER_SELECTION, 0, {Code::kUnavailable, false, true}},
    DriverError{
        MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_CONNECT, {Code::kUnavailable, false, true}},
    DriverError{MONGOC_ERROR_STREAM,
                MONGOC_ERROR_STREAM_NAME_RESOLUTION,
                {Code::kUnavailable, false, true}},
    // The chosen server is gone.
    DriverError{MONGOC_ERROR_STREAM,
                MONGOC_ERROR_STREAM_NOT_ESTABLISHED,
                {Code::kUnavailable, false, true}},
    DriverError{MONGOC_ERROR_CLIENT,
                MONGOC_ERROR_CLIENT_AUTHENTICATE,
                {Code::kUnauthenticated, false, false}},
    DriverError{MONGOC_ERROR_CLIENT,
                MONGOC_ERROR_CLIENT_SESSION_FAILURE,
                {Code::kUnavailable, false, true}},
    DriverError{MONGOC_ERROR_SASL, 0, {Code::kUnauthenticated, false, false}},
    DriverError{MONGOC_ERROR_SCRAM, 0, {Code::kUnauthenticated, false, false}},
    DriverError{MONGOC_ERROR_PROTOCOL,
                MONGOC_ERROR_PROTOCOL_BAD_WIRE_VERSION,
                {Code::kFailedPrecondition, false, false}},
    DriverError{MONGOC_ERROR_BSON, 0, {Code::kInternal, false, false}},
    DriverError{
        MONGOC_ERROR_COMMAND, MONGOC_ERROR_COMMAND_INVALID_ARG, {Code::kInternal, false, false}},
    DriverError{MONGOC_ERROR_STREAM, 0, {Code::kUnknown, true, true}},
    DriverError{MONGOC_ERROR_CLIENT, 0, {Code::kUnknown, true, true}},
};

// Null: unknown.
const Meaning* known(std::int64_t number) noexcept {
  const auto* const row = std::ranges::find(kServerErrors, number, &ServerError::number);
  return row != kServerErrors.end() ? &row->meaning : nullptr;
}

bool is_of_server(const bson_error_t& error) noexcept {
  return error.domain == MONGOC_ERROR_SERVER || error.domain == MONGOC_ERROR_QUERY ||
         error.domain == MONGOC_ERROR_CURSOR;
}

const Meaning* known(const bson_error_t& error) noexcept {
  if (is_of_server(error)) return known(std::int64_t{error.code});
  for (const DriverError& row : kDriverErrors)
    if (row.domain == error.domain && (row.code == 0 || row.code == error.code))
      return &row.meaning;
  return nullptr;
}

}  // namespace

Meaning meaning_of(std::int64_t number) noexcept {
  const Meaning* const meaning = known(number);
  return meaning != nullptr ? *meaning : Meaning{Code::kUnknown, true, false};
}

Meaning meaning_of(const bson_error_t& error) noexcept {
  const Meaning* const meaning = known(error);
  return meaning != nullptr ? *meaning : Meaning{Code::kUnknown, true, !is_of_server(error)};
}

Code code_of_repeatable(const bson_error_t& error) noexcept {
  const Meaning* const meaning = known(error);
  if (meaning == nullptr) return Code::kFailedPrecondition;
  if (outcome_unknown(meaning->code)) return Code::kUnavailable;
  switch (meaning->code) {
    case Code::kUnavailable:
    case Code::kOutOfRange:
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
    case Code::kAlreadyExists:
      return meaning->code;
    default:
      return Code::kFailedPrecondition;
  }
}

}  // namespace idmint::mongo
