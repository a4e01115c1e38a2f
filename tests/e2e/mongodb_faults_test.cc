// Eight processes take values from one counter of a replica set, whose members stand behind relays,
// while its primary is killed, frozen, deposed and cut off, and replies are dropped, requests
// repeated and all of it delayed. Each new connection must say who it is. What the processes note
// is all that the check knows. IDMINT_FAULT_ROUNDS sets how often each fault is tried,
// IDMINT_FAULT_SEED repeats a run.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idmint/store.h"
#include "tests/e2e/counter_history.h"
#include "tests/servers/mongo.h"

namespace idmint::e2e {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, which all processes share
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kWriters = 8;
// Of every other one: longer than an election, and shorter, so that outcomes are unknown.
constexpr std::array kDeadlines = {milliseconds{8000}, milliseconds{800}};
// For processes that wait for a processor.
constexpr milliseconds kSlack = seconds{4};
constexpr const char* kCounter = "c";

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// ---- a writer

Note take(CounterStore& counters, std::int64_t count, int caller, milliseconds deadline) {
  const std::int64_t longest = std::chrono::nanoseconds(deadline + kSlack).count();
  Note note{now(), 0, longest, 0, count, Outcome::kWrong, caller};
  const Result<Range> range = counters.advance(kCounter, count, Take::kAll);
  note.answered = now();
  if (range) {
    note.first = range->first;
    const bool as_asked = range->count == count && range->stride == 1;
    note.outcome = as_asked ? Outcome::kTaken : Outcome::kWrong;
    return note;
  }
  const Code code = range.error().code;
  if (code == Code::kUnknown || code == Code::kDeadlineExceeded) note.outcome = Outcome::kUnknown;
  if (code == Code::kUnavailable) note.outcome = Outcome::kRefused;
  if (note.outcome == Outcome::kWrong) std::fprintf(stderr, "%s\n", range.error().message.c_str());
  return note;
}

// Notes its calls on what is its standard output, each with one write(2), until standard input
// ends.
int write_until_told(const std::string& url, int caller) {
  // The driver logs to standard output.
  const int notes = dup(STDOUT_FILENO);
  if (notes < 0 || dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO) < 0) return 1;
  const milliseconds deadline = kDeadlines.at(static_cast<std::size_t>(caller) % kDeadlines.size());
  auto store = open_store(url, {.deadline = deadline});
  // Eight who come at once wait for each other.
  for (int attempt = 0; !store && attempt < 50; ++attempt)
    store = open_store(url, {.deadline = deadline});
  if (!store) {
    std::fprintf(stderr, "%s\n", store.error().message.c_str());
    return 1;
  }
  for (std::int64_t i = 0;; ++i) {
    pollfd end{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&end, 1, 0) != 0) return 0;
    const Note note = take(*(*store)->counters(), 1 + (i + caller) % 3, caller, deadline);
    if (write(notes, &note, sizeof note) != sizeof note) return 1;
  }
}

// ---- those who start and end them

class Writers {
 public:
  Writers(const std::string& url, int count) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) std::abort();
    for (int i = 0; i < count; ++i) {
      std::array<std::string, 4> words{"mongodb_faults_test", "--writer", url, std::to_string(i)};
      std::array<char*, 5> arguments{};
      std::ranges::transform(words, arguments.begin(),
                             [](std::string& word) { return word.data(); });
      const pid_t parent = getpid();
      const pid_t pid = fork();
      if (pid < 0) std::abort();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execv("/proc/self/exe", arguments.data());
        _exit(127);
      }
      pids_.push_back(pid);
    }
    close(in[0]);
    close(out[1]);
    stop_ = in[1];
    notes_fd_ = out[0];
    reader_ = std::jthread([this] { read_notes(); });
  }
  ~Writers() {
    if (stop_ >= 0) static_cast<void>(stop());
  }
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  // Whether so many more calls took values before `longest` was over.
  bool wait_for(int more, milliseconds longest) {
    std::unique_lock lock(mutex_);
    const int enough = taken_ + more;
    return changed_.wait_for(lock, longest, [&] { return taken_ >= enough; });
  }

  // Of all calls; each was answered.
  std::vector<Note> stop() {
    close(stop_);
    stop_ = -1;
    for (const pid_t pid : pids_) {
      int status = 0;
      EXPECT_EQ(waitpid(pid, &status, 0), pid);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    reader_.join();
    close(notes_fd_);
    return std::move(notes_);
  }

 private:
  void read_notes() {
    std::string bytes;
    for (;;) {
      std::array<char, 4096> some{};
      const ssize_t got = read(notes_fd_, some.data(), some.size());
      if (got <= 0) return;
      bytes.append(some.data(), static_cast<std::size_t>(got));
      const std::lock_guard lock(mutex_);
      std::size_t from = 0;
      for (; bytes.size() - from >= sizeof(Note); from += sizeof(Note)) {
        Note note{};
        bytes.copy(reinterpret_cast<char*>(&note), sizeof note, from);
        notes_.push_back(note);
        if (note.outcome == Outcome::kTaken) ++taken_;
      }
      bytes.erase(0, from);
      changed_.notify_all();
    }
  }

  std::vector<pid_t> pids_;
  int stop_ = -1;
  int notes_fd_ = -1;
  std::mutex mutex_;  // guards what follows, until the reader has ended
  std::condition_variable changed_;
  std::vector<Note> notes_;
  int taken_ = 0;
  std::jthread reader_;
};

// ---- faults

class MongodbFaults : public testing::Test {
 public:
  static void SetUpTestSuite() { set_ = new servers::MongoSet({.relays = true, .users = true}); }
  static void TearDownTestSuite() { delete set_; }

  void SetUp() override {
    const char* const seed = std::getenv("IDMINT_FAULT_SEED");
    seed_ = seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : std::random_device{}();
    random_.seed(seed_);
    const auto store = open_store(url_, {.deadline = seconds{30}});
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE((*store)->counters()->create(kCounter, {1, kLargestValue}));
    writers_ = std::make_unique<Writers>(url_, kWriters);
  }

  // Stops the writers and judges what they noted.
  void judge_all(int faults, int planned, int least) {
    std::vector<Note> notes = writers_->stop();
    const auto store = open_store(url_, {.deadline = seconds{30}});
    ASSERT_TRUE(store) << store.error().message;
    notes.push_back(take(*(*store)->counters(), 1, kWriters, seconds{30}));
    ASSERT_EQ(notes.back().outcome, Outcome::kTaken);
    const Verdict verdict = judge(notes, 1);
    EXPECT_THAT(verdict.wrong, testing::IsEmpty());
    std::printf(
        "seed %u: %d faults, %d calls answered with %lld values, %d of unknown outcome, %d "
        "refused, %lld values missing of %lld of unknown fate, longest %lld ms\n",
        seed_, faults, verdict.taken, static_cast<long long>(verdict.values), verdict.unknowns,
        verdict.refused, static_cast<long long>(verdict.missing),
        static_cast<long long>(verdict.unknown),
        static_cast<long long>(verdict.longest / 1'000'000));
    // With less than this nothing was tried.
    EXPECT_EQ(faults, planned);
    EXPECT_GE(verdict.taken, least);
  }

  bool goes_on(int more = 100) { return writers_->wait_for(more, std::chrono::minutes{1}); }
  milliseconds between(int least, int most) {
    return milliseconds{std::uniform_int_distribution(least, most)(random_)};
  }
  // Meanwhile the fault lasts.
  void let_pass(milliseconds time) { writers_->wait_for(1 << 30, time); }

  void kill() {
    const std::size_t primary = set_->primary();
    set_->member(primary).kill();
    EXPECT_TRUE(goes_on()) << "nobody went on after a kill";
    EXPECT_NE(set_->primary(), primary);
    set_->member(primary).restart();
  }
  void freeze() {
    const std::size_t primary = set_->primary();
    set_->member(primary).signal(SIGSTOP);
    let_pass(between(1000, 3000));
    set_->member(primary).signal(SIGCONT);
  }
  void step_down() {
    servers::mongo_command(set_->direct(set_->primary()), "admin",
                           R"({"replSetStepDown":2,"force":true})");
  }
  // What the primary alone acknowledges is lost when it dies.
  void alone() {
    const std::size_t primary = set_->primary();
    for (std::size_t i = 0; i < 3; ++i)
      if (i != primary) set_->member(i).signal(SIGSTOP);
    let_pass(milliseconds{500});
    set_->member(primary).kill();
    for (std::size_t i = 0; i < 3; ++i)
      if (i != primary) set_->member(i).signal(SIGCONT);
    EXPECT_TRUE(goes_on()) << "nobody went on after the primary was alone and killed";
    set_->member(primary).restart();
  }
  // The other members do not reach the primary, which answers clients, until it steps down.
  void isolate() {
    servers::Relay& relay = set_->relay(set_->primary());
    relay.refuse(servers::Whose::kMembers);
    relay.cut(servers::Whose::kMembers);
    let_pass(between(2000, 3000));
    relay.refuse(std::nullopt);
  }
  // There may be another primary by the time that its relay knows.
  void tell_its_relay(void (servers::Relay::*fault)(int, std::string),
                      int servers::Relay::Counts::* met) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      servers::Relay& relay = set_->relay(set_->primary());
      const int before = relay.counts().*met;
      (relay.*fault)(20, "txnNumber");
      EXPECT_TRUE(goes_on());
      (relay.*fault)(0, "");
      if (relay.counts().*met > before) return;
    }
    ADD_FAILURE() << "no request met the fault";
  }
  void drop() { tell_its_relay(&servers::Relay::drop_replies, &servers::Relay::Counts::dropped); }
  void repeat() {
    tell_its_relay(&servers::Relay::repeat_requests, &servers::Relay::Counts::repeated);
  }
  void delay() {
    for (std::size_t i = 0; i < 3; ++i) set_->relay(i).delay(between(1, 60));
    EXPECT_TRUE(goes_on());
    for (std::size_t i = 0; i < 3; ++i) set_->relay(i).delay(milliseconds{0});
  }
  void cut() {
    for (std::size_t i = 0; i < 3; ++i) set_->relay(i).cut(servers::Whose::kClients);
  }

  static servers::MongoSet* set_;
  // Each test has a database of its own.
  std::string url_ = set_->url(testing::UnitTest::GetInstance()->current_test_info()->name());
  unsigned seed_ = 0;
  std::mt19937 random_;
  std::unique_ptr<Writers> writers_;
};

servers::MongoSet* MongodbFaults::set_ = nullptr;

TEST_F(MongodbFaults, OfEveryKindRepeatNothingAndLoseNothing) {
  const char* const wanted = std::getenv("IDMINT_FAULT_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 1;
  ASSERT_GT(rounds, 0);
  std::vector<std::function<void()>> plan;
  for (int i = 0; i < rounds; ++i)
    for (const auto fault :
         {&MongodbFaults::kill, &MongodbFaults::kill, &MongodbFaults::kill, &MongodbFaults::kill,
          &MongodbFaults::freeze, &MongodbFaults::step_down, &MongodbFaults::alone,
          &MongodbFaults::isolate, &MongodbFaults::drop, &MongodbFaults::repeat,
          &MongodbFaults::delay, &MongodbFaults::cut})
      plan.emplace_back([this, fault] { (this->*fault)(); });
  std::ranges::shuffle(plan, random_);
  int faults = 0;
  for (const auto& fault : plan) {
    ASSERT_TRUE(goes_on()) << "nobody went on after " << faults << " faults";
    fault();
    ++faults;
  }
  EXPECT_TRUE(goes_on());
  judge_all(faults, rounds * 12, rounds * 12 * 100);
}

// ---- the check

Note note(std::int64_t invoked, std::int64_t answered, std::int64_t first, std::int64_t count,
          Outcome outcome = Outcome::kTaken) {
  return {invoked, answered, 100, first, count, outcome, 0};
}

std::vector<std::string> wrong(const std::vector<Note>& notes) { return judge(notes, 1).wrong; }

TEST(CounterHistory, WhatOneCounterCanHaveAnsweredIsRight) {
  using testing::IsEmpty;
  EXPECT_THAT(wrong({note(0, 9, 1, 1), note(10, 19, 2, 3), note(20, 29, 5, 1)}), IsEmpty());
  EXPECT_THAT(wrong({note(0, 9, 2, 1), note(9, 19, 1, 1)}), IsEmpty()) << "at the same time";
  EXPECT_THAT(wrong({note(0, 9, 1, 1), note(0, 9, 0, 3, Outcome::kUnknown), note(20, 29, 5, 1)}),
              IsEmpty());
  EXPECT_THAT(wrong({note(0, 9, 1, 1), note(0, 9, 0, 3, Outcome::kRefused), note(20, 29, 2, 1)}),
              IsEmpty());
}

TEST(CounterHistory, EachKindOfWrongIsSeen) {
  using testing::ElementsAre;
  using testing::HasSubstr;
  EXPECT_THAT(wrong({note(0, 9, 1, 3), note(0, 9, 3, 1)}), ElementsAre(HasSubstr("twice")));
  EXPECT_THAT(wrong({note(0, 9, 2, 1), note(10, 19, 1, 1)}), ElementsAre(HasSubstr("below 2")));
  EXPECT_THAT(wrong({note(0, 9, 2, 1)}), ElementsAre(HasSubstr("1 values are missing")));
  EXPECT_THAT(wrong({note(0, 9, 1, 1), note(0, 9, 0, 3, Outcome::kRefused), note(20, 29, 5, 1)}),
              ElementsAre(HasSubstr("3 values are missing, but only 0")));
  EXPECT_THAT(wrong({note(0, 101, 1, 1)}), ElementsAre(HasSubstr("too late")));
  EXPECT_THAT(wrong({note(0, 9, 1, 1, Outcome::kWrong)}),
              ElementsAre(HasSubstr("no fault explains")));
  // Acknowledged, lost, and handed out again.
  EXPECT_THAT(wrong({note(0, 9, 1, 2), note(10, 19, 3, 2), note(20, 29, 3, 1)}).size(), 2);
}

}  // namespace
}  // namespace idmint::e2e

int main(int count, char** arguments) {
  if (count == 4 && std::string_view(arguments[1]) == "--writer")
    return idmint::e2e::write_until_told(arguments[2], std::atoi(arguments[3]));
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
