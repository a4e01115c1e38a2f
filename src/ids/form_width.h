// The width of the integers of a form, for sequences.
#pragma once

#include <cstdint>
#include <string>

#include "idmint/form.h"

namespace idmint {

// The decimal digits that form.digits leaves for the integer.
[[nodiscard]] int integer_width(const Form& form) noexcept;

// The form with the width of `last`, if it has none and its encoding is not decimal. It prints
// integers up to `last` with the fewest characters and in their order. REQUIRES: validate(form,
// "integer") succeeds; 0 <= last.
[[nodiscard]] Form settled(Form form, std::int64_t last) noexcept;

// "2 digits have room for values up to 99". REQUIRES: digits or width are not 0.
[[nodiscard]] std::string room_of(const Form& form);

}  // namespace idmint
