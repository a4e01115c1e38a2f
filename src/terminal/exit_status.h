// The exit statuses of idmint and idmint-restore: one number for each code, in both.
#pragma once

#include <array>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

struct ExitStatus {
  Code code;
  int status;
  std::string_view of_idmint;   // its meaning for idmint
  std::string_view of_restore;  // its meaning for idmint-restore
};

// Part of the interface: documented in --help and the man pages, never renumbered.
inline constexpr std::array kExitStatuses = {
    ExitStatus{Code::kInternal, 1, "a bug in idmint, or out of memory",
               "a bug in idmint-restore, or out of memory"},
    ExitStatus{Code::kInvalidArgument, 2, "wrong usage: mend the command line",
               "wrong usage: mend the command line"},
    ExitStatus{Code::kNotFound, 3, "no such source, sequence or store; a text that is no id",
               "no such file, folder, program, entry or database"},
    ExitStatus{Code::kAlreadyExists, 4, "insert: a unique index has a value of the document",
               "something is there already that would be overwritten"},
    ExitStatus{Code::kFailedPrecondition, 5, "forbidden until something else is changed",
               "refused before anything was written"},
    ExitStatus{Code::kOutOfRange, 6,
               "fewer values are left than were asked for; nothing of the last step was taken; "
               "what was printed stands",
               "the oplog does not reach that far back or forward"},
    ExitStatus{Code::kUnavailable, 7,
               "not all was done, or printed; the same command may succeed later",
               "not done, or not printed; the same command goes on where it stopped"},
    ExitStatus{Code::kResourceExhausted, 8,
               "out of disk space or another resource; of a pool: every worker id is owned",
               "out of disk space or another resource; ready: too little time"},
    ExitStatus{Code::kPermissionDenied, 9, "not permitted",
               "not permitted: a right is missing on the server"},
    ExitStatus{Code::kDataLoss, 10, "stored state is damaged, missing or has gone back",
               "a dump or an oplog is damaged; run, verify: a difference"},
    ExitStatus{Code::kUnknown, 11, "outcome unknown; values it may have taken are lost",
               "begun and refused, or outcome unknown: look before going on"},
    ExitStatus{Code::kUnimplemented, 12, "not built in, or not offered by this store",
               "unsupported"},
};

[[nodiscard]] constexpr int exit_status(Code code) noexcept {
  if (code == Code::kUnauthenticated) code = Code::kPermissionDenied;
  if (code == Code::kDeadlineExceeded) code = Code::kUnknown;
  for (const ExitStatus& row : kExitStatuses) {
    if (row.code == code) return row.status;
  }
  return 1;
}

// For idmint doctor and monitoring: the worst finding.
inline constexpr int kDoctorWarned = 20;
inline constexpr int kDoctorFailed = 21;

}  // namespace idmint
