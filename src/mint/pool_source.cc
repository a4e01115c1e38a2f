#include "mint/pool_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bounded_mutex.h"
#include "base/errors.h"
#include "base/fork_wiped.h"
#include "base/outcome.h"
#include "idmint/snowflake.h"
#include "mint/submitted_ids.h"
#include "sequences/held_for.h"
#include "sequences/strategies.h"

namespace idmint {
namespace {

// Shows the time at which it was stopped, until it is released or somebody waits for a later time.
class StoppedClock final : public Clock {
 public:
  explicit StoppedClock(Clock& clock) : clock_(clock) {}

  void stop() { stopped_at_.store(clock_.now()); }
  void go_on() { stopped_at_.store(kGoing); }

  Instant now() noexcept override {
    const Instant stopped_at = stopped_at_.load(std::memory_order_relaxed);
    return stopped_at == kGoing ? clock_.now() : stopped_at;
  }
  void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept override {
    go_on();
    clock_.sleep_until(when, at_most);
  }

 private:
  static constexpr Instant kGoing = Instant::min();

  Clock& clock_;
  std::atomic<Instant> stopped_at_{kGoing};
};

constexpr std::chrono::nanoseconds kFirstPause = std::chrono::milliseconds{50};
constexpr std::chrono::nanoseconds kLastPause = std::chrono::milliseconds{250};

class PoolSource final : public Source {
 public:
  PoolSource(std::shared_ptr<Store> store, PoolDefinition pool,
             std::optional<std::chrono::nanoseconds> window, const MadeWith& mint)
      : store_(std::move(store)),
        pool_(std::move(pool)),
        window_(window),
        deadline_(mint.options.store_options.deadline),
        wait_on_(mint.options.wait_on),
        clock_(mint.clock),
        entropy_(mint.entropy),
        declaration_{.kind = SourceKind::kPool,
                     .name = pool_.name,
                     .format = "snowflake",
                     .guarantee = idmint::guarantee(pool_),
                     .order = order(pool_),
                     .notes = to_string(pool_.layout) + ", " + std::to_string(pool_.workers) +
                              " worker ids, leased from " + std::string(store_->url()),
                     .form = pool_.form,
                     .largest_count = pool_.largest_count},
        submitted_(*this, "pool " + pool_.name, mint.options.executor, deadline_) {}

  const Declaration& declaration() const noexcept override { return declaration_; }

  Result<void> next(std::span<Id> out) override { return next(out, SteadyTime::max()); }

  Result<void> next(std::span<Id> out, SteadyTime by) override {
    if (!owner_)
      return std::unexpected(
          about("pool " + pool_.name,
                {Code::kFailedPrecondition, "opened before fork(); open it again in the child"}));
    SnowflakeGenerator* const generator = generator_.load();
    if (generator == nullptr) return first_next(out, by);
    Result<void> filled = fill(*generator, out, by);
    if (!filled && filled.error().code == Code::kDataLoss && is_settled_since(generator, by))
      return first_next(out, by);
    return filled;
  }

  Result<void> submit(std::span<Id> out, MoveOnlyFunction<void(Result<void>)> done) override {
    return submitted_.submit(out, std::move(done));
  }

 private:
  // Short commands hold a worker id for moments only. So if all are owned, this tries again until
  // the deadline, or with wait_on_ until the first lease expires.
  Result<void> first_next(std::span<Id> out, SteadyTime by) {
    const Instant begin = clock_.now();
    const SteadyTime until = std::min(by, std::chrono::steady_clock::now() + deadline_);
    if (wait_on_) by = SteadyTime::max();  // the wait has its own end
    const std::unique_lock lock(opening_, until);
    if (!lock && generator_.load() == nullptr)
      return std::unexpected(about(
          "pool " + pool_.name,
          {Code::kUnavailable, "the first caller is still waiting for its worker id; ask again"}));
    std::chrono::nanoseconds longest = deadline_;
    if (by != SteadyTime::max()) longest = std::min(longest, by - std::chrono::steady_clock::now());
    std::chrono::nanoseconds waited{};
    std::optional<Error> owned;  // why the previous attempt leased none
    for (std::chrono::nanoseconds pause = kFirstPause;; pause = std::min(pause * 2, kLastPause)) {
      if (SnowflakeGenerator* const there = generator_.load(); there != nullptr)
        return fill(*there, out, by);
      // With wait_on_ each attempt has its own deadline.
      Result<void> filled =
          open_and_fill(out, by, wait_on_ ? std::chrono::steady_clock::now() + deadline_ : until);
      const bool all_owned = !filled && generator_.load() == nullptr &&
                             filled.error().code == Code::kResourceExhausted;
      // The error of an attempt that the deadline cut short says less than the previous error. It
      // minted nothing, and a worker id that it may have leased expires.
      if (owned && !filled && generator_.load() == nullptr &&
          (filled.error().code == Code::kUnavailable || outcome_unknown(filled.error().code)))
        return std::unexpected(*std::move(owned));
      if (!all_owned) return filled;
      owned = filled.error();
      if (wait_on_ && waited == std::chrono::nanoseconds{}) {
        const auto held = held_for(*store_->leases(), pool_.name);
        longest = std::max<std::chrono::nanoseconds>(
            longest, held.value_or(std::chrono::milliseconds{}) + kLastPause);
      }
      const std::chrono::nanoseconds left = longest - waited;
      if (left <= std::chrono::nanoseconds{} || clock_.now() - begin >= longest) return filled;
      using std::chrono::milliseconds;
      if (wait_on_ && !wait_on_(std::chrono::duration_cast<milliseconds>(waited),
                                std::chrono::duration_cast<milliseconds>(longest)))
        return filled;
      pause = std::min(pause, left);
      clock_.sleep_until(clock_.now() + pause, pause);
      waited += pause;
    }
  }

  Result<void> open_and_fill(std::span<Id> out, SteadyTime by, SteadyTime until) {
    clock_.stop();
    SnowflakeLeaseOptions options{.until = until, .one_unit = true};
    options.deadline = deadline_;
    if (window_) {
      options.window = *window_;
      options.max_drift = std::max(options.max_drift, *window_ + options.max_skew);
    }
    auto opened = open_pool(*store_, pool_, options, clock_, entropy_);
    Result<void> filled;
    if (opened) {
      opened_within_ = store_->settle_count();
      owned_.push_back(*std::move(opened));
      generator_.store(owned_.back().get());
      filled = fill(*owned_.back(), out, by);
    } else {
      filled = std::unexpected(std::move(opened.error()));
    }
    clock_.go_on();
    return filled;
  }

  // Without `by`, the deadline holds for each run of ids, as in SnowflakeGenerator::next().
  Result<void> fill(SnowflakeGenerator& generator, std::span<Id> out, SteadyTime by) {
    if (declaration_.largest_count != 0 && std::ssize(out) > declaration_.largest_count)
      return std::unexpected(about(
          "pool " + pool_.name,
          {Code::kInvalidArgument,
           "ask for at most " + std::to_string(declaration_.largest_count) + " ids in one call"}));
    std::array<Snowflake, 256> ids;
    while (!out.empty()) {
      const auto some = std::span(ids).first(std::min(ids.size(), out.size()));
      if (Result<void> filled = generator.next(some, by); !filled) return filled;
      std::ranges::copy(some, out.begin());
      out = out.subspan(some.size());
    }
    return {};
  }

  // Whether another generator may be opened in the place of `lost`, which gives nothing any more as
  // the store had gone back: it was settled since.
  bool is_settled_since(const SnowflakeGenerator* lost, SteadyTime by) {
    const SteadyTime until = std::min(by, std::chrono::steady_clock::now() + deadline_);
    const std::unique_lock lock(opening_, until);
    if (!lock) return false;
    if (generator_.load() != lost) return true;  // another caller was quicker
    const Result<std::int64_t> now = store_->read_settle_count(until);
    if (!now || *now <= opened_within_) return false;
    generator_.store(nullptr);
    return true;
  }

  const OwnedByProcess owner_;
  const std::shared_ptr<Store> store_;  // outlives the generators
  const PoolDefinition pool_;
  const std::optional<std::chrono::nanoseconds> window_;
  const std::chrono::milliseconds deadline_;
  const decltype(MintOptions::wait_on) wait_on_;
  StoppedClock clock_;
  Entropy& entropy_;
  const Declaration declaration_;
  BoundedMutex opening_;
  std::atomic<SnowflakeGenerator*> generator_{nullptr};
  // Those before the last stay for the calls of other threads that use them.
  std::vector<std::unique_ptr<SnowflakeGenerator>> owned_;  // guarded by opening_
  std::int64_t opened_within_ = 0;  // Store::settle_count() of the last; guarded by opening_
  SubmittedIds submitted_;
};

}  // namespace

std::unique_ptr<Source> make_pool_source(std::shared_ptr<Store> store, PoolDefinition pool,
                                         std::optional<std::chrono::nanoseconds> window,
                                         const MadeWith& mint) {
  return std::make_unique<PoolSource>(std::move(store), std::move(pool), window, mint);
}

}  // namespace idmint
