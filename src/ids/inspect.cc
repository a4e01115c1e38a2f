#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/alphabets.h"
#include "base/print.h"
#include "idmint/digits.h"
#include "idmint/encoding.h"
#include "idmint/id.h"
#include "idmint/uuid.h"
#include "ids/format.h"
#include "ids/readings.h"
#include "ids/uuid_bits.h"

namespace idmint {
namespace detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kFirstPlausible =
    std::chrono::sys_days{std::chrono::year{2000} / std::chrono::January / 1};

// ---- the alphabets of a text

constexpr std::array<Alphabets, 256> kAlphabetsOf = [] {
  std::array<Alphabets, 256> all{};
  const auto put = [&all](Alphabets alphabet, std::string_view characters) {
    for (const char c : characters) all[static_cast<unsigned char>(c)] |= alphabet;
  };
  for (const Alphabets alphabet :
       {kHexDigits, kUuidChars, kUlidChars, kLowerUuidChars, kTypeIdChars}) {
    put(alphabet, row_of(Encoding::kDecimal).alphabet);
  }
  for (const Alphabets alphabet : {kHexDigits, kUuidChars}) put(alphabet, "abcdefABCDEF");
  put(kLowerUuidChars, "abcdef");
  for (const Alphabets alphabet : {kUuidChars, kLowerUuidChars}) put(alphabet, "-");
  put(kUlidChars, "ABCDEFGHIJKLMNOPQRSTVWXYZabcdefghijklmnopqrstvwxyz");
  put(kTypeIdChars, "abcdefghijklmnopqrstuvwxyz_");
  put(kDecimalDigits, row_of(Encoding::kDecimal).alphabet);
  put(kLowerHex, row_of(Encoding::kHex).alphabet);
  put(kUpperBase32, row_of(Encoding::kBase32).alphabet);
  put(kLowerBase32, row_of(Encoding::kBase32Lower).alphabet);
  put(kUpperBase32Hex, row_of(Encoding::kBase32Hex).alphabet);
  put(kLowerBase32Hex, "0123456789abcdefghijklmnopqrstuv");
  put(kLowerBase36, row_of(Encoding::kBase36).alphabet);
  put(kBase58Chars, row_of(Encoding::kBase58).alphabet);
  put(kBase62Chars, row_of(Encoding::kBase62).alphabet);
  put(kUrlChars, row_of(Encoding::kBase62).alphabet);
  put(kUrlChars, "-_");
  for (int c = 0x21; c < 0x7f; ++c) all[static_cast<std::size_t>(c)] |= kPrintable;
  return all;
}();

Alphabets alphabets_of(std::string_view text) {
  Alphabets common = ~Alphabets{0};
  for (const char c : text) common &= kAlphabetsOf[static_cast<unsigned char>(c)];
  return common;
}

Uuid uuid_of(Uint128 value) noexcept {
  Uuid::Bytes bytes;
  for (std::size_t i = bytes.size(); i-- != 0; value >>= 8) {
    bytes[i] = static_cast<std::uint8_t>(value);
  }
  return Uuid{bytes};
}

// ---- UUID

constexpr std::array<std::string_view, 9> kVersions = {
    "unused",          "time and node",           "DCE security", "MD5 of a name", "random",
    "SHA-1 of a name", "time and node, in order", "Unix time",    "custom",
};
constexpr std::array<std::string_view, 9> kUuidFormats = {
    "uuid", "uuid1", "uuid2", "uuid3", "uuid4", "uuid5", "uuid6", "uuid7", "uuid8"};
constexpr std::array<std::string_view, 3> kDomains = {"person", "group", "organization"};

constexpr std::string_view variant(std::uint64_t low) {
  const auto top = static_cast<unsigned>(low >> 61);
  return top < 4 ? "NCS" : top < 6 ? "RFC 9562" : top == 6 ? "Microsoft" : "reserved";
}

// The fields by their names in the RFC; bits 0 to 63 and 64 to 127.
struct UuidBits {
  std::uint64_t high;
  std::uint64_t low;

  [[nodiscard]] unsigned version() const { return high >> 12 & 15; }
  [[nodiscard]] Hex first_48() const { return {0, high >> 16, 12}; }
  [[nodiscard]] Hex middle_12() const { return {0, high & 0xfff, 3}; }
  [[nodiscard]] Hex last_62() const { return {0, low & 0x3fff'ffff'ffff'ffff, 16}; }
};

void add_version(Reader& reader, const UuidBits& id) {
  reader.add_field("version", NamedNumber{id.version(), kVersions[id.version()]});
}

void add_variant(Reader& reader, const UuidBits& id) {
  reader.add_field("variant", variant(id.low));
}

void add_clock_and_node(Reader& reader, const UuidBits& id) {
  reader.add_field("clock_seq", id.low >> 48 & 0x3fff);
  reader.add_field("node", Hex{0, id.low, 12});
}

void add_version_1(Reader& reader, const UuidBits& id) {
  reader.add_time(uuid_bits::instant_of(uuid_bits::timestamp_low_first(id.high)));
  add_version(reader, id);
  add_variant(reader, id);
  add_clock_and_node(reader, id);
}

// DCE 1.1: the local id replaces the low bits of version 1's time, so the time is known to 7
// minutes.
void add_version_2(Reader& reader, const UuidBits& id) {
  reader.add_field("local_id", id.high >> 32);
  reader.add_time(uuid_bits::instant_of(uuid_bits::timestamp_low_first(id.high) >> 32 << 32));
  add_version(reader, id);
  add_variant(reader, id);
  reader.add_field("clock_seq", id.low >> 56 & 0x3f);
  const std::uint64_t domain = id.low >> 48 & 0xff;
  if (domain < kDomains.size()) {
    reader.add_field("domain", NamedNumber{domain, kDomains[domain]});
  } else {
    reader.add_field("domain", domain);
  }
  reader.add_field("node", Hex{0, id.low, 12});
}

void add_hash(Reader& reader, const UuidBits& id) {
  add_version(reader, id);
  add_variant(reader, id);
}

void add_version_4(Reader& reader, const UuidBits& id) {
  reader.add_field("random_a", id.first_48());
  add_version(reader, id);
  reader.add_field("random_b", id.middle_12());
  add_variant(reader, id);
  reader.add_field("random_c", id.last_62());
}

void add_version_6(Reader& reader, const UuidBits& id) {
  reader.add_time(uuid_bits::instant_of(uuid_bits::timestamp_high_first(id.high)));
  add_version(reader, id);
  add_variant(reader, id);
  add_clock_and_node(reader, id);
}

void add_version_7(Reader& reader, const UuidBits& id) {
  reader.add_time(from_milliseconds(id.high >> 16));
  add_version(reader, id);
  reader.add_field("rand_a", id.middle_12());
  add_variant(reader, id);
  reader.add_field("rand_b", id.last_62());
}

void add_version_8(Reader& reader, const UuidBits& id) {
  reader.add_field("custom_a", id.first_48());
  add_version(reader, id);
  reader.add_field("custom_b", id.middle_12());
  add_variant(reader, id);
  reader.add_field("custom_c", id.last_62());
}

constexpr std::array<void (*)(Reader&, const UuidBits&), 9> kUuidFields = {
    nullptr,  add_version_1, add_version_2, add_hash,     add_version_4,
    add_hash, add_version_6, add_version_7, add_version_8};
constexpr std::uint32_t kTimedVersions = 1U << 1 | 1U << 2 | 1U << 6 | 1U << 7;

// The likelihood of a UUID by its spelling.
struct UuidOdds {
  int sound;  // the RFC's variant and versions, and a plausible time
  int ill_timed;
  int unsound;  // another variant or version
};
constexpr UuidOdds kSpelledAsUuid = {kCertain, kFallback, kCertain};
constexpr UuidOdds kBareHex = {kLikely, kConceivable, kConceivable};  // or a 128-bit hash
constexpr UuidOdds kEncodedUuid = {250, kFarFetched + 10, kFarFetched};

bool is_sound(const Uuid& uuid) {
  return uuid.has_rfc_variant() && uuid.version() >= 1 &&
         uuid.version() < static_cast<int>(kVersions.size());
}

// A non-empty `encoding` becomes a field.
void add_uuid(Reader& reader, const Uuid& uuid, const FoundValue& canonical, const UuidOdds& odds,
              std::string_view encoding = {}) {
  const auto [high, low] = halves(uuid.bytes().data());
  const UuidBits id{high, low};
  const bool nil = (high | low) == 0;
  const bool max = (high & low) == ~std::uint64_t{0};
  const unsigned version = id.version();
  const bool sound = is_sound(uuid);
  reader.add(nil     ? "uuid-nil"
             : max   ? "uuid-max"
             : sound ? kUuidFormats[version]
                     : "uuid",
             canonical, nil || max ? (encoding.empty() ? kCertain : kFarFetched) : odds.unsound);
  if (!encoding.empty()) reader.add_field("encoding", encoding);
  if (sound) {
    kUuidFields[version](reader, id);
    const bool timed = (kTimedVersions >> version & 1) != 0;
    reader.last().permille =
        !timed || reader.plausible(reader.last().time) ? odds.sound : odds.ill_timed;
  } else if (!nil && !max) {
    reader.add_field("version", std::uint64_t{version});
    add_variant(reader, id);
  }
}

void read_uuid(Reader& reader, std::string_view text, Alphabets alphabets) {
  const Result<Uuid> id = Uuid::parse(text);
  if (!id) return;
  const bool canonical = text.size() == Uuid::kChars && (alphabets & kLowerUuidChars) != 0;
  add_uuid(reader, *id, canonical ? FoundValue{text} : FoundValue{*id},
           text.size() == 32 ? kBareHex : kSpelledAsUuid);
}

// ---- decimal numbers

constexpr std::string_view kOwnLayout = "sequence-generator";

// How much rarer a layout is than the first one, in bits. Decides between layouts that read the
// same time, such as discord and sequence-generator.
struct Rarity {
  std::string_view name;
  int bits;
};
constexpr std::array kRarities = {
    Rarity{kOwnLayout, 0},  Rarity{"twitter", 1},      Rarity{"discord", 2}, Rarity{"instagram", 4},
    Rarity{"sonyflake", 3}, Rarity{"sonyflake-v1", 4}, Rarity{"baidu", 4},   Rarity{"js-safe", 4},
};

KnownLayout make_known(std::string_view name, const SnowflakeLayout& layout,
                       const std::optional<SnowflakeWorkerSplit>& split = {}) {
  KnownLayout known{.name = name, .layout = layout, .always = false, .rarity = 6, .parts = {}};
  const auto* const rarity = std::ranges::find(kRarities, name, &Rarity::name);
  if (rarity != kRarities.end()) known.rarity = rarity->bits;
  const KnownLayout::Part sequence{"sequence", layout.sequence_bits};
  const KnownLayout::Part worker{"worker", layout.worker_bits};
  if (layout.order == SnowflakeLayout::Order::kSequenceThenWorker) {
    known.parts = {sequence, worker, {}};
  } else if (split) {
    known.parts = {KnownLayout::Part{split->high, layout.worker_bits - split->low_bits},
                   KnownLayout::Part{split->low, split->low_bits}, sequence};
  } else {
    known.parts = {worker, sequence, {}};
  }
  int shift = 0;
  for (auto part = known.parts.rbegin(); part != known.parts.rend(); ++part) {
    part->shift = shift;
    shift += part->bits;
  }
  known.time_shift = shift;
  const std::uint64_t room = static_cast<std::uint64_t>(Instant::max().time_since_epoch().count()) -
                             static_cast<std::uint64_t>(layout.epoch.time_since_epoch().count());
  known.last_tick = std::min(static_cast<std::uint64_t>(layout.max_tick()),
                             room / static_cast<std::uint64_t>(layout.unit.count()));
  return known;
}

// Elias gamma code: small numbers are likelier.
int cost_of(std::uint64_t value, int bits) {
  return std::min(2 * static_cast<int>(std::bit_width(value + 1)) - 1, bits + 1);
}

// The cost of a plausible time in bits. The farthest from now costs as many bits as all ticks since
// the epoch; each halving of the distance saves two, so the nearest time wins.
int cost_of_time(const KnownLayout& known, std::uint64_t tick) {
  const std::uint64_t distance = tick > known.now ? tick - known.now : known.now - tick;
  const int most = static_cast<int>(std::bit_width(known.last_plausible));
  return 2 * std::min(static_cast<int>(std::bit_width(distance)), most) - most;
}

// The likelihood of a plausible reading: the fewer bits encode time, worker and sequence, the
// likelier it is compared with a plain integer.
int likelihood(const KnownLayout& known, std::uint64_t value) {
  constexpr int rarity_of_integers = 9;
  int cost = cost_of_time(known, value >> known.time_shift) + known.rarity;
  for (const KnownLayout::Part& part : known.parts) {
    cost += cost_of(value >> part.shift & ((std::uint64_t{1} << part.bits) - 1), part.bits);
  }
  const int gain = static_cast<int>(std::bit_width(value)) + rarity_of_integers - cost;
  return std::clamp(kFallback + 12 * gain, kConceivable + 10, kLikely);
}

void add_snowflake(Reader& reader, std::uint64_t value, const FoundValue& canonical,
                   const KnownLayout& known, std::string_view encoding = {}, int most = kLikely) {
  const std::uint64_t tick = value >> known.time_shift;
  const bool plausible = tick >= known.first_plausible && tick <= known.last_plausible;
  if (tick > known.last_tick || (!plausible && !known.always)) return;
  reader.add("snowflake", canonical,
             plausible ? std::min(likelihood(known, value), most) : kUnlikely);
  reader.add_field("layout", known.name);
  if (!encoding.empty()) reader.add_field("encoding", encoding);
  // Unsigned, because 2^63 ns or more may lie between an epoch before 1970 and a time after it.
  const std::uint64_t ns =
      static_cast<std::uint64_t>(known.layout.epoch.time_since_epoch().count()) +
      tick * static_cast<std::uint64_t>(known.layout.unit.count());
  reader.add_time(Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(ns)}});
  for (const KnownLayout::Part& part : known.parts) {
    if (part.bits == 0) continue;
    reader.add_field(part.name, value >> part.shift & ((std::uint64_t{1} << part.bits) - 1));
  }
}

void read_snowflakes(Reader& reader, std::uint64_t value, const FoundValue& canonical) {
  for (const KnownLayout& known : reader.layouts()) add_snowflake(reader, value, canonical, known);
}

struct UnixTime {
  std::string_view format;
  std::uint64_t per_second;
  int permille;
};
constexpr std::array kUnixTimes = {
    UnixTime{"unix-seconds", 1, kConceivable},
    UnixTime{"unix-milliseconds", 1'000, kConceivable},
    UnixTime{"unix-microseconds", 1'000'000, kConceivable},
    UnixTime{"unix-nanoseconds", 1'000'000'000, kByChance},
};

void read_unix_times(Reader& reader, std::uint64_t value, std::string_view text) {
  for (const UnixTime& unit : kUnixTimes) {
    const std::uint64_t whole = value / unit.per_second;
    if (whole < 946'684'800 || whole > 9'000'000'000) continue;  // 2000 to 2255
    const std::uint64_t ns = (value - whole * unit.per_second) * (1'000'000'000 / unit.per_second);
    const Instant time = Instant{seconds{static_cast<std::int64_t>(whole)}} +
                         std::chrono::nanoseconds{static_cast<std::int64_t>(ns)};
    if (!reader.plausible(time)) continue;
    reader.add(unit.format, text, unit.permille);
    reader.add_time(time);
  }
}

// A check symbol of a shorter text proves nothing.
constexpr std::size_t kLeastChecked = 4;
constexpr std::array kDecimalChecks = {Check::kLuhn, Check::kDamm, Check::kVerhoeff,
                                       Check::kMod11_10, Check::kMod97_10};

// By chance, one number in ten satisfies each check, and one in 97 the last one.
void read_digits(Reader& reader, std::string_view text, bool is_number) {
  // A number this plausible in a layout has no check digit.
  if (is_number && reader.likeliest() > kFallback + 150) return;
  ValidChecks valid{0};
  if (text.size() >= kLeastChecked) {
    for (const Check check : kDecimalChecks) {
      if (has_valid_check(check, "0123456789", text)) {
        valid.bits |= 1U << static_cast<unsigned>(check);
      }
    }
  }
  if (is_number && valid.bits == 0) return;
  reader.add("digits", text, is_number ? kByChance : kFallback);
  reader.add_field("digits", text.size());
  if (valid.bits != 0) reader.add_field("check", valid);
}

void read_decimal(Reader& reader, std::string_view text, Alphabets) {
  std::uint64_t value = 0;
  bool is_number = text.size() == 1 || text[0] != '0';
  if (text.size() > Snowflake::kMaxChars) {
    is_number = false;
  } else {
    for (const char c : text) {
      std::uint64_t tens = 0;
      if (__builtin_mul_overflow(value, std::uint64_t{10}, &tens) ||
          __builtin_add_overflow(tens, static_cast<std::uint64_t>(c - '0'), &value)) {
        is_number = false;
        break;
      }
    }
  }
  if (is_number) {
    read_snowflakes(reader, value, text);
    if (reader.in_one_layout()) return;
    reader.add("integer", text, kFallback);
    read_unix_times(reader, value, text);
  }
  if (text.size() <= Digits::kMaxChars && !reader.in_one_layout())
    read_digits(reader, text, is_number);
}

// ---- values of 64 and 128 bits in another base

struct Base {
  Encoding encoding;
  Alphabets alphabet;
  std::size_t chars_64;
  std::size_t chars_128;
};
constexpr std::array kBases = {
    Base{Encoding::kHex, kLowerHex, 16, 0},  // 32 of them are a UUID without dashes
    Base{Encoding::kBase32, kUpperBase32, 13, 26},
    Base{Encoding::kBase32Lower, kLowerBase32, 13, 26},
    Base{Encoding::kBase32Hex, kUpperBase32Hex, 13, 26},
    Base{Encoding::kBase36, kLowerBase36, 13, 25},
    Base{Encoding::kBase58, kBase58Chars, 11, 22},
    Base{Encoding::kBase62, kBase62Chars, 11, 22},
};

std::optional<Uint128> number_in(std::string_view alphabet, std::string_view text) {
  Uint128 value = 0;
  for (const char c : text) {
    if (__builtin_mul_overflow(value, Uint128{alphabet.size()}, &value) ||
        __builtin_add_overflow(value, Uint128{alphabet.find(c)}, &value)) {
      return std::nullopt;
    }
  }
  return value;
}

void read_encoded(Reader& reader, std::string_view text, Alphabets alphabets) {
  if ((alphabets & kDecimalDigits) != 0) return;
  // A text that a format of its own prints is rarely a number in an encoding.
  const int most = reader.likeliest() >= kLikely ? kConceivable : kLikely;
  for (const Base& base : kBases) {
    if ((alphabets & base.alphabet) == 0) continue;
    const bool short_one = text.size() == base.chars_64;
    if (!short_one && text.size() != base.chars_128) continue;
    const auto& [encoding, digits] = row_of(base.encoding);
    const std::optional<Uint128> value = number_in(digits, text);
    if (!value) continue;
    if (!short_one) {
      const Uuid uuid = uuid_of(*value);
      if (is_sound(uuid) || !reader.found_any()) {
        add_uuid(reader, uuid, uuid, kEncodedUuid, encoding);
      }
    } else if (const auto number = static_cast<std::uint64_t>(*value); number == *value) {
      add_snowflake(reader, number, number, reader.layouts().front(), encoding, most);
      if (reader.in_one_layout()) continue;
      reader.add("integer", number, kFarFetched);
      reader.add_field("encoding", encoding);
    }
  }
}

// ---- the table of readers

constexpr std::array kUuidShapes = {
    Shape{kUuidChars, Uuid::kChars, Uuid::kChars, read_uuid}, Shape{kHexDigits, 32, 32, read_uuid},
    Shape{kPrintable, 38, 38, read_uuid},  // in braces
    Shape{kPrintable, 45, 45, read_uuid},  // urn:uuid:
};
// They look at the readings before them.
constexpr std::array kNumberShapes = {
    Shape{kDecimalDigits, 1, Digits::kMaxChars, read_decimal},
    Shape{kBase62Chars, 11, 26, read_encoded},
};

// Copied, so that they lie together.
std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes(kUuidShapes.begin(), kUuidShapes.end());
  for (const Format* const format : formats()) {
    shapes.insert(shapes.end(), format->shapes.begin(), format->shapes.end());
  }
  shapes.insert(shapes.end(), kNumberShapes.begin(), kNumberShapes.end());
  return shapes;
}

// ---- values as text

char* put(std::string_view text, char* out) noexcept {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

struct Printer {
  char* out;

  char* operator()(std::string_view text) const noexcept { return put(text, out); }
  char* operator()(std::uint64_t value) const noexcept { return print_decimal(value, out); }
  char* operator()(const NamedNumber& value) const noexcept {
    return put(value.name, put(": ", print_decimal(value.number, out)));
  }
  char* operator()(const Hex& value) const noexcept {
    std::uint64_t rest = value.low;
    for (int i = value.digits; i != 0; --i, rest >>= 4) {
      if (value.digits - i == 16) rest = value.high;
      out[i - 1] = "0123456789abcdef"[rest & 15];
    }
    return out + value.digits;
  }
  char* operator()(const Base32& value) const noexcept {
    char* to = out;
    for (int shift = 60; shift >= 0; shift -= 5) *to++ = kCrockford[value.number >> shift & 31];
    return to;
  }
  char* operator()(const Uuid& value) const noexcept { return value.to_chars(out); }
  char* operator()(const Ulid& value) const noexcept { return value.to_chars(out); }
  char* operator()(const FoundTime& value) const noexcept {
    return value ? print_time(*value, out) : put("outside the years 1677 to 2262", out);
  }
  char* operator()(const ValidChecks& value) const noexcept {
    char* end = out;
    for (const Check check : kDecimalChecks) {
      if ((value.bits >> static_cast<unsigned>(check) & 1) == 0) continue;
      if (end != out) end = put(", ", end);
      end = put(name(check), end);
    }
    return end;
  }
};

}  // namespace

char* print_value(const FoundValue& value, char* out) noexcept {
  return std::visit(Printer{out}, value);
}

Reader::Reader(Instant now) {
  const auto presets = snowflake_presets();
  layouts_.reserve(presets.size() + 1);
  for (const SnowflakePreset& preset : presets) {
    layouts_.push_back(make_known(preset.name, preset.layout, preset.split));
  }
  layouts_.front().always = true;
  set_now(now);
}

Reader::~Reader() = default;

void Reader::read_only_in(std::string_view name, const SnowflakeLayout& layout) {
  const auto presets = snowflake_presets();
  const auto preset = std::ranges::find(presets, name, &SnowflakePreset::name);
  const bool is_preset = preset != presets.end() && preset->layout == layout;
  layouts_.assign(1, make_known(name, layout, is_preset ? preset->split : std::nullopt));
  layouts_.front().always = true;
  in_one_layout_ = true;
  set_now(now_);
}

void Reader::set_now(Instant now) {
  now_ = now;
  constexpr std::chrono::days day{1};
  last_plausible_ = now > Instant::max() - day ? Instant::max() : now + day;
  for (KnownLayout& known : layouts_) {
    const auto ticks = [&known](Instant at) {  // ticks begun since the epoch
      if (at < known.layout.epoch) return std::uint64_t{0};
      return (static_cast<std::uint64_t>(at.time_since_epoch().count()) -
              static_cast<std::uint64_t>(known.layout.epoch.time_since_epoch().count())) /
             static_cast<std::uint64_t>(known.layout.unit.count());
    };
    known.first_plausible =
        std::max(ticks(kFirstPlausible), static_cast<std::uint64_t>(7 * day / known.layout.unit));
    known.last_plausible = std::min(ticks(last_plausible_), known.last_tick);
    known.now = ticks(now);
  }
}

bool Reader::plausible(FoundTime time) const noexcept {
  return time && *time >= kFirstPlausible && *time <= last_plausible_;
}

std::span<const KnownLayout> Reader::layouts() const noexcept { return layouts_; }

std::span<const FoundReading> Reader::read(std::string_view text) {
  readings_.clear();
  fields_.clear();
  if (text.empty() || text.size() > TypeId::kMaxChars) return {};
  const Alphabets alphabets = alphabets_of(text);
  static const std::vector<Shape> shapes = all_shapes();
  for (const Shape& shape : shapes) {
    if ((alphabets & shape.alphabet) != 0 && text.size() >= shape.least &&
        text.size() <= shape.most) {
      shape.read(*this, text, alphabets);
    }
  }
  // Insertion sort: they are few and nearly in order. Distances are whole milliseconds, because two
  // Instants may be 2^63 ns apart or more.
  const auto distance = [this](const FoundReading& reading) {
    return std::chrono::abs(std::chrono::floor<milliseconds>(reading.time.value_or(now_)) -
                            std::chrono::floor<milliseconds>(now_));
  };
  const auto before = [&](const FoundReading& a, const FoundReading& b) {
    if (const auto order = std::tie(b.permille, a.format) <=> std::tie(a.permille, b.format);
        order != 0) {
      return order < 0;
    }
    return distance(a) < distance(b);
  };
  for (std::size_t i = 1; i < readings_.size(); ++i) {
    for (std::size_t j = i; j != 0 && before(readings_[j], readings_[j - 1]); --j) {
      std::swap(readings_[j], readings_[j - 1]);
    }
  }
  return readings_;
}

}  // namespace detail

std::vector<Reading> inspect(std::string_view text, Instant now) {
  const auto printed = [](const detail::FoundValue& value) {
    char room[detail::kMaxValueChars];
    return std::string(room, detail::print_value(value, room));
  };
  detail::Reader reader(now);
  std::vector<Reading> readings;
  for (const detail::FoundReading& found : reader.read(text)) {
    Reading& reading =
        readings.emplace_back(Reading{.format = std::string(found.format),
                                      .canonical = printed(found.canonical),
                                      .time = found.time,
                                      .fields = {},
                                      .likelihood = static_cast<double>(found.permille) / 1000});
    for (const detail::FoundField& field : reader.fields(found)) {
      reading.fields.push_back({std::string(field.name), printed(field.value)});
    }
  }
  return readings;
}

}  // namespace idmint
