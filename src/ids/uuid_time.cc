#include "idmint/uuid_time.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/fork_wiped.h"
#include "ids/clock_sequence.h"
#include "ids/format.h"
#include "ids/state_file.h"
#include "ids/uuid_bits.h"

namespace idmint {
namespace {

using namespace uuid_bits;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kVersion1 = 0x1000;
constexpr std::uint64_t kVersion2 = 0x2000;
constexpr std::uint64_t kVersion6 = 0x6000;

constexpr std::uint32_t kStepsInMillisecond = 10'000;
// The last whole millisecond of an Instant minus one, so that no sum of the sequence exceeds it.
constexpr std::int64_t kMaxMillisecond = Instant::max().time_since_epoch().count() / 1'000'000 - 2;

constexpr std::uint64_t kNodeMask = (std::uint64_t{1} << 48) - 1;
constexpr std::uint64_t kMulticast = std::uint64_t{1} << 40;  // the lowest bit of the first byte
constexpr int kClockSeqBits = 14;
constexpr std::uint64_t kClockSeqMask = (std::uint64_t{1} << kClockSeqBits) - 1;

constexpr std::uint64_t timestamp_of(std::int64_t millisecond, std::uint32_t step) noexcept {
  return kStepsTo1970 + static_cast<std::uint64_t>(millisecond) * kStepsInMillisecond + step;
}

HardwareAddress address_of(std::uint64_t node) noexcept {
  HardwareAddress address;
  for (std::size_t i = 0; i < address.size(); ++i) {
    address[i] = static_cast<std::uint8_t>(node >> (8 * (address.size() - 1 - i)));
  }
  return address;
}

std::uint64_t node_of(const HardwareAddress& address) noexcept {
  std::uint64_t node = 0;
  for (const std::uint8_t byte : address) node = node << 8 | byte;
  return node;
}

std::uint64_t random_node(Entropy& entropy) noexcept {
  return (entropy.draw() & kNodeMask) | kMulticast;
}

// "node 02:42:ac:11:00:02" or "random node"; part of the identity of an id space.
std::string text_of(const std::optional<HardwareAddress>& node) {
  if (!node) return "random node";
  char text[32];
  const int size =
      std::snprintf(text, sizeof text, "node %02x:%02x:%02x:%02x:%02x:%02x", (*node)[0], (*node)[1],
                    (*node)[2], (*node)[3], (*node)[4], (*node)[5]);
  return {text, static_cast<std::size_t>(size)};
}

std::uint64_t low_half(std::uint64_t clock_seq, std::uint64_t node) noexcept {
  return kVariant | clock_seq << 48 | node;
}

// The upper halves: version 1 and 2 have the low part of the time first, version 6 the high part.
std::uint64_t low_time_first(std::uint64_t timestamp, std::uint64_t version) noexcept {
  return timestamp << 32 | (timestamp >> 16 & 0xffff0000) | version | timestamp >> 48;
}
std::uint64_t high_time_first(std::uint64_t timestamp) noexcept {
  return timestamp >> 12 << 16 | kVersion6 | (timestamp & 0xfff);
}
std::optional<UuidTimeParts> parts_of(std::uint64_t timestamp, std::uint64_t low) noexcept {
  const std::optional<Instant> time = instant_of(timestamp);
  if (!time) return std::nullopt;
  return UuidTimeParts{.time = *time,
                       .clock_seq = static_cast<std::uint16_t>(low >> 48 & kClockSeqMask),
                       .node = address_of(low & kNodeMask)};
}

// The step within its millisecond that the clock shows.
std::uint32_t step_of_millisecond(Clock& clock) noexcept {
  const std::int64_t ns = clock.now().time_since_epoch().count() % 1'000'000;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(ns, 0) / kNsInStep);
}

}  // namespace

std::optional<UuidTimeParts> decode_uuid1(const Uuid& id) noexcept {
  if (id.version() != 1 || !id.has_rfc_variant()) return std::nullopt;
  return parts_of(timestamp_low_first(half(id, 0)), half(id, 1));
}

std::optional<UuidTimeParts> decode_uuid6(const Uuid& id) noexcept {
  if (id.version() != 6 || !id.has_rfc_variant()) return std::nullopt;
  return parts_of(timestamp_high_first(half(id, 0)), half(id, 1));
}

Bounds<Uuid> uuid6_bounds(Instant at) noexcept {
  const std::uint64_t high = high_time_first(timestamp_of(at));
  return {from_halves(high, kVariant), from_halves(high, kVariant | ~kVariantMask)};
}

// ---- version 1

namespace {

// The owner's words of a version 1 state file: the node, and the first clock sequence below the
// number of changes since.
struct Identity {
  std::uint64_t node = 0;
  std::uint64_t first_clock_seq = 0;
  std::uint64_t changes = 0;

  [[nodiscard]] std::uint64_t clock_seq() const noexcept {
    return (first_clock_seq + changes) & kClockSeqMask;
  }
  [[nodiscard]] OwnersWords words() const noexcept {
    return {node, changes << kClockSeqBits | first_clock_seq};
  }
  static Identity from(const OwnersWords& words) noexcept {
    return {words[0], words[1] & kClockSeqMask, words[1] >> kClockSeqBits};
  }
};

Identity draw_identity(const std::optional<HardwareAddress>& node, Entropy& entropy) noexcept {
  const std::uint64_t number = node ? node_of(*node) : random_node(entropy);
  return {number, entropy.draw() & kClockSeqMask, 0};
}

Result<Identity> next_clock_seq(Identity identity) {
  if (++identity.changes > kClockSeqMask) {
    return std::unexpected(Error{Code::kOutOfRange,
                                 "the clock went back 16384 times, each time taking a clock "
                                 "sequence, and there are no more of them: use another node, with "
                                 "a state file of its own"});
  }
  return identity;
}

}  // namespace

struct Uuid1Generator::State {
  State(const Uuid1Options& options, Clock& clock, Entropy& source,
        std::unique_ptr<StateFile> state_file)
      : node(options.node),
        entropy(source),
        file(std::move(state_file)),
        identity(file ? Identity::from(file->words()) : Identity{}),
        sequence(
            {.epoch = Instant{},
             .unit = milliseconds{1},
             .capacity = kStepsInMillisecond,
             .max_tick = kMaxMillisecond,
             .max_drift = options.max_drift,
             .self_starting = file == nullptr,
             .start_afresh = true},
            clock,
            [this, &clock] {
              return TickSeed{.count = step_of_millisecond(clock),
                              .low = low_half(identity.clock_seq(), identity.node)};
            },
            file.get(), [this](std::int64_t tick, bool first) { return set_apart(tick, first); }) {}

  // Under the lock of the sequence.
  Result<std::int64_t> set_apart(std::int64_t tick, bool first) {
    if (first) {
      const std::uint64_t inherited = identity.clock_seq();
      do {
        identity = draw_identity(node, entropy);
      } while (drawn && identity.clock_seq() == inherited);  // in a child of fork()
      drawn = true;
      return 0;
    }
    const Result<Identity> next = next_clock_seq(identity);
    if (!next) return std::unexpected(next.error());
    std::int64_t bound = 0;
    if (file) {
      Result<std::int64_t> kept = file->set_apart(next->words(), tick);
      if (!kept) return kept;
      bound = *kept;
    }
    identity = *next;
    return bound;
  }

  [[nodiscard]] static Uuid id(const Stamp& stamp, std::uint32_t index) noexcept {
    return from_halves(low_time_first(timestamp_of(stamp.tick, stamp.count + index), kVersion1),
                       stamp.low);
  }

  // Separate, so that the common path saves no registers for it.
  [[gnu::noinline]] Result<Uuid> next_slowly() {
    Result<Stamp> stamp = sequence.next(1);
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    return id(*stamp, 0);
  }

  const std::optional<HardwareAddress> node;
  Entropy& entropy;
  const std::unique_ptr<StateFile> file;  // null: nothing is kept
  Identity identity;                      // guarded by the lock of the sequence
  bool drawn = false;                     // likewise: drawn already, perhaps by the parent
  ClockSequence sequence;
};

Result<std::unique_ptr<Uuid1Generator>> Uuid1Generator::open(const Uuid1Options& options,
                                                             Clock& clock, Entropy& entropy) {
  constexpr nanoseconds none{};
  if (options.lock_wait < none || options.max_drift < none || options.window < none) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "UUID version 1 options: lock_wait, max_drift and window cannot "
                                 "be negative"});
  }
  if (options.state_file.empty()) {
    auto state = std::make_unique<State>(options, clock, entropy, nullptr);
    return std::unique_ptr<Uuid1Generator>(new Uuid1Generator(std::move(state)));
  }
  if (options.window > options.max_drift) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "UUID version 1 options: window is larger than max_drift, so that "
                                 "a restart after a crash would take a new clock sequence; make it "
                                 "smaller"});
  }
  // Whole milliseconds, rounded up, at least two.
  const std::int64_t window =
      std::max<std::int64_t>(std::chrono::ceil<milliseconds>(options.window).count(), 2);
  Result<std::unique_ptr<StateFile>> file =
      StateFile::open({.path = options.state_file,
                       .id_space = "uuid version 1, " + text_of(options.node),
                       .lock_wait = options.lock_wait,
                       .until = options.until,
                       .window = window,
                       .words = draw_identity(options.node, entropy).words(),
                       .owner = "node"},
                      entropy);
  if (!file) return std::unexpected(std::move(file.error()));
  const std::int64_t from = (*file)->minted_until() > 0 ? (*file)->minted_until() : -1;
  auto state = std::make_unique<State>(options, clock, entropy, *std::move(file));
  if (Result<void> started = state->sequence.start(from); !started) {
    return std::unexpected(std::move(started.error()));
  }
  return std::unique_ptr<Uuid1Generator>(new Uuid1Generator(std::move(state)));
}

Uuid1Generator::Uuid1Generator(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Uuid1Generator::~Uuid1Generator() = default;

Result<Uuid> Uuid1Generator::next() {
  Stamp stamp;
  if (!state_->sequence.try_next(1, stamp)) [[unlikely]]
    return state_->next_slowly();
  return State::id(stamp, 0);
}

Result<void> Uuid1Generator::next(std::span<Uuid> out) {
  while (!out.empty()) {
    Result<Stamp> stamp = state_->sequence.next(
        static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), ClockSequence::kMaxRun)));
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    for (std::uint32_t i = 0; i < stamp->size; ++i) out[i] = State::id(*stamp, i);
    out = out.subspan(stamp->size);
  }
  return {};
}

bool Uuid1Generator::made_state_file() const noexcept {
  return state_->file != nullptr && state_->file->made();
}

// ---- version 2

namespace {

constexpr int kTickShift = 32;     // a tick is 2^32 steps
constexpr int kIdsInTickBits = 6;  // ids are numbered tick * 64 + clock
constexpr std::int64_t kIdsInTick = std::int64_t{1} << kIdsInTickBits;

// The time until that tick begins, in whole seconds, rounded up.
std::string wait_for(std::int64_t tick, std::uint64_t now) {
  const std::uint64_t steps = (static_cast<std::uint64_t>(tick) << kTickShift) - now;
  constexpr std::uint64_t steps_in_second = 10'000'000;
  return std::to_string((steps + steps_in_second - 1) / steps_in_second) + " s";
}

}  // namespace

std::optional<Uuid2Parts> decode_uuid2(const Uuid& id) noexcept {
  if (id.version() != 2 || !id.has_rfc_variant()) return std::nullopt;
  const std::uint64_t high = half(id, 0);
  const std::uint64_t low = half(id, 1);
  const std::uint64_t tick = timestamp_low_first(high) >> kTickShift;
  const std::optional<Instant> time = instant_of(tick << kTickShift);
  if (!time) return std::nullopt;
  return Uuid2Parts{.time = *time,
                    .clock = static_cast<std::uint8_t>(low >> 56 & (kIdsInTick - 1)),
                    .domain = static_cast<std::uint8_t>(low >> 48),
                    .local_id = static_cast<std::uint32_t>(high >> 32),
                    .node = address_of(low & kNodeMask)};
}

struct Uuid2Generator::State {
  // Under the mutex.
  Result<Uuid> next() {
    const std::uint64_t now = timestamp_of(clock.now());
    const auto tick = static_cast<std::int64_t>(now >> kTickShift);
    const std::int64_t number = std::max(minted_until, tick << kIdsInTickBits);
    const std::int64_t its_tick = number >> kIdsInTickBits;
    if (number == (tick + 1) << kIdsInTickBits) {
      return std::unexpected(
          Error{Code::kResourceExhausted,
                "a version 2 UUID has room for 64 ids in 7 minutes for one node, domain and local "
                "id, and they are used up: ask again in " +
                    wait_for(its_tick, now) + ", or use another version"});
    }
    if (its_tick > tick) {
      return std::unexpected(Error{Code::kUnavailable,
                                   "the clock was set back behind version 2 ids already minted: "
                                   "set it right, or ask again in " +
                                       wait_for(its_tick, now)});
    }
    Result<std::int64_t> extended = file->extend(number);
    if (!extended) return std::unexpected(std::move(extended.error()));
    minted_until = *extended;
    const std::uint64_t high =
        low_time_first(static_cast<std::uint64_t>(tick) << kTickShift, kVersion2);
    const auto clock_bits = static_cast<std::uint64_t>(number & (kIdsInTick - 1));
    return from_halves(
        std::uint64_t{options.local_id} << 32 | high,
        kVariant | clock_bits << 56 | static_cast<std::uint64_t>(options.domain) << 48 | node);
  }

  const Uuid2Options options;
  Clock& clock;
  const std::unique_ptr<StateFile> file;
  const std::uint64_t node;
  std::int64_t minted_until;  // the number of the next id, unless a later tick has begun
  std::mutex minting{};
  OwnedByProcess owned{};
};

Result<std::unique_ptr<Uuid2Generator>> Uuid2Generator::open(const Uuid2Options& options,
                                                             Clock& clock, Entropy& entropy) {
  if (options.state_file.empty()) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "version 2 UUIDs need a state file, which keeps them to 64 in 7 "
                                 "minutes across restarts: name one"});
  }
  if (options.lock_wait < nanoseconds{}) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "UUID version 2 options: lock_wait cannot be negative"});
  }
  constexpr std::array<std::string_view, 3> domains = {"person", "group", "org"};
  const auto domain = static_cast<std::size_t>(options.domain);
  if (domain >= domains.size()) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "the domain of a version 2 UUID is 0 (person), 1 (group) or 2 "
                                 "(org)"});
  }
  const std::uint64_t node = options.node ? node_of(*options.node) : random_node(entropy);
  Result<std::unique_ptr<StateFile>> file =
      StateFile::open({.path = options.state_file,
                       .id_space = "uuid version 2, " + std::string(domains[domain]) + " " +
                                   std::to_string(options.local_id) + ", " + text_of(options.node),
                       .lock_wait = options.lock_wait,
                       .until = options.until,
                       .window = 1,
                       .words = {node, 0},
                       .owner = "local id"},
                      entropy);
  if (!file) return std::unexpected(std::move(file.error()));
  const std::uint64_t kept = (*file)->words()[0];
  const std::int64_t minted_until = (*file)->minted_until();
  return std::unique_ptr<Uuid2Generator>(
      new Uuid2Generator(std::unique_ptr<State>(new State{.options = options,
                                                          .clock = clock,
                                                          .file = *std::move(file),
                                                          .node = kept,
                                                          .minted_until = minted_until})));
}

Uuid2Generator::Uuid2Generator(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Uuid2Generator::~Uuid2Generator() = default;

Result<Uuid> Uuid2Generator::next() {
  // Checked before the mutex, which another thread may have held at the fork().
  if (!state_->owned) {
    return std::unexpected(inherited_generator());
  }
  const std::lock_guard lock(state_->minting);
  return state_->next();
}

Result<void> Uuid2Generator::next(std::span<Uuid> out) {
  if (!state_->owned) return std::unexpected(inherited_generator());
  const std::lock_guard lock(state_->minting);
  for (Uuid& id : out) {
    Result<Uuid> minted = state_->next();
    if (!minted) return std::unexpected(std::move(minted).error());
    id = *minted;
  }
  return {};
}

bool Uuid2Generator::made_state_file() const noexcept { return state_->file->made(); }

// ---- version 6

namespace {

constexpr int kStepCountBits = 6;
constexpr std::uint32_t kStepCountMask = (1U << kStepCountBits) - 1;
constexpr std::uint32_t kStepSeedMask = kStepCountMask >> 1;
constexpr int kStepTailBits = 62 - kStepCountBits;
constexpr std::uint64_t kStepTailMask = (std::uint64_t{1} << kStepTailBits) - 1;

}  // namespace

struct Uuid6Generator::State {
  State(const Uuid6Options& options, Clock& clock, Entropy& source)
      : entropy(source),
        sequence(
            {.epoch = Instant{},
             .unit = milliseconds{1},
             .capacity = kStepsInMillisecond << kStepCountBits,
             .max_tick = kMaxMillisecond,
             .max_drift = options.max_drift,
             .self_starting = true,
             .start_afresh = !options.strict,
             .restart = "a restart mints at once, below those ids"},
            clock, [&clock, &source] {
              return TickSeed{.count = step_of_millisecond(clock) << kStepCountBits |
                                       (static_cast<std::uint32_t>(source.draw()) & kStepSeedMask)};
            }) {}

  [[nodiscard]] static Uuid id(std::int64_t tick, std::uint32_t count,
                               std::uint64_t random) noexcept {
    return from_halves(high_time_first(timestamp_of(tick, count >> kStepCountBits)),
                       kVariant | std::uint64_t{count & kStepCountMask} << kStepTailBits |
                           (random & kStepTailMask) | kMulticast);
  }

  // Separate, so that the common path saves no registers for it.
  [[gnu::noinline]] Result<Uuid> next_slowly() {
    Result<Stamp> stamp = sequence.next(1);
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    return id(stamp->tick, stamp->count, entropy.draw());
  }

  Entropy& entropy;
  ClockSequence sequence;
};

Uuid6Generator::Uuid6Generator(const Uuid6Options& options, Clock& clock, Entropy& entropy)
    : state_(std::make_unique<State>(options, clock, entropy)) {}

Uuid6Generator::~Uuid6Generator() = default;

Result<Uuid> Uuid6Generator::next() {
  Stamp stamp;
  if (!state_->sequence.try_next(1, stamp)) [[unlikely]]
    return state_->next_slowly();
  return State::id(stamp.tick, stamp.count, state_->entropy.draw());
}

Result<void> Uuid6Generator::next(std::span<Uuid> out) {
  std::array<std::uint64_t, 512> random;
  while (!out.empty()) {
    const auto want = static_cast<std::uint32_t>(std::min(out.size(), random.size()));
    Result<Stamp> stamp = state_->sequence.next(want);
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    state_->entropy.fill(std::as_writable_bytes(std::span(random).first(stamp->size)));
    for (std::uint32_t i = 0; i < stamp->size; ++i) {
      out[i] = State::id(stamp->tick, stamp->count + i, random[i]);
    }
    out = out.subspan(stamp->size);
  }
  return {};
}

namespace {
constexpr std::string_view kScattered =
    "the fast bits of its time come first, so that the ids of a span do not lie together";
}

extern const Format kUuid1Format = {
    .name = "uuid1",
    .kind = "uuid",
    .unbounded = kScattered,
    .order = Order::kNone,
    .notes =
        "100 ns since 1582, a clock sequence, a node: random (practical: odds of n^2 / 2^48 "
        "among n runs), or with the node of the hardware unique if configured so"};

extern const Format kUuid2Format = {
    .name = "uuid2",
    .kind = "uuid",
    .unbounded = kScattered,
    .order = Order::kNone,
    .notes =
        "DCE: a user, group or organization id of this host; 64 ids in 7 minutes, each a "
        "durable write"};

extern const Format kUuid6Format = {
    .name = "uuid6",
    .kind = "uuid",
    .bounds = bounds_of<uuid6_bounds>,
    .make =
        [](Clock& clock, Entropy& entropy) {
          return generator_of<Uuid>(
              std::make_unique<Uuid6Generator>(Uuid6Options{}, clock, entropy));
        },
    .order = Order::kPerProcess,
    .notes = "uuid1 in the order of time, with 55 random bits in each id"};

}  // namespace idmint
