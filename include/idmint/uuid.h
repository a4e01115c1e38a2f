// UUID: 128 bits, RFC 9562. This header has the value, and the versions without a node: 3 and 5 (of
// a name), 4 (random), 7 (time-ordered), 8 (custom). Versions 1, 2 and 6 are in uuid_time.h.
//
//   version 3   MD5 of namespace and name, 122 bits of it
//   version 4   random 48 | 0100 | random 12 | 10 | random 62
//   version 5   SHA-1 of namespace and name, 122 bits of it
//   version 7   unix_ts_ms 48 | 0111 | rand_a 12 | 10 | rand_b 62
//   version 8   yours 48 | 1000 | yours 12 | 10 | yours 62
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/print.h"
#include "idmint/result.h"

namespace idmint {

namespace detail {

constexpr std::array<std::uint8_t, 16> swap_first_fields(
    const std::array<std::uint8_t, 16>& b) noexcept {
  return {b[3], b[2], b[1],  b[0],  b[5],  b[4],  b[7],  b[6],
          b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]};
}

}  // namespace detail

// The spellings of a UUID. Uuid::parse() accepts all of them.
enum class UuidSpelling : std::uint8_t {
  kCanonical,    // 017f22e2-79b0-7cc3-98c4-dc0c0c07398f
  kUpper,        // 017F22E2-79B0-7CC3-98C4-DC0C0C07398F
  kBraces,       // {017f22e2-79b0-7cc3-98c4-dc0c0c07398f}
  kUpperBraces,  // {017F22E2-79B0-7CC3-98C4-DC0C0C07398F}, as in Microsoft's registry
  kUrn,          // urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f
  kNoDashes,     // 017f22e279b07cc398c4dc0c0c07398f
};

// Big-endian, as in RFC 9562. Ordered by its bytes, which is also the order of its text.
class Uuid {
 public:
  using Bytes = std::array<std::uint8_t, 16>;
  static constexpr std::size_t kChars = 36;
  static constexpr std::size_t kMaxChars = 45;  // the longest spelling

  constexpr Uuid() noexcept = default;  // the nil UUID
  constexpr explicit Uuid(const Bytes& bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] static constexpr Uuid nil() noexcept { return Uuid{}; }
  [[nodiscard]] static constexpr Uuid max() noexcept {
    Uuid u;
    u.bytes_.fill(0xff);
    return u;
  }

  // Accepts in either case: 8-4-4-4-12, the same in braces or after "urn:uuid:", and 32 digits
  // without dashes. Anything else is kInvalidArgument, surrounding blanks included.
  [[nodiscard]] static constexpr Result<Uuid> parse(std::string_view text);

  [[nodiscard]] constexpr const Bytes& bytes() const noexcept { return bytes_; }

  // The version field, 0 to 15. Meaningful only if has_rfc_variant().
  [[nodiscard]] constexpr int version() const noexcept { return bytes_[6] >> 4; }
  [[nodiscard]] constexpr bool has_rfc_variant() const noexcept {
    return (bytes_[8] & 0xc0) == 0x80;
  }

  // Writes exactly kChars characters, lower case with dashes, without a terminating zero. Returns
  // the end.
  constexpr char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    std::string text(kChars, '\0');
    to_chars(text.data());
    return text;
  }

  // The same in another spelling, at most kMaxChars characters.
  IDMINT_EXPORT char* to_chars(char* out, UuidSpelling spelling) const noexcept;
  [[nodiscard]] std::string to_string(UuidSpelling spelling) const {
    char text[kMaxChars];
    return {text, to_chars(text, spelling)};
  }

  // Microsoft's COM and .NET store a GUID as one 32-bit number, two 16-bit numbers and 8 bytes, and
  // write the numbers little-endian. The text is the same.
  [[nodiscard]] constexpr Bytes microsoft_bytes() const noexcept {
    return detail::swap_first_fields(bytes_);
  }
  [[nodiscard]] static constexpr Uuid from_microsoft_bytes(const Bytes& bytes) noexcept {
    return Uuid{detail::swap_first_fields(bytes)};
  }

  // The payload of a BSON element with a UUID: the length 16 (int32, little-endian), the binary
  // subtype 4, and the 16 bytes.
  using Bson = std::array<std::uint8_t, 21>;
  [[nodiscard]] constexpr Bson bson() const noexcept;
  // kInvalidArgument: not such 21 bytes. Subtype 3 is rejected too, because its byte order depends
  // on the driver that wrote it.
  [[nodiscard]] IDMINT_EXPORT static Result<Uuid> from_bson(std::span<const std::uint8_t> payload);

  friend constexpr auto operator<=>(const Uuid&, const Uuid&) noexcept = default;

 private:
  Bytes bytes_{};
};

// The namespaces of RFC 9562, section 6.6.
inline constexpr Uuid kUuidNamespaceDns{
    Uuid::Bytes{0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1,  //
                0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}};
inline constexpr Uuid kUuidNamespaceUrl{
    Uuid::Bytes{0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1,  //
                0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}};
inline constexpr Uuid kUuidNamespaceOid{
    Uuid::Bytes{0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1,  //
                0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}};
inline constexpr Uuid kUuidNamespaceX500{
    Uuid::Bytes{0x6b, 0xa7, 0xb8, 0x14, 0x9d, 0xad, 0x11, 0xd1,  //
                0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}};

// "dns", "url", "oid", "x500", or a UUID in any spelling. kInvalidArgument: none of these.
[[nodiscard]] IDMINT_EXPORT Result<Uuid> uuid_namespace(std::string_view name);

// Version 3 (MD5) and version 5 (SHA-1): the same namespace and name give the same UUID everywhere.
// Prefer version 5. Neither hides the name: anyone can hash a guess and compare. Two names have the
// same id only if 122 bits of their hashes are equal, which can be constructed for MD5 and SHA-1.
// kUnimplemented: this host's OpenSSL is configured without the hash (FIPS).
[[nodiscard]] IDMINT_EXPORT Result<Uuid> uuid3(const Uuid& name_space, std::string_view name);
[[nodiscard]] IDMINT_EXPORT Result<Uuid> uuid5(const Uuid& name_space, std::string_view name);

// Version 8: these bits, with the six of version and variant replaced. The caller is responsible
// for uniqueness.
[[nodiscard]] constexpr Uuid uuid8(Uuid::Bytes bits) noexcept {
  bits[6] = static_cast<std::uint8_t>(0x80 | (bits[6] & 0x0f));
  bits[8] = static_cast<std::uint8_t>(0x80 | (bits[8] & 0x3f));
  return Uuid{bits};
}

// The fields of a version 7 UUID.
struct Uuid7Parts {
  Instant time;          // to the millisecond
  std::uint16_t rand_a;  // 12 bits
  std::uint64_t rand_b;  // 62 bits

  friend bool operator==(const Uuid7Parts&, const Uuid7Parts&) = default;
};

// Nothing if the variant or the version is another one, or if the time is later than an Instant can
// hold (the year 2262; the format extends to 10889).
[[nodiscard]] IDMINT_EXPORT std::optional<Uuid7Parts> decode_uuid7(const Uuid& id) noexcept;

// The smallest and the largest version 7 UUID of the millisecond of `at`. kInvalidArgument: before
// 1970.
[[nodiscard]] IDMINT_EXPORT Result<Bounds<Uuid>> uuid7_bounds(Instant at);

// Version 4: 122 random bits. Threads may share it. Guarantee: practical. The odds of a repeat
// among n ids are about n^2 / 2^123.
class IDMINT_EXPORT Uuid4Generator final {
 public:
  explicit Uuid4Generator(Entropy& entropy = system_entropy()) noexcept : entropy_(entropy) {}
  Uuid4Generator(const Uuid4Generator&) = delete;
  Uuid4Generator& operator=(const Uuid4Generator&) = delete;

  [[nodiscard]] Uuid next() noexcept;
  void next(std::span<Uuid> out) noexcept;

 private:
  Entropy& entropy_;
};

struct Uuid7Options {
  // How far ids may run ahead of a clock that was set back. Beyond it the generator starts afresh
  // from the clock's time: the order is broken once, uniqueness is kept.
  std::chrono::nanoseconds max_drift = std::chrono::seconds{20};
  // Fail with kUnavailable instead of starting afresh: the order is never broken.
  bool strict = false;
};

// Version 7, strictly increasing within one generator, across its threads and in bulk. RFC 9562
// section 6.2 method 1: a 23-bit counter after the time, seeded with 22 random bits each
// millisecond, and 51 fresh random bits in every id.
//
//   unix_ts_ms 48 | 0111 | counter, high 12 | 10 | counter, low 11 | random 51
//
// Threads may share it; neither copied nor moved; a child of fork() starts afresh. Guarantee:
// practical. Two generators repeat an id only if they draw the same counter and the same 51 bits in
// the same millisecond.
class IDMINT_EXPORT Uuid7Generator final {
 public:
  explicit Uuid7Generator(const Uuid7Options& options = {}, Clock& clock = system_clock(),
                          Entropy& entropy = system_entropy());
  ~Uuid7Generator();
  Uuid7Generator(const Uuid7Generator&) = delete;
  Uuid7Generator& operator=(const Uuid7Generator&) = delete;

  // Nothing is handed out on an error.
  // - kUnavailable: the options are strict, and the clock was set back by more than max_drift.
  // - kOutOfRange: the clock shows a time before 1970.
  [[nodiscard]] Result<Uuid> next();

  // Fills all of `out`, increasing; on an error its content is unspecified. Ids of other threads
  // may lie between.
  [[nodiscard]] Result<void> next(std::span<Uuid> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---- TypeID 0.3.0: a UUID with a type for a prefix, specification at
// github.com/jetify-com/typeid.
//
//   prefix | _ | the 128 bits in Crockford's base32, lower case, 26 characters
//
// The same as a Form of a UUID: {.prefix = "user_", .encoding = Encoding::kBase32Lower}.

class TypeId {
 public:
  static constexpr std::size_t kMaxPrefix = 63;
  static constexpr std::size_t kSuffixChars = 26;
  static constexpr std::size_t kMaxChars = kMaxPrefix + 1 + kSuffixChars;

  // Takes any UUID; the specification recommends version 7. kInvalidArgument: the prefix does not
  // match ^([a-z]([a-z_]{0,61}[a-z])?)?$.
  [[nodiscard]] IDMINT_EXPORT static Result<TypeId> make(std::string_view prefix, const Uuid& uuid);
  // Splits at the last underscore. kInvalidArgument: the prefix is not valid (see above); there is
  // an underscore without a prefix; or the suffix is not 26 characters of 0-9a-z without i l o u
  // that begin with 0 to 7.
  [[nodiscard]] IDMINT_EXPORT static Result<TypeId> parse(std::string_view text);

  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
  [[nodiscard]] const Uuid& uuid() const noexcept { return uuid_; }

  [[nodiscard]] IDMINT_EXPORT std::string to_string() const;

  // By prefix, then by UUID. This differs from the order of the texts if one prefix is the
  // beginning of another.
  friend auto operator<=>(const TypeId&, const TypeId&) noexcept = default;

 private:
  TypeId(std::string_view prefix, const Uuid& uuid) : prefix_(prefix), uuid_(uuid) {}

  std::string prefix_;
  Uuid uuid_;
};

// The rule for prefixes, as in TypeId::make().
[[nodiscard]] IDMINT_EXPORT Result<void> validate_type_prefix(std::string_view prefix);

// ---- implementation of the constexpr parts

namespace detail {

IDMINT_EXPORT char* print_uuid(const std::uint8_t* bytes, char* out) noexcept;

constexpr int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace detail

constexpr char* Uuid::to_chars(char* out) const noexcept {
  if consteval {
    constexpr std::string_view digits = "0123456789abcdef";
    for (std::size_t i = 0; i < 16; ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
      *out++ = digits[bytes_[i] >> 4];
      *out++ = digits[bytes_[i] & 15];
    }
    return out;
  } else {
    return detail::print_uuid(bytes_.data(), out);
  }
}

constexpr Uuid::Bson Uuid::bson() const noexcept {
  Bson payload{16, 0, 0, 0, 4};
  for (std::size_t i = 0; i < 16; ++i) payload[5 + i] = bytes_[i];
  return payload;
}

constexpr Result<Uuid> Uuid::parse(std::string_view text) {
  const auto refuse = [] {
    return std::unexpected(
        Error{Code::kInvalidArgument,
              "not a UUID: expected 32 hexadecimal digits as 8-4-4-4-12, with or without braces or "
              "\"urn:uuid:\", or without dashes"});
  };
  if (text.size() == 45) {
    constexpr std::string_view urn = "urn:uuid:";
    for (std::size_t i = 0; i < urn.size(); ++i) {
      const char c = text[i];
      if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != urn[i]) return refuse();
    }
    text.remove_prefix(urn.size());
  } else if (text.size() == 38) {
    if (text.front() != '{' || text.back() != '}') return refuse();
    text = text.substr(1, 36);
  }
  const bool dashes = text.size() == 36;
  if (!dashes && text.size() != 32) return refuse();
  Uuid u;
  std::size_t at = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    if (dashes && (i == 4 || i == 6 || i == 8 || i == 10) && text[at++] != '-') return refuse();
    const int high = detail::hex_digit(text[at++]);
    const int low = detail::hex_digit(text[at++]);
    if (high < 0 || low < 0) return refuse();
    u.bytes_[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return u;
}

}  // namespace idmint

template <>
struct std::hash<idmint::Uuid> {
  std::size_t operator()(const idmint::Uuid& id) const noexcept {
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()});
  }
};
