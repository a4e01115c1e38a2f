// Form: how an id is printed: prefix, encoding, check symbol; one pipeline for every source, and
// the way back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "idmint/check_symbol.h"
#include "idmint/encoding.h"
#include "idmint/export.h"
#include "idmint/id.h"
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

inline constexpr std::size_t kMaxFormChars = 128;

// kInvalidArgument, naming the field, where the form does not go with ids of this format ("uuid",
// "integer", ... as format_of(Id) has it).
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const Form& form, std::string_view format);
// The largest integer that `form.digits` or `form.width` has room for; kLargestValue where both are
// 0. REQUIRES: validate(form, "integer") succeeds.
[[nodiscard]] IDMINT_EXPORT std::int64_t largest_integer(const Form& form) noexcept;

// Writes at most kMaxFormChars characters, no terminating zero; returns the end. REQUIRES: the form
// is valid for the id's format; an integer is 0 to largest_integer(form).
IDMINT_EXPORT char* to_chars(const Id& id, const Form& form, char* out) noexcept;
[[nodiscard]] IDMINT_EXPORT std::string to_string(const Id& id, const Form& form);

// The exact inverse: no other spelling than that of to_chars(). kInvalidArgument: not an id of this
// format in this form; the message says what is wrong (prefix, width, character, check symbol).
[[nodiscard]] IDMINT_EXPORT Result<Id> parse(std::string_view text, std::string_view format,
                                             const Form& form = {});

}  // namespace idmint
