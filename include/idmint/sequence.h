// Sequences: durable integers by name, over the counters and claims of a store.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "idmint/store.h"

namespace idmint {

class ExistingValues;  // mongodb.h

// ---- what a sequence is: its life in the store

// Makes the counters first and writes the definition last, so a call that was cut off is finished
// by the next. Again with the same definition is fine and leaves the values alone; with another one
// it is kFailedPrecondition, naming the difference, as it is on a retired name. An empty key of a
// permuted sequence is drawn from `entropy`, and a form without the width that its encoding could
// have gets that of `last`; or both are whatever is there. kUnimplemented: the store does not offer
// what the strategy needs. `progress`: told now and then how many of how many
// counters are made.
[[nodiscard]] IDMINT_EXPORT Result<void> create_sequence(
    Store& store, const SequenceDefinition& definition,
    const std::function<void(std::int64_t done, std::int64_t of)>& progress = {},
    Entropy& entropy = system_entropy());

struct Raised {
  std::int64_t next = 0;     // the smallest value (permuted: index) that may come now; above the
                             // last: none
  std::int64_t skipped = 0;  // values passed over; those that others took meanwhile among them
  std::int64_t left = 0;     // values that were left before, the skipped ones included
};

// kPreview: nothing is changed, and the result says what a raise would do.
enum class RaiseMode : std::uint8_t { kCarryOut, kPreview };

// Afterwards no process takes a value of `past` or below from the store, with two exceptions that
// no store can prevent: ranges that cached sequences hold in memory, and rounds under way. A
// permuted sequence is raised by index: past the first `past` of its values. kInvalidArgument:
// strategy random has no order, and pools are raised by raise_pool(). kFailedPrecondition: a
// gapless one, which would have a gap. kOutOfRange: `past` is above the last value: it would not
// hold for what an extension adds. kNotFound: no such sequence. kFailedPrecondition: retired. On
// any error of the store, kUnavailable too, some of its counters may have been raised; the same
// call again raises the rest. `until`: it has answered by then. Finishing an extension that was cut
// off may take one call of the store longer.
[[nodiscard]] IDMINT_EXPORT Result<Raised> raise_sequence(Store& store, std::string_view name,
                                                          std::int64_t past,
                                                          RaiseMode mode = RaiseMode::kCarryOut,
                                                          SteadyTime until = SteadyTime::max());

// Raises each counter of a striped or interleaved sequence past the largest of `past` among its own
// values; a counter without one stays where it is. kInvalidArgument also: another strategy, or a
// value that the sequence does not have.
[[nodiscard]] IDMINT_EXPORT Result<Raised> raise_sequence(Store& store, std::string_view name,
                                                          std::span<const std::int64_t> past,
                                                          RaiseMode mode = RaiseMode::kCarryOut);

// Raises past the largest of the values that are in use there, as far as they are the sequence's:
// each block of a striped one past the largest within the block. Nothing is passed over where there
// is none. Values that others write while this runs may be missed: raise when they have stopped.
// kInvalidArgument also: permuted, as its values come in an order of their own.
// kFailedPrecondition and other errors of ExistingValues.
[[nodiscard]] IDMINT_EXPORT Result<Raised> raise_sequence(Store& store, std::string_view name,
                                                          ExistingValues& values,
                                                          RaiseMode mode = RaiseMode::kCarryOut);

// Raises each counter to where the same counter is in `from`, a store that was written to when
// `store` was not: a permuted one by index. kFailedPrecondition also: `from` has no such sequence,
// or another one of that name; a counter has gone on there past its end here.
[[nodiscard]] IDMINT_EXPORT Result<Raised> raise_sequence(Store& store, std::string_view name,
                                                          Store& from,
                                                          RaiseMode mode = RaiseMode::kCarryOut);

// One sequence or pool of a store that is raised as a whole.
struct RaisedSource {
  Definition definition{};
  Raised raised{};  // of its counters
  // Of a pool: no id of this unit of its layout's time, or of an earlier one, comes any more.
  std::optional<std::int64_t> past_unit{};
  // It is retired in the newer store, and was retired here (kPreview: would be) instead of raised.
  bool retired = false;
  // What can still repeat, and what to do about it; empty: nothing.
  std::string remains{};
  std::optional<Error> error{};  // it was not raised
};

// A value of a sequence, or an id of a pool, that is known to have been handed out.
struct GivenValue {
  std::string source{};
  std::int64_t value = 0;
  std::string evidence{};  // "this host was given 1740 at 2026-11-23T03:28:11Z", for messages
};

// Makes a store usable again that holds less than it handed out (Store::doubt()): raises everything
// in it, and then, if everything was raised, settles it. Nobody may mint meanwhile. Again is fine,
// and finishes what was cut off. By name; retired ones are left out.
//
// Counters go past the value `past`; a permuted sequence past its first `past` values, and each
// block of a striped one past its own first `past`. What shows by itself that `past` is too small
// for it is not raised (kInvalidArgument in its row), nor is what ends before it (kOutOfRange), nor
// what would stay at or below one of the values in `given` (kFailedPrecondition). `given` proves
// the number wrong for this sequence, so that nothing is guessed from it.
// Pools go a minute past the clock, and past every bound that is known. Claims and gapless
// sequences stay as they are; `remains` says what follows.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<RaisedSource>> raise_all(
    Store& store, std::int64_t past, RaiseMode mode = RaiseMode::kCarryOut,
    std::span<const GivenValue> given = {}, Clock& clock = system_clock());

// The same past what each has come to in `from`, whose errors are those of raise_sequence(), each
// in its row. A source that is retired there is retired here. One that is in `from` alone has a row
// too. kInvalidArgument: `from` is `store` itself.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<RaisedSource>> raise_all(
    Store& store, Store& from, RaiseMode mode = RaiseMode::kCarryOut,
    std::span<const GivenValue> given = {}, Clock& clock = system_clock());

// Moves the last value up; nothing else of a definition ever changes. kFailedPrecondition: smaller
// than the last value there, retired, or of a strategy whose values depend on it (striped,
// permuted). kInvalidArgument: the new last value is not possible; a pool. On any error of the
// store, kUnavailable too, the definition and some of the counters may have been extended; the same
// call finishes it. Running processes keep the end they know until they open the sequence again; a
// range that one of them takes beyond it is lost.
[[nodiscard]] IDMINT_EXPORT Result<SequenceDefinition> alter_sequence(Store& store,
                                                                      std::string_view name,
                                                                      std::int64_t last);

// Ends the sequence or the pool for ever, for every process; a tombstone keeps its name. Again is
// fine. On any error of the store, kUnavailable too, some of its counters may have been closed,
// which hand out nothing more; the same call finishes it. Ranges that cached sequences hold in
// memory are handed out still, and so are ids of a pool below the bounds that were granted.
[[nodiscard]] IDMINT_EXPORT Result<void> retire_sequence(Store& store, std::string_view name);

// A sequence or a pool as its store has it, for people and monitoring.
struct SequenceStatus {
  Definition definition;
  // Where there is one counter: what it hands out next (kPermuted: the index); above the last:
  // none.
  std::optional<std::int64_t> next;
  // kPermuted: the value of that index, which comes next; nothing when none is left.
  std::optional<std::int64_t> permuted;
  // Values not yet taken, of counters that are not closed; kRandom: those that will still be given,
  // as it refuses to go on before the last (Occupancy); of a pool: worker ids that nobody owns,
  // or whose owner's time is over.
  std::int64_t left = 0;
  // Where the record is that its counters were adopted from (SequenceDefinition::adopted), such as
  // the name of a collection; empty: they are idmint's own.
  std::string adopted_from{};
  // What keeps the rest from being known or used. kDataLoss, kUnimplemented: as read (a counter is
  // gone, say). kFailedPrecondition: a retire that was cut off. kUnavailable: an extension that
  // was.
  std::optional<Error> error;
};

// kNotFound: no such sequence.
[[nodiscard]] IDMINT_EXPORT Result<SequenceStatus> peek_sequence(
    Store& store, std::string_view name, SteadyTime until = SteadyTime::max());
// By name. A definition that cannot be read, or whose counters are not right, has its error in its
// row.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<SequenceStatus>> list_sequences(
    Store& store, SteadyTime until = SteadyTime::max());

// Whether the store knows that `value` was handed out: by its counters, its claims or, for a pool
// and one of its ids, its leases. False for a value that was handed out: the store holds less than
// it did, because an older state of it was restored, and the value can come again. A value that was
// only passed over counts as handed out; one above a last value that can be moved up does not, as
// the store lacks that extension. kNotFound: no such sequence. kInvalidArgument: it has no such
// value.
[[nodiscard]] IDMINT_EXPORT Result<bool> has_given(Store& store, std::string_view name,
                                                   std::int64_t value);

// ---- values

struct SequenceOptions {
  // Requests waiting at one time, blocking and asynchronous together; one more is
  // kResourceExhausted.
  std::size_t max_outstanding = 1'000'000;
  // Cached: how long a range is to last, of which the adaptive step follows.
  std::chrono::milliseconds horizon = std::chrono::seconds{10};
  // The longest that a call waits for values, whatever it waits for: calls that came before it, the
  // store, its own attempts. Nothing: as long as a call of the store (StoreOptions::deadline).
  std::optional<std::chrono::milliseconds> deadline{};
  // Opening ends by then, too, each of its reads within the store's deadline.
  SteadyTime until = SteadyTime::max();
  // Answers submit(), and fetches the ranges of cached sequences; null: shared_executor().
  Executor* executor = nullptr;
};

struct SequenceStatistics {
  std::uint64_t requests = 0;  // answered with values
  std::uint64_t rounds = 0;    // round trips to the store
  std::int64_t values = 0;     // handed out
  std::int64_t waste = 0;      // taken, or perhaps taken, and not handed out
};

// Values of one sequence. Threads may share it. In a child of fork() every call is
// kFailedPrecondition; open stores and sequences after the fork.
class IDMINT_EXPORT Sequence {
 public:
  // The store must outlive the sequence. `clock`: for the rate and the pauses of cached and
  // striped ones; `entropy`: for stripes, random values and jitter. kNotFound: no such name; the
  // error has the advice to create it. kFailedPrecondition: retired, gapless (gapless.h) or a pool
  // (snowflake.h). kDataLoss: defined, but a counter is gone.
  [[nodiscard]] static Result<std::unique_ptr<Sequence>> open(Store& store, std::string_view name,
                                                              const SequenceOptions& options = {},
                                                              Clock& clock = system_clock(),
                                                              Entropy& entropy = system_entropy());
  virtual ~Sequence() = default;

  [[nodiscard]] virtual const SequenceDefinition& definition() const noexcept = 0;

  // Fills all of `out`, within SequenceOptions::deadline, and by `until` if that is earlier. On an
  // error nothing in it is to be used, and what was taken for it is lost. kOutOfRange: fewer are
  // left. kInvalidArgument: more than the definition's largest_count. kUnavailable: closed, or the
  // store did not apply it. kUnknown, kDeadlineExceeded: values may have been lost; ask again.
  // kResourceExhausted: max_outstanding, the store is full, or random values have become too few.
  // kFailedPrecondition: retired since it was opened. kDataLoss: the store has gone back, or is
  // damaged.
  [[nodiscard]] virtual Result<void> next(std::span<std::int64_t> out, SteadyTime until) = 0;
  [[nodiscard]] Result<void> next(std::span<std::int64_t> out) {
    return next(out, SteadyTime::max());
  }
  // One value. Errors as of the call for many.
  [[nodiscard]] Result<std::int64_t> next() {
    std::int64_t value = 0;
    if (Result<void> filled = next(std::span(&value, 1)); !filled)
      return std::unexpected(std::move(filled).error());
    return value;
  }

  // The same without waiting. `done` gets what next() would return, once, never inside submit():
  // from a task of SequenceOptions::executor, from a call of another thread that blocks, or from
  // close(). It may call submit(); it must not block, throw or close the sequence. `out` must stay
  // until then. Values come in the order in which a thread submits, if the sequence has an order.
  //
  // If submit() itself returns an error, nothing was queued, and `done` is never called.
  // kInvalidArgument: as next(). kUnavailable: closed. kResourceExhausted: max_outstanding, or the
  // executor has no thread; ask again when some have been answered.
  [[nodiscard]] virtual Result<void> submit(std::span<std::int64_t> out,
                                            std::move_only_function<void(Result<void>)> done) = 0;

  // Fills all of `out` from values that this process holds already, as a cached sequence does, and
  // returns true; or takes nothing and returns false, and then submit() is the way to ask. Never
  // waits for the store, for another caller or for a task, so the thread of an event loop may call
  // it. Its values and those of submit() come in the order in which a thread asks: so it is false
  // while a request of submit() has no values yet, whoever submitted it. A thread that calls next()
  // as well gets those values in an order of their own. What holds for next() holds here: nothing
  // is given after close(), after the store has gone back, in a child of fork(), or when the
  // sequence drops what it holds.
  [[nodiscard]] virtual bool try_next(std::span<std::int64_t> /*out*/) noexcept { return false; }

  // Answers all that wait with kUnavailable, waits for the call of the store that is under way, and
  // refuses what comes after. The destructor does the same.
  virtual void close() noexcept = 0;

  // The values that were held when close() was called: taken from the store, and handed to nobody,
  // then or ever. Ranges in the order of their first values, those that follow on each other as
  // one. Values of calls whose outcome is unknown are not among them. Before close(): none.
  [[nodiscard]] virtual std::vector<Range> given_up() const { return {}; }

  [[nodiscard]] virtual SequenceStatistics statistics() const noexcept = 0;
};

// ---- strategy counter, with ranges

// Linearizable: a call that begins after another ended, in any process on any host, gets larger
// values. No gap while no process dies, no deadline passes and no outcome is unknown. While one
// round trip to the store is under way callers queue, and the next one serves them all, in the
// order they came.
//
// It checks that the store does not go back: a value below one that was handed out before is
// kDataLoss for that call and for every later one.
class IDMINT_EXPORT CounterSequence final : public Sequence {
 public:
  // As Sequence::open(); kFailedPrecondition also where the name is of another strategy.
  [[nodiscard]] static Result<std::unique_ptr<CounterSequence>> open(
      Store& store, std::string_view name, const SequenceOptions& options = {});
  ~CounterSequence() override;
  CounterSequence(const CounterSequence&) = delete;
  CounterSequence& operator=(const CounterSequence&) = delete;

  [[nodiscard]] const SequenceDefinition& definition() const noexcept override;
  using Sequence::next;
  [[nodiscard]] Result<void> next(std::span<std::int64_t> out, SteadyTime until) override;

  // The next `count` values, all of them, consecutive. Blocks for one or two round trips, as long
  // as next(). Errors as next(). kInvalidArgument: count < 1.
  [[nodiscard]] Result<Range> take(std::int64_t count, SteadyTime until = SteadyTime::max());

  [[nodiscard]] Result<void> submit(std::span<std::int64_t> out,
                                    std::move_only_function<void(Result<void>)> done) override;
  // The same for a range, as take(). kInvalidArgument: count < 1.
  [[nodiscard]] Result<void> submit(std::int64_t count,
                                    std::move_only_function<void(Result<Range>)> done);

  void close() noexcept override;
  [[nodiscard]] SequenceStatistics statistics() const noexcept override;

 private:
  struct State;
  explicit CounterSequence(std::unique_ptr<State> state) noexcept;
  friend Result<std::unique_ptr<Sequence>> open_counter(Store& store, SequenceDefinition definition,
                                                        const SequenceOptions& options,
                                                        Clock& clock, Entropy& entropy);
  std::unique_ptr<State> state_;
};

// ---- strategy cached: ranges are taken from the store ahead of need and handed out from memory, a
// nanosecond or two for each id

// Unique, and increasing for each thread that asks. Values of different threads come in no order,
// since each thread is handed up to 256 of them at a time.
//
// A range is fetched when half of the one before is left, or sooner where the store takes so long
// that callers would have to wait. With SequenceDefinition::step it has that many values (more only
// where callers that wait want more); without, it starts at 16 and follows the rate, so that it
// lasts SequenceOptions::horizon, with at most 10,000,000 values and at most a 256th of those left,
// or 16. Only one fetch is under way. A caller makes the first; a task of SequenceOptions::executor
// makes the later ones, or a caller if the store is in memory and quicker than waking a thread.
//
// A fetch that failed is tried again, after 10 to 200 ms and a little chance, as long as callers
// have values. Those that have none wait for SequenceOptions::deadline, and one call of the store
// more, at most; then all that wait get the error. After an unknown outcome the range is lost, and
// the next one is asked for.
//
// A copy of the process (a VM snapshot, a container checkpoint) holds the same values and hands
// them out too. If nobody took from a range for 10 minutes by the wall clock, it is dropped, and
// counted as waste; what threads have in their slices stays.
//
// If the store goes back, or its counter is gone, everything held is void, and every call is
// kDataLoss for ever.
class IDMINT_EXPORT CachedSequence final : public Sequence {
 public:
  // As Sequence::open(); kFailedPrecondition also where the name is of another strategy. Takes
  // nothing from the store.
  [[nodiscard]] static Result<std::unique_ptr<CachedSequence>> open(
      Store& store, std::string_view name, const SequenceOptions& options = {},
      Clock& clock = system_clock(), Entropy& entropy = system_entropy());
  ~CachedSequence() override;
  CachedSequence(const CachedSequence&) = delete;
  CachedSequence& operator=(const CachedSequence&) = delete;

  [[nodiscard]] const SequenceDefinition& definition() const noexcept override;

  // One value, within SequenceOptions::deadline. Errors as next(out).
  [[nodiscard]] Result<std::int64_t> next() {
    std::int64_t value = 0;
    if (take_held(value)) [[likely]]
      return value;
    return next_slice(SteadyTime::max());
  }

  // Increasing; not consecutive. On an error nothing in `out` is to be used: it comes again, in
  // later calls of this thread. kOutOfRange: fewer are left to this thread; what other threads hold
  // is for them alone.
  using Sequence::next;
  [[nodiscard]] Result<void> next(std::span<std::int64_t> out, SteadyTime until) override;

  // Increasing for each thread that submits, and with the same guarantees.
  [[nodiscard]] Result<void> submit(std::span<std::int64_t> out,
                                    std::move_only_function<void(Result<void>)> done) override;

  // True while the current range has as many values as `out` wants. The call that comes to the mark
  // of the range has a task fetch the next one, whatever the store.
  [[nodiscard]] bool try_next(std::span<std::int64_t> out) noexcept override;

  // Values taken from the store and not yet handed out: what raise_sequence() does not recall, and
  // what is lost when the program ends now. Exact while no thread calls next().
  [[nodiscard]] std::int64_t held() const noexcept;

  // How many callers wait for values. At once out of date.
  [[nodiscard]] std::size_t waiting() const noexcept;

  // What is held is lost, and counted as waste. Answers all that wait with kUnavailable, and every
  // call after it. Waits for the fetch under way, and at most 200 ms more.
  void close() noexcept override;
  // As exact as held().
  [[nodiscard]] std::vector<Range> given_up() const override;

  // As exact as held(). `waste` is what fetches of unknown outcome and closing cost.
  [[nodiscard]] SequenceStatistics statistics() const noexcept override;

 private:
  struct State;

  // Values of one thread: next to end - 1. Only that thread moves `next`; `end` is lowered by
  // whoever stops the sequence. All zero, as fork() leaves it: none.
  struct alignas(64) Slice {
    std::atomic<std::int64_t> next;
    std::atomic<std::int64_t> end;
    std::atomic<std::int64_t> until;   // the end, whether stopped or not
    std::atomic<std::int64_t> kept;    // more, of calls that failed, to come after these
    std::atomic<std::uint64_t> extra;  // values beyond the first of each call
  };
  // Where this thread finds its slice of the sequence of that number; a few of the latest. No two
  // sequences of a process ever have one number, so what was left by one that is gone is not found.
  struct Holding {
    std::uint64_t sequence;  // 0: none
    Slice* slice;
  };
  static constexpr std::size_t kHoldings = 8;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Holding holdings_[kHoldings];

  explicit CachedSequence(std::shared_ptr<State> state) noexcept;
  friend Result<std::unique_ptr<Sequence>> open_cached(Store& store, SequenceDefinition definition,
                                                       const SequenceOptions& options, Clock& clock,
                                                       Entropy& entropy);

  // The next value that this thread holds. False: it holds none.
  bool take_held(std::int64_t& value) noexcept {
    const Holding& holding = holdings_[number_ % kHoldings];
    if (holding.sequence != number_) return false;
    const std::int64_t next = holding.slice->next.load(std::memory_order_relaxed);
    if (next >= holding.slice->end.load(std::memory_order_relaxed)) return false;
    holding.slice->next.store(next + 1, std::memory_order_relaxed);
    value = next;
    return true;
  }
  [[nodiscard]] Result<std::int64_t> next_slice(SteadyTime until);

  const std::uint64_t number_;
  const std::shared_ptr<State> state_;
};

// ---- strategy random: how full the space of a sequence is, and what that costs

// A random value that is claimed already is drawn again. With a share p of the values claimed, an
// id costs 1 / (1 - p) draws: p / (1 - p) redraws and one that succeeds.
struct Occupancy {
  std::int64_t claimed = 0;     // 0 to size
  std::int64_t size = 1;        // how many values there are
  double expected_redraws = 0;  // for the next id; infinity where none is left

  // A random sequence refuses (kResourceExhausted) to claim where more redraws are to be expected:
  // when 10 of 11 values, about 91 %, are claimed.
  static constexpr int kMostRedraws = 10;
};

// REQUIRES: 0 <= claimed <= size, size >= 1.
[[nodiscard]] IDMINT_EXPORT Occupancy occupancy(std::int64_t claimed, std::int64_t size) noexcept;

// Of a random sequence, as its store says now. kNotFound: no such sequence. kFailedPrecondition:
// of another strategy. kDataLoss: it is defined, but its claims are gone.
[[nodiscard]] IDMINT_EXPORT Result<Occupancy> occupancy(Store& store, std::string_view sequence);

// How many of `size` values a random sequence gives before it refuses.
[[nodiscard]] IDMINT_EXPORT std::int64_t most_claims(std::int64_t size) noexcept;

// The redraws to be expected for the next `count` ids in all; infinity where fewer are left.
// REQUIRES: count >= 0.
[[nodiscard]] IDMINT_EXPORT double expected_redraws(const Occupancy& from,
                                                    std::int64_t count) noexcept;

}  // namespace idmint
