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
//
// On any error of the store, kUnavailable included, a call may have changed the definition and some
// of the counters; the same call again does the rest. In a sequence over several stores, raising,
// altering and retiring act on all stores that can be reached; the error names the others. Each
// function lists its further errors.

// The state of one stripe of a sequence over several stores.
struct StripeStatus {
  StoreOfStripe store{};
  std::optional<std::int64_t> next{};  // its next value; above the last one: none
  std::optional<Error> error{};        // why `next` is not known, or why the stripe gives nothing
};

// The state of a sequence or a pool in its store, for operators and monitoring.
struct SequenceStatus {
  Definition definition{};
  // With a single counter: its next value (kPermuted: index); above the last one: none.
  std::optional<std::int64_t> next{};
  // kPermuted: the value at that index, which comes next; nothing if none is left.
  std::optional<std::int64_t> permuted{};
  // The number of values of open counters that nobody has taken. kRandom: values that will still
  // come; it stops before the last (Occupancy). Pools: worker ids that have no owner or whose lease
  // has expired.
  std::int64_t left = 0;
  // The place of the adopted record (SequenceDefinition::adopted), such as the name of a
  // collection; empty: idmint's own record.
  std::string adopted_from{};
  // The stripes of a sequence over several stores. `next` is then the smallest of theirs, and
  // `left` the sum over those that could be reached.
  std::vector<StripeStatus> stripes{};
  // A counter was closed, or some worker ids of a pool: by a retirement that was interrupted, or
  // by hand.
  bool closed = false;
  // idmint does not notice yet if the program of the adopted record sets it back: an older version
  // adopted it. It does from the next value on.
  bool no_floor = false;
  // Why other members are unknown, or the source is unusable:
  // - kDataLoss, kUnimplemented: a reading failed, for example because a counter is gone.
  // - kFailedPrecondition: it is `closed`; or a store cannot be used as it is, for example because
  //   of a setting; or another store is in its place.
  // - kUnavailable: an extension was interrupted, or one of several stores was not reached.
  std::optional<Error> error{};

  // The distance between the smallest and the largest next value of the stripes in different
  // stores. While it shrinks, ids come from the stripes that are behind.
  [[nodiscard]] IDMINT_EXPORT std::int64_t skew() const noexcept;
};

// What is there after a change, and whether this call made it. The state is of a moment in the
// call. It costs no round trip, except for an adopted sequence, an altered random one, or where
// another process was quicker.
struct Changed {
  SequenceStatus status{};
  // This call made the change, or may have: where the answer to an attempt was lost, two calls can
  // both be told so. False: it was made before, or by another process at the same time. A call that
  // only completes an interrupted change did not make it.
  bool made = false;
};

struct CreateOptions {
  // Called now and then with the number of counters created.
  std::function<void(std::int64_t done, std::int64_t of)> progress{};
  // Called once it is known that the name has no definition, before anything is made. An error ends
  // the call. Another process may create the source meanwhile.
  std::function<Result<void>()> may_make{};
};

// Creates the counters first and writes the definition last. A repeated call with the same
// definition succeeds and leaves the values alone. A permuted sequence without a key gets one from
// `entropy`, and a form that needs a width gets the width of `last`; an existing sequence keeps its
// key and width. Errors, besides that of CreateOptions::may_make:
// - kFailedPrecondition: another definition is there (the message names the difference), or the
//   name is retired.
// - kUnimplemented: the store lacks what the strategy needs.
[[nodiscard]] IDMINT_EXPORT Result<Changed> create_sequence(Store& store,
                                                            const SequenceDefinition& definition,
                                                            const CreateOptions& options = {},
                                                            Entropy& entropy = system_entropy());

// Creates one interleaved sequence over several stores, one stripe in each. It hands out values
// while a store is down. Ignores `stripes`, `over` and `stripe` of the definition, which follow
// from the stores. The stripes have the order of the stores, which is part of the definition.
// Creates all counters before the definitions. Errors as above, and:
// - kInvalidArgument: one store twice, fewer than 2 or more than kMaxStores, another strategy.
// - kDataLoss: a store has the definition, but another one lacks its counter.
[[nodiscard]] IDMINT_EXPORT Result<Changed> create_sequence(std::span<Store* const> stores,
                                                            const SequenceDefinition& definition);

// How to find the other stores of a sequence over several. Each function below with these options
// needs one of the stores, and opens the others at the URLs in the definition. Each store must have
// the id that the definition names, and the same definition apart from `last`. If a URL has no such
// store or definition, Sequence::open() fails with kFailedPrecondition, and the message has the
// difference. Functions that raise, alter or retire act on the rest, then fail with an error that
// names the store; the others return that error in SequenceStatus::error.
struct MultiStoreOptions {
  // These replace URLs of the definition, which have no passwords. Each is of the same servers and
  // database, or of a store's new place; a store at a new place must answer.
  std::vector<std::string> over{};
  // If true, `over` may also have URLs of other sequences' stores: those that are not in the
  // definition are tried before its own, and need not answer.
  bool over_others = false;
  // Opens the store at a URL, by `until`. Nothing: Store::open(), without creating it.
  std::function<Result<std::shared_ptr<Store>>(const std::string& url, SteadyTime until)> open{};
  // Called within Sequence::open() for each store that is left out until somebody mends it, for
  // example because a password is missing. `url` has no password. Must not throw.
  std::function<void(std::string_view url, const Error& why)> left_out{};
  // Whether a store gives values to the sequence that was opened: called for each store as it is
  // opened, and then once for each change, not for each call. `why`: it is left out, for this
  // reason; null: it gives values. On any thread, for one store one call after another. Must not
  // throw, nor call the sequence.
  std::function<void(std::string_view url, const Error* why)> store_changed{};
  // Whether a store did not answer lately, as far as is known: it is waited for only for a moment
  // once another one has answered. Called within Sequence::open(). Must not throw.
  std::function<bool(std::string_view url)> seems_down{};
};

struct Raised {
  std::int64_t next = 0;     // the smallest value (permuted: index) that may come now; above the
                             // last value: none
  std::int64_t skipped = 0;  // values passed over, including those that others took meanwhile
  std::int64_t left = 0;     // values that were left before, including the skipped ones
  // What is there now. Of a sequence over several stores of which the counter in one store alone
  // was raised, it has no stripes. raise_all() leaves it empty.
  SequenceStatus status{};
};

// kPreview changes nothing: the result says what the raise would do.
enum class RaiseMode : std::uint8_t { kCarryOut, kPreview };

// Afterwards no process takes a value of `past` or below from the store, except in round trips
// under way; ranges that cached sequences hold in memory still come. A permuted sequence is raised
// by index: past the first `past` of its values. Returns by `until`, but the completion of an
// interrupted extension may take one more call of the store.
//
// In a sequence over several stores kPreview leaves out stores that cannot be reached. Errors:
// - kInvalidArgument: strategy random, which has no order; or a pool, for which there is
//   raise_pool().
// - kFailedPrecondition: the sequence is retired, or is gapless.
// - kOutOfRange: `past` is above the last value, so the raise would not hold after an extension.
// - kNotFound: no such sequence.
[[nodiscard]] IDMINT_EXPORT Result<Raised> raise_sequence(
    Store& store, std::string_view name, std::int64_t past, RaiseMode mode = RaiseMode::kCarryOut,
    SteadyTime until = SteadyTime::max(), const MultiStoreOptions& multi_store = {});

// Raises each counter of a striped or interleaved sequence past the largest value in `past` that
// belongs to it; a counter without such a value stays where it is. In a sequence over several
// stores, raises only the counter in `store`. kInvalidArgument also: another strategy, or a value
// that belongs to none of these counters.
[[nodiscard]] IDMINT_EXPORT Result<Raised> raise_sequence(Store& store, std::string_view name,
                                                          std::span<const std::int64_t> past,
                                                          RaiseMode mode = RaiseMode::kCarryOut);

// Raises past the largest value of the sequence that is in use, and each block of a striped
// sequence past the largest one in that block. If no value is in use, nothing changes. Values that
// others write meanwhile may be missed, so raise after they have stopped. Errors also:
// - kInvalidArgument: strategy permuted, whose values have no order.
// - kFailedPrecondition and others: errors of ExistingValues.
[[nodiscard]] IDMINT_EXPORT Result<Raised> raise_sequence(
    Store& store, std::string_view name, ExistingValues& values,
    RaiseMode mode = RaiseMode::kCarryOut, const MultiStoreOptions& multi_store = {});

// Raises each counter to the position of the same counter in `from`, a store that handed out values
// while `store` did not. In a sequence over several stores, raises only the counter in `store`.
// Permuted sequences are raised by index. kFailedPrecondition also: `from` has no such sequence or
// a different one of that name, or a counter there is past its end here.
[[nodiscard]] IDMINT_EXPORT Result<Raised> raise_sequence(Store& store, std::string_view name,
                                                          Store& from,
                                                          RaiseMode mode = RaiseMode::kCarryOut);

// The result of raise_all() for one sequence or pool.
struct RaisedSource {
  Definition definition{};
  Raised raised{};  // of a sequence's counters
  // For a pool: no id of this time unit of its layout, or of an earlier unit, comes any more.
  std::optional<std::int64_t> past_unit{};
  // It is retired in the newer store, so it was retired here (kPreview: would be) instead of
  // raised.
  bool retired = false;
  // The values that can still repeat, and the remedy; empty: none can.
  std::string remains{};
  std::optional<Error> error{};  // why it was not raised
};

// A value of a sequence, or an id of a pool, that was handed out for certain.
struct GivenValue {
  std::string source{};
  std::int64_t value = 0;
  std::string evidence{};  // for messages: "this host was given 1740 at 2026-11-23T03:28:11Z"
};

// Repairs a store that is behind what it handed out (Store::doubt()): raises everything in it and,
// if that succeeded everywhere, settles it. Nobody may mint meanwhile. Returns one row for each
// sequence or pool that is not retired, sorted by name.
//
// Counters are raised past the value `past`, a permuted sequence past its first `past` values, and
// each block of a striped sequence past the first `past` values of the block. Pools are raised to
// one minute past the clock, and past every known bound. Random and gapless sequences stay as they
// are; `remains` describes the consequences. If a source is not raised, its row has one of these
// errors:
// - kInvalidArgument: the source itself shows that `past` is too small for it.
// - kOutOfRange: it ends before `past`.
// - kFailedPrecondition: it would stay at or below one of the values in `given`. So `past` is wrong
//   for this source, and no other number is guessed.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<RaisedSource>> raise_all(
    Store& store, std::int64_t past, RaiseMode mode = RaiseMode::kCarryOut,
    std::span<const GivenValue> given = {}, Clock& clock = system_clock());

// The same, but raises each source to its position in `from`. If a source is not raised, its row
// has the error of raise_sequence(). A source that is retired in `from` is retired here. A source
// that only `from` has gets a row too. kInvalidArgument: `from` is `store` itself.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<RaisedSource>> raise_all(
    Store& store, Store& from, RaiseMode mode = RaiseMode::kCarryOut,
    std::span<const GivenValue> given = {}, Clock& clock = system_clock());

// Moves the last value up; nothing else of a definition can be altered. Running processes keep to
// the old end until they open the sequence again; a range that one of them takes beyond the old end
// is lost. Errors:
// - kFailedPrecondition: `last` is smaller than the present last value; the sequence is retired; or
//   the values of its strategy depend on the last one (striped, permuted).
// - kInvalidArgument: the last value is not possible, or `name` is a pool.
[[nodiscard]] IDMINT_EXPORT Result<Changed> alter_sequence(
    Store& store, std::string_view name, std::int64_t last,
    const MultiStoreOptions& multi_store = {});

// Ends the sequence or the pool for ever, for every process; a tombstone keeps its name. Can be
// repeated. Cached sequences still hand out the ranges that they hold in memory, and generators the
// ids below the bounds that were granted to them.
[[nodiscard]] IDMINT_EXPORT Result<Changed> retire_sequence(
    Store& store, std::string_view name, const MultiStoreOptions& multi_store = {});

// The move of a sequence to another store.
struct Moved {
  SequenceDefinition definition{};     // as in the target (kPreview: as it will be)
  std::int64_t counters = 0;           // the number of its counters
  std::int64_t left = 0;               // values that nobody has taken
  std::optional<std::int64_t> next{};  // with a single counter: its next value (kPermuted: index)
  bool was_begun = false;              // an earlier call had begun the move
  bool was_done = false;               // an earlier call had completed it
};

// kPreview changes nothing: the result says what the move would take over, and the errors are those
// that would keep the move from beginning.
enum class MoveMode : std::uint8_t { kCarryOut, kPreview };

// Moves a sequence from one store to another while processes take from it: closes it in `from`,
// raises the counters in `to` to the next values, and opens it there. No value comes twice, and no
// untaken one is skipped. A process that holds a cached range hands it out until it goes on in
// `to`, and skips the rest. While the sequence is closed in both, calls fail with kUnavailable.
// Afterwards calls in `from` fail with kFailedPrecondition and the URL of `to`; a Mint with
// MintOptions::also goes on there.
//
// The same call again completes an interrupted one, wherever and however it was interrupted. Until
// then the sequence cannot be moved elsewhere, raised or extended; retiring it in `to` ends it in
// both stores. `progress` is called now and then with the number of counters whose next value was
// taken over. Errors, besides those of the stores:
// - kUnimplemented: a pool, a random or a gapless sequence, one over several stores, or one that
//   counts in an adopted record; the message says what to do instead. Or `to` does not offer this
//   strategy.
// - kFailedPrecondition: the sequence is retired, or was moved to another store; a retirement of it
//   was interrupted; or `to` has or had a sequence of the name.
// - kUnavailable: another move of it is under way.
// - kDataLoss, kFailedPrecondition: one of the stores is in doubt (Store::doubt()).
// - kDataLoss: `to` is no longer the store that the sequence went to, or has nothing of it.
// - kInvalidArgument: `from` and `to` are the same store.
[[nodiscard]] IDMINT_EXPORT Result<Moved> move_sequence(
    Store& from, Store& to, std::string_view name, MoveMode mode = MoveMode::kCarryOut,
    const std::function<void(std::int64_t done, std::int64_t of)>& progress = {});

// kNotFound: no such sequence.
[[nodiscard]] IDMINT_EXPORT Result<SequenceStatus> peek_sequence(
    Store& store, std::string_view name, SteadyTime until = SteadyTime::max(),
    const MultiStoreOptions& multi_store = {});
struct ListOptions {
  // A page of the list: the names that come after `after`, at most `most` of them. Two pages are
  // not of one moment.
  std::string after{};
  std::size_t most = std::numeric_limits<std::size_t>::max();
  // False: only definitions are read, which is several times as fast. `left`, `next` and the other
  // members that come from counters keep their initial values.
  bool counters = true;
};
// Sorted by name. If a definition cannot be read or its counters are damaged, its row has the
// error. The store is read in parts, between which other calls of this process come, so the rows
// are not of one moment. Each part ends within the deadline of the store, the whole list by `until`
// (kUnavailable): a store of a million sequences takes ten seconds or more, so give a caller who
// waits a page.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<SequenceStatus>> list_sequences(
    Store& store, SteadyTime until = SteadyTime::max(), const MultiStoreOptions& multi_store = {},
    const ListOptions& options = {});

// Whether the store knows that `value` was handed out: by its counters, its claims or, for an id of
// a pool, its leases. If it was handed out and the result is false, an older state of the store was
// restored, and the value can come again. A skipped value counts as handed out. If the last value
// can be moved up, a value above it counts as not handed out: the store may have lost an extension.
// Errors:
// - kNotFound: no such sequence.
// - kInvalidArgument: not a value of the sequence, or one of a stripe in another store.
[[nodiscard]] IDMINT_EXPORT Result<bool> has_given(Store& store, std::string_view name,
                                                   std::int64_t value);

// ---- values

struct SequenceOptions {
  // The most requests that wait at one time, blocking and asynchronous together; a further one
  // fails with kResourceExhausted.
  std::size_t max_outstanding = 1'000'000;
  // Cached: how long a range should last; the adaptive step is derived from it.
  std::chrono::milliseconds horizon = std::chrono::seconds{10};
  // The longest that a call waits for values: for earlier calls, the store and its own retries.
  // Nothing: as long as a call of the store (StoreOptions::deadline).
  std::optional<std::chrono::milliseconds> deadline{};
  // open() also ends by then; each of its reads ends within the store's deadline.
  SteadyTime until = SteadyTime::max();
  // Runs the tasks of submit(), and fetches the ranges of cached sequences; null:
  // shared_executor().
  Executor* executor = nullptr;
  // For a sequence over several stores.
  MultiStoreOptions multi_store{};
};

struct SequenceStatistics {
  std::uint64_t requests = 0;  // requests that got values
  std::uint64_t rounds = 0;    // round trips to the store
  std::int64_t values = 0;     // values handed out
  std::int64_t waste = 0;      // values taken, or perhaps taken, and not handed out
};

// The values of one sequence. Threads may share it. In a child of fork() every call fails with
// kFailedPrecondition; open stores and sequences after the fork.
class IDMINT_EXPORT Sequence {
 public:
  // The store must outlive the sequence. `clock` is for the rate and the pauses of cached and
  // striped sequences; `entropy` is for stripes, random values and jitter. Errors:
  // - kNotFound: no such name; the advice is to create it.
  // - kFailedPrecondition: retired, gapless (gapless.h) or a pool (snowflake.h).
  // - kDataLoss: the definition is there, but a counter is gone.
  //
  // A sequence over several stores (MultiStoreOptions) opens if at least one of them answers. Each
  // round trip goes to the store with the smallest next value. A store that fails is left out for
  // 0.5 to 30 s, until a task has read its counter again; meanwhile the others serve each call
  // within its deadline. kUnavailable: none answers; the message names each.
  [[nodiscard]] static Result<std::unique_ptr<Sequence>> open(Store& store, std::string_view name,
                                                              const SequenceOptions& options = {},
                                                              Clock& clock = system_clock(),
                                                              Entropy& entropy = system_entropy());
  virtual ~Sequence() = default;

  [[nodiscard]] virtual const SequenceDefinition& definition() const noexcept = 0;

  // Fills all of `out` within SequenceOptions::deadline, and by `until` if that is earlier. On an
  // error the content of `out` must not be used, and the values taken for it may be lost.
  // - kOutOfRange: fewer values are left.
  // - kInvalidArgument: more values than the definition's largest_count.
  // - kUnavailable: the sequence is closed, or the store did not apply the call.
  // - kUnknown, kDeadlineExceeded: values may have been lost; try again.
  // - kResourceExhausted: max_outstanding is reached, the store is full, or hundreds of random
  //   draws in a row hit claimed values.
  // - kFailedPrecondition: the sequence was retired after it was opened.
  // - kDataLoss: the store has gone back or is damaged; after it was settled, calls succeed again.
  [[nodiscard]] virtual Result<void> next(std::span<std::int64_t> out, SteadyTime until) = 0;
  [[nodiscard]] Result<void> next(std::span<std::int64_t> out) {
    return next(out, SteadyTime::max());
  }
  // One value. Errors as for next(out).
  [[nodiscard]] Result<std::int64_t> next() {
    std::int64_t value = 0;
    if (Result<void> filled = next(std::span(&value, 1)); !filled)
      return std::unexpected(std::move(filled).error());
    return value;
  }

  // The same without waiting. `done` is called once with the result of next(), never inside
  // submit(): from a task of SequenceOptions::executor, from a blocking call of another thread, or
  // from close(). It may call submit(); it must not block, throw or close the sequence. `out` must
  // stay valid until then. If the sequence has an order, values come in the order in which a thread
  // submits.
  //
  // If submit() itself fails, nothing was queued and `done` is never called:
  // - kInvalidArgument: as next().
  // - kUnavailable: the sequence is closed.
  // - kResourceExhausted: max_outstanding is reached, or the executor has no thread; try again when
  //   some requests have been answered.
  [[nodiscard]] virtual Result<void> submit(std::span<std::int64_t> out,
                                            MoveOnlyFunction<void(Result<void>)> done) = 0;

  // Fills all of `out` from values that this process holds already, as a cached sequence does, and
  // returns true. Otherwise takes nothing and returns false; use submit() then. Never waits for the
  // store, another caller or a task, so an event loop may call it. The values of try_next() and
  // submit() come in the order in which a thread asks, so it returns false while any request of
  // submit() has no values yet. This order does not cover next(). As with next(), nothing is handed
  // out after close(), after the store has gone back, in a child of fork(), or after an idle pause
  // (CachedSequence).
  [[nodiscard]] virtual bool try_next(std::span<std::int64_t> /*out*/) noexcept { return false; }

  // Fails all waiting requests with kUnavailable, waits for the call of the store that is under
  // way, and refuses later calls. The destructor does the same.
  virtual void close() noexcept = 0;

  // The values held when close() was called: taken from the store, and never handed out to anyone.
  // Ranges in ascending order, adjacent ones merged. Excludes values of calls whose outcome is
  // unknown. Empty before close().
  [[nodiscard]] virtual std::vector<Range> given_up() const { return {}; }

  // The values taken from the store and not yet handed out, as of a cached sequence.
  // raise_sequence() does not reach them.
  [[nodiscard]] virtual std::int64_t held() const noexcept { return 0; }

  [[nodiscard]] virtual SequenceStatistics statistics() const noexcept = 0;
};

// ---- strategy counter, with ranges

// Linearizable: a call that begins after another one ended, in any process on any host, gets larger
// values. A gap comes only if a process dies, a deadline passes or an outcome is unknown. Group
// commit: callers queue while a round trip to the store is under way, and the next one serves them
// all, in the order of their calls.
//
// If the store goes back and returns a value below one that was handed out, the call and every
// later one fail with kDataLoss until the store is settled (Store::settle()).
class IDMINT_EXPORT CounterSequence final : public Sequence {
 public:
  // As Sequence::open(), whose sequence of the strategy kCounter is of this class.
  // kFailedPrecondition also: another strategy.
  [[nodiscard]] static Result<std::unique_ptr<CounterSequence>> open(
      Store& store, std::string_view name, const SequenceOptions& options = {});
  ~CounterSequence() override;
  CounterSequence(const CounterSequence&) = delete;
  CounterSequence& operator=(const CounterSequence&) = delete;

  [[nodiscard]] const SequenceDefinition& definition() const noexcept override;
  using Sequence::next;
  [[nodiscard]] Result<void> next(std::span<std::int64_t> out, SteadyTime until) override;

  // The next `count` values, one stride apart, all or none. Blocks for one or two round trips,
  // within the deadline of next(). Errors as for next(); kInvalidArgument also: count < 1.
  [[nodiscard]] Result<Range> take(std::int64_t count, SteadyTime until = SteadyTime::max());

  [[nodiscard]] Result<void> submit(std::span<std::int64_t> out,
                                    MoveOnlyFunction<void(Result<void>)> done) override;
  // The same for a range, like take(). kInvalidArgument also: count < 1.
  [[nodiscard]] Result<void> submit(std::int64_t count, MoveOnlyFunction<void(Result<Range>)> done);

  // The result for callers who wanted one value each: the first `callers` of them have it, the
  // others have the error.
  struct Served {
    std::size_t callers = 0;
    std::optional<Error> error{};  // nothing: there are no others
  };
  // The same as one submit() for each value of `out`, at the cost of one call. If too few values
  // are left, the first elements are filled. If max_outstanding has no room for all of them, none
  // is queued. Errors of submit_each() itself as for submit().
  [[nodiscard]] Result<void> submit_each(std::span<std::int64_t> out,
                                         MoveOnlyFunction<void(Served)> done);

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

// ---- strategy cached: takes ranges from the store ahead of need and hands values out from memory,
// in 1 to 2 ns an id

// Unique, and increasing for each thread that asks. Values of different threads have no order,
// since each thread gets a slice of up to 256 values at a time.
//
// The next range is fetched when half of the present one is left, or earlier if the store is so
// slow that callers would have to wait. With SequenceDefinition::step, the range has that many
// values, or more if waiting callers need more. Without it, the size starts at 16 and follows the
// rate so that a range lasts SequenceOptions::horizon, with at most 10,000,000 values and at most
// max(16, 1/256 of those left). Only one fetch is under way at a time. A caller makes the first
// fetch, and tasks of SequenceOptions::executor make the later ones. If the store is in memory and
// faster than waking a thread, callers make these too.
//
// A failed fetch is repeated after pauses of 5 to 200 ms, with jitter. Callers without values wait
// at most SequenceOptions::deadline, then get the error. After an unknown outcome the range is
// lost, and the next one is requested.
//
// A copy of the process (a VM snapshot, a container checkpoint) holds the same values and also
// hands them out. To limit that, a range is dropped, and counted as waste, if nobody took from it
// for 10 minutes by the wall clock; the slices of threads stay.
//
// If the store goes back or its counter is gone, everything held is void, and every call fails with
// kDataLoss until the store is settled.
class IDMINT_EXPORT CachedSequence final : public Sequence {
 public:
  // As Sequence::open(); kFailedPrecondition also: another strategy. Takes nothing from the store.
  [[nodiscard]] static Result<std::unique_ptr<CachedSequence>> open(
      Store& store, std::string_view name, const SequenceOptions& options = {},
      Clock& clock = system_clock(), Entropy& entropy = system_entropy());
  ~CachedSequence() override;
  CachedSequence(const CachedSequence&) = delete;
  CachedSequence& operator=(const CachedSequence&) = delete;

  [[nodiscard]] const SequenceDefinition& definition() const noexcept override;

  // One value, within SequenceOptions::deadline. Errors as for next(out).
  [[nodiscard]] Result<std::int64_t> next() {
    std::int64_t value = 0;
    if (take_held(value)) [[likely]]
      return value;
    return next_slice(SteadyTime::max());
  }

  // Increasing, not consecutive. On an error the content of `out` must not be used: later calls of
  // this thread return the same values. kOutOfRange: fewer values are left to this thread, which
  // cannot get values that other threads hold.
  using Sequence::next;
  [[nodiscard]] Result<void> next(std::span<std::int64_t> out, SteadyTime until) override;

  // Increasing for each thread that submits, with the same guarantees.
  [[nodiscard]] Result<void> submit(std::span<std::int64_t> out,
                                    MoveOnlyFunction<void(Result<void>)> done) override;

  // True while the current range has enough values for `out`. A call that makes the next fetch due
  // leaves it to a task, even with a store in memory.
  [[nodiscard]] bool try_next(std::span<std::int64_t> out) noexcept override;

  // The number of values taken from the store and not yet handed out. raise_sequence() does not
  // recall them, and they are lost if the program ends now. Exact while no thread calls next().
  [[nodiscard]] std::int64_t held() const noexcept override;

  // The number of callers that wait for values; may be out of date at once.
  [[nodiscard]] std::size_t waiting() const noexcept;

  // Fails all waiting requests, and every later call, with kUnavailable. The values held are lost,
  // and counted as waste. Waits for the fetch under way, and at most 200 ms more.
  void close() noexcept override;
  // As exact as held().
  [[nodiscard]] std::vector<Range> given_up() const override;

  // As exact as held(). `waste` counts fetches with an unknown outcome, idle drops and closing.
  [[nodiscard]] SequenceStatistics statistics() const noexcept override;

 private:
  struct State;

  // The values of one thread, [next, end), divided by the stride of the definition: value =
  // next * stride_ + offset_. Only that thread moves `next`; the code that stops the sequence
  // lowers `end`. fork() zeroes it: no values.
  struct alignas(64) Slice {
    std::atomic<std::int64_t> next;
    std::atomic<std::int64_t> end;
    std::atomic<std::int64_t> until;   // the end, stopped or not
    std::atomic<std::int64_t> kept;    // how many values failed calls left; they come next
    std::atomic<std::uint64_t> extra;  // values beyond the first of each call
  };
  // The latest slices of this thread, by the number of the sequence. No two sequences of a process
  // have the same number, so the entry of a destroyed one is never found.
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

  // The next value that this thread holds. False: none.
  bool take_held(std::int64_t& value) noexcept {
    const Holding& holding = holdings_[number_ % kHoldings];
    if (holding.sequence != number_) return false;
    const std::int64_t next = holding.slice->next.load(std::memory_order_relaxed);
    if (next >= holding.slice->end.load(std::memory_order_relaxed)) return false;
    holding.slice->next.store(next + 1, std::memory_order_relaxed);
    value = next * stride_ + offset_;
    return true;
  }
  [[nodiscard]] Result<std::int64_t> next_slice(SteadyTime until);

  const std::uint64_t number_;
  const std::shared_ptr<State> state_;
  const std::int64_t stride_;
  const std::int64_t offset_;  // 0 to stride_ - 1
};

// ---- strategy random: how full the space of a sequence is, and its cost

// If a random value is claimed already, another one is drawn. If a share p of the values is
// claimed, an id costs p / (1 - p) redraws on average.
struct Occupancy {
  std::int64_t claimed = 0;     // 0 to size
  std::int64_t size = 1;        // the number of values
  double expected_redraws = 0;  // for the next id; infinity if none is left

  // If more redraws than this are expected, the sequence is used up and fails with kOutOfRange:
  // when 10 of 11 values, about 91 %, are claimed.
  static constexpr int kMostRedraws = 10;
};

// REQUIRES: 0 <= claimed <= size, size >= 1.
[[nodiscard]] IDMINT_EXPORT Occupancy occupancy(std::int64_t claimed, std::int64_t size) noexcept;

// The occupancy of a random sequence now. Errors:
// - kNotFound: no such sequence.
// - kFailedPrecondition: another strategy.
// - kDataLoss: the definition is there, but the claims are gone.
[[nodiscard]] IDMINT_EXPORT Result<Occupancy> occupancy(Store& store, std::string_view sequence);

// The number of values of `size` that a random sequence hands out before it refuses.
[[nodiscard]] IDMINT_EXPORT std::int64_t most_claims(std::int64_t size) noexcept;

// The expected redraws for the next `count` ids in all; infinity if fewer are left. REQUIRES: count
// >= 0.
[[nodiscard]] IDMINT_EXPORT double expected_redraws(const Occupancy& from,
                                                    std::int64_t count) noexcept;

}  // namespace idmint
