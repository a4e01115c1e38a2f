// One history: processes that take turns, and choices that say whose turn it is and what fails.
#pragma once

#include <any>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"

namespace idmint::simulation {

// The choices of a history, from a seed or from an earlier history.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) noexcept : state_(seed) {}
  // The given ones first, then 0.
  Choices(std::uint64_t seed, std::vector<std::uint32_t> given)
      : state_(seed), given_(std::move(given)), drawn_(false) {}

  // 0 to below - 1. 0 is the choice that makes the least of a history: nothing fails, the same
  // process goes on, and it ends soon. REQUIRES: below > 0.
  std::uint32_t choose(std::uint32_t below);
  // Not a choice: for tokens and other names.
  std::uint64_t draw() noexcept;
  [[nodiscard]] const std::vector<std::uint32_t>& made() const noexcept { return made_; }

 private:
  std::uint64_t next(std::uint64_t& state) noexcept;

  std::uint64_t state_;
  std::uint64_t names_ = ~state_;
  std::vector<std::uint32_t> given_{};
  bool drawn_ = true;
  std::vector<std::uint32_t> made_{};
};

class Process;

// In a child of fork(), before its first history: the threads of its parent are not there.
void forget_threads() noexcept;

// The processes run one at a time, each in a thread of its own, from one step to the next. A step
// is a call of a store, some readings of a clock and all waiting. The choices alone decide what
// happens, so one list of them is one history.
class History {
 public:
  explicit History(Choices& choices, bool traced = false);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Starts a process. Before run(), or from a process whose turn it is.
  void start(std::string name, std::function<void(Process&)> body);
  // Runs until each process has ended.
  void run();
  // Whether all others have ended.
  [[nodiscard]] bool is_last() const noexcept { return turns_.size() == 1; }

  [[nodiscard]] std::uint32_t choose(std::uint32_t below) { return choices_.choose(below); }
  [[nodiscard]] bool happens(std::uint32_t one_in) { return choose(one_in) == one_in - 1; }
  [[nodiscard]] std::uint64_t draw() noexcept { return choices_.draw(); }

  // The time of the stores. It begins at 2026-01-01.
  [[nodiscard]] Instant now() const noexcept { return now_; }
  // Chooses the process that goes on; some time passes; a call that was sent earlier may be
  // applied.
  void step();
  // The call is applied in a later step, or never.
  void send_late(std::function<void()> call);

  // How often calls fail, processes die and clocks jump: 0 never, larger ones more rarely.
  std::uint32_t one_fault_in = 0;
  std::uint32_t one_jump_in = 0;

  // The property that was broken first. From then on every call of a store fails, and so all ends.
  void fail(std::string what);
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  [[nodiscard]] bool is_over() const noexcept { return !failure_.empty(); }
  [[nodiscard]] std::size_t steps() const noexcept { return steps_; }

  void note(const Process* who, std::string_view what);
  [[nodiscard]] bool is_traced() const noexcept { return traced_; }
  [[nodiscard]] const std::string& trace() const noexcept { return trace_; }

  // For properties over real time: grows with each call that ends.
  std::size_t moment = 0;

 private:
  friend class Process;
  struct Turn;

  void go_on_with(std::size_t which);

  Choices& choices_;
  const bool traced_;
  Instant now_;
  std::vector<std::unique_ptr<Turn>> turns_;  // of the processes that have not ended
  std::vector<std::unique_ptr<Turn>> ended_;
  Turn* current_ = nullptr;
  std::vector<std::function<void()>> late_;
  std::string failure_;
  std::string trace_;
  std::size_t steps_ = 0;
  int started_ = 0;
};

// A process, and all that reaches it: answers, readings of its clock, random bytes, decisions of
// its program. A copy gets the same again, and so comes to the same state; then it goes on alone.
class Process {
 public:
  Process(History& history, std::string name, int number);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] History& history() noexcept { return history_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] Clock& clock() noexcept { return clock_; }
  [[nodiscard]] Entropy& entropy() noexcept { return entropy_; }
  // Whether it may go on. A process that is dead ends: nothing that it does reaches anybody.
  [[nodiscard]] bool is_alive() const noexcept { return !dead_ && !history_.is_over(); }
  void die();
  // False in threads that the code under test starts itself. Their calls of a store, a clock or a
  // random source are no steps and no choices, as their order is not chosen.
  [[nodiscard]] bool is_this_thread() const noexcept {
    return std::this_thread::get_id() == thread_;
  }
  void runs_here() noexcept { thread_ = std::this_thread::get_id(); }
  // Whether it is still being brought to the state of its original.
  [[nodiscard]] bool is_replayed() const noexcept { return replayed_ < inputs_.size(); }

  // A decision of its program: 0 to below - 1.
  [[nodiscard]] std::uint32_t decide(std::uint32_t below) {
    return input<std::uint32_t>([&] { return history_.choose(below); });
  }
  // The value that `live` gives, or gave to the original.
  template <class T>
  T input(const auto& live) {
    if (is_replayed() && !history_.is_over()) return std::any_cast<T>(inputs_[replayed_++]);
    T value = live();
    if (recorded_) {
      inputs_.emplace_back(value);
      ++replayed_;
    }
    return value;
  }
  // From the first input on, so that it can be copied.
  void record() noexcept { recorded_ = true; }
  // Everything that has reached it so far. REQUIRES: record() was called.
  [[nodiscard]] std::vector<std::any> inputs() const { return inputs_; }
  // REQUIRES: nothing has reached this process yet.
  void replay(std::vector<std::any> inputs) { inputs_ = std::move(inputs); }

  // A call of a store. `apply` does all of it at once; copies of it may be applied later.
  template <class T>
  Result<T> call(std::string_view what, std::function<Result<T>()> apply);

  std::chrono::nanoseconds clock_offset{};

 private:
  class ItsClock final : public Clock {
   public:
    explicit ItsClock(Process& process) noexcept : process_(process) {}
    Instant now() noexcept override;
    void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept override;

   private:
    Process& process_;
  };
  class ItsEntropy final : public Entropy {
   public:
    explicit ItsEntropy(Process& process) noexcept : process_(process) {}
    void fill(std::span<std::byte> out) noexcept override;

   private:
    Process& process_;
  };
  enum class Fate : std::uint8_t {
    kAnswered,
    kRefused,   // it was not applied
    kLost,      // it was applied, and the answer was lost
    kLate,      // no answer: it is applied later, or never
    kTwice,     // answered, and the network has it once more
    kDies,      // the process, with the call on its way
    kDiesAfter  // the process, once the call was applied
  };

  // A step, and what becomes of the call.
  [[nodiscard]] Fate fate(std::string_view what);
  [[nodiscard]] static Error refused();
  [[nodiscard]] static Error unknown();

  History& history_;
  const std::string name_;
  const int number_;
  ItsClock clock_{*this};
  ItsEntropy entropy_{*this};
  std::thread::id thread_{};
  bool dead_ = false;
  bool recorded_ = false;
  std::vector<std::any> inputs_{};
  std::size_t replayed_ = 0;
};

template <class T>
Result<T> Process::call(std::string_view what, std::function<Result<T>()> apply) {
  return input<Result<T>>([&]() -> Result<T> {
    const Fate fate = this->fate(what);
    if (!is_alive()) {
      if (history_.is_over()) return std::unexpected(unknown());
      if (fate == Fate::kDies) history_.send_late([apply] { static_cast<void>(apply()); });
      if (fate == Fate::kDiesAfter) static_cast<void>(apply());
      return std::unexpected(unknown());
    }
    switch (fate) {
      case Fate::kRefused:
        return std::unexpected(refused());
      case Fate::kLost:
        static_cast<void>(apply());
        return std::unexpected(unknown());
      case Fate::kLate:
      case Fate::kTwice:
        history_.send_late([apply] { static_cast<void>(apply()); });
        if (fate == Fate::kLate) return std::unexpected(unknown());
        break;
      default:
        break;
    }
    Result<T> answer = apply();
    ++history_.moment;
    if (!answer) history_.note(this, "  " + answer.error().message());
    return answer;
  });
}

}  // namespace idmint::simulation
