// What sequences ask of a form: how wide its integers are, and how far that goes.
#pragma once

#include <cstdint>
#include <string>

#include "idmint/form.h"

namespace idmint {

// The decimal digits that form.digits leaves for the integer.
[[nodiscard]] int integer_width(const Form& form) noexcept;

// The form with the width that `last` takes, where it has none and its encoding is not decimal:
// what prints integers up to `last` in as few characters, and in their order. REQUIRES:
// validate(form, "integer") succeeds; 0 <= last.
[[nodiscard]] Form settled(Form form, std::int64_t last) noexcept;

// "2 digits have room for values up to 99". REQUIRES: digits or width are not 0.
[[nodiscard]] std::string room_of(const Form& form);

}  // namespace idmint
