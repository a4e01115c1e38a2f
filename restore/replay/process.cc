#include "restore/replay/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <system_error>

#include "base/errors.h"
#include "base/shell.h"

namespace idmint::restore {
namespace {

constexpr int kMoment = 20;  // milliseconds

// Starts the program. The error says why it could not.
Result<pid_t> start(const std::vector<std::string>& words, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&actions, output < 0 ? 0 : output, 1);
  posix_spawn_file_actions_adddup2(&actions, 0, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return fail(Code::kUnimplemented, "cannot run " + shell_word(words.front()) + ": " +
                                          std::generic_category().message(error));
  return child;
}

}  // namespace

Result<void> wait_until(const std::function<bool()>& done, const KeepWaiting& wait) {
  while (!done()) {
    if (Result<void> going = wait(); !going) return going;
    ::poll(nullptr, 0, kMoment);
  }
  return {};
}

Result<int> run_and_wait(const std::vector<std::string>& words, const KeepWaiting& wait,
                         int output) {
  const Result<pid_t> child = start(words, output);
  if (!child) return error_in(child);
  int status = 0;
  pid_t waited = 0;
  const Result<void> ended = wait_until(
      [&] {
        waited = ::waitpid(*child, &status, WNOHANG);
        return waited != 0 && !(waited < 0 && errno == EINTR);
      },
      wait);
  if (!ended) {
    ::kill(*child, SIGKILL);
    while (::waitpid(*child, &status, 0) < 0 && errno == EINTR) {
    }
    return error_in(ended);
  }
  if (waited != *child)
    return fail(Code::kUnimplemented, "cannot wait for " + shell_word(words.front()));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool runs(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  // The format is "PID (NAME) STATE ...", and the name may contain anything.
  const std::size_t name = line.rfind(')');
  return name != std::string::npos && name + 2 < line.size() && line[name + 2] != 'Z' &&
         line[name + 2] != 'X';
}

std::vector<std::string> words_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace idmint::restore
