// Sessions in a child of fork(), and with callers that wait for a connection. Its use by the stores
// is tested with their servers.
#include "store/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <expected>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "store/failure.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"

namespace idmint::stores {
namespace {

using fakes::code_of;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// How many connections were ended in this process.
std::atomic<int> ended{0};

class FakeConnection {
 public:
  FakeConnection() = default;
  FakeConnection(FakeConnection&& other) noexcept
      : usable_(other.usable_), owned_(std::exchange(other.owned_, false)) {}
  FakeConnection& operator=(FakeConnection&& other) noexcept {
    usable_ = other.usable_;
    std::swap(owned_, other.owned_);
    return *this;
  }
  FakeConnection(const FakeConnection&) = delete;
  FakeConnection& operator=(const FakeConnection&) = delete;
  ~FakeConnection() {
    if (owned_) ++ended;
  }

  [[nodiscard]] bool is_usable() const { return usable_; }
  void breaks() { usable_ = false; }

 private:
  bool usable_ = true;
  bool owned_ = true;
};

using FakeSessions = Sessions<FakeConnection>;
using Done = std::expected<bool, Failure>;

SteadyTime in(milliseconds time) { return std::chrono::steady_clock::now() + time; }

std::unique_ptr<FakeSessions> sessions() {
  return std::make_unique<FakeSessions>(
      "fake:", std::chrono::minutes{1}, Access::kReadWrite, 1,
      [](std::size_t, SteadyTime) { return FakeSessions::Opened(FakeConnection()); });
}

// Whether the thread sleeps, as one does that waits for a condition.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const std::size_t at = stat.rfind(')');
  return at != std::string::npos && stat.substr(at, 3) == ") S";
}

// As many calls as there are connections, which are under way until they are let go, and as many
// that wait for one.
class Callers {
 public:
  explicit Callers(FakeSessions& sessions) {
    for (std::size_t i = 0; i < FakeSessions::kMost; ++i)
      threads_.emplace_back([this, &sessions] {
        const auto done =
            sessions.run(Kind::kHandOut, in(std::chrono::minutes{1}), "hold", [&](FakeConnection&) {
              ++holding_;
              let_go_.wait();
              return Done(true);
            });
        EXPECT_TRUE(done) << fakes::why(done);
      });
    while (holding_ < FakeSessions::kMost) std::this_thread::yield();
    std::vector<std::promise<pid_t>> numbers(FakeSessions::kMost);
    std::vector<std::future<pid_t>> waiting;
    for (std::promise<pid_t>& number : numbers) waiting.push_back(number.get_future());
    for (std::promise<pid_t>& number : numbers)
      threads_.emplace_back([&sessions, mine = std::move(number)]() mutable {
        mine.set_value(static_cast<pid_t>(::syscall(SYS_gettid)));
        const auto done = sessions.run(Kind::kHandOut, in(std::chrono::minutes{1}), "wait",
                                       [](FakeConnection&) { return Done(true); });
        EXPECT_TRUE(done) << fakes::why(done);
      });
    for (std::future<pid_t>& each : waiting) {
      const pid_t thread = each.get();
      while (!sleeps(thread)) std::this_thread::yield();
    }
  }
  ~Callers() { go_.set_value(); }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

 private:
  std::promise<void> go_;
  std::shared_future<void> let_go_{go_.get_future()};
  std::atomic<std::size_t> holding_{0};
  std::vector<std::jthread> threads_;  // joined first
};

// The destructor of a condition waits for those who wait for it, and in the child there are none.
TEST(Sessions, AChildOfForkEndsThemWhileThreadsOfTheParentWait) {
  auto all = sessions();
  const Callers callers(*all);
  fakes::in_child([&] {
    ::alarm(20);
    const auto refused = all->enter_to_read();
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
    EXPECT_THAT(fakes::why(refused), HasSubstr("fork"));
    all.reset();
  });
}

TEST(Sessions, AChildOfForkTellsNoServerThatAConnectionEnds) {
  auto all = sessions();
  ASSERT_TRUE(all->run(Kind::kHandOut, in(std::chrono::minutes{1}), "ask",
                       [](FakeConnection&) { return Done(true); }));
  ended = 0;
  fakes::in_child([&] {
    all.reset();
    EXPECT_EQ(ended, 0);
  });
  all.reset();
  EXPECT_EQ(ended, 1) << "its owner does";
}

TEST(Sessions, WhoGetsNoneInTimeIsToldAndTheOthersGetWhatIsGivenBack) {
  auto all = sessions();
  {
    const Callers callers(*all);
    const auto none = all->run(Kind::kHandOut, in(milliseconds{20}), "ask",
                               [](FakeConnection&) { return Done(true); });
    EXPECT_EQ(code_of(none), Code::kUnavailable);
    EXPECT_THAT(fakes::why(none),
                AllOf(HasSubstr("all connections are in use"), HasSubstr("nothing was changed")));
  }
  // One that broke makes room for another.
  ended = 0;
  for (std::size_t i = 0; i < 2 * FakeSessions::kMost; ++i)
    EXPECT_TRUE(all->run(Kind::kHandOut, in(std::chrono::minutes{1}), "break",
                         [](FakeConnection& connection) {
                           connection.breaks();
                           return Done(true);
                         }));
  EXPECT_EQ(ended, 2 * FakeSessions::kMost);
}

// Only a call that could have changed something says that it did not.
TEST(Sessions, AReadThatFailsPromisesNothing) {
  const auto all = sessions();
  for (const milliseconds time : {milliseconds{0}, milliseconds{60'000}}) {
    for (const Kind kind : {Kind::kRead, Kind::kWrite, Kind::kHandOut}) {
      const Result<bool> failed = all->run(kind, in(time), "ask", [](FakeConnection&) {
        return Done(std::unexpected(Failure{.error = {Code::kUnavailable, "away"}}));
      });
      ASSERT_EQ(code_of(failed), Code::kUnavailable);
      EXPECT_EQ(failed.error().message().contains("nothing was changed"), kind != Kind::kRead);
    }
  }
}

TEST(Sessions, WhatWasBegunIsNotSaidToBeUndone) {
  const auto all = sessions();
  const Result<bool> failed =
      all->run(Kind::kWrite, in(std::chrono::minutes{1}), "ask", [](FakeConnection&) {
        return Done(std::unexpected(
            Failure{.error = {Code::kPermissionDenied, "no right"}, .begun = true}));
      });
  EXPECT_EQ(code_of(failed), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(failed), AllOf(HasSubstr("a part of it may have been done"),
                                        Not(HasSubstr("nothing was changed"))));
}

// ---- several servers

// A connection to one of several servers, with its own deadline.
struct Asked {
  std::size_t server = 0;
  SteadyTime by{};
  bool usable = true;

  [[nodiscard]] bool is_usable() const { return usable; }
  void answer_by(SteadyTime until) { by = until; }
  // As a server that stands still answers.
  std::expected<std::size_t, Failure> wait_in_vain(Kind kind) {
    std::this_thread::sleep_until(by);
    usable = false;
    return std::unexpected(late(kind));
  }
};

class SessionsOfThree : public testing::Test {
 protected:
  // Returns the server that answered. The server `still` gives no answer.
  Result<std::size_t> ask(Kind kind, bool cannot_come_twice = false, std::size_t still = 0) {
    asked_.clear();
    return all_.run(
        kind, in(std::chrono::seconds{3}), "ask",
        [&](Asked& session) -> std::expected<std::size_t, Failure> {
          asked_.push_back(session.server);
          if (session.server == still) return session.wait_in_vain(kind);
          return answer_(session.server);
        },
        cannot_come_twice);
  }

  std::vector<std::size_t> asked_{};
  std::vector<std::size_t> connected_{};
  std::function<std::expected<std::size_t, Failure>(std::size_t)> answer_ = [](std::size_t server) {
    return server;
  };
  Sessions<Asked> all_{"fake:", std::chrono::minutes{1}, Access::kReadWrite, 3,
                       [this](std::size_t server, SteadyTime) {
                         connected_.push_back(server);
                         return Sessions<Asked>::Opened(Asked{.server = server});
                       }};
};

TEST_F(SessionsOfThree, AReadGoesToAnotherServerInTimeAndTheOneThatStandsStillIsAskedLast) {
  EXPECT_EQ(ask(Kind::kRead), 1U);
  EXPECT_EQ(asked_, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(ask(Kind::kHandOut), 1U) << "its connection is open";
  EXPECT_EQ(ask(Kind::kRead, false, 1), 2U);
  EXPECT_EQ(connected_, (std::vector<std::size_t>{0, 1, 2})) << "the first one is not tried again";
}

TEST_F(SessionsOfThree, AWriteThatCouldComeTwiceIsSentOnce) {
  EXPECT_EQ(code_of(ask(Kind::kHandOut)), Code::kDeadlineExceeded);
  EXPECT_EQ(asked_, (std::vector<std::size_t>{0}));

  answer_ = [this](std::size_t server) -> std::expected<std::size_t, Failure> {
    if (asked_.size() > 1) return server;
    return std::unexpected(Failure{.error = {Code::kUnknown, "the connection broke"}});
  };
  constexpr std::size_t kNone = 3;
  EXPECT_EQ(code_of(ask(Kind::kHandOut, false, kNone)), Code::kUnknown) << "with time left";
  EXPECT_EQ(asked_.size(), 1U);
}

// The write that was sent to the first one may be applied.
TEST_F(SessionsOfThree, AWriteThatCannotComeTwiceIsSentAgainAndNeverSaidToBeUndone) {
  EXPECT_EQ(ask(Kind::kHandOut, true), 1U);
  EXPECT_EQ(asked_, (std::vector<std::size_t>{0, 1}));
  answer_ = [](std::size_t) -> std::expected<std::size_t, Failure> {
    return std::unexpected(Failure{.error = {Code::kResourceExhausted, "full"}});
  };
  const Result<std::size_t> failed = ask(Kind::kHandOut, true, 1);
  EXPECT_EQ(code_of(failed), Code::kUnknown);
  EXPECT_THAT(fakes::why(failed), Not(HasSubstr("nothing was changed")));
  EXPECT_EQ(asked_, (std::vector<std::size_t>{1, 2}));
}

}  // namespace
}  // namespace idmint::stores
