#include "tests/simulation/history.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <mutex>
#include <semaphore>
#include <thread>

namespace idmint::simulation {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// ---- choices

// SplitMix64.
std::uint64_t Choices::next(std::uint64_t& state) noexcept {
  std::uint64_t mixed = state += 0x9E37'79B9'7F4A'7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58'476D'1CE4'E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D0'49BB'1331'11EB;
  return mixed ^ (mixed >> 31);
}

std::uint32_t Choices::choose(std::uint32_t below) {
  std::uint32_t chosen = 0;
  if (drawn_) {
    chosen = static_cast<std::uint32_t>((next(state_) >> 32) * below >> 32);
  } else if (made_.size() < given_.size()) {
    chosen = given_[made_.size()] % below;
  }
  made_.push_back(chosen);
  return chosen;
}

std::uint64_t Choices::draw() noexcept { return next(names_); }

// ---- threads, which live longer than a history

namespace {

constexpr std::size_t kMostSteps = 20'000;  // a process that goes on so long does not end

// A thread that runs one body after another.
class Runner {
 public:
  Runner() : thread_([this] { run(); }) {}
  ~Runner() {
    ended_ = true;
    go.release();
    thread_.join();
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  std::function<void()> body;
  std::binary_semaphore go{0};

 private:
  void run() {
    for (;;) {
      go.acquire();
      if (ended_) return;
      // The body releases the process whose turn is next, and touches nothing afterwards.
      std::exchange(body, nullptr)();
    }
  }

  bool ended_ = false;
  std::thread thread_;
};

// Those without a process. Histories run one at a time.
std::vector<std::unique_ptr<Runner>>& idle_runners() {
  static std::vector<std::unique_ptr<Runner>> idle;
  return idle;
}

}  // namespace

void forget_threads() noexcept {
  for (std::unique_ptr<Runner>& runner : idle_runners()) {
    [[maybe_unused]] const Runner* const parents = runner.release();
  }
  idle_runners().clear();
}

struct History::Turn {
  Turn(History& history, std::string name, int number)
      : process(history, std::move(name), number) {}

  Process process;
  std::function<void(Process&)> body{};
  std::unique_ptr<Runner> runner{};
};

namespace {

std::binary_semaphore all_ended{0};

}  // namespace

History::History(Choices& choices, bool traced)
    : choices_(choices),
      traced_(traced),
      now_(std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}) {}

History::~History() {
  for (const std::unique_ptr<Turn>& turn : ended_)
    if (turn->runner) idle_runners().push_back(std::move(turn->runner));
}

void History::start(std::string name, std::function<void(Process&)> body) {
  auto turn = std::make_unique<Turn>(*this, std::move(name), started_++);
  turn->body = std::move(body);
  if (idle_runners().empty()) idle_runners().push_back(std::make_unique<Runner>());
  turn->runner = std::move(idle_runners().back());
  idle_runners().pop_back();
  turn->runner->body = [this, its = turn.get()] {
    its->process.runs_here();
    its->body(its->process);
    note(&its->process, "ends");
    const auto at = std::ranges::find(turns_, its, &std::unique_ptr<Turn>::get);
    ended_.push_back(std::move(*at));
    turns_.erase(at);
    current_ = nullptr;
    if (turns_.empty())
      all_ended.release();
    else
      go_on_with(choose(static_cast<std::uint32_t>(turns_.size())));
  };
  turns_.push_back(std::move(turn));
}

void History::go_on_with(std::size_t which) {
  current_ = turns_[which].get();
  current_->runner->go.release();
}

void History::run() {
  if (turns_.empty()) return;
  go_on_with(0);
  all_ended.acquire();
}

void History::step() {
  if (++steps_ > kMostSteps) fail("a process does not end");
  if (!late_.empty() && happens(4)) {
    const std::uint32_t which = choose(static_cast<std::uint32_t>(late_.size()));
    note(nullptr, "a late call is applied");
    // It stays: the network may have it any number of times.
    const std::function<void()> call = late_[which];
    if (choose(2) == 0) late_.erase(late_.begin() + which);
    if (!is_over()) call();
  }
  constexpr std::array kPassing = {nanoseconds{0}, nanoseconds{0}, nanoseconds{milliseconds{1}},
                                   nanoseconds{milliseconds{7}}};
  now_ += kPassing[choose(kPassing.size())];
  // Choice 0 is the process itself.
  Turn* const me = current_;
  const auto mine = std::ranges::find(turns_, me, &std::unique_ptr<Turn>::get);
  const std::size_t next = (static_cast<std::size_t>(mine - turns_.begin()) +
                            choose(static_cast<std::uint32_t>(turns_.size()))) %
                           turns_.size();
  if (turns_[next].get() == me) return;
  go_on_with(next);
  me->runner->go.acquire();
}

void History::send_late(std::function<void()> call) {
  constexpr std::size_t kMost = 8;
  if (late_.size() < kMost) late_.push_back(std::move(call));
}

void History::fail(std::string what) {
  if (!failure_.empty()) return;
  failure_ = std::move(what);
  note(nullptr, "BROKEN: " + failure_);
}

void History::note(const Process* who, std::string_view what) {
  if (!traced_) return;
  const auto ms = std::chrono::duration_cast<milliseconds>(
      now_ - Instant{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}});
  trace_ += std::to_string(ms.count()) + " ms  " + (who != nullptr ? who->name() : "network") +
            ": " + std::string(what) + "\n";
}

// ---- processes

Process::Process(History& history, std::string name, int number)
    : history_(history), name_(std::move(name)), number_(number) {}

void Process::die() {
  if (dead_) return;
  dead_ = true;
  history_.note(this, "dies");
}

Error Process::refused() {
  return {.code = Code::kUnavailable, .what = "simulated", .outcome = "nothing was changed"};
}

Error Process::unknown() { return {Code::kUnknown, "simulated: no answer"}; }

Process::Fate Process::fate(std::string_view what) {
  if (!is_alive()) return Fate::kRefused;
  history_.step();
  Fate fate = Fate::kAnswered;
  if (history_.one_fault_in > 0 && history_.happens(history_.one_fault_in))
    fate = static_cast<Fate>(1 + history_.choose(6));
  constexpr std::array<std::string_view, 7> kWords = {
      "",          ": refused",         ": applied, no answer", ": no answer", ": sent twice",
      ": it dies", ": applied, it dies"};
  if (history_.is_traced())
    history_.note(this, std::string(what) + std::string(kWords[static_cast<std::size_t>(fate)]));
  if (fate == Fate::kDies || fate == Fate::kDiesAfter) die();
  return fate;
}

Instant Process::ItsClock::now() noexcept {
  if (!process_.is_this_thread()) return process_.history_.now_ + process_.clock_offset;
  return process_.input<Instant>([this] {
    History& history = process_.history_;
    if (process_.is_alive() && history.happens(8)) history.step();
    if (history.one_jump_in > 0 && history.happens(history.one_jump_in)) {
      constexpr std::array kJumps = {-40, -5, -1, 1, 5, 40};
      process_.clock_offset += milliseconds{kJumps[history.choose(kJumps.size())]};
      history.note(&process_, "its clock jumps");
    }
    return history.now_ + process_.clock_offset;
  });
}

void Process::ItsClock::sleep_until(Instant when, nanoseconds at_most) noexcept {
  if (!process_.is_this_thread()) return;
  static_cast<void>(process_.input<bool>([&] {
    History& history = process_.history_;
    const nanoseconds left = std::min(when - (history.now_ + process_.clock_offset), at_most);
    if (left.count() > 0) history.now_ += left;
    if (process_.is_alive()) history.step();
    return true;
  }));
}

void Process::ItsEntropy::fill(std::span<std::byte> out) noexcept {
  static std::mutex others;
  while (!out.empty()) {
    std::uint64_t drawn = 0;
    if (process_.is_this_thread()) {
      drawn = process_.input<std::uint64_t>([this] { return process_.history_.draw(); });
    } else {
      const std::lock_guard lock(others);
      static std::uint64_t next = 0;
      drawn = next += 0x9E37'79B9'7F4A'7C15;
    }
    const std::size_t some = std::min(out.size(), sizeof drawn);
    std::memcpy(out.data(), &drawn, some);
    out = out.subspan(some);
  }
}

}  // namespace idmint::simulation
