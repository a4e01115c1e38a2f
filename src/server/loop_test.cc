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

}  // namespace
}  // namespace idmint::server
