#include "idmint/ksuid.h"

#include <array>
#include <cstring>
#include <ratio>

#include "idmint/encoding.h"
#include "ids/format.h"
#include "ids/readings.h"

namespace idmint {
namespace {

constexpr std::uint64_t kEpoch = Ksuid::kEpochSeconds * std::nano::den;
// In ns since kEpoch, unsigned: a time is below this exactly if a KSUID can hold it.
constexpr std::uint64_t kEndOfKsuids = std::nano::den << 32;

std::uint64_t since_epoch(Instant at) noexcept {
  return static_cast<std::uint64_t>(at.time_since_epoch().count()) - kEpoch;
}

void set_seconds(std::uint32_t seconds, Ksuid::Bytes& bytes) noexcept {
  const std::uint32_t big_endian = __builtin_bswap32(seconds);
  std::memcpy(bytes.data(), &big_endian, 4);
}

[[gnu::cold]] std::unexpected<Error> outside() {
  return std::unexpected(Error{Code::kOutOfRange,
                               "the clock shows a time outside 2014-05-13T16:53:20Z to "
                               "2150-06-19T23:21:35Z, which no KSUID can hold: set it"});
}

// Stores sixteen bytes and four, as compilers copy twenty: so a copy need not wait for the stores
// to retire.
Ksuid compose(std::uint32_t seconds, std::uint64_t first, std::uint64_t second) noexcept {
  using Words [[gnu::vector_size(16)]] = std::uint64_t;
  const Words words = {std::uint64_t{__builtin_bswap32(seconds)} | first << 32,
                       first >> 32 | second << 32};
  const auto rest = static_cast<std::uint32_t>(second >> 32);
  Ksuid::Bytes bytes;
  std::memcpy(bytes.data(), &words, 16);
  std::memcpy(bytes.data() + 16, &rest, 4);
  return Ksuid{bytes};
}

}  // namespace

Result<Ksuid> Ksuid::parse(std::string_view text) {
  Ksuid id;
  if (Result<void> decoded = decode(Encoding::kBase62, text, id.bytes_); !decoded) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "not a KSUID: " + decoded.error().message()});
  }
  return id;
}

char* Ksuid::to_chars(char* out) const noexcept { return encode(Encoding::kBase62, bytes_, out); }

Result<Bounds<Ksuid>> ksuid_bounds(Instant at) {
  const std::uint64_t ns = since_epoch(at);
  if (ns >= kEndOfKsuids) {
    return std::unexpected(
        Error{Code::kInvalidArgument,
              "a KSUID has times from 2014-05-13T16:53:20Z to 2150-06-19T23:21:35Z only"});
  }
  Ksuid::Bytes smallest{};
  Ksuid::Bytes largest;
  largest.fill(0xff);
  set_seconds(static_cast<std::uint32_t>(ns / std::nano::den), smallest);
  set_seconds(static_cast<std::uint32_t>(ns / std::nano::den), largest);
  return Bounds<Ksuid>{Ksuid{smallest}, Ksuid{largest}};
}

Result<Ksuid> KsuidGenerator::next() {
  const std::uint64_t ns = since_epoch(clock_.now());
  if (ns >= kEndOfKsuids) [[unlikely]]
    return outside();
  std::array<std::uint64_t, 2> payload;
  entropy_.fill(std::as_writable_bytes(std::span(payload)));
  return compose(static_cast<std::uint32_t>(ns / std::nano::den), payload[0], payload[1]);
}

Result<void> KsuidGenerator::next(std::span<Ksuid> out) {
  const std::uint64_t ns = since_epoch(clock_.now());
  if (ns >= kEndOfKsuids) [[unlikely]]
    return outside();
  // The time overwrites the first of 20 random bytes.
  static_assert(sizeof(Ksuid) == sizeof(Ksuid::Bytes));
  entropy_.fill(std::as_writable_bytes(out));
  for (Ksuid& id : out) {
    Ksuid::Bytes bytes = id.bytes();
    set_seconds(static_cast<std::uint32_t>(ns / std::nano::den), bytes);
    id = Ksuid{bytes};
  }
  return {};
}

namespace detail {
namespace {

void read_ksuid(Reader& reader, std::string_view text, Alphabets) {
  if (text > "aWgEPTl1tmebfsQzFP4bxwgy80V") return;
  const Result<Ksuid> id = Ksuid::parse(text);
  if (!id) return;
  reader.add("ksuid", text, reader.plausible(id->time()) ? kLikely : kConceivable);
  reader.add_time(id->time());
  const auto [high, low] = halves(id->bytes().data() + 4);
  reader.add_field("payload", Hex{high, low, 32});
}

}  // namespace
}  // namespace detail

namespace {
constexpr std::array kKsuidShapes = {
    detail::Shape{detail::kBase62Chars, Ksuid::kChars, Ksuid::kChars, detail::read_ksuid}};
}

extern const Format kKsuidFormat = {
    .name = "ksuid",
    .kind = "ksuid",
    .bytes = 20,
    .from_bytes = from_bytes_as<Ksuid>,
    .parse = parsed_as<Ksuid>,
    .shapes = kKsuidShapes,
    .bounds = bounds_of<ksuid_bounds>,
    .ends = kUnsignedSecondsEnd + std::chrono::seconds{Ksuid::kEpochSeconds},
    .make =
        [](Clock& clock, Entropy& entropy) {
          return generator_of<Ksuid>(std::make_unique<KsuidGenerator>(clock, entropy));
        },
    .order = Order::kBySecond,
    .notes =
        "seconds, 128 random bits; among n ids of a second the odds of one repeat are about "
        "n^2 / 2^129",
    .plan = {.about = "KSUID: seconds, 128 random bits",
             .reason = "the most random bits, 20 bytes, in order of its seconds",
             .chars = Ksuid::kChars,
             .value_bits = 160,
             .apart_bits = 128,
             .apart_in = std::chrono::seconds{1},
             .clock_goes_back = "the seconds go back, each id has fresh random bits"}};

}  // namespace idmint
