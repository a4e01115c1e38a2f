// Snowflake: integers of up to 64 bits with a time, a worker id and a sequence number, in any
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
#include "idmint/print.h"
#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint {

class LeaseTable;  // the store's interface for pools; private
class Store;

// The bare integer, printed in decimal. The layout defines the meaning of its bits.
class Snowflake {
 public:
  static constexpr std::size_t kMaxChars = 20;

  constexpr Snowflake() noexcept = default;
  constexpr explicit Snowflake(std::uint64_t value) noexcept : value_(value) {}

  // Accepts 1 to 20 decimal digits up to 2^64-1, without sign, blanks or leading zeros. Anything
  // else is kInvalidArgument.
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
  Instant time{};  // the start of the id's time unit
  std::uint32_t worker = 0;
  std::uint32_t sequence = 0;

  friend bool operator==(const SnowflakeParts&, const SnowflakeParts&) = default;
};

// The fields, their positions and the unit of the time. Worker ids only separate generators that
// use the same layout.
struct SnowflakeLayout {
  enum class Order : std::uint8_t { kWorkerThenSequence, kSequenceThenWorker };

  Instant epoch{};  // time 0
  std::chrono::nanoseconds unit = std::chrono::milliseconds{1};
  int time_bits = 41;
  int worker_bits = 10;
  int sequence_bits = 12;
  Order order = Order::kWorkerThenSequence;

  // kInvalidArgument, naming the field, unless:
  // - unit is 100 us to 1 h;
  // - time_bits is 1 to 62, worker_bits 0 to 31, sequence_bits 0 to 22, in all at most 64.
  [[nodiscard]] IDMINT_EXPORT Result<void> validate() const;

  [[nodiscard]] constexpr std::uint32_t max_worker() const noexcept {
    return static_cast<std::uint32_t>((std::uint64_t{1} << worker_bits) - 1);
  }
  [[nodiscard]] constexpr std::uint32_t max_sequence() const noexcept {
    return static_cast<std::uint32_t>((std::uint64_t{1} << sequence_bits) - 1);
  }
  // The largest time.
  [[nodiscard]] constexpr std::int64_t max_tick() const noexcept {
    return static_cast<std::int64_t>((std::uint64_t{1} << time_bits) - 1);
  }

  // The id with these fields. Outside the layout, the time is kOutOfRange, the worker or sequence
  // number kInvalidArgument. REQUIRES (here and below): validate() succeeds.
  [[nodiscard]] IDMINT_EXPORT Result<Snowflake> encode(const SnowflakeParts& parts) const;
  // kInvalidArgument: bits above the layout are set, or the time is past the year 2262.
  [[nodiscard]] IDMINT_EXPORT Result<SnowflakeParts> decode(Snowflake id) const;
  // The smallest and the largest id of the time unit of `at`, over all workers. kOutOfRange: as
  // encode().
  [[nodiscard]] IDMINT_EXPORT Result<Bounds<Snowflake>> bounds(Instant at) const;

  friend bool operator==(const SnowflakeLayout&, const SnowflakeLayout&) = default;
};

// The default layout, the preset "sequence-generator": 41t10w12s since 2015.
inline constexpr SnowflakeLayout kUsualSnowflakeLayout{
    .epoch = std::chrono::sys_days{std::chrono::January / 1 / 2015}};

// The names of the two numbers that some users read in a worker id. Names only.
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

// The named layouts (table: docs/formats.md). The first is "sequence-generator" (41t10w12s since
// 2015, the classic 64-bit sequence generator). All names and texts are null-terminated.
[[nodiscard]] IDMINT_EXPORT std::span<const SnowflakePreset> snowflake_presets() noexcept;
// kNotFound: no such preset; the message lists the names.
[[nodiscard]] IDMINT_EXPORT Result<SnowflakeLayout> snowflake_layout(std::string_view preset);

// A layout as text: the fields from the most significant one, then the epoch unless it is 1970 and
// the unit unless it is 1 ms: "41t10w12s epoch 2015-01-01T00:00:00Z", "39t8s16w epoch
// 2025-01-01T00:00:00Z unit 10ms". t is the time, w the worker, s the sequence; all three are
// there, w and s in the order of the layout.
[[nodiscard]] IDMINT_EXPORT std::string to_string(const SnowflakeLayout& layout);
// The exact inverse of to_string(). Also accepts: a preset's name in place of the fields, with its
// epoch and unit as defaults; epoch and unit in either order; an epoch as parse_time() reads it,
// without blanks; units in ns, us, ms and s. One blank separates words. Errors:
// - kNotFound: no such preset.
// - kInvalidArgument: another fault of the text, or validate() fails.
// - kOutOfRange: the epoch is outside Instant.
[[nodiscard]] IDMINT_EXPORT Result<SnowflakeLayout> parse_snowflake_layout(std::string_view text);

struct SnowflakeOptions {
  SnowflakeLayout layout = kUsualSnowflakeLayout;
  // No other generator with this layout, or with one that differs in time_bits only, may have this
  // worker id: both would mint the same ids.
  std::uint32_t worker = 0;

  // A file that keeps a high-water mark across restarts, and excludes a second generator on this
  // host (see SnowflakeGenerator). Created if it does not exist. Empty: nothing is kept, and a
  // restart after the clock was set back may repeat ids.
  std::string state_file{};

  // The longest that open() waits for another process that holds the state file.
  std::chrono::nanoseconds lock_wait = std::chrono::seconds{5};
  // open() also ends by then.
  SteadyTime until = SteadyTime::max();
  // How far ids may run ahead of a clock that was set back.
  std::chrono::nanoseconds max_drift = std::chrono::seconds{20};
  // How far ahead of the clock ids may run when the sequence numbers of a unit are used up. Up to
  // this distance the next unit is used at once; beyond it the call waits. 0: the call always
  // waits. Any other value needs a state file, because ids that ran ahead would repeat after a
  // restart. At most max_drift - window.
  std::chrono::nanoseconds max_run_ahead{};
  // The state file is written at most this far ahead of the ids; a crash skips that much time. The
  // first write covers one unit, so that short runs follow each other without a gap. Later writes
  // cover whole units, rounded up, at least two.
  std::chrono::nanoseconds window = std::chrono::seconds{15};
  // The longest that a call waits for a free sequence number (see next()). At most 24 h.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  // The most requests of submit() that wait at one time; a further one fails with
  // kResourceExhausted.
  std::size_t max_outstanding = 1'000'000;
  Executor* executor = nullptr;  // answers submit(); null: shared_executor()
};

// The state of a pool's worker id in the store. `minted_until` and `taken_from` are times in ids:
// units of the pool's layout, from its epoch.
struct LeaseState {
  std::int64_t worker = 0;
  Uuid token{};  // nil: no owner
  std::string holder{};
  std::int64_t generation = 0;
  std::int64_t minted_until = 0;         // no id has this timestamp or a later one
  std::chrono::milliseconds held_for{};  // left of the lease, by the store's clock; <= 0: none
  // The start of the range of the latest lease or raise_pool(). Nothing: an older program leased
  // it.
  std::optional<std::int64_t> taken_from{};

  friend bool operator==(const LeaseState&, const LeaseState&) = default;
};

// Whether the worker id has an owner whose lease has not expired.
[[nodiscard]] inline bool is_owned(const LeaseState& state) noexcept {
  return state.token != Uuid{} && state.held_for > std::chrono::milliseconds{};
}

// Options of a worker id that is leased from a pool as long as it is used.
struct SnowflakeLeaseOptions {
  SnowflakeLayout layout{};  // SnowflakeGenerator::open() sets the pool's layout
  std::string holder{};      // the name of the holder, for operators
  // As in SnowflakeOptions; max_drift must also cover the window and max_skew.
  std::chrono::nanoseconds max_drift = std::chrono::seconds{20};
  std::chrono::nanoseconds max_run_ahead{};
  // How far ahead of the clock the lease extends, in whole units, rounded up, at least two. A
  // thread of the generator renews the lease every third of this time. Ids are minted at most this
  // long while the store does not answer, and the worker id of a holder that died is unavailable at
  // most this long.
  std::chrono::nanoseconds window = std::chrono::seconds{15};
  // The largest difference between the clocks of this host and of the store, if the store has one.
  std::chrono::milliseconds max_skew = std::chrono::seconds{1};
  // As in SnowflakeOptions; also limits the wait of open() for the store. At most 24 h.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  // open() also ends by then.
  SteadyTime until = SteadyTime::max();
  // As in SnowflakeOptions.
  std::size_t max_outstanding = 1'000'000;
  Executor* executor = nullptr;
  // The number of worker ids in the pool, if it is known: in a large pool, generators that are
  // opened at the same time then begin at different ones. 0: unknown. Mint::source() knows it.
  std::int64_t workers = 0;
  // The first lease covers only the unit of open(); a whole window follows when more ids are
  // needed. For programs that mint a few ids and exit.
  bool one_unit = false;
};

// Strictly increasing ids of one worker id at a time. Threads may share it; neither copied nor
// moved.
//
// With a leased worker id: unique, whatever clocks, pauses, restarts and networks do, as long as
// the store keeps what it acknowledged. Each id's timestamp is in a range that the store
// acknowledged to this generator alone. A generator that lost its lease acquires another, perhaps
// with another worker id; its ids continue to increase in time.
//
// With a given worker id: unique if configured so. Generators with this layout, or with one that
// differs in time_bits only, must not share the worker id, except on this host through the same
// state file. With the state file the promise holds across restarts, crashes, power cuts and clocks
// set back: each id's timestamp is below a bound that was synced to the file before. Copying or
// losing the file cannot be detected. In a child of fork() every call fails with
// kFailedPrecondition; the child must open its own generator.
class IDMINT_EXPORT SnowflakeGenerator final {
 public:
  // A generator with a given worker id. Errors:
  // - kInvalidArgument: the layout; the worker; a negative duration; with a state file, a sum of
  //   window and max_run_ahead above max_drift; or max_run_ahead without one.
  // - kUnavailable: another process still holds the state file after lock_wait, or the file is
  //   ahead of the clock by more than max_drift (the message says for how long).
  // - kOutOfRange: the clock shows a time outside the layout.
  // - kFailedPrecondition: the file belongs to another layout or worker, or lies on a file system
  //   that hosts share, or its folder is missing.
  // - kDataLoss: the file is damaged.
  // - kPermissionDenied, kResourceExhausted (disk full), kUnknown (I/O).
  [[nodiscard]] static Result<std::unique_ptr<SnowflakeGenerator>> open(
      const SnowflakeOptions& options, Clock& clock = system_clock(),
      Entropy& entropy = system_entropy());
  // A generator with a worker id leased from the pool `name` (worker_pool.h). Sends two commands to
  // the store, which must outlive the generator. Uses the layout of the pool, whatever the options
  // say; the default holder is "HOST, process N". Errors:
  // - kInvalidArgument: a negative duration; or the sum of window, max_skew and max_run_ahead
  //   exceeds max_drift.
  // - kOutOfRange: the clock shows a time outside the layout.
  // - kNotFound: no such pool; the advice is to create it.
  // - kFailedPrecondition: not a pool, or retired.
  // - kResourceExhausted: every worker id is held.
  // - kUnavailable: the bounds of all free worker ids are ahead of this clock by more than
  //   max_drift; the clocks differ by more than max_skew; or no answer.
  // - kUnknown, kDeadlineExceeded: a worker id may stay held, unused, until its lease expires.
  // - kDataLoss: the worker ids of the pool are gone, or the store is damaged.
  [[nodiscard]] static Result<std::unique_ptr<SnowflakeGenerator>> open(
      Store& store, std::string_view name, SnowflakeLeaseOptions options = {},
      Clock& clock = system_clock(), Entropy& entropy = system_entropy());

  // Releases the worker id or the state file. No other call may be under way.
  ~SnowflakeGenerator();
  SnowflakeGenerator(const SnowflakeGenerator&) = delete;
  SnowflakeGenerator& operator=(const SnowflakeGenerator&) = delete;

  // If the sequence numbers of this unit are used up, the call waits for the next unit with a free
  // number, at most until the deadline. It holds no lock meanwhile. Nothing is handed out on an
  // error.
  // - kUnavailable: no number was free by the deadline; or the clock was set back by more than
  //   max_drift (the message says when minting resumes and what a restart does); or a leased worker
  //   id was not renewed within the deadline (calls succeed again once the store answers).
  // - kOutOfRange: the clock is before the layout's epoch or past its end.
  // - kDataLoss: the state file was replaced, removed or written by another process; or the pool is
  //   behind what it acknowledged. Nothing is minted any more.
  // - kFailedPrecondition: the generator was inherited through fork().
  // - kResourceExhausted: the leased worker id was lost, and no other is free.
  [[nodiscard]] Result<Snowflake> next();
  // Fills all of `out`, increasing; on an error its content is unspecified. Ids of other threads
  // may lie between. The ids come in runs of up to 4096 of one unit, and the deadline holds for
  // each run, so a call that needs many units takes as long as they last. Errors as for one.
  [[nodiscard]] Result<void> next(std::span<Snowflake> out);
  // The same, with `until` as the deadline of the whole call.
  [[nodiscard]] Result<void> next(std::span<Snowflake> out, SteadyTime until);

  // The same without waiting; the deadline holds for the whole request. `done` is called once with
  // the result of next(), never inside submit(): from a task of the executor, or from the
  // destructor (kUnavailable). It may call submit(); it must not block, throw or destroy the
  // generator. `out` must stay valid until then. Requests of one thread are filled in order. If
  // submit() itself fails, nothing was queued and `done` is never called. kResourceExhausted:
  // max_outstanding is reached, or the executor has no thread.
  [[nodiscard]] Result<void> submit(std::span<Snowflake> out,
                                    MoveOnlyFunction<void(Result<void>)> done);

  // Whether open() created the state file. Ids of earlier runs are then unknown to it.
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
