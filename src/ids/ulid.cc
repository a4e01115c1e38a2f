#include "idmint/ulid.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ids/clock_sequence.h"
#include "ids/format.h"
#include "ids/readings.h"

namespace idmint {
namespace {

constexpr std::int64_t kMaxTick = (std::int64_t{1} << 48) - 1;
// The counts of one millisecond: more than a generator can mint in it, and within the sequence's
// limit.
constexpr std::uint32_t kMostOfMillisecond = 1U << 23;

Ulid ulid_of(std::uint64_t high, std::uint64_t low) noexcept {
  static_assert(std::endian::native == std::endian::little);
  // One vector, so that a copy of all 16 bytes need not wait for two stores to retire.
  using Halves [[gnu::vector_size(16)]] = std::uint64_t;
  return Ulid{std::bit_cast<Ulid::Bytes>(Halves{__builtin_bswap64(high), __builtin_bswap64(low)})};
}

}  // namespace

Result<Bounds<Ulid>> ulid_bounds(Instant at) {
  if (at < Instant{}) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "a ULID has no time before 1970: ask for a later one"});
  }
  const auto ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count());
  return Bounds<Ulid>{ulid_of(ms << 16, 0), ulid_of(ms << 16 | 0xffff, ~std::uint64_t{0})};
}

struct UlidGenerator::State {
  State(const UlidOptions& options, Clock& clock, Entropy& entropy)
      : sequence({.epoch = Instant{},
                  .unit = std::chrono::milliseconds{1},
                  .capacity = kMostOfMillisecond,
                  .max_tick = kMaxTick,
                  .max_drift = options.max_drift,
                  .self_starting = true,
                  .start_afresh = !options.strict,
                  .restart = "a restart mints at once, below those ids"},
                 clock, [&entropy] {
                   // The 80 random bits of the millisecond's first id, big-endian.
                   std::array<std::byte, 10> random;
                   entropy.fill(random);
                   std::uint16_t high;
                   std::uint64_t low;
                   std::memcpy(&high, random.data(), 2);
                   std::memcpy(&low, random.data() + 2, 8);
                   return TickSeed{.high = __builtin_bswap16(high), .low = __builtin_bswap64(low)};
                 }) {}

  // Whether the first id of the run exceeds 80 bits: odds of 2^-57.
  static bool overflows(const Stamp& stamp) noexcept {
    return stamp.high == 0xffff && stamp.count > ~stamp.low;
  }

  // The number of ids of a run that do not overflow.
  static std::uint32_t fitting(const Stamp& stamp) noexcept {
    if (overflows(stamp)) return 0;
    if (stamp.high != 0xffff) return stamp.size;
    const std::uint64_t left = ~stamp.low - stamp.count;  // ids after the first one of the run
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(stamp.size - 1, left) + 1);
  }

  static Ulid id(const Stamp& stamp, std::uint32_t index) noexcept {
    const std::uint64_t low = stamp.low + stamp.count + index;
    const std::uint64_t carry = low < stamp.low ? 1 : 0;
    return ulid_of((static_cast<std::uint64_t>(stamp.tick) << 16) + stamp.high + carry, low);
  }

  Result<Stamp> next(std::uint32_t want) {
    Result<Stamp> stamp = sequence.next(want);
    if (!stamp) return stamp;
    stamp->size = fitting(*stamp);
    if (stamp->size != 0) return stamp;
    return std::unexpected(Error{Code::kResourceExhausted,
                                 "the random part of the ULIDs of this millisecond has overflowed: "
                                 "ask again in the next millisecond"});
  }

  // Separate, so that the common path saves no registers for it.
  [[gnu::noinline]] Result<Ulid> next_slowly() {
    Result<Stamp> stamp = next(1);
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    return id(*stamp, 0);
  }

  ClockSequence sequence;
};

UlidGenerator::UlidGenerator(const UlidOptions& options, Clock& clock, Entropy& entropy)
    : state_(std::make_unique<State>(options, clock, entropy)) {}

UlidGenerator::~UlidGenerator() = default;

Result<Ulid> UlidGenerator::next() {
  Stamp stamp;
  if (!state_->sequence.try_next(1, stamp) || State::overflows(stamp)) [[unlikely]] {
    return state_->next_slowly();
  }
  return State::id(stamp, 0);
}

Result<void> UlidGenerator::next(std::span<Ulid> out) {
  while (!out.empty()) {
    Result<Stamp> stamp =
        state_->next(static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), 1024)));
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    for (std::uint32_t i = 0; i < stamp->size; ++i) out[i] = State::id(*stamp, i);
    out = out.subspan(stamp->size);
  }
  return {};
}

namespace detail {
namespace {

void read_ulid(Reader& reader, std::string_view text, Alphabets alphabets) {
  if (crockford_digit(text[0]) > 7) return;  // more than 128 bits
  const Result<Ulid> id = Ulid::parse(text);
  if (!id) return;
  const auto [high, low] = halves(id->bytes().data());
  const FoundTime time = from_milliseconds(high >> 16);
  reader.add("ulid", (alphabets & kUpperBase32) != 0 ? FoundValue{text} : FoundValue{*id},
             reader.plausible(time) ? kLikely : kConceivable);
  reader.add_time(time);
  reader.add_field("random", Hex{high, low, 20});
  reader.add_field("uuid", Uuid{id->bytes()});
}

}  // namespace
}  // namespace detail

namespace {
constexpr std::array kUlidShapes = {
    detail::Shape{detail::kUlidChars, Ulid::kChars, Ulid::kChars, detail::read_ulid}};
}

extern const Format kUlidFormat = {
    .name = "ulid",
    .kind = "ulid",
    .bytes = 16,
    .from_bytes = from_bytes_as<Ulid>,
    .parse = parsed_as<Ulid>,
    .shapes = kUlidShapes,
    .bounds = bounds_of<ulid_bounds>,
    .ends = kLongMillisecondsEnd,
    .make =
        [](Clock& clock, Entropy& entropy) {
          return generator_of<Ulid>(std::make_unique<UlidGenerator>(UlidOptions{}, clock, entropy));
        },
    .order = Order::kPerProcess,
    .notes =
        "milliseconds, 80 random bits; a repeat takes two runs of ids that meet in one millisecond",
    .plan = {.about = "ULID: milliseconds, 80 random bits",
             .chars = Ulid::kChars,
             .value_bits = 128,
             .apart_bits = 80,
             .apart_in = std::chrono::milliseconds{1},
             .clock_goes_back = kKeepsOn}};

}  // namespace idmint
