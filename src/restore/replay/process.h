// Other programs: run, and waited for with a limit.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "idmint/result.h"

namespace idmint::restore {

// Asked many times a second while something is waited for. An error ends the waiting, which returns
// it.
using KeepWaiting = std::function<Result<void>()>;

// Runs a program without any of our files and in a session of its own, so that signals of the
// terminal do not reach it, and waits for it. Its exit status, 128 + N where signal N ended it.
// `output`: where its standard output goes; -1: nowhere. Where `wait` ends the waiting, the program
// is killed. kUnimplemented: it could not be started.
[[nodiscard]] Result<int> run_and_wait(const std::vector<std::string>& words,
                                       const KeepWaiting& wait, int output = -1);

// Rests for a moment, and asks `wait`, until `done` says true.
[[nodiscard]] Result<void> wait_until(const std::function<bool()>& done, const KeepWaiting& wait);

// A process of that number runs. One that has ended, and that its parent did not ask for yet (a
// zombie), does not.
[[nodiscard]] bool runs(pid_t pid);
// The words that it was started with; empty: it is not there, or is another user's.
[[nodiscard]] std::vector<std::string> words_of(pid_t pid);

}  // namespace idmint::restore
