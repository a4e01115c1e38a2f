// The outcome of apply for one sequence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace idmint::cli {

enum class Outcome : std::uint8_t {
  kCreated,
  kThere,     // exists as defined; nothing to do
  kExtended,  // its last value was moved up
  kRefused,   // defined differently
  kFailed,    // the store failed: the sequence is unchanged, or as in the file
};
enum class Stage : std::uint8_t {
  kWould,  // a dry run without a refusal
  kDone,
  kNot,  // another one was refused or failed before
};
// "created", "would create", "not created", "was there", ...
[[nodiscard]] std::string_view name(Outcome outcome, Stage stage) noexcept;

struct Applied {
  std::string name{};
  Outcome outcome = Outcome::kCreated;
  Stage stage = Stage::kNot;
  std::string text{};  // the change, or the reason of the refusal
};

}  // namespace idmint::cli
