// Processes take values from counters of a replica set, whose members stand behind relays, or
// insert documents with gapless numbers, while its primary is killed, frozen, deposed and cut off,
// and replies are dropped, requests repeated and all of it delayed. Each new connection must say
// who it is. The check knows only the notes of the processes and the collection.
// IDMINT_FAULT_ROUNDS sets how often each fault is tried, IDMINT_FAULT_SEED repeats a run.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mongoc/mongoc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idmint/gapless.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/counter_store.h"
#include "tests/e2e/counter_history.h"
#include "tests/servers/gapless.h"
#include "tests/servers/mongo.h"

namespace idmint::e2e {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, which all processes share
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kWriters = 8;
constexpr int kClassics = 2;
constexpr int kInserters = 4;
constexpr int kThreads = 4;  // of each inserter
// Every other process has a deadline that is longer than an election; the rest have a shorter one,
// so that outcomes are unknown.
constexpr std::array kDeadlines = {milliseconds{8000}, milliseconds{800}};
// For processes that wait for a processor.
constexpr milliseconds kSlack = seconds{4};

// The sources: a counter of the store, and sequences whose counters are documents of the classic
// recipes.
enum Item : std::uint8_t { kCounter, kUsers, kAccounts, kOrders, kItems };
constexpr std::array<const char*, kItems> kNames = {"c", "users", "accounts", "orders"};
constexpr const char* kClassicCollection = "uniqueIdentifierCounter";
constexpr const char* kUsersId = "UNIQUE COUNT DOCUMENT IDENTIFIER";
constexpr const char* kAccountsId = "COUNTER DOCUMENT NUMBER ";
constexpr int kBlocks = 8;
constexpr std::int64_t kFirstOrder = 1000;
constexpr const char* kBills = "gapless.bills";

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}
milliseconds deadline_of(int caller) {
  return kDeadlines.at(static_cast<std::size_t>(caller) % kDeadlines.size());
}

// ---- what a process does

// A call that begins now.
Note begun(std::int64_t count, milliseconds longest, int caller, std::int32_t item) {
  return {now(),  0,   std::chrono::nanoseconds(longest).count(), 0, count, Outcome::kWrong,
          caller, item};
}

Note answered(Note note, const Error& error) {
  note.answered = now();
  const Code code = error.code;
  if (code == Code::kUnknown || code == Code::kDeadlineExceeded) note.outcome = Outcome::kUnknown;
  if (code == Code::kUnavailable || (code == Code::kOutOfRange && note.item == kAccounts))
    note.outcome = Outcome::kRefused;
  if (note.outcome == Outcome::kWrong) std::fprintf(stderr, "%s\n", error.message().c_str());
  return note;
}

Note take(CounterStore& counters, std::int64_t count, int caller, milliseconds deadline) {
  Note note = begun(count, deadline + kSlack, caller, kCounter);
  const Result<Range> range = counters.advance(kNames[kCounter], count, Take::kAll);
  if (!range) return answered(note, range.error());
  note.answered = now();
  note.first = range->first;
  const bool as_asked = range->count == count && range->stride == 1;
  note.outcome = as_asked ? Outcome::kTaken : Outcome::kWrong;
  return note;
}

// A note for each value.
std::vector<Note> take(Sequence& sequence, std::size_t count, int caller, milliseconds deadline,
                       Item item) {
  // If a stripe does not answer, others are tried, each for as long.
  const milliseconds longest = (item == kAccounts ? 4 : 1) * deadline + kSlack;
  Note note = begun(static_cast<std::int64_t>(count), longest, caller, item);
  std::vector<std::int64_t> values(count);
  const Result<void> filled = sequence.next(values);
  if (!filled) return {answered(note, filled.error())};
  note.answered = now();
  note.outcome = Outcome::kTaken;
  note.count = 1;
  std::vector<Note> notes(count, note);
  for (std::size_t i = 0; i < count; ++i) notes[i].first = values[i];
  return notes;
}

// The notes of a process are its standard output, each of one write(2); it goes on until its
// standard input ends.
class Output {
 public:
  // The driver logs to standard output.
  Output() : notes_(dup(STDOUT_FILENO)) {
    if (notes_ < 0 || dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO) < 0) _exit(1);
  }
  void tell(const Note& note) const {
    if (write(notes_, &note, sizeof note) != sizeof note) _exit(1);
  }
  static bool goes_on() {
    pollfd end{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return poll(&end, 1, 0) == 0;
  }

 private:
  const int notes_;
};

// Processes that come all at once wait for each other, longer than the deadlines of some.
auto patiently(const auto& open) {
  auto opened = open();
  for (int attempt = 0; !opened && attempt < 50; ++attempt) opened = open();
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message().c_str());
    _exit(1);
  }
  return *std::move(opened);
}

int write_until_told(const std::string& url, int caller) {
  const Output output;
  const milliseconds deadline = deadline_of(caller);
  const auto store = patiently([&] { return Store::open(url, {.deadline = deadline}); });
  std::array<std::unique_ptr<Sequence>, kItems> sequences;
  for (std::size_t item = kUsers; item < kItems; ++item)
    sequences.at(item) =
        patiently([&] { return Sequence::open(*store, kNames.at(item), {.deadline = deadline}); });
  for (std::int64_t i = caller; Output::goes_on(); ++i) {
    const std::int64_t count = 1 + i % 3;
    if (i % 2 == 0) {
      output.tell(take(*store->counters(), count, caller, deadline));
      continue;
    }
    const auto item = static_cast<Item>(kUsers + i / 2 % 3);
    for (const Note& note :
         take(*sequences.at(item), static_cast<std::size_t>(count), caller, deadline, item))
      output.tell(note);
  }
  return 0;
}

// A program that knows nothing of idmint: findAndModify and $inc, over the driver as it comes, with
// write concern majority.
class Classic {
 public:
  explicit Classic(const std::string& url)
      : client_(mongoc_client_new(
            (url + "&w=majority&journal=true&socketTimeoutMS=5000&serverSelectionTimeoutMS=5000")
                .c_str())) {}
  ~Classic() { mongoc_client_destroy(client_); }
  Classic(const Classic&) = delete;
  Classic& operator=(const Classic&) = delete;

  Note take(std::int64_t i, int caller) {
    constexpr milliseconds kAsLongAsItTakes = std::chrono::minutes{10};  // it promises nothing
    if (i % 3 == 0) {
      Note note = begun(1 + i % 2, kAsLongAsItTakes, caller, kUsers);
      return noted(note, kClassicCollection, kUsersId, "COUNT", false);
    }
    if (i % 3 == 1) {
      const std::string id = kAccountsId + std::to_string(i / 3 % kBlocks);
      return noted(begun(20, kAsLongAsItTakes, caller, kAccounts), kClassicCollection, id, "COUNT",
                   false);
    }
    return noted(begun(10, kAsLongAsItTakes, caller, kOrders), "ids", "orders", "index", true);
  }

 private:
  Note noted(Note note, const char* collection, const std::string& id, const char* field,
             bool after) {
    mongoc_collection_t* const there = mongoc_client_get_collection(
        client_, mongoc_uri_get_database(mongoc_client_get_uri(client_)), collection);
    bson_t* const query = BCON_NEW("_id", BCON_UTF8(id.c_str()));
    bson_t* const update = BCON_NEW("$inc", "{", field, BCON_INT64(note.count), "}");
    mongoc_find_and_modify_opts_t* const how = mongoc_find_and_modify_opts_new();
    mongoc_find_and_modify_opts_set_update(how, update);
    if (after) mongoc_find_and_modify_opts_set_flags(how, MONGOC_FIND_AND_MODIFY_RETURN_NEW);
    bson_t reply;
    bson_error_t error;
    bool done = mongoc_collection_find_and_modify_with_opts(there, query, how, &reply, &error);
    note.answered = now();
    bson_iter_t at;
    bson_iter_t value;
    done = done && !bson_has_field(&reply, "writeConcernError");
    note.outcome = Outcome::kUnknown;
    if (done && bson_iter_init(&at, &reply) &&
        bson_iter_find_descendant(&at, (std::string("value.") + field).c_str(), &value)) {
      note.outcome = Outcome::kTaken;
      note.first = bson_iter_as_int64(&value) - (after ? note.count : 0);
    }
    // It looks afterwards whether all of them are in the block.
    if (done && bson_iter_init(&at, &reply) &&
        bson_iter_find_descendant(&at, "value.MAX_VALUE", &value)) {
      note.count = std::min(note.count, bson_iter_as_int64(&value) + 1 - note.first);
      if (note.count <= 0) note.outcome = Outcome::kRefused;
    }
    bson_destroy(&reply);
    mongoc_find_and_modify_opts_destroy(how);
    bson_destroy(update);
    bson_destroy(query);
    mongoc_collection_destroy(there);
    return note;
  }

  mongoc_client_t* const client_;
};

int take_as_ever(const std::string& url, int caller) {
  const Output output;
  mongoc_init();
  mongoc_log_set_handler(nullptr, nullptr);
  Classic classic(url);
  for (std::int64_t i = caller; Output::goes_on(); ++i) output.tell(classic.take(i, caller));
  return 0;
}

Note insert(GaplessInserter& inserter, milliseconds deadline, int caller, std::int32_t item) {
  bson_t* const document = BCON_NEW("caller", BCON_INT32(caller), "item", BCON_INT32(item));
  Note note = begun(1, deadline + kSlack, caller, item);
  const Result<std::int64_t> number =
      inserter.insert(std::as_bytes(std::span(bson_get_data(document), document->len)));
  bson_destroy(document);
  if (!number) return answered(note, number.error());
  note.answered = now();
  note.first = *number;
  note.outcome = Outcome::kTaken;
  return note;
}

auto open_inserter(const std::string& url, milliseconds deadline) {
  return patiently([&] {
    return servers::open_gapless(url, "bills", kBills, "number", {.deadline = deadline});
  });
}

int insert_until_told(const std::string& url, int caller) {
  const Output output;
  const milliseconds deadline = deadline_of(caller);
  const auto inserter = open_inserter(url, deadline);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, me = caller * kThreads + thread] {
      // From 1000 on, as an item may mean something else.
      for (std::int32_t i = 1000; Output::goes_on(); ++i)
        output.tell(insert(*inserter, deadline, me, i));
    });
  return 0;
}

struct Role {
  const char* name;
  int (*run)(const std::string& url, int caller);
};
constexpr std::array kRoles = {Role{"--writer", write_until_told}, Role{"--classic", take_as_ever},
                               Role{"--inserter", insert_until_told}};

// ---- those who start and end them

// The least number of answered calls: of one item or of any, by the classic recipes or by anyone.
struct Load {
  int least;
  std::optional<Item> item{};
  bool by_classics = false;

  [[nodiscard]] bool has(const Note& note) const {
    // Accounts are used up on the way.
    const bool answered =
        note.outcome == Outcome::kTaken || (item == kAccounts && note.outcome == Outcome::kRefused);
    return answered && (!item || note.item == *item) && (!by_classics || note.caller >= kWriters);
  }
};

class Writers {
 public:
  // One for each name of a role.
  Writers(const std::string& url, const std::vector<std::string>& roles) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) std::abort();
    for (const std::string& role : roles) {
      std::array<std::string, 4> words{"mongodb_faults_test", role, url,
                                       std::to_string(pids_.size())};
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

  // Whether all of it came before `longest` was over.
  bool wait_for(std::vector<Load> missing, milliseconds longest) {
    std::unique_lock lock(mutex_);
    std::size_t seen = notes_.size();
    return changed_.wait_for(lock, longest, [&] {
      for (; seen < notes_.size(); ++seen)
        for (Load& some : missing) some.least -= some.has(notes_[seen]) ? 1 : 0;
      return std::ranges::all_of(missing, [](const Load& some) { return some.least <= 0; });
    });
  }

  // The notes of all calls; each was answered.
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
  std::jthread reader_;
};

// How long the machine stood still at the most, which no call is to blame for: so much too late a
// thread got up that slept.
class StoodStill {
 public:
  StoodStill()
      : thread_([this](const std::stop_token& stop) {
          constexpr milliseconds kNap{50};
          for (auto before = Clock::now(); !stop.stop_requested();) {
            std::this_thread::sleep_for(kNap);
            const auto now = Clock::now();
            longest_ = std::max(longest_.load(), now - before - kNap);
            before = now;
          }
        }) {}
  [[nodiscard]] std::int64_t longest() const {  // nanoseconds
    return std::chrono::nanoseconds(longest_.load()).count();
  }

 private:
  std::atomic<Clock::duration> longest_{};
  std::jthread thread_;
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
    const char* const wanted = std::getenv("IDMINT_FAULT_ROUNDS");
    rounds_ = wanted != nullptr ? std::atoi(wanted) : 1;
    ASSERT_GT(rounds_, 0);
    auto store = Store::open(url_, {.deadline = seconds{30}});
    ASSERT_TRUE(store) << store.error().message();
    store_ = *std::move(store);
  }

  using Fault = void (MongodbFaults::*)();
  // Each fault `rounds_` times, in any order, and load between.
  void try_all(std::initializer_list<Fault> faults) {
    std::vector<Fault> plan;
    for (int i = 0; i < rounds_; ++i) plan.insert(plan.end(), faults);
    std::ranges::shuffle(plan, random_);
    for (const Fault fault : plan) {
      ASSERT_TRUE(goes_on()) << "nobody went on after " << faults_ << " faults";
      (this->*fault)();
      ++faults_;
    }
    EXPECT_TRUE(goes_on());
    EXPECT_EQ(faults_, std::ssize(plan)) << "not all was tried";
  }

  void judge_all(const std::string& what, std::vector<Note> notes, std::int64_t start,
                 Promise promise = Promise::kLinearizable) const {
    for (Note& note : notes) note.longest += stood_still_.longest();
    const Verdict verdict = judge(notes, start, promise);
    EXPECT_THAT(verdict.wrong, testing::IsEmpty()) << what;
    std::printf(
        "%s, seed %u: %d faults, %d calls answered with %lld values, %d of unknown outcome, %d "
        "refused, %lld values missing of %lld of unknown fate, longest %lld ms, stood still %lld "
        "ms\n",
        what.c_str(), seed_, faults_, verdict.taken, static_cast<long long>(verdict.values),
        verdict.unknowns, verdict.refused, static_cast<long long>(verdict.missing),
        static_cast<long long>(verdict.unknown),
        static_cast<long long>(verdict.longest / 1'000'000),
        static_cast<long long>(stood_still_.longest() / 1'000'000));
  }

  bool goes_on() { return writers_->wait_for(load_, std::chrono::minutes{3}); }
  milliseconds between(int least, int most) {
    return milliseconds{std::uniform_int_distribution(least, most)(random_)};
  }
  // Meanwhile the fault lasts.
  void let_pass(milliseconds time) { writers_->wait_for({{.least = 1 << 30}}, time); }

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
  // A write that the primary alone acknowledges is lost when it dies.
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
                      int servers::Relay::Counts::* met, int count = 20,
                      const char* text = "txnNumber") {
    for (int attempt = 0; attempt < 10; ++attempt) {
      servers::Relay& relay = set_->relay(set_->primary());
      const int before = relay.counts().*met;
      (relay.*fault)(count, text);
      EXPECT_TRUE(goes_on());
      (relay.*fault)(0, "");
      if (relay.counts().*met > before) return;
    }
    ADD_FAILURE() << "no request met the fault";
  }
  void drop() { tell_its_relay(&servers::Relay::drop_replies, &servers::Relay::Counts::dropped); }
  void drop_some() {
    tell_its_relay(&servers::Relay::drop_replies, &servers::Relay::Counts::dropped, 5);
  }
  void repeat() {
    tell_its_relay(&servers::Relay::repeat_requests, &servers::Relay::Counts::repeated);
  }
  void drop_commits() {
    tell_its_relay(&servers::Relay::drop_replies, &servers::Relay::Counts::dropped, 5,
                   "commitTransaction");
  }
  void repeat_commits() {
    tell_its_relay(&servers::Relay::repeat_requests, &servers::Relay::Counts::repeated, 5,
                   "commitTransaction");
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
  int rounds_ = 0;
  int faults_ = 0;
  StoodStill stood_still_;
  std::unique_ptr<Store> store_;
  Writers* writers_ = nullptr;
  // Less load between two faults would try nothing.
  std::vector<Load> load_ = {{.least = 100}};
};

servers::MongoSet* MongodbFaults::set_ = nullptr;

// The documents of the classic recipes are taken from by programs of two kinds.
TEST_F(MongodbFaults, OfEveryKindRepeatNothingAndLoseNothing) {
  // So few that they are used up on the way.
  const std::int64_t accounts = std::int64_t{rounds_} * 12 * 50 * kBlocks;
  ASSERT_TRUE(store_->counters()->create(kNames[kCounter], {1, kLargestValue}));
  const std::array<SequenceDefinition, 3> adopted = {
      SequenceDefinition{
          .name = kNames[kUsers],
          .first = 0,
          .adopted = std::string(kClassicCollection) + "/" + kUsersId + ":next=COUNT"},
      SequenceDefinition{.name = kNames[kAccounts],
                         .strategy = Strategy::kStriped,
                         .first = 0,
                         .last = accounts - 1,
                         .stripes = kBlocks,
                         .adopted = std::string(kClassicCollection) + "/" + kAccountsId +
                                    "{k}:next=COUNT,max=MAX_VALUE"},
      SequenceDefinition{.name = kNames[kOrders],
                         .strategy = Strategy::kCached,
                         .first = kFirstOrder,
                         .step = 10,
                         .adopted = "ids/orders:next=index"}};
  for (SequenceDefinition definition : adopted) {
    definition.make_adopted = true;
    const auto created = create_sequence(*store_, definition);
    ASSERT_TRUE(created) << created.error().message();
  }
  std::vector<std::string> roles(kWriters, "--writer");
  roles.resize(kWriters + kClassics, "--classic");
  Writers writers(url_, roles);
  writers_ = &writers;
  load_ = {{.least = 100},
           {.least = 20, .item = kCounter},
           {.least = 10, .item = kUsers},
           {.least = 5, .item = kAccounts},
           {.least = 10, .item = kOrders},
           {.least = 1, .item = kUsers, .by_classics = true},
           {.least = 1, .item = kAccounts, .by_classics = true},
           {.least = 1, .item = kOrders, .by_classics = true}};
  using F = MongodbFaults;
  ASSERT_NO_FATAL_FAILURE(
      try_all({&F::kill, &F::kill, &F::kill, &F::kill, &F::freeze, &F::step_down, &F::alone,
               &F::isolate, &F::drop, &F::repeat, &F::delay, &F::cut}));

  std::array<std::vector<Note>, kItems> notes;
  for (const Note& note : writers.stop())
    notes.at(static_cast<std::size_t>(note.item)).push_back(note);
  constexpr int kLast = kWriters + kClassics;
  notes[kCounter].push_back(take(*store_->counters(), 1, kLast, seconds{30}));
  ASSERT_EQ(notes[kCounter].back().outcome, Outcome::kTaken);
  for (const Item item : {kUsers, kAccounts, kOrders}) {
    const auto sequence = Sequence::open(*store_, kNames.at(item), {.deadline = seconds{30}});
    ASSERT_TRUE(sequence) << sequence.error().message();
    do {
      for (const Note& note : take(**sequence, 1, kLast, seconds{30}, item))
        notes.at(item).push_back(note);
      ASSERT_NE(notes.at(item).back().outcome, Outcome::kWrong);
    } while (item == kAccounts && notes.at(item).back().outcome == Outcome::kTaken);
  }
  judge_all(kNames[kCounter], notes[kCounter], 1);
  judge_all(kNames[kUsers], notes[kUsers], 0);
  judge_all(kNames[kAccounts], notes[kAccounts], 0, Promise::kUnique);
  judge_all(kNames[kOrders], notes[kOrders], kFirstOrder, Promise::kUnique);
  const auto is_out_of = [](std::int64_t first, std::int64_t last) {
    return [=](const Note& note) {
      return note.outcome == Outcome::kTaken &&
             (note.first < first || note.first + note.count - 1 > last);
    };
  };
  EXPECT_TRUE(std::ranges::none_of(notes[kAccounts], is_out_of(0, accounts - 1)));
  EXPECT_TRUE(std::ranges::none_of(notes[kOrders], is_out_of(kFirstOrder, kLargestValue)));
}

TEST_F(MongodbFaults, GaplessNumbersHaveNoHoleAndEachDocumentIsThereOnce) {
  ASSERT_TRUE(create_sequence(*store_, {.name = "bills", .strategy = Strategy::kGapless}));
  Writers writers(url_, std::vector<std::string>(kInserters, "--inserter"));
  writers_ = &writers;
  using F = MongodbFaults;
  ASSERT_NO_FATAL_FAILURE(try_all({&F::drop_commits, &F::repeat_commits, &F::drop_some, &F::cut,
                                   &F::delay, &F::freeze, &F::step_down}));
  std::vector<Note> notes = writers.stop();
  const auto inserter = open_inserter(url_, seconds{30});
  notes.push_back(insert(*inserter, seconds{30}, kInserters * kThreads, 0));
  ASSERT_EQ(notes.back().outcome, Outcome::kTaken);

  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> found;
  std::int64_t count = 0;
  mongoc_client_t* const client = mongoc_client_new(url_.c_str());
  mongoc_collection_t* const bills = mongoc_client_get_collection(client, "gapless", "bills");
  bson_t* const filter = bson_new();
  bson_t* const options = BCON_NEW("sort", "{", "number", BCON_INT32(1), "}");
  mongoc_cursor_t* const cursor = mongoc_collection_find_with_opts(bills, filter, options, nullptr);
  for (const bson_t* one = nullptr; mongoc_cursor_next(cursor, &one);) {
    const auto field = [one](const char* name) -> std::int64_t {
      bson_iter_t at;
      return bson_iter_init_find(&at, one, name) ? bson_iter_as_int64(&at) : -1;
    };
    ASSERT_EQ(field("number"), ++count) << "a hole, or a number twice";
    EXPECT_TRUE(found.emplace(std::pair(field("caller"), field("item")), count).second)
        << "a document twice";
  }
  bson_error_t error;
  EXPECT_FALSE(mongoc_cursor_error(cursor, &error)) << error.message;
  mongoc_cursor_destroy(cursor);
  bson_destroy(options);
  bson_destroy(filter);
  mongoc_collection_destroy(bills);
  mongoc_client_destroy(client);

  for (const Note& note : notes) {
    const auto at = found.find({note.caller, note.item});
    const bool there = at != found.end();
    if (note.outcome == Outcome::kTaken) {
      ASSERT_TRUE(there && at->second == note.first) << "number " << note.first << " was lost";
    } else if (note.outcome == Outcome::kRefused) {
      ASSERT_FALSE(there) << "it was said not to be there";
    }
  }
  EXPECT_EQ(notes.back().first, count);
  judge_all("gapless", notes, 1);
}

}  // namespace
}  // namespace idmint::e2e

int main(int count, char** arguments) {
  for (const auto& role : idmint::e2e::kRoles)
    if (count == 4 && std::string_view(arguments[1]) == role.name)
      return role.run(arguments[2], std::atoi(arguments[3]));
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
