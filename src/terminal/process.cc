#include "terminal/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <string>

#include "base/background.h"
#include "terminal/exit_status.h"
#include "terminal/output.h"

namespace idmint {
namespace {

// Opens closed standard descriptors. Returns what standard output is, if nothing can be written to
// it; empty: it can.
const char* occupy_standard_descriptors() {
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  const char* const fault = flags == -1                       ? "is closed"
                            : (flags & O_ACCMODE) == O_RDONLY ? "is open for reading only"
                                                              : "";
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && ::open("/dev/null", O_RDWR) != fd) std::abort();
  }
  return fault;
}

}  // namespace

int run_program(int argc, const char* const* argv, int (*run)(std::span<const char* const> words)) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk
  // MongoDB's driver creates a file in /dev/shm for each process. A killed process leaves it
  // behind, and the driver prints a message about such a file into the output.
  ::setenv("MONGOC_DISABLE_SHM", "1", 0);
  if (const std::string fault = occupy_standard_descriptors(); !fault.empty())
    return fail_with({Code::kUnavailable, "cannot write standard output, which " + fault +
                                              ": redirect it to a file, a pipe or /dev/null"},
                     false);
  try {
    const int status = run({argv, static_cast<std::size_t>(argc)});
    // Connections of closed stores may still be closing in the background; the end of the process
    // closes them as well.
    if (background_was_used()) std::_Exit(status);
    return status;
  } catch (const std::exception& error) {
    return fail_with({Code::kInternal, std::string(error.what()) + ": please report it"}, false);
  }
}

int fail_with(const Error& error, bool json) {
  report(error, json);
  return exit_status(error.code);
}

int end_by(int signal) {
  struct sigaction fatal{};
  fatal.sa_handler = SIG_DFL;
  ::sigaction(signal, &fatal, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  return 128 + signal;
}

}  // namespace idmint
