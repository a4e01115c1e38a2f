// Form: how an id is printed: prefix, encoding, check symbol. id.h has the one pipeline for every
// source, and the way back.
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
// Encoded are the bytes of the id, and of a snowflake and an integer its 8, unless `width` says
// less. Integers and digits in kDecimal are as in kCanonical; digits in other encodings keep their
// width: they are numbered through, shorter ones first, in 15 bytes.
struct Form {
  // Printable ASCII without blanks, " and \, at most kMaxPrefix characters.
  std::string prefix{};
  Encoding encoding = Encoding::kCanonical;
  // Of the encoded id, and of the prefix before it where all of its characters belong to the
  // encoding's alphabet. kCanonical counts as decimal for integers and digits, and takes no check
  // otherwise.
  Check check = Check::kNone;
  // For integers, in kCanonical or kDecimal: pad with zeros, so that this many decimal digits are
  // printed, those of the prefix and of the check symbols included; 0: as they come.
  int digits = 0;
  // For integers in the other encodings: so many characters for the integer, without prefix and
  // check symbols, 1 to what 64 bits take; 0: what 64 bits take.
  int width = 0;

  static constexpr std::size_t kMaxPrefix = 64;

  friend bool operator==(const Form&, const Form&) = default;
};

// kInvalidArgument, naming the field, where the form does not go with ids of this format ("uuid",
// "integer", ... as format_of(Id) has it).
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const Form& form, std::string_view format);
// The largest integer that `form.digits` or `form.width` has room for; kLargestValue where both are
// 0. REQUIRES: validate(form, "integer") succeeds.
[[nodiscard]] IDMINT_EXPORT std::int64_t largest_integer(const Form& form) noexcept;

}  // namespace idmint
