// Runs other programs and waits for them with a limit.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "restore/error_in.h"

namespace idmint::restore {

// Called many times a second during a wait. An error ends the wait, which returns it.
using KeepWaiting = std::function<Result<void>()>;

// Runs a program and waits for it. It inherits none of our files, and has its own session, so
// signals of the terminal do not reach it. Returns its exit status, or 128 + N if signal N ended
// it. `output`: the file descriptor for its standard output; -1: discards it. Kills the program if
// `wait` ends the wait. kUnimplemented: it could not be started.
[[nodiscard]] Result<int> run_and_wait(const std::vector<std::string>& words,
                                       const KeepWaiting& wait, int output = -1);

// Sleeps briefly and calls `wait`, until `done` returns true.
[[nodiscard]] Result<void> wait_until(const std::function<bool()>& done, const KeepWaiting& wait);

// Whether a process with this id runs. A zombie does not.
[[nodiscard]] bool runs(pid_t pid);
// The command line of the process. Empty: there is no such process, or it is another user's.
[[nodiscard]] std::vector<std::string> words_of(pid_t pid);

}  // namespace idmint::restore
