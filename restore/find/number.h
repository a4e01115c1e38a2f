// BSON numbers, compared exactly.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "restore/oplog/fields.h"

namespace idmint::restore {

// Its mantissa of 64 bits holds every int64_t and every double exactly.
using Number = long double;

// A Number in 9 bytes. A Decimal128 with a fraction is rounded to the nearest double.
class PackedNumber {
 public:
  PackedNumber() = default;
  explicit PackedNumber(Number number) {
    constexpr Number end = 9223372036854775808.0L;  // 2^63
    if (number >= -end && number < end) {
      const auto whole = static_cast<std::int64_t>(number);
      whole_ = static_cast<Number>(whole) == number;
      std::memcpy(bytes_.data(), &whole, sizeof whole);
    }
    if (whole_) return;
    const auto real = static_cast<double>(number);
    std::memcpy(bytes_.data(), &real, sizeof real);
  }
  [[nodiscard]] Number number() const {
    if (whole_) return static_cast<Number>(of_bytes<std::int64_t>());
    return of_bytes<double>();
  }

 private:
  template <class T>
  [[nodiscard]] T of_bytes() const {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }

  std::array<std::uint8_t, 8> bytes_{};  // an int64_t or a double, unaligned
  bool whole_ = false;
};

// nullopt: the field is not a finite number. Rounds a Decimal128 as PackedNumber does.
[[nodiscard]] std::optional<Number> number_of(const Field& field);
[[nodiscard]] std::string print_number(Number number);

}  // namespace idmint::restore
