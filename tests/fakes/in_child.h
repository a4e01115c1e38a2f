// A part of a test in a child of fork(). The child begins with a copy of the test's process. The
// test does not see what the child changes.
//
// The test fails if the child crashes, is killed, hangs or exits before its body returns. It also
// fails if an expectation fails in the child.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace idmint::fakes {

// The exit status of a child in which an expectation failed, or in the test before the fork. It is
// 0 if all is well: ThreadSanitizer tells of a race by an exit status in place of 0, and of no
// other.
constexpr int kExpectationFailed = 17;

inline std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + ", " +
           ::strsignal(WTERMSIG(status));
  if (WEXITSTATUS(status) == kExpectationFailed) return "failed an expectation";
  return "exited with status " + std::to_string(WEXITSTATUS(status));
}

// A child that runs a body while the test goes on. T is what the body returns: void, something
// trivially copyable, or a std::vector of that.
template <class T>
class Child {
 public:
  template <class Body, class Spawn = pid_t (*)()>
  explicit Child(const Body& body, const Spawn& spawn = ::fork,
                 std::source_location where = std::source_location::current())
      : where_(where) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    pid_ = spawn();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) run(body, ends[1]);
    ::close(ends[1]);
    answer_ = ends[0];
  }
  // Kills a child that nobody has waited for: the test ended early.
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    ::close(answer_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits for the child to end. T{} if the test fails.
  T get() {
    std::vector<std::byte> told;
    std::array<std::byte, 4096> block;
    for (ssize_t size = 0; (size = ::read(answer_, block.data(), block.size())) > 0;)
      told.insert(told.end(), block.begin(), block.begin() + size);
    const int status = wait();
    // The last byte says that the body returned.
    const bool returned = !told.empty();
    if (returned) told.pop_back();
    Answer answer{};
    if constexpr (requires { answer.resize(1); }) answer.resize(told.size() / sizeof answer[0]);
    const auto bytes = std::as_writable_bytes(elements(answer));
    if (status != 0 || !returned || told.size() != bytes.size()) {
      ADD_FAILURE_AT(where_.file_name(), static_cast<int>(where_.line()))
          << "the child " << how_it_ended(status) << (returned ? "" : " before its body returned");
      return T();
    }
    std::ranges::copy(told, bytes.begin());
    if constexpr (!std::is_void_v<T>) return answer;
  }

  // Waits for the child to end, however it does. Its status as waitpid() gives it.
  int wait() {
    const pid_t child = std::exchange(pid_, 0);
    int status = 0;
    if (::waitpid(child, &status, 0) != child) std::abort();
    return status;
  }

 private:
  using Answer = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  template <class E>
  static std::span<E> elements(std::vector<E>& answer) {
    static_assert(std::is_trivially_copyable_v<E>);
    return answer;
  }
  static auto elements(auto& answer) {
    static_assert(std::is_trivially_copyable_v<Answer>);
    return std::span(&answer, 1);
  }

  // An exception ends the child; it would go on with the next test otherwise.
  template <class Body>
  [[noreturn]] static void run(const Body& body, int to) noexcept {
    // No test waits for ever. Stores have deadlines of up to 60 s.
    ::alarm(120);
    Answer answer{};
    if constexpr (std::is_void_v<T>) {
      body();
    } else {
      answer = body();
    }
    const auto bytes = std::as_bytes(elements(answer));
    if (::write(to, bytes.data(), bytes.size()) != std::ssize(bytes)) std::abort();
    if (::write(to, "", 1) != 1) std::abort();
    ::_exit(testing::Test::HasFailure() ? kExpectationFailed : 0);
  }

  std::source_location where_;
  pid_t pid_ = 0;
  int answer_ = -1;
};

template <class Body>
Child(const Body&) -> Child<std::invoke_result_t<const Body&>>;

// The value of `body` in a child process. `spawn` makes the child as fork() does.
template <class Body, class Spawn = pid_t (*)()>
auto in_child(const Body& body, const Spawn& spawn = ::fork,
              std::source_location where = std::source_location::current()) {
  return Child<std::invoke_result_t<const Body&>>(body, spawn, where).get();
}

// Ends a child as `kill -9` does: nothing is closed. An expectation that failed still counts.
[[noreturn]] inline void die() {
  if (testing::Test::HasFailure()) ::_exit(kExpectationFailed);
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

// Runs `body` in a child. The test fails unless the child ends in die().
template <class Body>
void in_dying_child(const Body& body,
                    std::source_location where = std::source_location::current()) {
  const int status = Child<void>(body).wait();
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return;
  ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
      << "the child was to die, and " << how_it_ended(status);
}

}  // namespace idmint::fakes
