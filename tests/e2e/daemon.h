// For tests: the daemon as a process of its own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace idmint::e2e {

// idmintd on free ports.
class Daemon {
 public:
  explicit Daemon(const std::string& url) {
    std::array<int, 2> pipe{};
    if (::pipe(pipe.data()) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(pipe[1], STDERR_FILENO);
      ::close(pipe[0]);
      ::close(pipe[1]);
      ::execl(IDMINTD_BINARY, "idmintd", "--store", url.c_str(), "--redis", "127.0.0.1:0", "--http",
              "127.0.0.1:0", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(pipe[1]);
    said_ = pipe[0];
    port_ = port_of_line();
    http_port_ = port_of_line();
  }
  ~Daemon() { end(SIGKILL); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Its exit status as waitpid() has it.
  int end(int signal) {
    if (pid_ <= 0) return 0;
    int status = 0;
    ::kill(pid_, signal);
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    ::close(said_);
    return status;
  }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int http_port() const { return http_port_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  // "idmintd: serving the Redis protocol on 127.0.0.1:PORT". A notice may come before it, as of a
  // store that is slow.
  int port_of_line() {
    std::string line;
    bool more = true;
    while (more && !line.contains(": serving ")) {
      line.clear();
      char c = '\0';
      while ((more = ::read(said_, &c, 1) == 1) && c != '\n') line += c;
    }
    const std::size_t colon = line.rfind(':');
    const int port = colon == std::string::npos ? 0 : std::atoi(line.c_str() + colon + 1);
    EXPECT_NE(port, 0) << line;
    return port;
  }

  pid_t pid_ = 0;
  int said_ = -1;
  int port_ = 0;
  int http_port_ = 0;
};

}  // namespace idmint::e2e
