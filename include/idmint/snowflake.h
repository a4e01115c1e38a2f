// Snowflake: integers of up to 64 bits made of a time, a worker id and a sequence number, in any
// layout.
//
//   default order      unused | time | worker | sequence
//   sequence first     unused | time | sequence | worker
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint {

class LeaseTable;  // what a store has of pools; private
class Store;

// The bare integer; what its bits mean is the layout's to say. Printed in decimal.
class Snowflake {
 public:
  static constexpr std::size_t kMaxChars = 20;

  constexpr Snowflake() noexcept = default;
  constexpr explicit Snowflake(std::uint64_t value) noexcept : value_(value) {}

  // Accepts 1 to 20 decimal digits up to 2^64-1, without sign, blanks or leading zeros.
  [[nodiscard]] static constexpr Result<Snowflake> parse(std::string_view text);

  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }

  // Writes at most kMaxChars characters, no terminating zero; returns the end.
  constexpr char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    char text[kMaxChars];
    return {text, to_chars(text)};
  }

  friend constexpr auto operator<=>(const Snowflake&, const Snowflake&) noexcept = default;

 private:
  std::uint64_t value_ = 0;
};

struct SnowflakeParts {
  Instant time{};  // the beginning of the id's time unit
  std::uint32_t worker = 0;
  std::uint32_t sequence = 0;

  friend bool operator==(const SnowflakeParts&, const SnowflakeParts&) = default;
};

// Where the fields lie and what the time counts. Two generators can only be told apart by their
// worker ids if they use one and the same layout.
struct SnowflakeLayout {
  enum class Order : std::uint8_t { kWorkerThenSequence, kSequenceThenWorker };

  Instant epoch{};  // time 0
  std::chrono::nanoseconds unit = std::chrono::milliseconds{1};
  int time_bits = 41;
  int worker_bits = 10;
  int sequence_bits = 12;
  Order order = Order::kWorkerThenSequence;

  // kInvalidArgument, naming the field, unless: 100 us <= unit <= 1 h; time_bits 1 to 62,
  // worker_bits 0 to 31, sequence_bits 0 to 22, together at most 64.
  [[nodiscard]] IDMINT_EXPORT Result<void> validate() const;

  [[nodiscard]] constexpr std::uint32_t max_worker() const noexcept {
    return static_cast<std::uint32_t>((std::uint64_t{1} << worker_bits) - 1);
  }
  [[nodiscard]] constexpr std::uint32_t max_sequence() const noexcept {
    return static_cast<std::uint32_t>((std::uint64_t{1} << sequence_bits) - 1);
  }
  // The last time unit that fits.
  [[nodiscard]] constexpr std::int64_t max_tick() const noexcept {
    return static_cast<std::int64_t>((std::uint64_t{1} << time_bits) - 1);
  }

  // The id with these fields. kOutOfRange: the time lies outside the layout. kInvalidArgument: the
  // worker or the sequence does. REQUIRES (here and below): validate() succeeds.
  [[nodiscard]] IDMINT_EXPORT Result<Snowflake> encode(const SnowflakeParts& parts) const;
  // kInvalidArgument: bits above the layout are set, or the time is past the year 2262.
  [[nodiscard]] IDMINT_EXPORT Result<SnowflakeParts> decode(Snowflake id) const;
  // The smallest and the largest id of the unit of `at`, over all workers. kOutOfRange: as encode.
  [[nodiscard]] IDMINT_EXPORT Result<Bounds<Snowflake>> bounds(Instant at) const;

  friend bool operator==(const SnowflakeLayout&, const SnowflakeLayout&) = default;
};

// The layout where none is said, the preset "sequence-generator": 41 ms | 10 | 12 since 2015.
inline constexpr SnowflakeLayout kUsualSnowflakeLayout{
    .epoch = std::chrono::sys_days{std::chrono::January / 1 / 2015}};

// A worker id that its users read as two numbers. Nothing but their names depends on it.
struct SnowflakeWorkerSplit {
  std::string_view high;
  std::string_view low;
  int low_bits = 5;
};

struct SnowflakePreset {
  std::string_view name;
  std::string_view description;
  SnowflakeLayout layout;
  std::optional<SnowflakeWorkerSplit> split{};
};

// The layouts that have a name, docs/formats.md has a table of them; the first is
// "sequence-generator" (41 ms | 10 | 12 since 2015, the classic 64-bit sequence generator). All
// names and texts are terminated by zero.
[[nodiscard]] IDMINT_EXPORT std::span<const SnowflakePreset> snowflake_presets() noexcept;
// Nothing by that name: kNotFound, with the names there are.
[[nodiscard]] IDMINT_EXPORT Result<SnowflakeLayout> snowflake_layout(std::string_view preset);

// A layout as text: the fields from the top, then what differs from an epoch of 1970 and a unit of
// 1 ms: "41t10w12s epoch 2015-01-01T00:00:00Z", "39t8s16w epoch 2025-01-01T00:00:00Z unit 10ms".
// t is the time, w the worker, s the sequence; all three are there, w and s in their order.
[[nodiscard]] IDMINT_EXPORT std::string to_string(const SnowflakeLayout& layout);
// The exact inverse of to_string(). Accepts a preset's name in place of the fields too, whose epoch
// and unit hold where none is given; epoch and unit in either order; an epoch as parse_time() reads
// it, without blanks; units in ns, us, ms and s. Words are parted by one blank. kNotFound: no
// preset has the name. kInvalidArgument: another fault of the text, or validate() fails.
// kOutOfRange: the epoch lies outside Instant.
[[nodiscard]] IDMINT_EXPORT Result<SnowflakeLayout> parse_snowflake_layout(std::string_view text);

struct SnowflakeOptions {
  SnowflakeLayout layout = kUsualSnowflakeLayout;
  // Must be this generator's alone, among all that use the layout, or one that differs from it in
  // nothing but time_bits: both mint the same ids.
  std::uint32_t worker = 0;

  // Keeps what was minted across restarts and keeps a second generator on this host out (see
  // SnowflakeGenerator). Made when it is not there. Empty: nothing is kept, and a restart after the
  // clock was set back may repeat ids.
  std::string state_file{};

  // How long open() waits for another process that holds the state file.
  std::chrono::nanoseconds lock_wait = std::chrono::seconds{5};
  // open() gives up by then, too.
  SteadyTime until = SteadyTime::max();
  // How far ids may run ahead of a clock that was set back.
  std::chrono::nanoseconds max_drift = std::chrono::seconds{20};
  // What happens when a unit's sequence numbers are used up: the next unit is entered at once as
  // long as it lies at most this far ahead of the clock, then it is waited for. 0: it is always
  // waited for. More than 0 needs a state file, because ids that ran ahead would come again after a
  // restart; together with `window` at most max_drift.
  std::chrono::nanoseconds max_run_ahead{};
  // How far ahead of the ids the state file is written, at most; a crash costs that much id-time.
  // The first write takes one unit, so that short runs follow each other without a gap; further
  // ones are in whole units, rounded up, at least two. With max_run_ahead at most max_drift.
  std::chrono::nanoseconds window = std::chrono::seconds{15};
  // How long a call waits for a free sequence number, at most: see next(). 24 h at most.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  // Requests of submit() that wait at a time; one more is kResourceExhausted.
  std::size_t max_outstanding = 1'000'000;
  Executor* executor = nullptr;  // answers submit(); null: shared_executor()
};

// A worker id of a pool, as its store has it. Id-time is counted in the units of the pool's layout,
// from its epoch.
struct LeaseState {
  std::int64_t worker = 0;
  Uuid token{};  // nil: nobody owns it
  std::string holder{};
  std::int64_t generation = 0;
  std::int64_t minted_until = 0;         // no id with this timestamp or a later one may be there
  std::chrono::milliseconds held_for{};  // by the store's clock; 0 and below: it may be taken
  // Where the range of the latest acquire, or the latest fence, began. Nothing: it was made by an
  // older program, which did not say.
  std::optional<std::int64_t> taken_from{};

  friend bool operator==(const LeaseState&, const LeaseState&) = default;
};

// Whether somebody owns it whose time is not over.
[[nodiscard]] inline bool is_owned(const LeaseState& state) noexcept {
  return state.token != Uuid{} && state.held_for > std::chrono::milliseconds{};
}

// A worker id that is leased from a pool of a store as long as it is used.
struct SnowflakeLeaseOptions {
  SnowflakeLayout layout{};  // SnowflakeGenerator::open() makes it that of the pool
  std::string holder{};      // who is said to hold the worker id, for people
  // As in SnowflakeOptions; max_drift must have room for the window and max_skew as well.
  std::chrono::nanoseconds max_drift = std::chrono::seconds{20};
  std::chrono::nanoseconds max_run_ahead{};
  // How far ahead of the clock the bound is kept, in whole units, rounded up, at least two: so long
  // ids are minted while the store does not answer, and so long a worker id whose holder died is
  // nobody else's. A thread of the generator's own moves it every third of that.
  std::chrono::nanoseconds window = std::chrono::seconds{15};
  // By how much the clocks of this host and of the store may differ, where the store has one.
  std::chrono::milliseconds max_skew = std::chrono::seconds{1};
  // As in SnowflakeOptions; open() waits for the store as long, too. 24 h at most.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  // open() answers by then, too.
  SteadyTime until = SteadyTime::max();
  // As in SnowflakeOptions.
  std::size_t max_outstanding = 1'000'000;
  Executor* executor = nullptr;
  // The first lease is of one unit; a whole window follows when more is asked for. For programs
  // that mint a few ids and end. Those ids must be minted in the unit of open().
  bool one_unit = false;
};

// Strictly increasing ids of one worker id at a time. May be shared by threads; neither copied nor
// moved.
//
// With a leased worker id: unique, whatever clocks, pauses, restarts and networks do, as long as
// the store keeps what it acknowledged. An id is minted only if its own timestamp lies in a range
// that the store acknowledged to this generator alone. A lease that was lost is taken anew, perhaps
// on another worker id; the ids go on increasing in time.
//
// With a given one: unique if configured so: as long as no other generator uses this worker id with
// this layout, or with one that has another width of the time only, on another host, or on this one
// without the same state file. With the state file, what it promises holds across restarts,
// crashes, power cuts and clocks set back: no id is minted whose own timestamp is not below a bound
// that was synced to the file before. Copying the file, or losing it, cannot be detected. A child
// of fork() must open its own: in the child every call is kFailedPrecondition.
class IDMINT_EXPORT SnowflakeGenerator final {
 public:
  // kInvalidArgument: the layout, the worker, or a negative duration. kUnavailable: another process
  // holds the state file after lock_wait, or the file is further ahead of the clock than max_drift
  // (the message says for how long). kOutOfRange: the clock shows a time outside the layout.
  // kFailedPrecondition: the file belongs to another layout or worker, lies on NFS, or its folder
  // is missing. kDataLoss: the file is damaged. kPermissionDenied, kResourceExhausted (disk full),
  // kUnknown (I/O).
  [[nodiscard]] static Result<std::unique_ptr<SnowflakeGenerator>> open(
      const SnowflakeOptions& options, Clock& clock = system_clock(),
      Entropy& entropy = system_entropy());
  // A generator under a worker id of the pool `name` (worker_pool.h); two commands to the store,
  // which must outlive the generator. The layout is the pool's, whatever the options say; without a
  // holder it is "HOST, process N". kInvalidArgument: a negative duration, a window that with
  // max_skew and max_run_ahead is larger than max_drift. kOutOfRange: as above. kNotFound: no such
  // pool; the error has the advice to create it. kFailedPrecondition: it is no pool, or is retired.
  // kResourceExhausted: every worker id is held. kUnavailable: all that are free are ahead of this
  // clock by more than max_drift, the clocks differ by more than max_skew, or no answer. kUnknown,
  // kDeadlineExceeded: a worker id may be held in vain until its time is over. kDataLoss: its
  // worker ids are gone, or the store is damaged.
  [[nodiscard]] static Result<std::unique_ptr<SnowflakeGenerator>> open(
      Store& store, std::string_view name, SnowflakeLeaseOptions options = {},
      Clock& clock = system_clock(), Entropy& entropy = system_entropy());

  // Hands the worker id or the state file over; no other call may be under way.
  ~SnowflakeGenerator();
  SnowflakeGenerator(const SnowflakeGenerator&) = delete;
  SnowflakeGenerator& operator=(const SnowflakeGenerator&) = delete;

  // If the sequence numbers of this unit are used up, the call waits for the next unit, usually
  // less than one unit; if other threads take all numbers of that one, for a later unit, until the
  // deadline. No lock is held meanwhile.
  // kUnavailable: no number was free by the deadline; or the clock was set back by more than
  // max_drift, and the message says when ids are minted again and what a restart does. Nothing was
  // handed out. kOutOfRange: the end of the layout's time, or
  // before its epoch. kDataLoss: the state file was replaced, removed or written by somebody else;
  // the pool shows less than it acknowledged: nothing is minted any more. kFailedPrecondition:
  // inherited through fork(). Of a leased worker id, when the bound is reached: kUnavailable: it
  // was not renewed within the deadline; it succeeds again once the store answers.
  // kResourceExhausted: it was lost, and no other is free.
  [[nodiscard]] Result<Snowflake> next();
  // All of `out`, increasing; on an error its content is of no use. Other threads' ids may lie
  // between. The ids come in runs of up to 4096 of one unit, and the deadline holds for each run: a
  // call that needs many units takes as long as they last. Errors as for one.
  [[nodiscard]] Result<void> next(std::span<Snowflake> out);
  // The same, all of it by `until` instead of the deadline.
  [[nodiscard]] Result<void> next(std::span<Snowflake> out, SteadyTime until);

  // The same without waiting, all of it within the deadline. `done` gets what next() would return,
  // once, never inside submit(): from a task of the executor, or from the destructor
  // (kUnavailable). It may call submit(); it must not block, throw or destroy the generator. `out`
  // must stay until then. What one thread submits is filled in that order. If submit() itself
  // returns an error, nothing was queued, and `done` is never called. kResourceExhausted:
  // max_outstanding, or the executor has no thread.
  [[nodiscard]] Result<void> submit(std::span<Snowflake> out,
                                    std::move_only_function<void(Result<void>)> done);

  // Whether open() made the state file: then nothing before this run is known to it.
  [[nodiscard]] bool made_state_file() const noexcept;

  struct State;

 private:
  explicit SnowflakeGenerator(std::unique_ptr<State> state) noexcept;
  friend IDMINT_EXPORT Result<std::unique_ptr<SnowflakeGenerator>> open_leased(
      LeaseTable& table, std::string_view pool, const SnowflakeLeaseOptions& options, Clock& clock,
      Entropy& entropy);
  std::unique_ptr<State> state_;
};

// ---- implementation of the constexpr parts

namespace detail {

IDMINT_EXPORT char* print_decimal(std::uint64_t value, char* out) noexcept;

}  // namespace detail

constexpr char* Snowflake::to_chars(char* out) const noexcept {
  if consteval {
    char digits[kMaxChars]{};
    std::size_t n = 0;
    for (std::uint64_t rest = value_; n == 0 || rest != 0; rest /= 10) {
      digits[n++] = static_cast<char>('0' + rest % 10);
    }
    while (n != 0) *out++ = digits[--n];
    return out;
  } else {
    return detail::print_decimal(value_, out);
  }
}

constexpr Result<Snowflake> Snowflake::parse(std::string_view text) {
  const auto refuse = [] {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "not a Snowflake id: expected 1 to 20 decimal digits, at most "
                                 "18446744073709551615"});
  };
  if (text.empty() || text.size() > kMaxChars || (text.size() > 1 && text[0] == '0'))
    return refuse();
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return refuse();
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (~std::uint64_t{0} - digit) / 10) return refuse();
    value = value * 10 + digit;
  }
  return Snowflake{value};
}

}  // namespace idmint

template <>
struct std::hash<idmint::Snowflake> {
  std::size_t operator()(const idmint::Snowflake& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value());
  }
};
