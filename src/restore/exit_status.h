// What the exit status of idmint-restore says.
#pragma once

#include <array>

#include "idmint/result.h"

namespace idmint::restore {

struct ExitStatus {
  Code code;
  int status;
  const char* meaning;
};

// Part of the interface: documented in --help, never renumbered; the numbers of idmint.
inline constexpr std::array kExitStatuses = {
    ExitStatus{Code::kInternal, 1, "a bug in idmint-restore, or out of memory"},
    ExitStatus{Code::kInvalidArgument, 2, "wrong usage: mend the command line"},
    ExitStatus{Code::kNotFound, 3, "no such file, folder, program, entry or database"},
    ExitStatus{Code::kAlreadyExists, 4, "something is there already that would be overwritten"},
    ExitStatus{Code::kFailedPrecondition, 5, "refused before anything was written"},
    ExitStatus{Code::kOutOfRange, 6, "the oplog does not reach so far back or forth"},
    ExitStatus{Code::kUnavailable, 7, "not done; the same command goes on where it was"},
    ExitStatus{Code::kResourceExhausted, 8,
               "out of disk space or another resource; ready: of time"},
    ExitStatus{Code::kPermissionDenied, 9, "not permitted: a right is missing on the server"},
    ExitStatus{Code::kDataLoss, 10, "a dump or an oplog is damaged; run, verify: a difference"},
    ExitStatus{Code::kUnknown, 11, "begun and refused, or outcome unknown: look before going on"},
    ExitStatus{Code::kUnimplemented, 12, "not offered"},
};

[[nodiscard]] constexpr int exit_status(Code code) noexcept {
  if (code == Code::kUnauthenticated) code = Code::kPermissionDenied;
  if (code == Code::kDeadlineExceeded) code = Code::kUnknown;
  for (const ExitStatus& row : kExitStatuses) {
    if (row.code == code) return row.status;
  }
  return 1;
}

}  // namespace idmint::restore
