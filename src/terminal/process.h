// The start and the end of a command's process.
#pragma once

#include <span>

#include "idmint/result.h"

namespace idmint {

// The work of main(): calls `run` with the words of the command line and returns its exit status.
// Ignores SIGPIPE, since writes report it. Opens closed standard descriptors to /dev/null, so that
// no file becomes standard output later; if nothing can be written to standard output, `run` is not
// called (kUnavailable). An exception of `run` is kInternal.
[[nodiscard]] int run_program(int argc, const char* const* argv,
                              int (*run)(std::span<const char* const> words));

// Reports the error on standard error, and returns its exit status.
[[nodiscard]] int fail_with(const Error& error, bool json);

// Ends the process by the signal, as its parent expects. If that fails, returns the exit status.
[[nodiscard]] int end_by(int signal);

}  // namespace idmint
