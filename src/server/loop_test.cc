// When the rounds of sequences begin that the loop submits to.
#include "server/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "tests/fakes/manual_executor.h"

namespace idmint::server {
namespace {

using fakes::ManualExecutor;

class LoopRounds : public testing::Test {
 protected:
  void post_round() {
    EXPECT_TRUE(rounds_->post([this] { ++begun_; }));
  }
  // Runs the loop until so many rounds were handed over.
  void run_until_handed_over(std::size_t count) {
    loop_.post([this, count] { stop_when(count); });
    loop_.run();
  }
  void stop_when(std::size_t count) {
    if (to_.size() == count) return loop_.stop();
    loop_.post([this, count] { stop_when(count); });
  }

  ManualExecutor elsewhere_;
  ManualExecutor to_;
  Loop loop_{elsewhere_};
  std::shared_ptr<Executor> rounds_ = loop_.rounds_on(to_);
  int begun_ = 0;
};

TEST_F(LoopRounds, ARoundOfTheLoopBeginsAfterWhatIsThereToDo) {
  loop_.post([this] { post_round(); });
  loop_.post([this] {
    EXPECT_EQ(to_.size(), 0U) << "a round may still carry what is asked for here";
    post_round();
  });
  run_until_handed_over(2);
  to_.run_all();
  EXPECT_EQ(begun_, 2);
}

// As a client does that has its answer, and asks again.
TEST_F(LoopRounds, ARoundWaitsForTheAnswersBeforeItAndForWhatTheyMakeClientsSend) {
  using Socket = boost::asio::local::stream_protocol::socket;
  Socket client(loop_.context());
  Socket server(loop_.context());
  boost::asio::local::connect_pair(client, server);
  struct Answer final : Awaited {
    void answered() override { client->send(boost::asio::buffer("again", 5)); }
    Socket* client = nullptr;
  } answer;
  answer.client = &client;
  std::optional<std::size_t> handed_over;  // when the server read it
  server.async_wait(Socket::wait_read, [&](const boost::system::error_code& error) {
    EXPECT_FALSE(error);
    handed_over = to_.size();
  });
  std::thread([&] {
    loop_.deliver(answer);
    post_round();
  }).join();
  run_until_handed_over(1);
  EXPECT_EQ(handed_over, 0U);
}

TEST_F(LoopRounds, WhereNoThreadIsLeftTheLoopRunsTheRound) {
  to_.refuse(Error{Code::kResourceExhausted, "no thread"});
  EXPECT_TRUE(rounds_->post([this] {
    ++begun_;
    loop_.stop();
  }));
  EXPECT_EQ(begun_, 0);
  loop_.run();
  EXPECT_EQ(begun_, 1);
}

TEST_F(LoopRounds, ATaskOfThemIsOneRound) {
  EXPECT_EQ(rounds_->turn(), std::chrono::nanoseconds{0});
}

TEST(LoopRoundsAfterTheLoop, AreHandedOverAtOnce) {
  ManualExecutor elsewhere;
  ManualExecutor to;
  std::shared_ptr<Executor> rounds;
  {
    Loop loop(elsewhere);
    rounds = loop.rounds_on(to);
    EXPECT_TRUE(rounds->post([] {}));
    EXPECT_EQ(to.size(), 0U);
  }
  EXPECT_TRUE(rounds->post([] {}));
  EXPECT_EQ(to.size(), 1U);
}

TEST(LoopLanes, LeaveThreadsToTheCallsOfOthers) {
  ManualExecutor threads;
  Loop loop(threads);
  int answered = 0;
  const auto ask = [&](std::string_view lane) {
    loop.elsewhere(
        lane, loop.due(), [](SteadyTime) -> Result<int> { return 1; },
        [&answered](const Result<int>& result) {
          EXPECT_TRUE(result);
          ++answered;
        });
  };
  const auto turn = [&] {
    loop.context().restart();
    loop.context().poll();
  };
  constexpr std::size_t calls = Loop::kMostOfLane + 2;
  for (std::size_t i = 0; i < calls; ++i) ask("dead");
  EXPECT_EQ(threads.size(), Loop::kMostOfLane);
  ask("");
  EXPECT_EQ(threads.size(), Loop::kMostOfLane + 1);
  EXPECT_EQ(loop.waiting_elsewhere(), calls + 1);
  threads.run_one();
  turn();
  EXPECT_EQ(answered, 1);
  EXPECT_EQ(threads.size(), Loop::kMostOfLane + 1) << "the next one has begun";
  do turn();
  while (threads.run_one());
  EXPECT_EQ(answered, static_cast<int>(calls) + 1);
  EXPECT_EQ(loop.waiting_elsewhere(), 0U);
}

TEST(LoopLanes, ACallThatWaitedTooLongIsNotMade) {
  ManualExecutor threads;
  SteadyTime now{};
  Loop loop(threads, std::chrono::seconds{5}, [&now] { return now; });
  int made = 0;
  int late = 0;
  for (std::size_t i = 0; i <= Loop::kMostOfLane; ++i)
    loop.elsewhere(
        "dead", loop.due(),
        [&](SteadyTime) -> Result<int> {
          now = SteadyTime{} + std::chrono::seconds{5};
          return ++made;
        },
        [&](const Result<int>& result) { late += result ? 0 : 1; });
  do {
    loop.context().restart();
    loop.context().poll();
  } while (threads.run_one());
  EXPECT_EQ(made, 1);
  EXPECT_EQ(late, static_cast<int>(Loop::kMostOfLane));
}

}  // namespace
}  // namespace idmint::server
