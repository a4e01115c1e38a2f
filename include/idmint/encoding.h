// Encodings: the bytes of any id as text of a fixed width, in an order-preserving alphabet. Check
// symbols: one or two characters after an id that detect most typing errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// Every alphabet is in ASCII order, so texts of one width sort like the ids.
enum class Encoding : std::uint8_t {
  kCanonical,    // the text that the id's format prescribes; encode() and decode() do not take it
  kDecimal,      // 0-9
  kHex,          // 0-9a-f
  kBase32,       // Crockford: 0-9A-Z without I L O U
  kBase32Lower,  // the same in lower case, for TypeID
  kBase32Hex,    // RFC 4648 base32hex: 0-9A-V
  kBase36,       // 0-9a-z
  kBase58,       // Bitcoin's: 1-9A-Za-z without I O l
  kBase62,       // 0-9A-Za-z, KSUID's
};

// "canonical", "decimal", "hex", "base32", "base32-lower", "base32hex", "base36", "base58",
// "base62".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Encoding encoding) noexcept;
// kInvalidArgument: no such encoding; the message lists the names.
[[nodiscard]] IDMINT_EXPORT Result<Encoding> encoding_named(std::string_view name);

// In ascending order; empty for kCanonical.
[[nodiscard]] IDMINT_EXPORT std::string_view alphabet(Encoding encoding) noexcept;

// The longest id: a KSUID's.
inline constexpr std::size_t kMaxIdBytes = 20;
inline constexpr std::size_t kMaxEncodedChars = 49;  // kMaxIdBytes in decimal

// The number of characters for the largest value of `bytes` bytes, 1 to kMaxIdBytes.
[[nodiscard]] IDMINT_EXPORT std::size_t encoded_width(Encoding encoding,
                                                      std::size_t bytes) noexcept;

// Writes the bytes, a big-endian number, as encoded_width() characters without a terminating zero.
// Returns the end. REQUIRES: not kCanonical; 1 to kMaxIdBytes bytes.
IDMINT_EXPORT char* encode(Encoding encoding, std::span<const std::uint8_t> bytes,
                           char* out) noexcept;

// The exact inverse; fills `bytes`. kInvalidArgument: another width, a character outside the
// alphabet (case-sensitive), or a value that the bytes cannot hold. REQUIRES: as encode().
[[nodiscard]] IDMINT_EXPORT Result<void> decode(Encoding encoding, std::string_view text,
                                                std::span<std::uint8_t> bytes);

// ---- check symbols

// The errors that each symbol detects among single wrong digits and swapped neighbours (decimal):
enum class Check : std::uint8_t {
  kNone,
  kLuhn,      // ISO/IEC 7812: all single ones, all swaps except 09 <-> 90. Any alphabet of even
              // size ("Luhn mod N")
  kDamm,      // all of both; decimal only
  kVerhoeff,  // all of both; decimal only
  kMod11_10,  // ISO 7064 MOD 11,10: all single ones, nearly all swaps; decimal only
  kMod97_10,  // ISO 7064 MOD 97-10, two digits, as in IBAN: all of both, and more; decimal only
  kMod37,     // Crockford's check symbol, one of 37: all of both; base32 and base32-lower only
};

// "none", "luhn", "damm", "verhoeff", "mod11-10", "mod97-10", "mod37".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Check check) noexcept;
// kInvalidArgument: no such check; the message lists the names.
[[nodiscard]] IDMINT_EXPORT Result<Check> check_named(std::string_view name);

// The number of check symbols: 0, 1 or 2.
[[nodiscard]] IDMINT_EXPORT std::size_t check_width(Check check) noexcept;
inline constexpr std::size_t kMaxCheckChars = 2;

// Whether the check is defined for texts in this alphabet (one that alphabet(Encoding) returns).
[[nodiscard]] IDMINT_EXPORT bool fits(Check check, std::string_view alphabet) noexcept;

// Writes the check_width() check symbols of `text`; returns the end. REQUIRES: fits(), and every
// character of `text` is in the alphabet.
IDMINT_EXPORT char* append_check(Check check, std::string_view alphabet, std::string_view text,
                                 char* out) noexcept;
// Whether `text` ends with the check symbols of the text before them. False if it is too short or
// has a character outside the alphabet. REQUIRES: fits().
[[nodiscard]] IDMINT_EXPORT bool has_valid_check(Check check, std::string_view alphabet,
                                                 std::string_view text) noexcept;

}  // namespace idmint
