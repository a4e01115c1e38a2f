// A part of a test in a process of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <type_traits>

namespace idmint::fakes {

// What `body` answers in a child; 255 if a signal ends it. A body that answers nothing has to end
// well, or by a signal.
template <class Body>
auto in_child(const Body& body) {
  constexpr bool kAnswers = !std::is_void_v<std::invoke_result_t<Body>>;
  const pid_t child = ::fork();
  if (child == 0) {
    if constexpr (kAnswers) {
      ::_exit(body());
    } else {
      body();
      ::_exit(0);
    }
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  const int answer = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  if constexpr (kAnswers) {
    return answer;
  } else {
    EXPECT_TRUE(WIFSIGNALED(status) || answer == 0) << answer;
  }
}

}  // namespace idmint::fakes
