#include "idmint/tsid.h"

#include <algorithm>
#include <array>

#include "idmint/ulid.h"
#include "ids/clock_sequence.h"
#include "ids/format.h"
#include "ids/readings.h"

namespace idmint {

namespace {

constexpr std::uint32_t kTsidsOfMillisecond = 1U << Tsid::kRandomBits;
constexpr std::int64_t kLastMillisecondOfTsids = (std::int64_t{1} << 42) - 1;

Tsid tsid_of(std::int64_t millisecond, std::uint32_t count) noexcept {
  return Tsid{static_cast<std::uint64_t>(millisecond) << Tsid::kRandomBits | count};
}

}  // namespace

Result<Tsid> Tsid::parse(std::string_view text) {
  const auto refuse = [](const char* why) {
    return std::unexpected(Error{Code::kInvalidArgument, std::string("not a TSID: ") + why});
  };
  if (text.size() != kChars) return refuse("expected 13 characters of Crockford's base32");
  std::uint64_t value = 0;
  for (const char c : text) {
    const int digit = detail::crockford_digit(c);
    if (digit < 0) return refuse("a character is not one of Crockford's base32 digits");
    if (value >> 59 != 0) return refuse("larger than FZZZZZZZZZZZZ, it does not fit 64 bits");
    value = value << 5 | static_cast<unsigned>(digit);
  }
  return Tsid{value};
}

char* Tsid::to_chars(char* out) const noexcept {
  for (int shift = 60; shift >= 0; shift -= 5) *out++ = detail::kCrockford[value_ >> shift & 31];
  return out;
}

Result<Bounds<Tsid>> tsid_bounds(Instant at) {
  // The difference of an earlier time would overflow.
  const std::int64_t ms =
      at < Tsid::kEpoch ? -1
                        : std::chrono::floor<std::chrono::milliseconds>(at - Tsid::kEpoch).count();
  if (ms < 0 || ms > kLastMillisecondOfTsids) {
    return std::unexpected(
        Error{Code::kInvalidArgument,
              "a TSID has times from 2020-01-01 to 2159-05-15T07:35:11.103Z only"});
  }
  return Bounds<Tsid>{tsid_of(ms, 0), tsid_of(ms, kTsidsOfMillisecond - 1)};
}

struct TsidGenerator::State {
  State(Clock& clock, Entropy& entropy)
      : sequence({.epoch = Tsid::kEpoch,
                  .unit = std::chrono::milliseconds{1},
                  .capacity = kTsidsOfMillisecond,
                  .max_tick = kLastMillisecondOfTsids,
                  .self_starting = true,
                  .restart = "a restart mints at once, and may repeat ids of that time"},
                 clock, [&entropy] {
                   return TickSeed{.count = static_cast<std::uint32_t>(entropy.draw()) &
                                            (kTsidsOfMillisecond - 1)};
                 }) {}

  // With so few random bits, two sequences of one process would meet.
  static std::shared_ptr<State> of(Clock& clock, Entropy& entropy) {
    if (&clock != &system_clock() || &entropy != &system_entropy())
      return std::make_shared<State>(clock, entropy);
    // Never destroyed: a generator may outlive the end of main().
    static const auto& of_process =
        *new std::shared_ptr<State>(std::make_shared<State>(clock, entropy));
    return of_process;
  }

  ClockSequence sequence;
};

TsidGenerator::TsidGenerator(Clock& clock, Entropy& entropy) : state_(State::of(clock, entropy)) {}

TsidGenerator::~TsidGenerator() = default;

Result<Tsid> TsidGenerator::next() {
  Stamp stamp;
  if (!state_->sequence.try_next(1, stamp)) [[unlikely]] {
    Result<Stamp> taken = state_->sequence.next(1);
    if (!taken) return std::unexpected(std::move(taken.error()));
    stamp = *taken;
  }
  return tsid_of(stamp.tick, stamp.count);
}

Result<void> TsidGenerator::next(std::span<Tsid> out) {
  while (!out.empty()) {
    const Result<Stamp> stamp = state_->sequence.next(
        static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), ClockSequence::kMaxRun)));
    if (!stamp) return std::unexpected(stamp.error());
    for (std::uint32_t i = 0; i < stamp->size; ++i) out[i] = tsid_of(stamp->tick, stamp->count + i);
    out = out.subspan(stamp->size);
  }
  return {};
}

namespace detail {
namespace {

void read_tsid(Reader& reader, std::string_view text, Alphabets alphabets) {
  if (crockford_digit(text[0]) > 15) return;  // more than 64 bits
  const auto is_decimal = [](char c) { return crockford_digit(c) < 10; };
  if (std::ranges::all_of(text, is_decimal)) return;  // a number
  const Result<Tsid> id = Tsid::parse(text);
  if (!id) return;
  reader.add("tsid",
             (alphabets & kUpperBase32) != 0 ? FoundValue{text} : FoundValue{Base32{id->value()}},
             reader.plausible(id->time()) ? kLikely + 10 : kUnlikely);
  reader.add_time(id->time());
  reader.add_field("random", std::uint64_t{id->random()});
  reader.add_field("number", id->value());
}

}  // namespace
}  // namespace detail

namespace {

constexpr std::array kTsidShapes = {
    detail::Shape{detail::kUlidChars, Tsid::kChars, Tsid::kChars, detail::read_tsid}};

Result<Id> tsid_from(std::span<const std::uint8_t> bytes) {
  return Id{Tsid{static_cast<std::uint64_t>(number_of(bytes))}};
}

}  // namespace

extern const Format kTsidFormat = {
    .name = "tsid",
    .kind = "tsid",
    .bytes = 8,
    .from_bytes = tsid_from,
    .parse = parsed_as<Tsid>,
    .shapes = kTsidShapes,
    .bounds = bounds_of<tsid_bounds>,
    .ends = std::chrono::floor<std::chrono::seconds>(
        Tsid::kEpoch + std::chrono::milliseconds{kLastMillisecondOfTsids}),
    .make =
        [](Clock& clock, Entropy& entropy) {
          return generator_of<Tsid>(std::make_unique<TsidGenerator>(clock, entropy));
        },
    .order = Order::kPerProcess,
    .notes =
        "milliseconds since 2020, 22 random bits: two processes that mint in one millisecond "
        "repeat an id with odds of 1 in 4 million; for ids that never repeat take a snowflake",
    .plan = {.about = "TSID: milliseconds since 2020, 22 random bits",
             .reason = "8 bytes, 13 characters, in order of time, and no worker id",
             .chars = Tsid::kChars,
             .value_bits = 64,
             .apart_bits = Tsid::kRandomBits,
             .apart_in = std::chrono::milliseconds{1},
             .per_second = 1e3 * kTsidsOfMillisecond / 2,
             .clock_goes_back = "goes on from the old time, up to 20 s ahead of the clock; past "
                                "that it refuses until the clock has caught up"}};

}  // namespace idmint
