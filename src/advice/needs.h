// A description of the ids to be planned, and the needs that follow from it.
#pragma once

#include <string>

#include "advice/plan.h"
#include "advice/words.h"
#include "idmint/result.h"

namespace idmint::advice {

// As given; empty: not given.
struct NeedsTexts {
  std::string digits{};
  std::string bits{};
  std::string count = "1e9";
  std::string hosts = "1";
  std::string rate = "1000/s";
  std::string order = "none";
  std::string database = "none";
  std::string round_trip{};
  bool unguessable = false;
  bool shared_store = false;
};

// A store that all hosts reach is one of this build, if it has any. The round trip defaults to 25
// ms for several hosts, and to 1 ms otherwise. kInvalidArgument, in these words: an option, which
// the message names.
[[nodiscard]] Result<Needs> needs_of(const NeedsTexts& given, Words words);

}  // namespace idmint::advice
