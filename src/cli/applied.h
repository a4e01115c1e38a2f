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
  kFailed,    // the store failed: it is as it was, or as the file has it
};
enum class Stage : std::uint8_t {
  kWould,  // a dry run of a file of which nothing is refused
  kDone,
  kNot,  // another one was refused, or failed before
};
// "created", "would create", "not created", "was there", ...
[[nodiscard]] std::string_view name(Outcome outcome, Stage stage) noexcept;

struct Applied {
  std::string name{};
  Outcome outcome = Outcome::kCreated;
  Stage stage = Stage::kNot;
  std::string text{};  // what is moved, or why it is refused
};

}  // namespace idmint::cli
