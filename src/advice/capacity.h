// The capacity of a kind of source for given needs: the number of ids, their rate, and the end of
// their time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "advice/candidates.h"
#include "advice/plan.h"

namespace idmint::advice {

inline constexpr std::int64_t kStripes = 1000;
inline constexpr std::int64_t kInterleavedStripes = 16;
inline constexpr int kMostDigits = 18;  // any number of this many digits fits 63 bits

// snowflake, or the preset of 53 bits if 63 are too many.
struct WorkerLayout {
  std::string_view preset;
  int bits;
  double workers;
  double per_millisecond;
};

// Whether each host has its own store, with a block that an operator assigns.
[[nodiscard]] bool is_per_host(IdKind id);
[[nodiscard]] bool shares_a_store(const Candidate& source, const Needs& needs);
[[nodiscard]] double callers_at_once(IdKind id, const Needs& needs);
[[nodiscard]] bool wants_number(const Needs& needs);
// The largest number of a sequence, for the calculation and for the steps.
[[nodiscard]] std::int64_t largest_number(IdKind id, const Needs& needs);
[[nodiscard]] const WorkerLayout& layout_for(const Needs& needs);
[[nodiscard]] std::optional<std::chrono::sys_seconds> time_ends(const Candidate& source);
// The number of parts, each with a counter or a space of claims.
[[nodiscard]] double parts_of(IdKind id, const Needs& needs);
// The numbers of a block, exact even beyond the precision of a double.
[[nodiscard]] std::int64_t block_of(IdKind id, const Needs& needs);
[[nodiscard]] double space_of(const Candidate& source, const Needs& needs);
// An upper bound for the odds of any repeat among all ids: the sum over all pairs of ids that could
// collide.
[[nodiscard]] std::optional<double> odds_of(const Candidate& source, const Needs& needs);
[[nodiscard]] double ids_per_second(const Candidate& source, const Needs& needs);
// Round trips to the store per second at the rate: each open sequence has one under way.
[[nodiscard]] double store_writes(const Candidate& source, const Needs& needs);
// "224,000/s on each host".
[[nodiscard]] std::string most_of_a_host(const Needs& needs, const Choice& choice);
[[nodiscard]] std::string speed_of(const Candidate& source, const Needs& needs,
                                   const Choice& choice);

}  // namespace idmint::advice
