// The candidates of a plan: every kind of source of idmint, with its properties that do not depend
// on the needs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "advice/plan.h"
#include "ids/format.h"

namespace idmint::advice {

enum class IdKind : std::uint8_t {
  kFormat,  // a format that needs nothing but a clock and random bits: Candidate::format
  kSnowflake,
  kPool,
  kCounter,
  kCached,
  kStriped,
  kInterleaved,
  kPerHost,
  kPermuted,
  kRandom,
  kRandomPerHost,
  kGapless,
  kDigits,
};

enum class Kind : std::uint8_t {
  kCoincidence,  // no coordination: random bits, or the identity of the process
  kWorker,       // a worker id of its own, given or leased
  kSequence,     // numbers from a store
};

struct Candidate {
  IdKind id;
  std::string_view name;
  std::string_view about;
  Kind kind;
  Guarantee guarantee;
  std::string_view order;
  Ordering holds;  // the strongest order that it has
  int bits;        // of the id in binary; 63 for numbers, fewer if fewer are wanted
  int chars;       // as text; 0: decimal
  bool appends;
  bool guessable;
  std::string_view locality;
  std::string_view clock_goes_back;
  std::string_view host_dies;
  std::string_view store_down;
  const Format* format = nullptr;  // of kFormat
};

[[nodiscard]] std::span<const Candidate> candidates();
// REQUIRES: there is one of that name.
[[nodiscard]] const Candidate& candidate(std::string_view name);

}  // namespace idmint::advice
