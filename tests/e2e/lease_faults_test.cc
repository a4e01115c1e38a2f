// Leased worker ids under real faults: processes that mint from pools of one store while clocks
// jump, while they are stopped, killed and started again, and race for the worker ids. Whatever
// happens, no id comes twice, and those of one process increase. IDMINT_FAULT_ROUNDS multiplies the
// rounds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/testing.h"
#include "idmint/worker_pool.h"
#include "tests/fakes/temp_folder.h"
#ifdef IDMINT_LEASES_MONGODB
#include "tests/servers/mongo.h"
#else
#include <sqlite3.h>
#endif

namespace idmint {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;
namespace fs = std::filesystem;

constexpr std::chrono::seconds kHang{300};

SnowflakeLayout layout_of(const std::string& text) { return parse_snowflake_layout(text).value(); }

// The layout has 400 ids in a second: a process that may run ahead of the clock soon does, on a
// slow machine too.
constexpr const char* kFewIds = "39t10w2s epoch 2015-01-01T00:00:00Z unit 10ms";

// ---- what a process prints

enum Refusal : std::uint64_t {
  kStore,   // it did not answer, or something else that passes
  kOwned,   // every worker id is
  kClock,   // it is too far behind the ids that were minted
  kNoTime,  // before the epoch, or past the last timestamp
  kRefusals,
};

// Ids without a gap between them; or, where there is no first one, a refusal.
struct Entry {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

bool may_pass(Code code) {
#ifdef IDMINT_LEASES_MONGODB
  if (code == Code::kUnknown || code == Code::kDeadlineExceeded) return true;
#endif
  return code == Code::kUnavailable || code == Code::kResourceExhausted;
}

Refusal refusal_of(const Error& error) {
  if (error.code == Code::kOutOfRange) return kNoTime;
  if (!may_pass(error.code)) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    std::_Exit(1);
  }
  if (error.code == Code::kResourceExhausted) return kOwned;
  const bool clock = error.message().contains("behind ids already minted") ||
                     error.message().contains("ahead of this clock");
  return clock ? kClock : kStore;
}

// Asked again where a busy machine missed the deadline.
std::unique_ptr<Store> store_at(const std::string& url, milliseconds deadline) {
  for (;;) {
    auto store = Store::open(url, {.deadline = deadline});
    if (store) return *std::move(store);
    if (may_pass(store.error().code)) continue;
    std::fprintf(stderr, "%s\n", store.error().message().c_str());
    std::_Exit(1);
  }
}

struct Minting {
  std::size_t many = 1;  // ids at a time
  microseconds pause{};  // after each time
  milliseconds window{1000};
  milliseconds ahead{};  // so far ids may run ahead of the clock
};

volatile sig_atomic_t ending = 0;

// A minting process, until it is killed, or ended by SIGTERM, at which it hands its worker id over:
// appends entries to `out`.
int mint(const std::string& url, const std::string& pool, const fs::path& out,
         const Minting& minting) {
  ::signal(SIGTERM, [](int) { ending = 1; });
  const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  std::vector<Snowflake> ids(minting.many);
  std::vector<Entry> entries;
  const auto write = [&] {
    const std::size_t size = entries.size() * sizeof(Entry);
    if (::write(file, entries.data(), size) != static_cast<ssize_t>(size)) std::_Exit(1);
    entries.clear();
  };
  const auto refused = [&](const Error& error) {
    entries.push_back({0, refusal_of(error)});
    write();
    std::this_thread::sleep_for(5ms);
  };
  const std::unique_ptr<Store> store = store_at(url, 3s);
  while (ending == 0) {
    const auto generator = SnowflakeGenerator::open(*store, pool,
                                                    {.max_drift = 20s + 2 * minting.ahead,
                                                     .max_run_ahead = minting.ahead,
                                                     .window = minting.window});
    if (!generator) {
      refused(generator.error());
      continue;
    }
    while (ending == 0) {
      if (const auto filled = (*generator)->next(ids); !filled) {
        refused(filled.error());
        continue;
      }
      for (const Snowflake id : ids) {
        if (!entries.empty() && id.value() == entries.back().last + 1) {
          ++entries.back().last;
        } else {
          entries.push_back({id.value(), id.value()});
        }
      }
      write();
      if (minting.pause != 0us) std::this_thread::sleep_for(minting.pause);
    }
  }
  return 0;
}

// For each line of input one attempt, whose outcome is printed: a worker id, with an id minted
// under it, or the code. The next line gives the worker id back.
int race(const std::string& url, const std::string& pool) {
  const std::unique_ptr<Store> store = store_at(url, 5min);  // many wait for one another
  const SnowflakeLayout layout = layout_of(kFewIds);
  std::unique_ptr<SnowflakeGenerator> held;
  for (char command = 0; ::read(0, &command, 1) == 1;) {
    held.reset();
    std::array<std::int64_t, 2> outcome{};
    if (command == 'a') {
      // For so long that none lapses while it is held, on a machine that stands still for a while.
      auto opened = SnowflakeGenerator::open(*store, pool, {.max_drift = 2h, .window = 1h});
      const auto id = opened ? (*opened)->next() : std::unexpected(opened.error());
      outcome = id ? std::array{std::int64_t{layout.decode(*id)->worker},
                                static_cast<std::int64_t>(id->value())}
                   : std::array{-static_cast<std::int64_t>(id.error().code), std::int64_t{0}};
      if (opened) held = *std::move(opened);
    }
    if (::write(1, outcome.data(), sizeof outcome) != sizeof outcome) return 1;
  }
  return 0;
}

// A process of this program.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, std::vector<std::string> variables = {}) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    std::vector<char*> words;
    std::string name = "lease_faults_test";
    words.push_back(name.data());
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable)
      variables.emplace_back(*variable);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      tidy_up_after(::getpid());  // another that had this number
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::execve("/proc/self/exe", words.data(), environment.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = out[0];
  }
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] bool runs() const { return pid_ > 0; }
  // As /proc tells it: "S futex_wait_queue", "R 0", or nothing where it is gone.
  [[nodiscard]] std::string state() const {
    const fs::path folder = "/proc/" + std::to_string(pid_);
    std::string state;
    std::string waits_in;
    std::ifstream(folder / "stat") >> state >> state >> state;
    std::ifstream(folder / "wchan") >> waits_in;
    return state + " " + waits_in;
  }
  void send(int signal) const { ::kill(pid_, signal); }
  // Until it stands still.
  void stop() const {
    send(SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
    ASSERT_TRUE(WIFSTOPPED(status)) << "it ended by itself";
  }
  void go_on() const { send(SIGCONT); }
  void kill() {
    if (!runs()) return;
    send(SIGKILL);
    const int status = wait();
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
  }
  void terminate() {
    send(SIGTERM);
    const int status = wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  // Closes its input, which ends it.
  void end() {
    ::close(std::exchange(in_, -1));
    const int status = wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  void tell(char command) const { ASSERT_EQ(::write(in_, &command, 1), 1); }
  [[nodiscard]] std::array<std::int64_t, 2> hear() const {
    std::array<std::int64_t, 2> outcome{};
    EXPECT_EQ(::read(out_, outcome.data(), sizeof outcome), std::ssize(outcome) * 8);
    return outcome;
  }

 private:
  // libfaketime leaves these when it is killed, and does not start where they are.
  static void tidy_up_after(pid_t pid) {
    for (const char* const name : {"/dev/shm/faketime_shm_%d", "/dev/shm/sem.faketime_sem_%d"}) {
      std::array<char, 64> path{};
      std::snprintf(path.data(), path.size(), name, pid);
      ::unlink(path.data());
    }
  }
  int wait() {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    tidy_up_after(std::exchange(pid_, 0));
    if (in_ >= 0) ::close(std::exchange(in_, -1));
    ::close(std::exchange(out_, -1));
    return status;
  }

  pid_t pid_ = 0;
  int in_ = -1;
  int out_ = -1;
};

#ifdef IDMINT_LEASES_MONGODB

// Not the one of all tests, as members of this one fail.
servers::MongoSet& mongo_set() {
  static servers::MongoSet set;
  return set;
}

#else

fs::path libfaketime() {
  for (const fs::directory_entry& folder : fs::directory_iterator("/usr/lib")) {
    const fs::path found = folder.path() / "faketime" / "libfaketimeMT.so.1";
    if (fs::exists(found)) return found;
  }
  return {};
}

#endif

// A process that mints, and what it has printed as far as that was read.
struct Minter {
  std::string pool;
  SnowflakeLayout layout;
  fs::path out;
  std::unique_ptr<Process> process;
  std::uintmax_t entries = 0;
  std::uintmax_t ids = 0;
  std::array<std::uintmax_t, kRefusals> refused{};
  std::vector<Entry> runs{};

  [[nodiscard]] std::uintmax_t refusals() const {
    std::uintmax_t all = 0;
    for (const std::uintmax_t count : refused) all += count;
    return all;
  }
  [[nodiscard]] std::uint64_t last() const { return runs.empty() ? 0 : runs.back().last; }
};

class LeaseFaults : public testing::Test {
 protected:
  LeaseFaults() {
    const char* const wanted = std::getenv("IDMINT_FAULT_ROUNDS");
    times_ = wanted != nullptr ? std::max(std::atoi(wanted), 1) : 1;
#ifdef IDMINT_LEASES_MONGODB
    url_ = mongo_set().url(fs::path(folder_.path("x")).parent_path().filename());
#else
    url_ = "sqlite:" + folder_.path("ids.db");
#endif
  }

  void make_pool(const std::string& name, const SnowflakeLayout& layout, std::size_t workers) {
    const auto store = store_at(url_, 1min);
    const auto made = create_pool(
        *store, {.name = name, .layout = layout, .workers = static_cast<std::int64_t>(workers)});
    ASSERT_TRUE(made) << made.error().message();
    layouts_[name] = layout;
  }

  Minter& start(const std::string& pool, const Minting& minting = {},
                std::vector<std::string> variables = {}) {
    const fs::path out = folder_.path("ids" + std::to_string(minters_.size()));
    std::vector<std::string> arguments{"mint", url_, pool, out};
    for (const std::int64_t number :
         {static_cast<std::int64_t>(minting.many), std::int64_t{minting.pause.count()},
          std::int64_t{minting.window.count()}, std::int64_t{minting.ahead.count()}})
      arguments.push_back(std::to_string(number));
    minters_.push_back(std::make_unique<Minter>(
        pool, layouts_.at(pool), out,
        std::make_unique<Process>(std::move(arguments), std::move(variables))));
    return *minters_.back();
  }

  // None of them within the store: on SQLite it would keep the lock on the file of all pools.
  void stop(std::span<Minter* const> minters) {
#ifdef IDMINT_LEASES_MONGODB
    for (const Minter* const minter : minters) minter->process->stop();
#else
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(folder_.path("ids.db").c_str(), &db), SQLITE_OK);
    // Retries as often as the minters: with sqlite3_busy_timeout() they would always be the first.
    const auto again = [](void*, int) {
      std::this_thread::sleep_for(200us);
      return 1;
    };
    sqlite3_busy_handler(db, again, nullptr);
    ASSERT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    for (const Minter* const minter : minters) minter->process->stop();
    EXPECT_EQ(sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
#endif
  }

  // ---- what they print

  // Reads on.
  static const Minter& look(Minter& minter) {
    std::error_code none;
    const std::uintmax_t size = fs::file_size(minter.out, none);
    if (none || size / sizeof(Entry) == minter.entries) return minter;
    std::vector<Entry> fresh(size / sizeof(Entry) - minter.entries);
    std::ifstream file(minter.out, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(minter.entries * sizeof(Entry)));
    file.read(reinterpret_cast<char*>(fresh.data()),
              static_cast<std::streamsize>(fresh.size() * sizeof(Entry)));
    EXPECT_TRUE(file);
    minter.entries += fresh.size();
    for (const Entry& entry : fresh) take(minter, entry);
    return minter;
  }
  static void take(Minter& minter, const Entry& entry) {
    if (entry.first == 0) {
      ++minter.refused.at(entry.last);
      return;
    }
    minter.ids += entry.last - entry.first + 1;
    if (minter.runs.empty()) {
      minter.runs.push_back(entry);
      return;
    }
    // In time; under another worker id the next may be smaller in the same unit only.
    Entry& before = minter.runs.back();
    const bool same_worker = worker_of(minter, entry.first) == worker_of(minter, before.last);
    if (same_worker ? entry.first <= before.last
                    : time_of(minter, entry.first) < time_of(minter, before.last))
      ADD_FAILURE() << entry.first << " came after " << before.last << " in one process";
    if (entry.first == before.last + 1) {
      before.last = entry.last;
    } else {
      minter.runs.push_back(entry);
    }
  }
  static std::uint64_t worker_of(const Minter& minter, std::uint64_t id) {
    return id >> minter.layout.sequence_bits & minter.layout.max_worker();
  }
  static std::int64_t time_of(const Minter& minter, std::uint64_t id) {
    return static_cast<std::int64_t>(id >>
                                     (minter.layout.worker_bits + minter.layout.sequence_bits));
  }

  static bool is_ahead(Minter& minter, milliseconds of_the_clock) {
    const std::uint64_t last = look(minter).last();
    return minter.layout.epoch + minter.layout.unit * time_of(minter, last) >
           system_clock().now() + of_the_clock;
  }

  [[nodiscard]] bool until(const std::function<bool()>& condition) const {
    const auto deadline = std::chrono::steady_clock::now() + kHang;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) {
        tell();
        return false;
      }
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  // Prints the state of each, after a wait in vain.
  void tell() const {
    for (const auto& minter : minters_) {
      if (!minter->process->runs()) continue;
      std::printf("%s: %ju ids, refused by the store %ju, owned %ju, clock %ju, no time %ju, %s\n",
                  minter->out.filename().c_str(), minter->ids, minter->refused[kStore],
                  minter->refused[kOwned], minter->refused[kClock], minter->refused[kNoTime],
                  minter->process->state().c_str());
    }
  }
  // These wait for so many more of each; false when they do not come. Three, where nothing else is
  // said: what was under way when it was asked is told apart from what began since.
  using Count = std::function<std::uintmax_t(const Minter&)>;
  [[nodiscard]] bool all_add(std::span<Minter* const> minters, std::uintmax_t more,
                             const Count& count) const {
    std::vector<std::uintmax_t> enough;
    for (Minter* const minter : minters) enough.push_back(count(look(*minter)) + more);
    return until([&] {
      for (std::size_t i = 0; i < minters.size(); ++i)
        if (count(look(*minters[i])) < enough[i]) return false;
      return true;
    });
  }
  [[nodiscard]] bool all_mint(std::span<Minter* const> minters, std::uintmax_t more = 3) const {
    return all_add(minters, more, [](const Minter& minter) { return minter.ids; });
  }
  [[nodiscard]] bool all_refuse(std::span<Minter* const> minters, Refusal why,
                                std::uintmax_t more = 3) const {
    return all_add(minters, more, [&](const Minter& minter) { return minter.refused.at(why); });
  }
  [[nodiscard]] bool prints(Minter& minter, std::uintmax_t more) const {
    return all_add(std::array{&minter}, more, [](const Minter& each) { return each.entries; });
  }
  [[nodiscard]] bool mints(Minter& minter, std::uintmax_t more = 3) const {
    return all_mint(std::array{&minter}, more);
  }
  [[nodiscard]] bool refuses(Minter& minter, Refusal why) const {
    return all_refuse(std::array{&minter}, why);
  }
  [[nodiscard]] std::uintmax_t refused(Refusal why) const {
    std::uintmax_t count = 0;
    for (const auto& minter : minters_)
      count += (minter->process->runs() ? look(*minter) : *minter).refused.at(why);
    return count;
  }

  static void kill(Minter& minter) {
    minter.process->kill();
    look(minter);
  }
  static void terminate(Minter& minter) {
    minter.process->terminate();
    look(minter);
  }

  struct Sum {
    std::uintmax_t ids = 0;
    std::uintmax_t refusals = 0;
    std::uintmax_t owners = 0;  // a worker id counts once for each process that minted with it
  };
  // Ends all, and compares all that they printed.
  Sum expect_unique() {
    Sum sum;
    std::map<std::string, std::vector<Entry>> pools;  // each is an id space of its own
    for (const auto& minter : minters_) {
      kill(*minter);
      std::error_code none;  // it was killed before it began
      const std::uintmax_t size = fs::file_size(minter->out, none);
      EXPECT_EQ(none ? 0 : size, minter->entries * sizeof(Entry));
      std::set<std::uint64_t> workers;
      for (const Entry& run : minter->runs) workers.insert(worker_of(*minter, run.first));
      sum.owners += workers.size();
      sum.ids += minter->ids;
      sum.refusals += minter->refusals();
      std::vector<Entry>& all = pools[minter->pool];
      all.insert(all.end(), minter->runs.begin(), minter->runs.end());
    }
    minters_.clear();
    for (auto& [pool, all] : pools) {
      std::ranges::sort(all, {}, &Entry::first);
      const auto repeat = std::ranges::adjacent_find(
          all, [](const Entry& a, const Entry& b) { return b.first <= a.last; });
      EXPECT_EQ(repeat, all.end()) << std::next(repeat)->first << " was minted twice";
    }
    return sum;
  }

  const fakes::TempFolder folder_;
  std::string url_;
  int times_ = 1;
  std::map<std::string, SnowflakeLayout> layouts_;
  std::vector<std::unique_ptr<Minter>> minters_;
  std::mt19937 random_{std::random_device{}()};
};

#ifndef IDMINT_LEASES_MONGODB

struct UnitLayout {
  const char* unit;
  const char* layout;     // few ids in a unit, so that they are used up
  const char* short_one;  // of about an hour
  Minting minting;
};
constexpr std::array kUnits = {
    UnitLayout{"OneMs", "41t10w4s epoch 2015-01-01T00:00:00Z", "22t10w1s", {.window = 100ms}},
    UnitLayout{"TenMs",
               "39t10w7s epoch 2015-01-01T00:00:00Z unit 10ms",
               "19t10w1s unit 10ms",
               {.window = 100ms}},
    UnitLayout{"OneSecond",
               "33t10w14s epoch 2015-01-01T00:00:00Z unit 1s",
               "12t10w1s unit 1s",
               {.pause = 100us}}};

class LeaseClocks : public LeaseFaults, public testing::WithParamInterface<UnitLayout> {
 protected:
  void SetUp() override { ASSERT_FALSE(libfaketime().empty()) << "install the package faketime"; }

  // Sets the clocks of all processes this far from the real one.
  void set_clock(std::chrono::duration<double> offset) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%+.3f", offset.count());
    write_clock(text.data());
  }
  // It stands still from now on.
  void hold_clock(Instant at) {
    write_clock(
        std::to_string(std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count()));
  }
  Minter& start_under_clock(const Minting& minting) {
    return start(
        "p", minting,
        {"LD_PRELOAD=" + libfaketime().string(), "FAKETIME_TIMESTAMP_FILE=" + folder_.path("clock"),
         "FAKETIME_FMT=%s", "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"});
  }
  Minter* start_one() { return &start_under_clock(GetParam().minting); }

 private:
  void write_clock(const std::string& text) {
    std::ofstream(folder_.path("clock.new")) << text << '\n';
    fs::rename(folder_.path("clock.new"), folder_.path("clock"));
  }
};

// There are as many processes as worker ids, but for one that comes while the clock is wrong. Each
// round is an hour later than the one before, as ids were minted that far ahead.
TEST_P(LeaseClocks, JumpWhileTheyMintAndBetweenRuns) {
  constexpr std::size_t kWorkers = 3;
  make_pool("p", layout_of(GetParam().layout), kWorkers);
  std::chrono::duration<double> base{};
  std::map<std::string, int> jumps;
  const auto jump = [&](const char* by) {
    set_clock(base + std::chrono::duration<double>(std::atof(by)));
    ++jumps[by];
  };
  jump("+0");
  std::vector<Minter*> living;
  while (living.size() < kWorkers) living.push_back(start_one());

  const int rounds = times_ == 1 ? 2 : 8 * times_;
  for (int round = 0; round < rounds; ++round) {
    const bool killed = round % 4 == 1;  // or ended, which hands the worker id over
    const auto replaced = [&](std::size_t which, const char* by) {
      killed ? kill(*living[which]) : terminate(*living[which]);
      jump(by);
      living[which] = start_one();
    };
    ASSERT_TRUE(all_mint(living));
    const std::uintmax_t refused_before = refused(kClock);
    for (const char* const by : {"-0.001", "-2"}) {
      jump(by);
      ASSERT_TRUE(all_mint(living)) << by;
      jump("+0");
      ASSERT_TRUE(all_mint(living)) << by << " and back";
      replaced(static_cast<std::size_t>(round) % kWorkers, by);
      ASSERT_TRUE(all_mint(living)) << by << " between runs";
      jump("+0");
      ASSERT_TRUE(all_mint(living)) << by << " between runs, and back";
    }
    EXPECT_EQ(refused(kClock), refused_before) << "that far ids may be ahead of the clock";

    replaced(0, "-3600");
    ASSERT_TRUE(all_refuse(std::span(living).subspan(1), kClock));
    ASSERT_TRUE(prints(*living[0], 1));
    EXPECT_EQ(living[0]->ids, 0U) << "ids of each worker id were minted an hour ahead";
    jump("+0");
    ASSERT_TRUE(all_mint(living));

    // Nobody keeps its worker id, as by the clock an hour has passed.
    stop(living);
    jump("+3600");
    std::vector<Minter*> next;
    while (next.size() < kWorkers) next.push_back(start_one());
    ASSERT_TRUE(all_mint(next));
    for (Minter* const minter : living) {
      minter->process->go_on();
      ASSERT_TRUE(until([&, ids = look(*minter).ids, refusals = minter->refusals()] {
        return look(*minter).refusals() > refusals + 3 || minter->ids > ids + 2000;
      }));
    }
    for (Minter* const minter : living) killed ? kill(*minter) : terminate(*minter);
    living = next;
    ASSERT_TRUE(all_mint(living));
    jump("+0");
    ASSERT_TRUE(all_refuse(living, kClock)) << "back";
    base += 3660s;
    jump("+0");
  }
  ASSERT_TRUE(all_mint(living));
  const Sum sum = expect_unique();
  EXPECT_GE(sum.owners, kWorkers * static_cast<std::size_t>(rounds + 1));
  for (const auto& [by, count] : jumps) std::printf("%s s: %d times, ", by.c_str(), count);
  std::printf("%ju ids, %ju refusals, %zu worker ids had %ju times\n", sum.ids, sum.refusals,
              kWorkers, sum.owners);
}

TEST_P(LeaseClocks, BeforeTheEpochNothingIsMinted) {
  const Instant epoch = std::chrono::floor<std::chrono::seconds>(system_clock().now()) - 600s;
  SnowflakeLayout layout = layout_of(GetParam().layout);
  layout.epoch = epoch;
  make_pool("p", layout, 64);
  set_clock(0s);
  std::vector<Minter*> living{start_one(), start_one()};
  const int rounds = 2 * times_;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_TRUE(all_mint(living));
    set_clock(-3600s);
    Minter* const fresh = start_one();
    ASSERT_TRUE(all_refuse(living, kClock));
    ASSERT_TRUE(until([&] {
      look(*fresh);
      return fresh->entries - fresh->refused[kStore] >= 3;
    }));
    EXPECT_EQ(fresh->refused[kNoTime] + fresh->refused[kStore], fresh->entries);
    set_clock(0s);
    ASSERT_TRUE(all_mint(living));
    ASSERT_TRUE(mints(*fresh));
    for (const Minter* const minter : living) EXPECT_EQ(minter->refused[kNoTime], 0U);
    const auto oldest = living.begin();
    terminate(**oldest);
    *oldest = living.back();
    living.back() = start_one();
    terminate(*fresh);
  }
  const Sum sum = expect_unique();
  std::printf("%d times before the epoch, %ju ids\n", rounds, sum.ids);
}

// They run ahead of a clock that stands still, so that each comes to the end however slow it is.
TEST_P(LeaseClocks, TheLastTimestampComes) {
  SnowflakeLayout layout = layout_of(GetParam().short_one);
  layout.epoch = std::chrono::floor<std::chrono::seconds>(system_clock().now()) - 100s;
  const Instant end = layout.epoch + layout.unit * (layout.max_tick() + 1);
  const Minting minting{.ahead = 10s};
  make_pool("p", layout, 2);
  set_clock(0s);
  const std::vector<Minter*> living{&start_under_clock(minting), &start_under_clock(minting)};
  ASSERT_TRUE(all_mint(living));
  EXPECT_EQ(refused(kNoTime), 0U);
  hold_clock(end - 3s);
  ASSERT_TRUE(all_refuse(living, kNoTime));
  for (const Minter* const minter : living)
    EXPECT_EQ(time_of(*minter, minter->last()), layout.max_tick()) << "the last timestamp has ids";
  // The next process gets a worker id with nothing left, or none.
  terminate(*living[0]);
  Minter& next = start_under_clock(minting);
  ASSERT_TRUE(refuses(next, kNoTime));
  hold_clock(end + 45s);
  ASSERT_TRUE(refuses(*living[1], kNoTime));
  ASSERT_TRUE(refuses(next, kNoTime));
  hold_clock(end - 3s);
  ASSERT_TRUE(refuses(*living[1], kNoTime));
  ASSERT_TRUE(refuses(next, kNoTime));
  EXPECT_EQ(next.ids, 0U);
  const Sum sum = expect_unique();
  std::printf("%ju ids to the end of the layout\n", sum.ids);
}

INSTANTIATE_TEST_SUITE_P(Units, LeaseClocks, testing::ValuesIn(kUnits),
                         [](const auto& of) { return of.param.unit; });

#else

// A majority of the set is gone until all have come to their bounds and were refused: they go on by
// themselves when there is a primary again. In between the primary alone is killed, or stands
// still.
TEST_F(LeaseFaults, ThePrimaryIsGoneForLongerThanAWindow) {
  constexpr milliseconds kWindow = Minting{}.window;
  servers::MongoSet& set = mongo_set();
  make_pool("p", layout_of(kFewIds), 4);
  std::vector<Minter*> living;
  while (living.size() < 4) living.push_back(&start("p"));
  ASSERT_TRUE(all_mint(living, 100));
  const int rounds = 3 * times_;
  for (int round = 0; round < rounds; ++round) {
    const bool majority_is_gone = round % 3 == 0;
    const std::size_t primary = set.primary();
    servers::MongoServer& member = set.member(primary);
    servers::MongoServer& other = set.member((primary + 1) % 3);
    if (majority_is_gone) other.signal(SIGSTOP);
    if (round % 3 == 2) {
      member.signal(SIGSTOP);
    } else {
      member.kill();
    }
    if (majority_is_gone) {
      ASSERT_TRUE(all_refuse(living, kStore, 1));
    } else {
      std::this_thread::sleep_for(kWindow * 3 / 2);
    }
    if (majority_is_gone) other.signal(SIGCONT);
    if (round % 3 == 2) {
      member.signal(SIGCONT);
    } else {
      member.restart();
    }
    ASSERT_TRUE(all_mint(living, 100)) << "round " << round;
  }
  const Sum sum = expect_unique();
  std::printf("%d primaries gone, %ju refusals, %ju ids\n", rounds, sum.refusals, sum.ids);
}

#endif

// All members stand still, or another process has the file locked: nobody waits longer than it
// said, however many there are, and whoever else is asking.
TEST_F(LeaseFaults, NoCallOutlivesItsDeadlineWhileTheStoreIsGone) {
  constexpr milliseconds kDeadline = 300ms;
  constexpr milliseconds kRoom = 1200ms;  // for a busy machine
  make_pool("p", layout_of(kFewIds), 4);
  const auto store = store_at(url_, 5s);
  ManualClock clock(system_clock().now());
  // Renewals, every 100 ms, are under way when the callers come.
  auto generator =
      SnowflakeGenerator::open(*store, "p", {.window = 300ms, .deadline = kDeadline}, clock);
  ASSERT_TRUE(generator) << generator.error().message();
  ASSERT_TRUE((*generator)->next());
#ifdef IDMINT_LEASES_MONGODB
  for (std::size_t member = 0; member < 3; ++member) mongo_set().member(member).signal(SIGSTOP);
#else
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(folder_.path("ids.db").c_str(), &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 60'000);
  ASSERT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
#endif
  clock.advance(1s);
  for (const std::size_t threads : {1U, 4U, 16U}) {
    std::vector<milliseconds> longest(threads);
    {
      std::vector<std::jthread> callers;
      for (milliseconds& mine : longest)
        callers.emplace_back([&] {
          for (int call = 0; call < 2; ++call) {
            const auto begin = std::chrono::steady_clock::now();
            std::array<Snowflake, 1> ids;
            const auto filled = (*generator)->next(ids);
            ASSERT_FALSE(filled);
            EXPECT_TRUE(may_pass(filled.error().code)) << filled.error().message();
            const auto took = std::chrono::steady_clock::now() - begin;
            mine = std::max(mine, std::chrono::round<milliseconds>(took));
          }
        });
    }
    const milliseconds most = std::ranges::max(longest);
    std::printf("%zu threads: %jd ms at most\n", threads, static_cast<std::intmax_t>(most.count()));
    EXPECT_LE(most, kDeadline + kRoom) << threads;
  }
#ifdef IDMINT_LEASES_MONGODB
  for (std::size_t member = 0; member < 3; ++member) mongo_set().member(member).signal(SIGCONT);
  mongo_set().primary();
#else
  EXPECT_EQ(sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
#endif
}

// Two processes want one worker id: one that is stopped for longer than it is held loses it, and
// mints on below its bound when it goes on. As they run ahead of the clock, that bound is past what
// the clock shows to the one that takes over.
TEST_F(LeaseFaults, StoppedForWindowsWhileAnotherTakesOver) {
  constexpr std::size_t kPools = 4;
  constexpr Minting kMinting{.ahead = 5s};
  constexpr milliseconds kWindow = kMinting.window;
  const int rounds = 3 * times_;
  for (std::size_t pool = 0; pool < kPools; ++pool) {
    make_pool("p" + std::to_string(pool), layout_of(kFewIds), 1);
    for (int i = 0; i < 2; ++i) start("p" + std::to_string(pool), kMinting);
  }
  const auto of = [&](std::size_t pool, std::size_t which) -> Minter& {
    return *minters_[2 * pool + which];
  };
  for (std::size_t pool = 0; pool < kPools; ++pool)
    ASSERT_TRUE(until([&] { return is_ahead(of(pool, 0), 4s) || is_ahead(of(pool, 1), 4s); }));
  int taken_over = 0;
  int went_on = 0;
  for (int round = 0; round < rounds; ++round) {
    // Stops the minting one of each pair, all for the same time: half a window to three.
    std::vector<Minter*> stopped;
    std::vector<Minter*> others;
    for (std::size_t pool = 0; pool < kPools; ++pool) {
      ASSERT_TRUE(until([&] {
        const std::array before = {look(of(pool, 0)).ids, look(of(pool, 1)).ids};
        std::this_thread::sleep_for(10ms);
        for (const std::size_t each : {0U, 1U}) {
          if (look(of(pool, each)).ids == before.at(each)) continue;
          stopped.push_back(&of(pool, each));
          others.push_back(&of(pool, 1 - each));
          return true;
        }
        return false;
      })) << "refusals: "
          << testing::PrintToString(of(pool, 0).refused)
          << testing::PrintToString(of(pool, 1).refused);
    }
    stop(stopped);
    constexpr std::array kPercent = {270, 50, 160};  // of a window, and up to 30 more
    const int percent = kPercent.at(static_cast<std::size_t>(round) % kPercent.size()) +
                        std::uniform_int_distribution<int>(0, 30)(random_);
    const auto pause = kWindow * percent / 100;
    std::vector<std::uintmax_t> before;
    for (Minter* const other : others) before.push_back(look(*other).ids);
    std::this_thread::sleep_for(pause);
    for (std::size_t i = 0; i < stopped.size(); ++i) {
      Minter& other = *others[i];
      if (pause > kWindow * 3 / 2) {
        ASSERT_TRUE(until([&] { return look(other).ids > before[i]; }))
            << "it is not held for ever";
      }
      const bool lost = look(other).ids > before[i];
      const std::uintmax_t ids = look(*stopped[i]).ids;
      stopped[i]->process->go_on();
      ASSERT_TRUE(prints(*stopped[i], 1)) << "an id below its bound, or a refusal";
      taken_over += lost ? 1 : 0;
      went_on += lost && stopped[i]->ids > ids ? 1 : 0;
    }
  }
  const Sum sum = expect_unique();
  EXPECT_GE(taken_over, rounds * 8 / 3);
  EXPECT_GT(went_on, 0);
  std::printf("%zu stops, %d taken over, %d went on below their bounds, %ju ids, %ju refusals\n",
              static_cast<std::size_t>(rounds) * kPools, taken_over, went_on, sum.ids,
              sum.refusals);
}

// Two worker ids are taken again and again, and their bounds are ahead of the clock of the next
// process: the first two ask the store so rarely that they get ahead however slow it is.
TEST_F(LeaseFaults, KilledAndStartedAgainAtOnce) {
  constexpr std::size_t kWorkers = 2;
  constexpr Minting kMinting{.window = 50ms, .ahead = 5s};
  make_pool("p", layout_of(kFewIds), kWorkers);
  std::vector<Minter*> living;
  while (living.size() < kWorkers) living.push_back(&start("p", {.ahead = kMinting.ahead}));
  ASSERT_TRUE(until([&] { return is_ahead(*living[0], 4s) && is_ahead(*living[1], 4s); }));
  const int rounds = 20 * times_;
  for (int round = 0; round < rounds; ++round) {
    Minter*& minter = living[static_cast<std::size_t>(round) % kWorkers];
    kill(*minter);
    minter = &start("p", kMinting);
    ASSERT_TRUE(mints(*minter, 1)) << "round " << round;
    std::this_thread::sleep_for(
        microseconds{std::uniform_int_distribution<int>(0, 30'000)(random_)});
  }
  const Sum sum = expect_unique();
  EXPECT_GE(sum.owners, kWorkers + static_cast<std::size_t>(rounds));
  std::printf("%d kills, %ju ids, %ju refusals, %zu worker ids had %ju times\n", rounds, sum.ids,
              sum.refusals, kWorkers, sum.owners);
}

// One more than there are worker ids: of those that mint one is stopped, and one killed, for longer
// than it is held.
TEST_F(LeaseFaults, ManyIdsWhileMintersAreStoppedAndKilled) {
  constexpr std::size_t kWorkers = 4;
  constexpr Minting kMinting{.many = 4096, .window = 100ms, .ahead = 1s};
  const std::uintmax_t wanted = 8'000'000 * static_cast<std::uintmax_t>(times_);
  make_pool("p", layout_of("41t10w12s epoch 2015-01-01T00:00:00Z"), kWorkers);
  std::vector<Minter*> living;
  while (living.size() < kWorkers + 1) living.push_back(&start("p", kMinting));
  const auto ids = [&] {
    std::uintmax_t count = 0;
    for (const auto& minter : minters_)
      count += (minter->process->runs() ? look(*minter) : *minter).ids;
    return count;
  };
  int steps = 0;
  for (std::uintmax_t there = 0; there < wanted || steps < 10 * times_; there = ids()) {
    std::ranges::shuffle(living, random_);
    stop(std::span(living).first(1));
    kill(*living[1]);
    living[1] = &start("p", kMinting);
    std::this_thread::sleep_for(kMinting.window * 3 / 2);
    ASSERT_TRUE(until([&] { return ids() > there; }));
    living[0]->process->go_on();
    ++steps;
  }
  const Sum sum = expect_unique();
  EXPECT_GE(sum.ids, wanted);
  EXPECT_GT(sum.owners, kWorkers);
  std::printf("%d kills and stops, %ju ids, %ju refusals, %zu worker ids had %ju times\n", steps,
              sum.ids, sum.refusals, kWorkers, sum.owners);
}

TEST_F(LeaseFaults, TwiceAsManyAsWorkerIdsRaceForThem) {
  constexpr std::size_t kRacers = 64;
  constexpr std::size_t kWorkers = 32;
#ifdef IDMINT_LEASES_MONGODB
  // With an election a lease may have been taken without anybody's knowledge, for an hour.
  servers::MongoSet set({.election_timeout = 5min});
  url_ = set.url("race");
#endif
  make_pool("p", layout_of(kFewIds), kWorkers);
  std::vector<std::unique_ptr<Process>> racers;
  for (std::size_t i = 0; i < kRacers; ++i)
    racers.push_back(std::make_unique<Process>(std::vector<std::string>{"race", url_, "p"}));
  std::set<std::int64_t> ids;
  const int rounds = times_ == 1 ? 4 : 16 * times_;
  for (int round = 0; round < rounds; ++round) {
    for (const auto& racer : racers) racer->tell('a');
    std::set<std::int64_t> holders;
    std::size_t refusals = 0;
    for (const auto& racer : racers) {
      const auto [worker, id] = racer->hear();
      if (worker < 0) {
        EXPECT_EQ(-worker, static_cast<std::int64_t>(Code::kResourceExhausted));
        ++refusals;
      } else {
        EXPECT_TRUE(holders.insert(worker).second) << "worker id " << worker << " twice";
        EXPECT_TRUE(ids.insert(id).second) << "id " << id << " twice";
      }
    }
    EXPECT_EQ(holders.size(), kWorkers) << "round " << round;
    EXPECT_EQ(refusals, kRacers - kWorkers);
    for (const auto& racer : racers) racer->tell('r');
    for (const auto& racer : racers) static_cast<void>(racer->hear());
  }
  for (const auto& racer : racers) racer->end();
  std::printf("%d rounds of %zu processes\n", rounds, kRacers);
}

}  // namespace
}  // namespace idmint

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "mint" && argc == 9) {
    const auto number = [&](int i) { return std::strtoll(argv[i], nullptr, 10); };
    return idmint::mint(argv[2], argv[3], argv[4],
                        {.many = static_cast<std::size_t>(number(5)),
                         .pause = std::chrono::microseconds{number(6)},
                         .window = std::chrono::milliseconds{number(7)},
                         .ahead = std::chrono::milliseconds{number(8)}});
  }
  if (what == "race" && argc == 4) return idmint::race(argv[2], argv[3]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
