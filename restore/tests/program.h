// idmint-restore as a process, and the folders of its spare servers.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "restore/timestamp.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {

inline std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Those of a run that restores a data copy, without a question.
inline std::vector<std::string> run_of_copy(const std::string& copy, const std::string& oplog,
                                            Timestamp limit) {
  return {"run",
          "--data-copy",
          copy,
          "--oplog",
          oplog,
          "--limit",
          print_timestamp(limit),
          "--mongod",
          servers::mongod_program(),
          "--yes"};
}

struct Ended {
  int status = 0;  // 128 + N when signal N ended it
  std::string out{};
  std::string err{};
};

class Program {
 public:
  Program(const fakes::TempFolder& folder, std::vector<std::string> words)
      : out_(folder.path("out")), err_(folder.path("err")) {
    words.insert(words.begin(), IDMINT_RESTORE_BINARY);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
      std::abort();
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Program() {
    if (pid_ > 0) kill();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Not reaped meanwhile.
  [[nodiscard]] bool runs() const {
    siginfo_t facts{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &facts, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           facts.si_pid == 0;
  }
  Ended end() {
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_) std::abort();
    pid_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(out_),
            content(err_)};
  }
  Ended kill() {
    ::kill(pid_, SIGKILL);
    return end();
  }
  void signal(int number) const { ::kill(pid_, number); }  // REQUIRES: not reaped

 private:
  const std::string out_;
  const std::string err_;
  pid_t pid_ = 0;
};

// A folder for a spare server, which is ended with the test.
class SpareServer {
 public:
  [[nodiscard]] std::string path() const { return folder_.path("spare"); }
  [[nodiscard]] std::vector<std::string> words() const {
    return {"--spare", path(), "--mongod", servers::mongod_program()};
  }
  ~SpareServer() {
    std::ifstream lock(path() + "/mongod.lock");
    pid_t pid = 0;
    if (lock >> pid && pid > 0) ::kill(pid, SIGKILL);
  }
  SpareServer() = default;
  SpareServer(const SpareServer&) = delete;
  SpareServer& operator=(const SpareServer&) = delete;

 private:
  fakes::TempFolder folder_;
};

inline std::vector<std::string> with(std::vector<std::string> words,
                                     const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace idmint::restore
