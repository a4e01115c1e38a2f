// The meaning of MariaDB's error numbers for a call.
#pragma once

#include <cstdint>
#include <string_view>

#include "idmint/result.h"

namespace idmint::stores::mariadb {

enum class Outcome : std::uint8_t {
  kNothing,  // the server refused the statement, or rolled it back
  kPassing,  // the same, and another attempt may succeed soon
  kUnknown,  // nobody knows, and the connection is of no further use
};

struct Meaning {
  Code code;
  Outcome outcome;
  std::string_view advice{};  // to be put behind the server's message: "; ...", or nothing
};

inline constexpr unsigned kNoSuchTable = 1146;
inline constexpr unsigned kNoSuchColumn = 1054;
inline constexpr unsigned kDuplicateKey = 1062;
inline constexpr unsigned kOtherColumns = 1241;  // a row has another number of them

[[nodiscard]] Meaning meaning_of(unsigned number);
// The user lacks a right.
[[nodiscard]] bool is_about_rights(unsigned number);

}  // namespace idmint::stores::mariadb
