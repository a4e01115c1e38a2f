// Check symbols: one or two characters after an id that tell most mistypings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "idmint/export.h"
#include "idmint/result.h"

namespace idmint {

// What each finds, of single wrong digits and of swapped neighbours (decimal):
enum class Check : std::uint8_t {
  kNone,
  kLuhn,      // ISO/IEC 7812; all single ones, all swaps but 09 <-> 90. Any even alphabet
              // ("Luhn mod N")
  kDamm,      // all of both; decimal only
  kVerhoeff,  // all of both; decimal only
  kMod11_10,  // ISO 7064 MOD 11,10; all single ones, nearly all swaps; decimal only
  kMod97_10,  // ISO 7064 MOD 97-10, two digits (as IBAN); all of both, and more; decimal only
  kMod37,     // Crockford's check symbol, one of 37; all of both; base32 and base32-lower only
};

// "none", "luhn", "damm", "verhoeff", "mod11-10", "mod97-10", "mod37".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Check check) noexcept;
// kInvalidArgument, with the names there are.
[[nodiscard]] IDMINT_EXPORT Result<Check> check_named(std::string_view name);

// How many characters: 0, 1 or 2.
[[nodiscard]] IDMINT_EXPORT std::size_t check_width(Check check) noexcept;
inline constexpr std::size_t kMaxCheckChars = 2;

// Whether the check is defined for texts in this alphabet (as of alphabet(Encoding)).
[[nodiscard]] IDMINT_EXPORT bool fits(Check check, std::string_view alphabet) noexcept;

// Writes the check symbols of `text`, check_width() characters; returns the end. REQUIRES: fits(),
// and every character of `text` is in the alphabet.
IDMINT_EXPORT char* append_check(Check check, std::string_view alphabet, std::string_view text,
                                 char* out) noexcept;
// Whether `text` ends with the check symbols of what stands before them. False for what is too
// short, or has characters outside the alphabet. REQUIRES: fits().
[[nodiscard]] IDMINT_EXPORT bool has_valid_check(Check check, std::string_view alphabet,
                                                 std::string_view text) noexcept;

}  // namespace idmint
