// What the exit status of idmint says.
#pragma once

#include <array>
#include <string_view>

#include "idmint/result.h"

namespace idmint::cli {

struct ExitStatus {
  Code code;
  int status;
  std::string_view meaning;
};

// Part of the interface: documented in --help and the man page, never renumbered.
inline constexpr std::array kExitStatuses = {
    ExitStatus{Code::kInternal, 1, "a bug in idmint, or out of memory"},
    ExitStatus{Code::kInvalidArgument, 2, "wrong usage: mend the command line"},
    ExitStatus{Code::kNotFound, 3, "no such source, sequence or store; a text that is no id"},
    ExitStatus{Code::kAlreadyExists, 4,
               "the name is taken; of insert: a value of a document is, in a unique index"},
    ExitStatus{Code::kFailedPrecondition, 5, "forbidden until something else is changed"},
    ExitStatus{Code::kOutOfRange, 6,
               "fewer values are left than were asked for; nothing of the last step was taken; "
               "what was printed stands"},
    ExitStatus{Code::kUnavailable, 7, "not done; the same command may succeed later"},
    ExitStatus{Code::kResourceExhausted, 8,
               "out of disk space or another resource; of a pool: every worker id is owned"},
    ExitStatus{Code::kPermissionDenied, 9, "not permitted"},
    ExitStatus{Code::kUnauthenticated, 9, "not permitted"},
    ExitStatus{Code::kDataLoss, 10, "stored state is damaged, missing or has gone back"},
    ExitStatus{Code::kUnknown, 11, "outcome unknown; values it may have taken are lost"},
    ExitStatus{Code::kDeadlineExceeded, 11, "outcome unknown; values it may have taken are lost"},
    ExitStatus{Code::kUnimplemented, 12, "not built in, or not offered by this store"},
};

// Of doctor, for monitoring: the worst that it found.
inline constexpr int kDoctorWarned = 20;
inline constexpr int kDoctorFailed = 21;

[[nodiscard]] constexpr int exit_status(Code code) noexcept {
  for (const ExitStatus& row : kExitStatuses) {
    if (row.code == code) return row.status;
  }
  return 1;
}

}  // namespace idmint::cli
