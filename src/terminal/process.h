// The process of a command, at its begin and its end.
#pragma once

#include <span>

#include "idmint/result.h"

namespace idmint {

// The work of main(): calls `run` with the words of the command line, and returns its exit status.
// SIGPIPE is ignored: a write tells of it. Standard descriptors that are closed are opened to
// /dev/null, as a file opened later must not become standard output; without standard output
// nothing is run. What `run` throws is kInternal.
[[nodiscard]] int run_program(int argc, const char* const* argv,
                              int (*run)(std::span<const char* const> words));

// Tells of the error on standard error, and returns its exit status.
[[nodiscard]] int fail_with(const Error& error, bool json);

// Ends the process by the signal, as its parent expects it. What it returns is the exit status
// where that failed.
[[nodiscard]] int end_by(int signal);

}  // namespace idmint
