// Readings: every interpretation of a text as an id, found without allocation. Values stay values
// until they are printed: inspect() makes strings of them, and the command of that name prints them
// straight into its output.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/ulid.h"
#include "idmint/uuid.h"

namespace idmint::detail {

// A number of 128 bits, printed as its last `digits` hexadecimal digits, at most 32.
struct Hex {
  std::uint64_t high;
  std::uint64_t low;
  int digits;
};

// A number of 64 bits, printed as 13 characters of Crockford's base32.
struct Base32 {
  std::uint64_t number;
};

// A number whose meaning has a name: "7: Unix time".
struct NamedNumber {
  std::uint64_t number;
  std::string_view name;
};

// The check symbols that a text of decimal digits ends with: "luhn, verhoeff".
struct ValidChecks {
  std::uint32_t bits;  // 1 << Check
};

// Nothing: a time that an Instant cannot hold.
using FoundTime = std::optional<Instant>;

// A string_view is the text read, a part of it, or a constant.
using FoundValue = std::variant<std::string_view, std::uint64_t, NamedNumber, Hex, Base32, Uuid,
                                Ulid, FoundTime, ValidChecks>;

struct FoundField {
  std::string_view name;
  FoundValue value;
};

// The most characters that print_value() writes.
inline constexpr std::size_t kMaxValueChars = 96;
IDMINT_EXPORT char* print_value(const FoundValue& value, char* out) noexcept;

struct FoundReading {
  std::string_view format;
  FoundValue canonical;  // the text itself, as a string_view, if it is canonical
  FoundTime time;
  int permille = 0;  // likelihood
  std::size_t first_field = 0;
  std::size_t field_count = 0;
};

// The limits of a Reading.
inline constexpr std::size_t kMaxFields = 10;
inline constexpr std::size_t kMaxNameChars = 24;  // of formats, layouts and fields

// A Snowflake layout, made ready for reading.
struct KnownLayout {
  struct Part {
    std::string_view name{};
    int bits = 0;
    int shift = 0;
  };

  std::string_view name;
  SnowflakeLayout layout;
  bool always;                // applies to any time
  int rarity;                 // in bits, relative to the others
  std::array<Part, 3> parts;  // below the time, from the highest; unused ones have 0 bits
  int time_shift = 0;
  std::uint64_t last_tick = 0;        // the last one that the layout and an Instant can hold
  std::uint64_t first_plausible = 0;  // in ticks; nobody minted in the first week
  std::uint64_t last_plausible = 0;
  std::uint64_t now = 0;
};

// Keeps its memory between texts: allocates only for the first ones and for texts that look like an
// id up to the last character. For one thread.
class IDMINT_EXPORT Reader {
 public:
  explicit Reader(Instant now);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // All readings, the likeliest first, as in inspect(). Valid until the next call, and as long as
  // the text.
  std::span<const FoundReading> read(std::string_view text);
  [[nodiscard]] std::span<const FoundField> fields(const FoundReading& reading) const {
    return std::span(fields_).subspan(reading.first_field, reading.field_count);
  }

  // Sets the reference for plausible times.
  void set_now(Instant now);
  // Reads numbers in this layout alone, whatever their time, and as nothing else. The fields have
  // the names of the preset of that name, if the layout is its own. `name` must outlive the reader.
  // REQUIRES: the layout is valid.
  void read_only_in(std::string_view name, const SnowflakeLayout& layout);

  // ---- for the readers of each format

  // Defined here so that they can be inlined: they are most of the work.
  void add(std::string_view format, FoundValue canonical, int permille) {
    readings_.push_back({.format = format,
                         .canonical = canonical,
                         .time = {},
                         .permille = permille,
                         .first_field = fields_.size(),
                         .field_count = 0});
  }
  // The reading added last.
  [[nodiscard]] FoundReading& last() noexcept { return readings_.back(); }
  void add_field(std::string_view name, FoundValue value) {
    fields_.push_back({name, value});
    ++readings_.back().field_count;
  }
  // Adds the field "time" and sets the time of the reading.
  void add_time(FoundTime time) {
    readings_.back().time = time;
    add_field("time", time);
  }

  [[nodiscard]] int likeliest() const noexcept {  // of the readings so far, in thousandths
    int most = 0;
    for (const FoundReading& reading : readings_) most = std::max(most, reading.permille);
    return most;
  }
  [[nodiscard]] bool found_any() const noexcept { return !readings_.empty(); }
  [[nodiscard]] bool plausible(FoundTime time) const noexcept;
  // Whether read_only_in() was called.
  [[nodiscard]] bool in_one_layout() const noexcept { return in_one_layout_; }
  [[nodiscard]] std::span<const KnownLayout> layouts() const noexcept;

 private:
  Instant now_;
  Instant last_plausible_;
  std::vector<KnownLayout> layouts_;
  bool in_one_layout_ = false;
  std::vector<FoundReading> readings_;
  std::vector<FoundField> fields_;
};

// ---- for the readers of each format

// The likelihood of a reading, in thousandths; only the order matters.
inline constexpr int kCertain = 950;      // nothing else is spelled like this
inline constexpr int kLikely = 900;       // the time, if any, is plausible
inline constexpr int kFallback = 500;     // always possible
inline constexpr int kConceivable = 300;  // probably another format
inline constexpr int kByChance = 200;     // one text in ten looks like this
inline constexpr int kUnlikely = 100;     // the time is not plausible
inline constexpr int kFarFetched = 50;    // neither bits nor spelling support it

// ---- shapes of texts

using Alphabets = std::uint32_t;  // the set of alphabets that have every character of the text

inline constexpr Alphabets kDecimalDigits = 1U << 0;
inline constexpr Alphabets kHexDigits = 1U << 1;       // in either case, like the next two
inline constexpr Alphabets kUuidChars = 1U << 2;       // hexadecimal digits and dashes
inline constexpr Alphabets kUlidChars = 1U << 3;       // with Crockford's aliases of digits
inline constexpr Alphabets kLowerUuidChars = 1U << 4;  // the canonical case of UUIDs
inline constexpr Alphabets kLowerHex = 1U << 5;
inline constexpr Alphabets kUpperBase32 = 1U << 6;
inline constexpr Alphabets kLowerBase32 = 1U << 7;
inline constexpr Alphabets kUpperBase32Hex = 1U << 8;
inline constexpr Alphabets kLowerBase32Hex = 1U << 9;
inline constexpr Alphabets kLowerBase36 = 1U << 10;
inline constexpr Alphabets kBase58Chars = 1U << 11;
inline constexpr Alphabets kBase62Chars = 1U << 12;
inline constexpr Alphabets kTypeIdChars = 1U << 13;
inline constexpr Alphabets kPrintable = 1U << 14;
inline constexpr Alphabets kUrlChars = 1U << 15;  // those of base64url

// The texts that a reader is tried on: those whose characters are all of the alphabet, with so many
// of them. `alphabets` are all that the text is of.
struct Shape {
  Alphabets alphabet;
  std::size_t least;
  std::size_t most;
  void (*read)(Reader& reader, std::string_view text, Alphabets alphabets);
};

// ---- bytes as numbers, big-endian

[[nodiscard]] inline std::uint64_t load(const std::uint8_t* bytes) noexcept {
  std::uint64_t value;
  std::memcpy(&value, bytes, 8);
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

struct Halves {
  std::uint64_t high;
  std::uint64_t low;
};

[[nodiscard]] inline Halves halves(const std::uint8_t* bytes) noexcept {
  return {load(bytes), load(bytes + 8)};
}

[[nodiscard]] inline FoundTime from_milliseconds(std::uint64_t ms) {
  constexpr auto last = static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::milliseconds>(Instant::max()).time_since_epoch().count());
  if (ms > last) return std::nullopt;
  return Instant{std::chrono::milliseconds{static_cast<std::int64_t>(ms)}};
}

}  // namespace idmint::detail
