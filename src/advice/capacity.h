// How many ids a kind of source has for some needs, how fast they come, and when they end.
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
inline constexpr int kMostDigits = 18;  // that 63 bits have room for, whatever the digits are

// snowflake, or where 63 bits are too many the preset of 53.
struct WorkerLayout {
  std::string_view preset;
  int bits;
  double workers;
  double per_millisecond;
};

// In the store of each host, in a block that is dealt out by hand.
[[nodiscard]] bool is_per_host(IdKind id);
[[nodiscard]] bool shares_a_store(const Candidate& source, const Needs& needs);
[[nodiscard]] double callers_at_once(IdKind id, const Needs& needs);
[[nodiscard]] bool wants_number(const Needs& needs);
// The largest number that a sequence may reach: what is counted, and what its steps say.
[[nodiscard]] std::int64_t largest_number(IdKind id, const Needs& needs);
[[nodiscard]] const WorkerLayout& layout_for(const Needs& needs);
[[nodiscard]] std::optional<std::chrono::sys_seconds> time_ends(IdKind id);
// Parts of the numbers, each with a counter or a space of claims.
[[nodiscard]] double parts_of(IdKind id, const Needs& needs);
// Whole numbers of a block, exact where a double would round.
[[nodiscard]] std::int64_t block_of(IdKind id, const Needs& needs);
[[nodiscard]] double space_of(IdKind id, const Needs& needs);
// Of any repeat among all ids, at most: the sum over all pairs of ids that could meet.
[[nodiscard]] std::optional<double> odds_of(IdKind id, const Needs& needs);
[[nodiscard]] double ids_per_second(IdKind id, const Needs& needs);
// Round trips to the store in a second, at the rate: each open sequence has one under way.
[[nodiscard]] double store_writes(const Candidate& source, const Needs& needs);
// "224,000/s on each host".
[[nodiscard]] std::string most_of_a_host(const Needs& needs, const Choice& choice);
[[nodiscard]] std::string speed_of(IdKind id, const Needs& needs, const Choice& choice);

}  // namespace idmint::advice
