// The candidates of a plan: every kind of source of idmint, with its properties that do not depend
// on the needs.
#pragma once

#include <cstdint>
#include <string_view>

#include "advice/plan.h"

namespace idmint::advice {

enum class IdKind : std::uint8_t {
  kUuid7,
  kUuid4,
  kUlid,
  kObjectId,
  kKsuid,
  kXid,
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
};

[[nodiscard]] const Candidate& candidate(IdKind id) noexcept;

}  // namespace idmint::advice
