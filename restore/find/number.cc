#include "restore/find/number.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace idmint::restore {

std::optional<Number> number_of(const Field& field) {
  if (field.type == BSON_TYPE_DOUBLE) {
    if (!std::isfinite(field.real())) return std::nullopt;
    return field.real();
  }
  if (const std::optional<std::int64_t> integer = field.integer())
    return static_cast<Number>(*integer);
  if (field.type == BSON_TYPE_DECIMAL128) {
    const Number number = PackedNumber(std::strtold(decimal_text(field).c_str(), nullptr)).number();
    if (std::isfinite(number)) return number;
  }
  return std::nullopt;
}

std::string print_number(Number number) {
  if (std::floor(number) == number && std::fabs(number) < 9e18L)
    return std::to_string(static_cast<std::int64_t>(number));
  char text[64];
  std::snprintf(text, sizeof text, "%.10Lg", number);
  return text;
}

}  // namespace idmint::restore
