// The order of the calls of a GaplessInserter, over transactions that a script answers.
#include "sequences/gapless_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "tests/fakes/code_of.h"
#include "tests/fakes/manual_executor.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::ManualExecutor;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::steady_clock;
using Documents = GaplessTransactions::Documents;
using Request = GaplessQueue::Request;

struct Sent {
  std::size_t calls;
  SteadyTime until;
  std::int64_t floor = 0;
  bool operator==(const Sent&) const = default;
};
using Reply = std::expected<GaplessTransactions::First, GaplessTransactions::Refused>;

// Transactions that give these answers, one after the other; then 1.
class Scripted final : public GaplessTransactions {
 public:
  Scripted(std::deque<Reply> replies, std::vector<Sent>& sent)
      : replies_(std::move(replies)), sent_(sent) {}
  Result<void> check(std::span<const std::byte> /*document*/) const override { return {}; }
  Reply insert(std::vector<std::shared_ptr<const Documents>> calls, std::int64_t floor,
               SteadyTime until) override {
    sent_.push_back({calls.size(), until, floor});
    if (replies_.empty()) return First{1};
    Reply reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }

 private:
  std::deque<Reply> replies_;
  std::vector<Sent>& sent_;
};

Reply refused(std::optional<std::size_t> call) {
  return std::unexpected(GaplessTransactions::Refused{{Code::kInvalidArgument, "no"}, true, call});
}

struct Queue {
  std::vector<Sent> sent{};
  ManualExecutor executor{};
  GaplessQueue queue;

  explicit Queue(std::deque<Reply> replies = {})
      : queue{.what = "test",
              .deadline = minutes{1},
              .max_outstanding = 100,
              .executor = executor,
              .transactions = std::make_unique<Scripted>(std::move(replies), sent)} {}

  // Queued, as by a thread that then sleeps.
  std::shared_ptr<Request> come(steady_clock::duration wait) {
    auto request = std::make_shared<Request>();
    request->documents = std::make_shared<const Documents>(Documents{std::vector<std::byte>(5)});
    request->until = steady_clock::now() + wait;
    request->begun_by = request->until;
    const std::lock_guard lock(queue.mutex);
    queue.queue.push_back(request);
    return request;
  }
  // The thread of the request wakes up, and does what is to be done until it is answered.
  Result<Range> finish(Request& request, bool* entered = nullptr) {
    std::unique_lock lock(queue.mutex);
    if (entered != nullptr) *entered = true;
    return queue.wait_for(request, lock);
  }
};

// It can be woken to lead when its time is over: then it leads still, or the others would sleep on.
TEST(GaplessQueueTest, WhoIsLateWhenItIsToLeadLeavesNobodyAsleep) {
  for (bool tried = false; !tried;) {
    Queue test;
    GaplessQueue& queue = test.queue;
    queue.led = true;  // by another
    const auto late = test.come(milliseconds{100});
    const auto patient = test.come(seconds{20});
    bool late_waits = false;
    bool patient_waits = false;
    Result<Range> first;
    Result<Range> second;
    {
      const std::jthread one([&] { first = test.finish(*late, &late_waits); });
      const std::jthread other([&] { second = test.finish(*patient, &patient_waits); });
      for (bool both = false; !both; std::this_thread::yield()) {
        std::unique_lock lock(queue.mutex);
        both = late_waits && patient_waits;
        if (!both) continue;
        tried = queue.queue.size() == 2;  // or it went before the other came: once more
        while (steady_clock::now() <= late->begun_by) std::this_thread::yield();
        queue.leave(lock);
      }
    }
    if (!tried) continue;
    EXPECT_EQ(first, (Range{1, 1, 1}));
    EXPECT_EQ(second, (Range{2, 1, 1}));
  }
}

TEST(GaplessQueueTest, ALeaderIsInItsTransactionAndOnlyTheFirstLeads) {
  Queue test;
  const auto first = test.come(minutes{1});
  const auto second = test.come(seconds{0});
  EXPECT_EQ(code_of(test.finish(*second)), Code::kUnavailable);
  EXPECT_TRUE(test.sent.empty());
  EXPECT_EQ(test.finish(*first), (Range{1, 1, 1}));
  EXPECT_EQ(test.sent, (std::vector<Sent>{{1, first->until}}));
}

TEST(GaplessQueueTest, WhereNobodyIsToBlameALeaderTriesItselfAloneAndGoes) {
  Queue test({refused({}), refused({})});
  const auto first = test.come(minutes{1});
  const auto second = test.come(minutes{2});
  const auto third = test.come(minutes{3});
  const auto later = test.come(minutes{4});
  test.queue.queue.pop_back();
  EXPECT_EQ(code_of(test.finish(*first)), Code::kInvalidArgument);
  EXPECT_EQ(test.sent, (std::vector<Sent>{{3, first->until}, {1, first->until}}));
  EXPECT_FALSE(second->answer || third->answer);
  test.queue.queue.push_back(later);
  EXPECT_EQ(test.finish(*second), (Range{1, 1, 1}));
  EXPECT_EQ(test.finish(*third), (Range{1, 1, 1}));
  EXPECT_EQ(test.finish(*later), (Range{1, 1, 1}));
  test.sent.erase(test.sent.begin(), test.sent.begin() + 2);
  EXPECT_EQ(test.sent,
            (std::vector<Sent>{{1, second->until}, {1, third->until, 2}, {1, later->until, 2}}));
}

TEST(GaplessQueueTest, ATransactionIsToldTheNumberAfterTheLastThatWasAcknowledged) {
  Queue test({GaplessTransactions::First{7}, refused(0), GaplessTransactions::First{12}});
  for (int i = 0; i < 4; ++i) {
    const auto call = test.come(minutes{1});
    static_cast<void>(test.finish(*call));
  }
  std::vector<std::int64_t> floors;
  for (const Sent& sent : test.sent) floors.push_back(sent.floor);
  EXPECT_EQ(floors, (std::vector<std::int64_t>{0, 8, 8, 13}));
}

TEST(GaplessQueueTest, AStoreThatWentBackIsTheAnswerToEverybodyForGood) {
  Queue test({std::unexpected(
      GaplessTransactions::Refused{{Code::kDataLoss, "gone back"}, true, std::nullopt})});
  const auto first = test.come(minutes{1});
  const auto second = test.come(minutes{1});
  second->alone = true;
  EXPECT_EQ(code_of(test.finish(*first)), Code::kDataLoss);
  EXPECT_EQ(code_of(test.finish(*second)), Code::kDataLoss);
  EXPECT_EQ(code_of(test.queue.insert({{}})), Code::kDataLoss);
  EXPECT_EQ(test.sent.size(), 1);
}

TEST(GaplessQueueTest, WhoIsToBlameGoesAndTheNextOneLeads) {
  Queue test({refused(1), refused(0)});
  const auto first = test.come(minutes{1});
  const auto second = test.come(minutes{2});
  const auto third = test.come(minutes{3});
  EXPECT_EQ(code_of(test.finish(*first)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(test.finish(*second)), Code::kInvalidArgument);
  EXPECT_FALSE(third->answer);
  EXPECT_EQ(test.finish(*third), (Range{1, 1, 1}));
  EXPECT_EQ(test.sent,
            (std::vector<Sent>{{3, first->until}, {2, first->until}, {1, third->until}}));
  EXPECT_EQ(test.queue.statistics.transactions, 3);
  EXPECT_EQ(test.queue.statistics.calls, 1);
}

// ---- asynchronous calls

// Documents of one call, and what it was answered with.
struct Call {
  std::vector<Result<Range>> answers{};

  Result<void> submit(GaplessQueue& queue) {
    return queue.submit({std::vector<std::byte>(5)},
                        [this](Result<Range> answer) { answers.push_back(std::move(answer)); });
  }
};

TEST(GaplessQueueTest, CallsThatDoNotWaitShareTheTransactionOfATask) {
  Queue test;
  Call first;
  Call second;
  ASSERT_TRUE(first.submit(test.queue));
  ASSERT_TRUE(second.submit(test.queue));
  EXPECT_TRUE(test.sent.empty() && first.answers.empty());
  EXPECT_EQ(test.executor.size(), 1U);
  test.executor.run_all();
  EXPECT_EQ(first.answers, (std::vector<Result<Range>>{Range{1, 1, 1}}));
  EXPECT_EQ(second.answers, (std::vector<Result<Range>>{Range{2, 1, 1}}));
  EXPECT_EQ(test.sent.size(), 1U);
}

TEST(GaplessQueueTest, ABlockingCallLeadsInPlaceOfATaskThatHasNotBegun) {
  Queue test;
  Call first;
  ASSERT_TRUE(first.submit(test.queue));
  EXPECT_EQ(test.queue.insert({{}}), (Range{2, 1, 1}));
  EXPECT_EQ(first.answers, (std::vector<Result<Range>>{Range{1, 1, 1}}));
  test.executor.run_all();
  EXPECT_EQ(test.sent.size(), 1U);
}

TEST(GaplessQueueTest, ATaskFollowsABlockingCall) {
  Queue test;
  static_cast<void>(test.come(minutes{1}));
  Call next;
  {
    const std::lock_guard lock(test.queue.mutex);
    test.queue.led = true;
  }
  ASSERT_TRUE(next.submit(test.queue));
  {
    std::unique_lock lock(test.queue.mutex);
    test.queue.queue.pop_front();  // it was served
    test.queue.leave(lock);
  }
  EXPECT_EQ(test.executor.size(), 1U);
  test.executor.run_all();
  EXPECT_EQ(next.answers, (std::vector<Result<Range>>{Range{1, 1, 1}}));
}

TEST(GaplessQueueTest, WhoIsToBlameAmongThoseThatDoNotWaitIsToldAndTheOthersGoOn) {
  Queue test({refused(0)});
  Call first;
  Call second;
  ASSERT_TRUE(first.submit(test.queue) && second.submit(test.queue));
  test.executor.run_all();
  ASSERT_EQ(first.answers.size(), 1U);
  EXPECT_EQ(code_of(first.answers[0]), Code::kInvalidArgument);
  EXPECT_EQ(second.answers, (std::vector<Result<Range>>{Range{1, 1, 1}}));
}

TEST(GaplessQueueTest, ATaskThatIsRefusedIsNotQueued) {
  Queue test;
  test.executor.refuse(Error{Code::kResourceExhausted, "no thread"});
  Call call;
  EXPECT_EQ(code_of(call.submit(test.queue)), Code::kResourceExhausted);
  EXPECT_EQ(test.queue.insert({{}}), (Range{1, 1, 1}));
  EXPECT_TRUE(call.answers.empty());
}

TEST(GaplessQueueTest, CloseAnswersEachCallOnceAndRefusesLaterOnes) {
  Call first;
  Queue test;
  ASSERT_TRUE(first.submit(test.queue));
  test.queue.close();
  ASSERT_EQ(first.answers.size(), 1U);
  EXPECT_EQ(code_of(first.answers[0]), Code::kUnavailable);
  EXPECT_EQ(code_of(first.submit(test.queue)), Code::kUnavailable);
  EXPECT_EQ(code_of(test.queue.insert({{}})), Code::kUnavailable);
  test.executor.run_all();  // the task finds it closed
  EXPECT_EQ(first.answers.size(), 1U);
  EXPECT_TRUE(test.sent.empty());
}

}  // namespace
}  // namespace idmint
