// What apply did, or would do, with one sequence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace idmint::cli {

enum class Outcome : std::uint8_t {
  kCreated,
  kThere,     // as defined; nothing to do
  kExtended,  // its last value was moved up
  kRefused,   // it is defined otherwise
};
[[nodiscard]] std::string_view name(Outcome outcome) noexcept;  // "created", "was there", ...

struct Applied {
  std::string name{};
  Outcome outcome = Outcome::kCreated;
  std::string text{};  // what is moved, or why it is refused
};

}  // namespace idmint::cli
