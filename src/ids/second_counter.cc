#include "ids/second_counter.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace idmint {
namespace {

// Shared by the generators of the process.
struct OfProcess {
  struct Making {
    std::mutex mutex;
    bool made;
  };
  ForkWiped<Making> making;  // in a child of fork(): unlocked and not made
  std::shared_ptr<SecondCounter> counter;
};

// Never destroyed: a generator may be created while the process ends. Not a function's static:
// another thread may hold its guard at a fork(), and the child would wait for ever.
OfProcess& of_process() {
  static constinit std::atomic<OfProcess*> shared{nullptr};
  OfProcess* there = shared.load(std::memory_order_acquire);
  if (there != nullptr) return *there;
  auto made = std::make_unique<OfProcess>();
  if (shared.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *there;
}

}  // namespace

SecondCounter::SecondCounter(Clock& clock, Entropy& entropy)
    : clock_(clock), start_(static_cast<std::uint32_t>(entropy.draw()) & (kCounters - 1)) {
  shared_->lap_plus_1.store(1, std::memory_order_relaxed);
}

std::shared_ptr<SecondCounter> counter_over(Clock& clock, Entropy& entropy) {
  if (&clock != &seconds_clock() || &entropy != &system_entropy()) {
    return std::make_shared<SecondCounter>(clock, entropy);
  }
  auto& [making, counter] = of_process();
  const std::lock_guard lock(making->mutex);
  if (!making->made) {
    counter = std::make_shared<SecondCounter>(clock, entropy);
    making->made = true;
  }
  return counter;
}

Result<SecondCounter::Run> SecondCounter::take_slowly(std::uint32_t want, std::uint64_t number) {
  for (int waits = 0; waits < kMaxWaits; ++waits) {
    Result<Settled> settled = settle(number, want);
    if (!settled) return std::unexpected(std::move(settled.error()));
    if (settled->run.size != 0) return settled->run;
    clock_.sleep_until(settled->until, settled->at_most);
  }
  return std::unexpected(
      Error{Code::kUnavailable,
            "no counter was free in 10 seconds: the clock stands still, or too many callers share "
            "this generator; look at the clock, or make ids of a format with more bits"});
}

// Assigns the second of a number under the lock, so that a lap that begins later sees that second.
// A number is kept while its caller waits, and none is taken before it can have a second.
Result<SecondCounter::Settled> SecondCounter::settle(std::uint64_t& number, std::uint32_t want) {
  Shared& shared = *shared_;
  if (shared.lap_plus_1.load(std::memory_order_relaxed) == 0) {
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 "this generator was inherited through fork(): its process number "
                                 "is the parent's; make another one in the child"});
  }
  const std::lock_guard lock(shared.settling);
  const std::uint64_t ns = now();
  const auto outside = [] {
    return std::unexpected(
        Error{Code::kOutOfRange,
              "the clock shows a time outside 1970 to 2106, which the ids cannot hold: set it"});
  };
  if (ns >= kEnd) return outside();
  const std::uint64_t clock_second = ns / kSecond;
  std::uint64_t lap_plus_1 = shared.lap_plus_1.load(std::memory_order_relaxed);
  const std::uint64_t highest = shared.highest.load(std::memory_order_relaxed);
  std::uint64_t floor = shared.floor.load(std::memory_order_relaxed);
  if (number != kNone && lap_of(number) + 1 < lap_plus_1) number = kNone;  // its lap is over

  for (;;) {
    std::uint64_t second = clock_second;
    if (second < floor) {
      if (floor >= kEnd / kSecond) return outside();
      const std::uint64_t floor_start = floor * kSecond;
      const std::uint64_t ahead = floor_start - ns;
      const auto wait_until = [&](std::uint64_t until) {
        return Settled{.until = Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(until)}},
                       .at_most = std::chrono::nanoseconds{static_cast<std::int64_t>(until - ns)}};
      };
      if (ahead <= kSecond) return wait_until(floor_start);
      if (ahead > kMaxDrift + kSecond) {
        return std::unexpected(
            Error{Code::kUnavailable,
                  "the clock is " + std::to_string(ahead / kSecond) +
                      " s behind ids already minted, more than the 20 s allowed: set the clock "
                      "right, or ask again when it shows " +
                      format_time(Instant{std::chrono::nanoseconds{
                          static_cast<std::int64_t>(floor_start - kMaxDrift - kSecond)}}) +
                      "; a restart mints at once"});
      }
      if (ahead > kMaxDrift) return wait_until(floor_start - kMaxDrift);
      second = floor;
    }
    if (number == kNone) number = shared.taken.fetch_add(want);
    if (lap_of(number) + 1 > lap_plus_1) {
      // A lap begins. Readers read the lap before its floor.
      floor = highest + 1;
      lap_plus_1 = lap_of(number) + 1;
      shared.floor.store(floor, std::memory_order_release);
      shared.lap_plus_1.store(lap_plus_1, std::memory_order_release);
      continue;
    }
    if (second > highest) shared.highest.store(second, std::memory_order_release);
    return Settled{.run = run(second, number, want)};
  }
}

}  // namespace idmint
