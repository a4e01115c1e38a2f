// Form: how an id is printed: prefix, encoding, check symbols. id.h prints and parses ids of every
// source in a form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/encoding.h"
#include "idmint/result.h"

namespace idmint {

//   prefix | the id in the encoding | check symbols
//
// The encoding takes the bytes of the id: 8 for a Snowflake id or an integer, unless `width` limits
// them. Integers and digits print the same in kDecimal and kCanonical. In other encodings a Digits
// id is encoded as its index among all Digits, the shorter ones first, in 15 bytes. So "007"
// stays "007".
struct Form {
  // Printable ASCII without blanks, " and \; at most kMaxPrefix characters.
  std::string prefix{};
  Encoding encoding = Encoding::kCanonical;
  // Covers the encoded id, and also the prefix if all its characters are in the encoding's
  // alphabet. kCanonical counts as decimal for integers and digits; for other formats it takes no
  // check.
  Check check = Check::kNone;
  // For integers in kCanonical or kDecimal: the number of decimal digits, padded with zeros,
  // including the digits of the prefix and the check symbols. 0: no padding.
  int digits = 0;
  // For integers in the other encodings: the number of characters of the integer, without prefix
  // and check symbols. 1 to the width of 64 bits; 0: the width of 64 bits.
  int width = 0;

  static constexpr std::size_t kMaxPrefix = 64;

  friend bool operator==(const Form&, const Form&) = default;
};

// kInvalidArgument, naming the field: the form is not valid for ids of this format. `format` is a
// name from format_of(Id): "uuid", "integer", ...
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const Form& form, std::string_view format);
// The largest integer that fits `form.digits` or `form.width`; kLargestValue if both are 0.
// REQUIRES: validate(form, "integer") succeeds.
[[nodiscard]] IDMINT_EXPORT std::int64_t largest_integer(const Form& form) noexcept;

}  // namespace idmint
