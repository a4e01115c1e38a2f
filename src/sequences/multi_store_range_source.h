// MultiStoreRangeSource: rounds of a sequence over several stores. Unique, without an order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "sequences/multi_store.h"
#include "sequences/range_source.h"
#include "store/counter_store.h"

namespace idmint {

// A round takes all its values from one store: from the one whose next value is the smallest, as
// far as this process knows. So the stores take turns, and one that was down serves alone until it
// has caught up with the others.
//
// A store that fails is left out, whether its outcome is known or not, and the round goes on with
// the next one; the attempts share the time that is left. After a pause of 0.5 to 30 s, which
// doubles with each failure, a task of the executor reads its counter. It is asked again when that
// succeeds. While no store answers, every round asks all of them.
//
// If the store has too few values for the round, the round first checks that all stores together
// have enough. Values that were taken for a round that fails are kept for the next one. Nobody is
// told that the sequence is used up while a store that may have values is left out. A store that
// goes back is kDataLoss for the sequence.
class MultiStoreRangeSource final : public RangeSource {
 public:
  static constexpr std::chrono::nanoseconds kFirstPause = std::chrono::seconds{1};
  static constexpr std::chrono::nanoseconds kLongestPause = std::chrono::seconds{30};

  // A stripe as it was found when the sequence was opened.
  struct Found {
    CounterBounds bounds{};
    Result<std::int64_t> next;  // an error: its store is left out at first
  };

  // `found` has each stripe. A probe takes `deadline` at most. All references must outlive it.
  MultiStoreRangeSource(std::shared_ptr<MultiStores> stores, std::span<const Found> found,
                        Clock& clock, Entropy& entropy, Executor& executor,
                        std::chrono::milliseconds deadline);
  // Waits for the probes under way.
  ~MultiStoreRangeSource() override;
  MultiStoreRangeSource(const MultiStoreRangeSource&) = delete;
  MultiStoreRangeSource& operator=(const MultiStoreRangeSource&) = delete;

  [[nodiscard]] Result<std::span<Range>> advance(std::int64_t count, Take take,
                                                 SteadyTime until) override;
  [[nodiscard]] Error refusal(std::uint64_t count) const override;
  [[nodiscard]] std::span<const Range> kept() const noexcept override { return kept_.ranges(); }

 private:
  // The state of one store that the thread of a round and the probes share.
  struct Health {
    std::int64_t next = 0;             // no smaller value comes from it
    std::optional<Error> why{};        // it is left out, for this reason
    Instant since{};                   // when it failed last
    std::chrono::nanoseconds pause{};  // doubles with each failure in a row
    std::chrono::nanoseconds wait{};   // the pause with jitter: after it a task may read it
    bool posted = false;               // a task will probe it, unless a round asks it before
    bool probing = false;              // a task uses it
  };
  // Outlives the rounds in tasks that have not begun.
  struct Shared {
    Shared(std::shared_ptr<MultiStores> its_stores, Clock& its_clock, Entropy& its_entropy,
           std::chrono::milliseconds its_deadline)
        : stores(std::move(its_stores)),
          clock(its_clock),
          entropy(its_entropy),
          deadline(its_deadline) {}

    void leave_out(Health& store, Error why);  // under the lock
    void probe(std::size_t k);

    const std::shared_ptr<MultiStores> stores;
    Clock& clock;
    Entropy& entropy;
    const std::chrono::milliseconds deadline;
    std::mutex mutex;                 // guards the members below, and `entropy`
    std::condition_variable changed;  // a probe has ended
    std::vector<Health> health;
    std::size_t probes = 0;  // under way
    bool closed = false;
  };
  struct Stripe {
    KnownCounter known;
    std::int64_t settled = -1;  // Store::settle_count(), within which its values are kept; -1: any
    std::optional<GivingStore> from{};  // nothing: not asked yet
    bool used_up = false;
    bool failed = false;  // in this round
  };

  [[nodiscard]] std::optional<std::size_t> pick(SteadyTime until);
  [[nodiscard]] Result<void> ask(std::size_t k, std::int64_t count, Take take, SteadyTime until);
  [[nodiscard]] Result<void> must_have(std::int64_t count, SteadyTime until, bool unknown);
  [[nodiscard]] SteadyTime attempt_until(SteadyTime until);
  void leave_out(std::size_t k, const Error& why);
  [[nodiscard]] Error unreachable(bool unknown) const;
  [[nodiscard]] bool some_left_out() const;
  void probe_those_due();

  const std::shared_ptr<Shared> shared_;
  Executor& executor_;
  std::vector<Stripe> stripes_;
  KeptValues kept_;
  bool extended_ = false;  // others extended a stripe
  Lost lost_;
  Store* lost_store_ = nullptr;  // that of lost_
};

}  // namespace idmint
