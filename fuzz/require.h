// An invariant for every input. Ends the program if it does not hold, so that libFuzzer keeps the
// input.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace idmint::fuzz {

inline void require(bool holds, std::source_location at = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: does not hold\n", at.file_name(), static_cast<unsigned>(at.line()));
  std::abort();
}

}  // namespace idmint::fuzz
