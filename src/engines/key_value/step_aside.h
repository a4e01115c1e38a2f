// Waiting before another attempt of a call that lost to another one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/uniform.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "store/backend.h"

namespace idmint::stores::key_value {

// Before the next attempt of a call whose compares did not hold, as another was quicker. It begins
// at once where what is there now has just been read, and otherwise after a random time, which is
// longer with each attempt. kUnavailable: no time is left. `url` and `doing`: for messages.
[[nodiscard]] inline Result<void> step_aside(Entropy& entropy, int attempt, SteadyTime until,
                                             std::string_view url, std::string_view doing) {
  SteadyTime next = std::chrono::steady_clock::now();
  // After a pause it is old again, and the attempt after that one has it fresh.
  if (attempt % 2 == 1) {
    const std::uint64_t longest = std::uint64_t{500} << std::min(attempt / 2, 5);
    next += std::chrono::microseconds{uniform_below(entropy, longest)};
  }
  if (next >= until)
    return std::unexpected(Error{.code = Code::kUnavailable,
                                 .what = "could not " + std::string(doing) + " " +
                                         std::string(url) + ": others changed it at each of " +
                                         std::to_string(attempt + 1) +
                                         " attempts; ask again, or take more values at a time",
                                 .outcome = std::string(kNothingChanged)});
  std::this_thread::sleep_until(next);
  return {};
}

}  // namespace idmint::stores::key_value
