#include "idmint/uuid.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/digest.h"
#include "ids/clock_sequence.h"
#include "ids/format.h"
#include "ids/uuid_bits.h"

namespace idmint {
namespace {

using namespace uuid_bits;

constexpr std::uint64_t kVersion4 = 0x4000;
constexpr std::uint64_t kVersion7 = 0x7000;
constexpr std::uint64_t kRandB = ~kVariantMask;

constexpr std::int64_t kMaxMilliseconds = (std::int64_t{1} << 48) - 1;

constexpr int kTailBits = 51;  // random in each id; 62 less the 11 low bits of the counter
constexpr std::uint64_t kTailMask = (std::uint64_t{1} << kTailBits) - 1;
constexpr std::uint32_t kCounterLowMask = (1U << 11) - 1;
constexpr std::uint32_t kCounterCapacity = 1U << 23;
constexpr std::uint32_t kCounterSeedMask = (1U << 22) - 1;  // its leading bit is the guard

Uuid uuid7(std::uint64_t ms, std::uint32_t counter, std::uint64_t random) noexcept {
  return from_halves(
      ms << 16 | kVersion7 | counter >> 11,
      kVariant | std::uint64_t{counter & kCounterLowMask} << kTailBits | (random & kTailMask));
}

// The differences of a spelling from 8-4-4-4-12 in lower case.
struct SpellingRow {
  UuidSpelling spelling;
  std::string_view before;
  bool dashes;
  bool upper;
  std::string_view after;
};
constexpr std::array kSpellings = {
    SpellingRow{UuidSpelling::kCanonical, "", true, false, ""},
    SpellingRow{UuidSpelling::kUpper, "", true, true, ""},
    SpellingRow{UuidSpelling::kBraces, "{", true, false, "}"},
    SpellingRow{UuidSpelling::kUpperBraces, "{", true, true, "}"},
    SpellingRow{UuidSpelling::kUrn, "urn:uuid:", true, false, ""},
    SpellingRow{UuidSpelling::kNoDashes, "", false, false, ""},
};
static_assert([] {
  for (std::size_t i = 0; i < kSpellings.size(); ++i) {
    if (kSpellings[i].spelling != static_cast<UuidSpelling>(i)) return false;
  }
  return true;
}());

struct NamespaceRow {
  std::string_view name;
  Uuid name_space;
};
constexpr std::array kNamespaces = {
    NamespaceRow{"dns", kUuidNamespaceDns}, NamespaceRow{"url", kUuidNamespaceUrl},
    NamespaceRow{"oid", kUuidNamespaceOid}, NamespaceRow{"x500", kUuidNamespaceX500}};

// The first 16 bytes of the hash, with version and variant replaced.
Result<Uuid> of_name(Digest digest, std::uint8_t version, const Uuid& name_space,
                     std::string_view name) {
  Result<DigestBytes> hash = digest_of(
      digest, {std::as_bytes(std::span(name_space.bytes())), std::as_bytes(std::span(name))});
  if (!hash) return std::unexpected(std::move(hash.error()));
  Uuid::Bytes bytes;
  std::copy_n(hash->begin(), bytes.size(), bytes.begin());
  bytes = uuid8(bytes).bytes();
  bytes[6] = static_cast<std::uint8_t>(version << 4 | (bytes[6] & 0x0f));
  return Uuid{bytes};
}

}  // namespace

char* Uuid::to_chars(char* out, UuidSpelling spelling) const noexcept {
  const SpellingRow& row = kSpellings[static_cast<std::size_t>(spelling)];
  char text[kChars];
  to_chars(text);
  out = std::copy(row.before.begin(), row.before.end(), out);
  for (const char c : text) {
    if (c == '-' && !row.dashes) continue;
    *out++ = row.upper && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return std::copy(row.after.begin(), row.after.end(), out);
}

Result<Uuid> Uuid::from_bson(std::span<const std::uint8_t> payload) {
  const auto refuse = [](std::string what) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "not a UUID as BSON has it: " + std::move(what)});
  };
  constexpr Bson form = Uuid{}.bson();
  if (payload.size() != form.size()) {
    return refuse("expected 21 bytes (length, subtype, UUID), got " +
                  std::to_string(payload.size()));
  }
  if (!std::equal(form.begin(), form.begin() + 4, payload.begin())) {
    return refuse("the binary value is not 16 bytes long");
  }
  if (payload[4] == 3) {
    return refuse(
        "its binary subtype is 3, whose byte order depends on the driver that wrote it; read it "
        "with that driver and write it again as subtype 4");
  }
  if (payload[4] != form[4]) {
    return refuse("its binary subtype is " + std::to_string(payload[4]) + ", a UUID's is 4");
  }
  Bytes bytes;
  std::copy_n(payload.begin() + 5, bytes.size(), bytes.begin());
  return Uuid{bytes};
}

Result<Uuid> uuid_namespace(std::string_view name) {
  for (const NamespaceRow& row : kNamespaces) {
    if (row.name == name) return row.name_space;
  }
  if (Result<Uuid> id = Uuid::parse(name)) return id;
  return std::unexpected(
      Error{Code::kInvalidArgument, "not a namespace: expected dns, url, oid, x500 or a UUID"});
}

Result<Uuid> uuid3(const Uuid& name_space, std::string_view name) {
  return of_name(Digest::kMd5, 3, name_space, name);
}

Result<Uuid> uuid5(const Uuid& name_space, std::string_view name) {
  return of_name(Digest::kSha1, 5, name_space, name);
}

std::optional<Uuid7Parts> decode_uuid7(const Uuid& id) noexcept {
  if (id.version() != 7 || !id.has_rfc_variant()) return std::nullopt;
  const std::uint64_t high = half(id, 0);
  constexpr std::uint64_t kLastMillisecond =
      static_cast<std::uint64_t>(Instant::max().time_since_epoch().count() / 1'000'000);
  if (high >> 16 > kLastMillisecond) return std::nullopt;
  return Uuid7Parts{
      .time = Instant{std::chrono::milliseconds{static_cast<std::int64_t>(high >> 16)}},
      .rand_a = static_cast<std::uint16_t>(high & 0xfff),
      .rand_b = half(id, 1) & kRandB};
}

Result<Bounds<Uuid>> uuid7_bounds(Instant at) {
  if (at < Instant{}) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "a version 7 UUID has no time before 1970: ask for a later one"});
  }
  const auto ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count());
  return Bounds<Uuid>{from_halves(ms << 16 | kVersion7, kVariant),
                      from_halves(ms << 16 | kVersion7 | 0xfff, kVariant | kRandB)};
}

namespace {

Uuid as_version4(Halves random) noexcept {
  // Byte-swaps the constant masks instead of the random bits.
  constexpr Halves keep = {big_endian(~kVersionMask), big_endian(~kVariantMask)};
  constexpr Halves set = {big_endian(kVersion4), big_endian(kVariant)};
  return Uuid{std::bit_cast<Uuid::Bytes>((random & keep) | set)};
}

}  // namespace

Uuid Uuid4Generator::next() noexcept {
  Halves random;
  entropy_.fill(std::as_writable_bytes(std::span(&random, 1)));
  return as_version4(random);
}

void Uuid4Generator::next(std::span<Uuid> out) noexcept {
  static_assert(sizeof(Uuid) == 16);
  // Pieces stay in the first-level cache between drawing and marking.
  constexpr std::size_t kPiece = 512;
  while (!out.empty()) {
    const std::span<Uuid> piece = out.first(std::min(out.size(), kPiece));
    entropy_.fill(std::as_writable_bytes(piece));
    for (Uuid& id : piece) {
      id = as_version4(std::bit_cast<Halves>(id.bytes()));
    }
    out = out.subspan(piece.size());
  }
}

struct Uuid7Generator::State {
  State(const Uuid7Options& options, Clock& clock, Entropy& source)
      : entropy(source),
        sequence({.epoch = Instant{},
                  .unit = std::chrono::milliseconds{1},
                  .capacity = kCounterCapacity,
                  .max_tick = kMaxMilliseconds,
                  .max_drift = options.max_drift,
                  .self_starting = true,
                  .start_afresh = !options.strict,
                  .restart = "a restart mints at once, below those ids"},
                 clock, [&source] {
                   return TickSeed{.count = static_cast<std::uint32_t>(source.draw()) &
                                            kCounterSeedMask};
                 }) {}

  Uuid id(const Stamp& stamp) noexcept {
    return uuid7(static_cast<std::uint64_t>(stamp.tick), stamp.count, entropy.draw());
  }

  // Separate, so that the common path saves no registers for it.
  [[gnu::noinline]] Result<Uuid> next_slowly() {
    Result<Stamp> stamp = sequence.next(1);
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    return id(*stamp);
  }

  Entropy& entropy;
  ClockSequence sequence;
};

Uuid7Generator::Uuid7Generator(const Uuid7Options& options, Clock& clock, Entropy& entropy)
    : state_(std::make_unique<State>(options, clock, entropy)) {}

Uuid7Generator::~Uuid7Generator() = default;

Result<Uuid> Uuid7Generator::next() {
  Stamp stamp;
  if (!state_->sequence.try_next(1, stamp)) [[unlikely]]
    return state_->next_slowly();
  return state_->id(stamp);
}

Result<void> Uuid7Generator::next(std::span<Uuid> out) {
  std::array<std::uint64_t, 512> random;
  while (!out.empty()) {
    const auto want = static_cast<std::uint32_t>(std::min(out.size(), random.size()));
    Result<Stamp> stamp = state_->sequence.next(want);
    if (!stamp) return std::unexpected(std::move(stamp.error()));
    state_->entropy.fill(std::as_writable_bytes(std::span(random).first(stamp->size)));
    for (std::uint32_t i = 0; i < stamp->size; ++i) {
      out[i] = uuid7(static_cast<std::uint64_t>(stamp->tick), stamp->count + i, random[i]);
    }
    out = out.subspan(stamp->size);
  }
  return {};
}

// Read by inspect.cc, all versions at once.
extern const Format kUuidKind = {.name = "uuid",
                                 .kind = "uuid",
                                 .bytes = 16,
                                 .from_bytes = from_bytes_as<Uuid>,
                                 .parse = parsed_as<Uuid>};

extern const Format kUuid4Format = {
    .name = "uuid4",
    .kind = "uuid",
    .unbounded = kNoTimeInIt,
    .make =
        [](Clock& /*clock*/, Entropy& entropy) {
          return generator_of<Uuid>(std::make_unique<Uuid4Generator>(entropy));
        },
    .order = Order::kNone,
    .notes = "122 random bits; among n ids the odds of one repeat are about n^2 / 2^123",
    .plan = {.about = "UUID version 4: 122 random bits",
             .chars = Uuid::kChars,
             .value_bits = 122,
             .apart_bits = 122}};

extern const Format kUuid7Format = {
    .name = "uuid7",
    .kind = "uuid",
    .bounds = bounds_of<uuid7_bounds>,
    .ends = kLongMillisecondsEnd,
    .make =
        [](Clock& clock, Entropy& entropy) {
          return generator_of<Uuid>(
              std::make_unique<Uuid7Generator>(Uuid7Options{}, clock, entropy));
        },
    .order = Order::kPerProcess,
    .notes =
        "milliseconds, a counter, 51 random bits; a repeat takes the same millisecond, "
        "counter and bits",
    .plan = {.about = "UUID version 7: milliseconds, a counter, random bits",
             .chars = Uuid::kChars,
             .value_bits = 122,
             .apart_bits = 22 + kTailBits,
             .apart_in = std::chrono::milliseconds{1},
             .per_second = 1e3 * (1 << 22),
             .clock_goes_back = kKeepsOn}};

}  // namespace idmint
