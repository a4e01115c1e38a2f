// The programs of servers that tests start, and waiting for them.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

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

}  // namespace idmint::servers
