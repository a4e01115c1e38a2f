// The programs of servers that tests start, and waiting for them.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

struct passwd;

namespace idmint::servers {

[[noreturn]] inline void give_up(const std::string& why) {
  std::cerr << "servers: " << why << '\n';
  std::abort();
}

// The line that a script prints, such as the path of a program. Gives up if it fails.
[[nodiscard]] inline std::string line_of(const std::string& script) {
  std::FILE* const pipe = ::popen(script.c_str(), "r");
  std::array<char, 4096> line{};
  if (pipe == nullptr || std::fgets(line.data(), line.size(), pipe) == nullptr ||
      ::pclose(pipe) != 0)
    give_up(script + " finds no server");
  std::string text = line.data();
  text.pop_back();
  return text;
}

// Whether the condition came in time.
template <class Condition>
bool wait_for(Condition condition, std::chrono::seconds longest) {
  using Clock = std::chrono::steady_clock;
  for (const auto until = Clock::now() + longest; Clock::now() < until;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

// The path of a program, on the PATH or where Debian has those of the system. Gives up if there is
// none.
[[nodiscard]] std::string path_of_program(const std::string& name);

// The user for servers that do not run as root: the user of that name, or else nobody. Null: the
// tests are not run by root, and the servers run as the user that runs them.
[[nodiscard]] const passwd* user_of_servers(const char* name);
// Gives the file or folder to the user; to null it does nothing.
void hand_over(const std::string& path, const passwd* user);

// Starts a program as the user, with its input from one file, and its output at the end of another.
// The kernel kills it when the process that started it ends.
[[nodiscard]] pid_t spawn(std::vector<std::string> words, const passwd* user,
                          const std::string& log, const std::string& in = "/dev/null");
// Runs one to its end. Gives up if it fails, with what it said.
void run_program(std::vector<std::string> words, const passwd* user, const std::string& log,
                 const std::string& in = "/dev/null");

[[nodiscard]] std::string contents(const std::string& path);
void append(const std::string& path, const std::vector<std::string>& lines);

}  // namespace idmint::servers
