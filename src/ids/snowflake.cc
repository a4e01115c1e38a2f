#include "idmint/snowflake.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "base/submitted.h"
#include "ids/clock_sequence.h"
#include "ids/format.h"
#include "ids/lease_table.h"
#include "ids/snowflake_space.h"
#include "ids/state_file.h"
#include "ids/worker_lease.h"

namespace idmint {
namespace {

constexpr std::uint64_t ones(int bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

constexpr std::uint64_t ns_of(Instant at) noexcept {
  return static_cast<std::uint64_t>(at.time_since_epoch().count());
}

// The shifts of the fields. The fields below the time have at most 53 bits.
struct Shifts {
  int time;
  int worker;
  int sequence;
};

constexpr Shifts shifts_of(const SnowflakeLayout& layout) noexcept {
  const bool worker_first = layout.order == SnowflakeLayout::Order::kWorkerThenSequence;
  return {layout.worker_bits + layout.sequence_bits, worker_first ? layout.sequence_bits : 0,
          worker_first ? 0 : layout.worker_bits};
}

// The last unit that begins at an Instant. Unsigned, because the span from the epoch may be 2^64
// ns.
constexpr std::uint64_t last_instant_tick(const SnowflakeLayout& layout) noexcept {
  return (ns_of(Instant::max()) - ns_of(layout.epoch)) /
         static_cast<std::uint64_t>(layout.unit.count());
}

Result<std::uint64_t> tick_of(const SnowflakeLayout& layout, Instant at) {
  if (at < layout.epoch) {
    return std::unexpected(
        Error{Code::kOutOfRange, "the time is before the epoch of the Snowflake layout, " +
                                     format_exact_time(layout.epoch) + ": give a later one"});
  }
  const std::uint64_t tick =
      (ns_of(at) - ns_of(layout.epoch)) / static_cast<std::uint64_t>(layout.unit.count());
  const auto last = static_cast<std::uint64_t>(layout.max_tick());
  if (tick > last) {
    const std::uint64_t ns =
        ns_of(layout.epoch) + last * static_cast<std::uint64_t>(layout.unit.count());
    const Instant end{std::chrono::nanoseconds{static_cast<std::int64_t>(ns)}};
    return std::unexpected(
        Error{Code::kOutOfRange, "the time is past the last one of the Snowflake layout, " +
                                     format_exact_time(end) +
                                     ": give an earlier one, or use a layout with more time "
                                     "bits"});
  }
  return tick;
}

Error not_in_field(std::string_view field, std::uint32_t value, std::uint32_t max) {
  return {Code::kInvalidArgument, "the " + std::string(field) + " " + std::to_string(value) +
                                      " does not fit the Snowflake layout: give 0 to " +
                                      std::to_string(max)};
}

// The identity of an id space; stored in the state file.
std::string id_space_of(const SnowflakeOptions& options) {
  const SnowflakeLayout layout = space_of(options.layout);
  const std::string worker = std::to_string(layout.worker_bits) + " worker";
  const std::string sequence = std::to_string(layout.sequence_bits) + " sequence";
  const bool worker_first = layout.order == SnowflakeLayout::Order::kWorkerThenSequence;
  return "snowflake epoch " + std::to_string(layout.epoch.time_since_epoch().count()) +
         " ns, unit " + std::to_string(layout.unit.count()) + " ns, " +
         (worker_first ? worker + ", " + sequence : sequence + ", " + worker) + " bits, worker " +
         std::to_string(options.worker);
}

constexpr Instant since(int y, unsigned m, unsigned d) noexcept {
  return std::chrono::sys_days{std::chrono::year{y} / static_cast<int>(m) / static_cast<int>(d)};
}

constexpr Instant since_ms(std::int64_t ms) noexcept {
  return Instant{std::chrono::milliseconds{ms}};
}

constexpr std::array kPresets = {
    SnowflakePreset{"sequence-generator",
                    "41 bits of milliseconds since 2015, 10 of node, 12 of sequence: the classic "
                    "64-bit sequence generator",
                    kUsualSnowflakeLayout},
    SnowflakePreset{"twitter",
                    "41 bits of milliseconds since 2010-11-04T01:42:54.657Z, 5 of datacenter, 5 of "
                    "worker, 12 of sequence: Twitter's Snowflake",
                    {.epoch = since_ms(1288834974657)},
                    SnowflakeWorkerSplit{.high = "datacenter", .low = "worker"}},
    SnowflakePreset{"discord",
                    "42 bits of milliseconds since 2015, 5 of worker, 5 of process, 12 of "
                    "sequence: all 64 bits",
                    {.epoch = since(2015, 1, 1), .time_bits = 42},
                    SnowflakeWorkerSplit{.high = "worker", .low = "process"}},
    SnowflakePreset{
        "instagram",
        "41 bits of milliseconds since 2011-08-24T21:07:01.721Z, 13 of shard, 10 of sequence: all "
        "64 bits",
        {.epoch = since_ms(1314220021721), .worker_bits = 13, .sequence_bits = 10}},
    SnowflakePreset{"sonyflake",
                    "39 bits of 10 ms since 2025, 8 of sequence, 16 of machine: Sonyflake 2",
                    {.epoch = since(2025, 1, 1),
                     .unit = std::chrono::milliseconds{10},
                     .time_bits = 39,
                     .worker_bits = 16,
                     .sequence_bits = 8,
                     .order = SnowflakeLayout::Order::kSequenceThenWorker}},
    SnowflakePreset{"sonyflake-v1",
                    "39 bits of 10 ms since 2014-09-01, 8 of sequence, 16 of machine: Sonyflake 1",
                    {.epoch = since(2014, 9, 1),
                     .unit = std::chrono::milliseconds{10},
                     .time_bits = 39,
                     .worker_bits = 16,
                     .sequence_bits = 8,
                     .order = SnowflakeLayout::Order::kSequenceThenWorker}},
    SnowflakePreset{"baidu",
                    "28 bits of seconds since 2016-05-20, 22 of worker, 13 of sequence: Baidu's "
                    "uid-generator",
                    {.epoch = since(2016, 5, 20),
                     .unit = std::chrono::seconds{1},
                     .time_bits = 28,
                     .worker_bits = 22,
                     .sequence_bits = 13}},
    SnowflakePreset{
        "js-safe",
        "41 bits of milliseconds since 2015, 6 of worker, 6 of sequence: 53 bits, which "
        "JavaScript's numbers hold exactly",
        {.epoch = since(2015, 1, 1), .worker_bits = 6, .sequence_bits = 6}},
};

// ---- a layout as text

constexpr std::string_view kFieldsForm =
    "spell the fields from the top, like 41t10w12s or 39t8s16w, then \" epoch "
    "2025-01-01T00:00:00Z\" and \" unit 10ms\" where they are not 1970 and 1ms";

Error no_layout(const std::string& why) {
  return {Code::kInvalidArgument,
          "not a Snowflake layout: " + why + "; " + std::string(kFieldsForm)};
}

// Takes a number of 1 to `max_digits` digits, at most 18, without leading zeros from the beginning
// of the text. -1: there is none.
std::int64_t take_number(std::string_view& text, std::size_t max_digits) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > max_digits || (digits > 1 && text[0] == '0')) return -1;
  std::int64_t value = 0;
  for (const char c : text.substr(0, digits)) value = value * 10 + (c - '0');
  text.remove_prefix(digits);
  return value;
}

Result<SnowflakeLayout> parse_fields(std::string_view text) {
  const auto refuse = [&] {
    return std::unexpected(no_layout("\"" + std::string(text) + "\" is not the fields of one"));
  };
  SnowflakeLayout layout;
  std::string letters;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(1)) {
    const std::int64_t bits = take_number(rest, 2);
    if (bits < 0 || rest.empty()) return refuse();
    const char letter = rest.front();
    letters += letter;
    (letter == 't'   ? layout.time_bits
     : letter == 'w' ? layout.worker_bits
                     : layout.sequence_bits) = static_cast<int>(bits);
  }
  struct Field {
    char letter;
    std::string_view name;
  };
  std::string missing;
  for (const Field& field :
       {Field{'t', "time (t)"}, Field{'w', "worker (w)"}, Field{'s', "sequence (s)"}}) {
    if (letters.contains(field.letter)) continue;
    missing.append(missing.empty() ? "" : " and ").append(field.name);
  }
  if (letters.find_first_not_of("tws") == std::string::npos && !missing.empty())
    return std::unexpected(
        no_layout("\"" + std::string(text) + "\" lacks the " + missing + ", of 0 bits or more"));
  if (letters != "tws" && letters != "tsw") return refuse();
  layout.order = letters == "tws" ? SnowflakeLayout::Order::kWorkerThenSequence
                                  : SnowflakeLayout::Order::kSequenceThenWorker;
  return layout;
}

struct Unit {
  std::string_view name;
  std::int64_t ns;
};

constexpr std::array kUnits = {Unit{"s", 1'000'000'000},    Unit{"ms", 1'000'000},
                               Unit{"us", 1'000},           Unit{"ns", 1},
                               Unit{"min", 60'000'000'000}, Unit{"h", 3'600'000'000'000}};

Result<std::chrono::nanoseconds> parse_unit(std::string_view text) {
  std::string_view name = text;
  constexpr std::size_t max_digits = 13;  // an hour in nanoseconds
  const std::int64_t count = take_number(name, max_digits);
  for (const Unit& unit : kUnits) {
    std::int64_t ns = 0;
    if (count < 0 || unit.name != name || __builtin_mul_overflow(count, unit.ns, &ns)) continue;
    return std::chrono::nanoseconds{ns};
  }
  return std::unexpected(no_layout("the unit \"" + std::string(text) +
                                   "\" is not a number of ns, us, ms, s, min or h"));
}

// Takes the text up to the next blank, and the blank.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

}  // namespace

Result<void> SnowflakeLayout::validate() const {
  using std::chrono::hours;
  using std::chrono::microseconds;
  const auto refuse = [](std::string_view what) {
    return std::unexpected(Error{Code::kInvalidArgument, "Snowflake layout: " + std::string(what)});
  };
  if (unit < microseconds{100} || unit > hours{1}) {
    return refuse("unit must be 100 microseconds to 1 hour");
  }
  if (time_bits < 1 || time_bits > 62) return refuse("time_bits must be 1 to 62");
  if (worker_bits < 0 || worker_bits > 31) return refuse("worker_bits must be 0 to 31");
  if (sequence_bits < 0 || sequence_bits > 22) return refuse("sequence_bits must be 0 to 22");
  if (time_bits + worker_bits + sequence_bits > 64) {
    return refuse("time_bits, worker_bits and sequence_bits must be at most 64 together");
  }
  if (order != SnowflakeLayout::Order::kWorkerThenSequence &&
      order != SnowflakeLayout::Order::kSequenceThenWorker) {
    return refuse("order is not one of those there are");
  }
  return {};
}

Result<Snowflake> SnowflakeLayout::encode(const SnowflakeParts& parts) const {
  if (parts.worker > max_worker()) {
    return std::unexpected(not_in_field("worker", parts.worker, max_worker()));
  }
  if (parts.sequence > max_sequence()) {
    return std::unexpected(not_in_field("sequence", parts.sequence, max_sequence()));
  }
  Result<std::uint64_t> tick = tick_of(*this, parts.time);
  if (!tick) return std::unexpected(std::move(tick.error()));
  const Shifts shifts = shifts_of(*this);
  return Snowflake{*tick << shifts.time | std::uint64_t{parts.worker} << shifts.worker |
                   std::uint64_t{parts.sequence} << shifts.sequence};
}

Result<SnowflakeParts> SnowflakeLayout::decode(Snowflake id) const {
  const Shifts shifts = shifts_of(*this);
  const std::uint64_t tick = id.value() >> shifts.time;
  if (tick > static_cast<std::uint64_t>(max_tick())) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "bits above the Snowflake layout are set: it is an id of another "
                                 "layout"});
  }
  if (tick > last_instant_tick(*this)) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "the time of the id is past the year 2262: it is an id of another "
                                 "layout"});
  }
  const std::uint64_t ns = ns_of(epoch) + tick * static_cast<std::uint64_t>(unit.count());
  return SnowflakeParts{
      .time = Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(ns)}},
      .worker = static_cast<std::uint32_t>(id.value() >> shifts.worker & max_worker()),
      .sequence = static_cast<std::uint32_t>(id.value() >> shifts.sequence & max_sequence())};
}

Result<Bounds<Snowflake>> SnowflakeLayout::bounds(Instant at) const {
  Result<std::uint64_t> tick = tick_of(*this, at);
  if (!tick) return std::unexpected(std::move(tick.error()));
  const int shift = shifts_of(*this).time;
  const std::uint64_t smallest = *tick << shift;
  return Bounds<Snowflake>{Snowflake{smallest}, Snowflake{smallest | ones(shift)}};
}

std::int64_t last_tick(const SnowflakeLayout& layout) noexcept {
  const std::uint64_t last = last_instant_tick(layout);
  return static_cast<std::int64_t>(
      std::min(static_cast<std::uint64_t>(layout.max_tick()), last == 0 ? 0 : last - 1));
}

std::int64_t units_of(std::chrono::nanoseconds window, std::chrono::nanoseconds unit) noexcept {
  const std::int64_t whole = window / unit;
  const bool more = window % unit != std::chrono::nanoseconds{};
  return std::max<std::int64_t>(whole + (more ? 1 : 0), 2);
}

Result<void> has_time(const SnowflakeLayout& layout, Instant now, std::string_view take) {
  const auto refuse = [&](std::string_view what, Instant at, std::string_view instead) {
    return std::unexpected(
        Error{Code::kOutOfRange, "the time of the Snowflake layout " + std::string(what) + ", " +
                                     format_exact_time(at) + ", and the clock shows " +
                                     format_time(now) + ": " + std::string(take) + " " +
                                     std::string(instead) + ", or set the clock if it is wrong"});
  };
  if (now < layout.epoch) return refuse("begins at its epoch", layout.epoch, "an earlier epoch");
  const auto unit = static_cast<std::uint64_t>(layout.unit.count());
  const auto last = static_cast<std::uint64_t>(last_tick(layout));
  if ((ns_of(now) - ns_of(layout.epoch)) / unit <= last) return {};
  const Instant end{
      std::chrono::nanoseconds{static_cast<std::int64_t>(ns_of(layout.epoch) + last * unit)}};
  return refuse("has passed its end", end, "a layout with a later epoch or more time bits");
}

SnowflakeLayout space_of(const SnowflakeLayout& layout) noexcept {
  SnowflakeLayout space = layout;
  space.time_bits = 64 - layout.worker_bits - layout.sequence_bits;
  // A field without bits has no position.
  if (layout.worker_bits == 0 || layout.sequence_bits == 0)
    space.order = SnowflakeLayout::Order::kWorkerThenSequence;
  return space;
}

std::chrono::nanoseconds drift_of(const SnowflakeLayout& layout,
                                  const SnowflakeLeaseOptions& options) noexcept {
  return std::max(options.max_drift, layout.unit * (units_of(options.window, layout.unit) + 1));
}

std::span<const SnowflakePreset> snowflake_presets() noexcept { return kPresets; }

Result<SnowflakeLayout> snowflake_layout(std::string_view preset) {
  std::string names;
  for (const SnowflakePreset& row : kPresets) {
    if (row.name == preset) return row.layout;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return std::unexpected(Error{Code::kNotFound, "no Snowflake layout is named \"" +
                                                    std::string(preset) + "\": there is " + names});
}

std::string to_string(const SnowflakeLayout& layout) {
  const std::string worker = std::to_string(layout.worker_bits) + 'w';
  const std::string sequence = std::to_string(layout.sequence_bits) + 's';
  std::string text =
      std::to_string(layout.time_bits) + 't' +
      (layout.order == SnowflakeLayout::Order::kWorkerThenSequence ? worker + sequence
                                                                   : sequence + worker);
  const SnowflakeLayout plain;
  if (layout.epoch != plain.epoch) text += " epoch " + format_exact_time(layout.epoch);
  if (layout.unit != plain.unit) {
    const std::int64_t ns = layout.unit.count();
    const auto* unit = std::ranges::find_if(kUnits, [&](const Unit& u) { return ns % u.ns == 0; });
    text += " unit " + std::to_string(ns / unit->ns) + std::string(unit->name);
  }
  return text;
}

Result<SnowflakeLayout> parse_snowflake_layout(std::string_view text) {
  std::string_view rest = text;
  const std::string_view first = take_word(rest);
  const bool named = !first.empty() && (first[0] < '0' || first[0] > '9');
  Result<SnowflakeLayout> layout = named ? snowflake_layout(first) : parse_fields(first);
  if (!layout) {
    if (named) add_outcome(layout.error(), "or " + std::string(kFieldsForm));
    return layout;
  }
  std::optional<Instant> epoch;
  std::optional<std::chrono::nanoseconds> unit;
  while (!rest.empty()) {
    const std::string_view what = take_word(rest);
    const std::string_view value = take_word(rest);
    if (what == "epoch" && !epoch) {
      Result<Instant> time = parse_time(value);
      if (!time) {
        return std::unexpected(
            in_context("the epoch of a Snowflake layout", std::move(time.error())));
      }
      epoch = *time;
    } else if (what == "unit" && !unit) {
      Result<std::chrono::nanoseconds> length = parse_unit(value);
      if (!length) return std::unexpected(std::move(length.error()));
      unit = *length;
    } else {
      return std::unexpected(no_layout("\"" + std::string(what) +
                                       "\" stands where epoch or unit may stand, each once"));
    }
  }
  if (text.ends_with(' ')) return std::unexpected(no_layout("it ends with a blank"));
  layout->epoch = epoch.value_or(layout->epoch);
  layout->unit = unit.value_or(layout->unit);
  if (Result<void> valid = layout->validate(); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  return layout;
}

struct SnowflakeGenerator::State {
  // `lease` is one of the two, or null.
  State(const SnowflakeLayout& layout, std::uint32_t given, std::chrono::nanoseconds max_drift,
        std::chrono::nanoseconds max_run_ahead, std::chrono::nanoseconds patience, Clock& clock,
        std::unique_ptr<StateFile> state_file, std::unique_ptr<WorkerLease> worker_lease,
        std::size_t max_outstanding, Executor* executor)
      : shifts(shifts_of(layout)),
        worker(given),
        deadline(patience),
        file(std::move(state_file)),
        leased(std::move(worker_lease)),
        sequence(
            {.epoch = layout.epoch,
             .unit = layout.unit,
             .capacity = layout.max_sequence() + 1,
             .max_tick = last_tick(layout),
             .max_drift = max_drift,
             .max_run_ahead = max_run_ahead,
             .deadline = deadline,
             .restart = after_restart()},
            clock, [this] { return TickSeed{.high = worker_bits()}; }, lease()),
        submitted("Snowflake generator", max_outstanding,
                  executor != nullptr ? *executor : shared_executor(),
                  [this](std::span<Request> batch) {
                    for (Request& each : batch) each.done(fill(each.out, each.until));
                  }) {}
  ~State() {
    if (submitted.owned()) submitted.close();
    if (leased != nullptr) leased->end();  // its thread uses the sequence
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] IdTimeLease* lease() const noexcept {
    if (leased != nullptr) return leased.get();
    return file.get();
  }

  // See ClockSequenceOptions::restart.
  [[nodiscard]] std::string_view after_restart() const noexcept {
    if (leased != nullptr)
      return "a restart leases another worker id of the pool, if one is free, and mints at once";
    if (file != nullptr)
      return "a restart does not mint earlier, as the state file has the time of those ids; "
             "another worker id mints at once";
    return "a restart mints at once, but with this worker id and no state file it may mint those "
           "ids again: restart with another worker id";
  }

  // For the tick that is being entered.
  [[nodiscard]] std::uint64_t worker_bits() const noexcept {
    return std::uint64_t{leased != nullptr ? leased->worker() : worker} << shifts.worker;
  }

  [[nodiscard]] Snowflake id(const Stamp& stamp, std::uint32_t index) const noexcept {
    return Snowflake{static_cast<std::uint64_t>(stamp.tick) << shifts.time | stamp.high |
                     std::uint64_t{stamp.count + index} << shifts.sequence};
  }

  // The deadline of a run of ids that begins now; only ids that ask a store have one.
  [[nodiscard]] SteadyTime until() const noexcept {
    return leased != nullptr ? std::chrono::steady_clock::now() + deadline : SteadyTime::max();
  }

  Result<void> fill(std::span<Snowflake> out, SteadyTime by) {
    while (!out.empty()) {
      Result<Stamp> stamp = sequence.next(
          static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), ClockSequence::kMaxRun)),
          by != SteadyTime::max() ? by : until());
      if (!stamp) return std::unexpected(std::move(stamp.error()));
      for (std::uint32_t i = 0; i < stamp->size; ++i) out[i] = id(*stamp, i);
      out = out.subspan(stamp->size);
    }
    return {};
  }

  // Separate, so that the common path saves no registers for it.
  [[gnu::noinline]] Result<Snowflake> next_slowly() {
    Result<Stamp> stamp = sequence.next(1, until());
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    return id(*stamp, 0);
  }

  const Shifts shifts;
  const std::uint32_t worker;
  const std::chrono::nanoseconds deadline;
  const std::unique_ptr<StateFile> file;
  const std::unique_ptr<WorkerLease> leased;
  ClockSequence sequence;

  struct Request {
    std::span<Snowflake> out;
    SteadyTime until;
    MoveOnlyFunction<void(Result<void>)> done;
  };
  Submitted<Request> submitted;
};

Result<std::unique_ptr<SnowflakeGenerator>> SnowflakeGenerator::open(
    const SnowflakeOptions& options, Clock& clock, Entropy& entropy) {
  if (Result<void> valid = options.layout.validate(); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  if (options.worker > options.layout.max_worker()) {
    return std::unexpected(not_in_field("worker", options.worker, options.layout.max_worker()));
  }
  constexpr std::chrono::nanoseconds none{};
  if (options.lock_wait < none || options.max_drift < none || options.max_run_ahead < none ||
      options.window < none || options.deadline < none) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "Snowflake options: lock_wait, max_drift, max_run_ahead, window "
                                 "and deadline cannot be negative"});
  }
  if (options.state_file.empty() && options.max_run_ahead > none) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "Snowflake options: max_run_ahead needs a state_file: without one "
                                 "the ids that ran ahead of the clock would come again after a "
                                 "restart; name one, or let the generator wait"});
  }
  if (!options.state_file.empty() && (options.max_run_ahead > options.max_drift ||
                                      options.window > options.max_drift - options.max_run_ahead)) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "Snowflake options: window and max_run_ahead together are larger "
                                 "than max_drift, so that a restart after a crash would be "
                                 "refused; make one of them smaller"});
  }
  if (Result<void> now = has_time(options.layout, clock.now()); !now) {  // before making the file
    return std::unexpected(std::move(now.error()));
  }
  std::unique_ptr<StateFile> file;
  std::int64_t from = -1;  // the clock's time
  if (!options.state_file.empty()) {
    Result<std::unique_ptr<StateFile>> opened =
        StateFile::open({.path = options.state_file,
                         .id_space = id_space_of(options),
                         .lock_wait = options.lock_wait,
                         .until = options.until,
                         .window = units_of(options.window, options.layout.unit)},
                        entropy);
    if (!opened) return std::unexpected(std::move(opened.error()));
    file = *std::move(opened);
    file->set_words({static_cast<std::uint64_t>(options.layout.time_bits), 0});
    if (file->minted_until() > 0) from = file->minted_until();
  }
  auto state = std::make_unique<State>(
      options.layout, options.worker, options.max_drift, options.max_run_ahead, options.deadline,
      clock, std::move(file), nullptr, options.max_outstanding, options.executor);
  if (Result<void> started = state->sequence.start(from); !started) {
    return std::unexpected(std::move(started.error()));
  }
  return std::unique_ptr<SnowflakeGenerator>(new SnowflakeGenerator(std::move(state)));
}

Result<std::unique_ptr<SnowflakeGenerator>> open_leased(LeaseTable& table, std::string_view pool,
                                                        const SnowflakeLeaseOptions& options,
                                                        Clock& clock, Entropy& entropy) {
  if (Result<void> valid = options.layout.validate(); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  constexpr std::chrono::nanoseconds none{};
  const auto refuse = [](const char* why) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "Snowflake lease options: " + std::string(why)});
  };
  if (options.max_drift < none || options.max_run_ahead < none || options.window < none ||
      options.max_skew < none || options.deadline < none)
    return refuse("max_drift, max_run_ahead, window, max_skew and deadline cannot be negative");
  if (options.max_run_ahead > options.max_drift ||
      options.window > options.max_drift - options.max_run_ahead ||
      options.max_skew > options.max_drift - options.max_run_ahead - options.window)
    return refuse(
        "window, max_run_ahead and max_skew together are larger than max_drift, so that who comes "
        "after a holder that died would be refused; make one of them smaller");
  if (Result<void> now = has_time(options.layout, clock.now(), "make another pool, with");
      !now) {  // before a lease is taken
    return std::unexpected(std::move(now.error()));
  }
  const std::chrono::nanoseconds deadline = std::min(options.deadline, kLongestDeadline);
  const SteadyTime until = std::min(options.until, std::chrono::steady_clock::now() + deadline);
  const std::chrono::nanoseconds unit = options.layout.unit;
  const std::int64_t window = units_of(options.window, unit);
  const std::chrono::nanoseconds drift = drift_of(options.layout, options);
  Result<std::unique_ptr<WorkerLease>> lease =
      WorkerLease::acquire(table,
                           {.pool = std::string(pool),
                            .holder = options.holder,
                            .workers = options.workers,
                            .epoch = options.layout.epoch,
                            .unit = unit,
                            .max_tick = last_tick(options.layout),
                            .max_worker = options.layout.max_worker(),
                            .first_window = options.one_unit ? 1 : window,
                            .window = window,
                            .max_drift = drift / unit,
                            .held = std::chrono::ceil<std::chrono::milliseconds>(unit * window),
                            .max_skew = options.max_skew,
                            .deadline = deadline},
                           clock, entropy, until);
  if (!lease) return std::unexpected(std::move(lease.error()));
  WorkerLease& leased = **lease;
  auto state = std::make_unique<SnowflakeGenerator::State>(
      options.layout, 0, drift, options.max_run_ahead, deadline, clock, nullptr, *std::move(lease),
      options.max_outstanding, options.executor);
  if (Result<void> started = state->sequence.start(leased.from(), until); !started) {
    return std::unexpected(std::move(started.error()));
  }
  leased.keep_renewed(
      [sequence = &state->sequence](Error why) { sequence->revoke(std::move(why)); });
  return std::unique_ptr<SnowflakeGenerator>(new SnowflakeGenerator(std::move(state)));
}

SnowflakeGenerator::SnowflakeGenerator(std::unique_ptr<State> state) noexcept
    : state_(std::move(state)) {}

SnowflakeGenerator::~SnowflakeGenerator() = default;

Result<Snowflake> SnowflakeGenerator::next() {
  Stamp stamp;
  if (state_->sequence.try_next(1, stamp)) [[likely]] {
    return state_->id(stamp, 0);
  }
  return state_->next_slowly();
}

Result<void> SnowflakeGenerator::next(std::span<Snowflake> out) {
  return next(out, SteadyTime::max());
}

Result<void> SnowflakeGenerator::next(std::span<Snowflake> out, SteadyTime until) {
  return state_->fill(out, until);
}

Result<void> SnowflakeGenerator::submit(std::span<Snowflake> out,
                                        MoveOnlyFunction<void(Result<void>)> done) {
  if (!state_->submitted.owned()) {
    return std::unexpected(inherited_generator());
  }
  return state_->submitted.submit(
      {out, std::chrono::steady_clock::now() + state_->deadline, std::move(done)});
}

bool SnowflakeGenerator::made_state_file() const noexcept {
  return state_->file != nullptr && state_->file->made();
}

namespace {

Result<Id> snowflake_from(std::span<const std::uint8_t> bytes) {
  return Id{Snowflake{static_cast<std::uint64_t>(number_of(bytes))}};
}

Result<Bounds<Id>> snowflake_bounds(Instant at, const SnowflakeLayout& layout) {
  const Result<Bounds<Snowflake>> bounds = layout.bounds(at);
  // The time is the argument that is wrong.
  if (!bounds) return refuse(bounds.error().message());
  return Bounds<Id>{bounds->smallest, bounds->largest};
}

}  // namespace

// Read by inspect.cc, with other numbers.
extern const Format kSnowflakeFormat = {
    .name = "snowflake",
    .kind = "snowflake",
    .bytes = 8,
    .from_bytes = snowflake_from,
    .parse = parsed_as<Snowflake>,
    .bounds = snowflake_bounds,
    .order = Order::kPerProcess,
    .notes =
        "any layout (the usual one: milliseconds since 2015, 10 bits of worker id, 12 of "
        "sequence number); the worker id must be no other generator's: a pool leases them"};

}  // namespace idmint
