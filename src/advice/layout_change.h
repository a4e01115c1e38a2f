// When generators of one Snowflake layout can take over from those of another without an id of
// both: exact arithmetic on whole numbers; nothing is opened and nothing is printed.
//
// Every Instant here is UTC, by a clock that is right. The clock of each host may be ahead of it or
// behind it by up to clock_error. So an old generator that stops at S has minted ids of timestamps
// up to S + clock_error + drift; a new one that starts at T mints ids from the time unit of T -
// clock_error on, as long as its layout has time. Every worker id and sequence number of the
// layout, or of the range that is given, may come with every timestamp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "idmint/clock.h"
#include "idmint/snowflake.h"

namespace idmint::advice {

struct WorkerRange {
  std::uint32_t least = 0;
  std::uint32_t most = 0;
};

struct LayoutUse {
  SnowflakeLayout layout{};
  WorkerRange workers{};
};

// REQUIRES (all that is below): both layouts are valid, each range lies within its layout and is
// not empty, and drift and clock_error are 0 to 100 years.
struct LayoutChange {
  LayoutUse from{};
  LayoutUse to{};
  // How far the timestamp of an old id may be ahead of the clock of its host.
  std::chrono::nanoseconds drift = SnowflakeOptions{}.max_drift;
  // How far the clock of any host, old or new, may be from UTC.
  std::chrono::nanoseconds clock_error = std::chrono::seconds{1};
  // No old id has an earlier timestamp. Before the epoch: it may have any.
  Instant since = Instant::min();
};

// An integer that is an id of both.
struct SharedId {
  Snowflake id{};
  SnowflakeParts from{};
  SnowflakeParts to{};

  friend bool operator==(const SharedId&, const SharedId&) = default;
};

// Whether any integer is an id of both, whatever the times.
[[nodiscard]] bool can_meet(const LayoutChange& change);

// The ids that the old generators may have minted when they stop, and those that the new ones may
// come to mint: the smallest and the largest. Nothing: there are none.
[[nodiscard]] std::optional<Bounds<Snowflake>> ids_until(const LayoutChange& change, Instant stop);
[[nodiscard]] std::optional<Bounds<Snowflake>> ids_from(const LayoutChange& change, Instant start);

// The smallest integer that the old generators, when they stop at `stop`, and the new ones, when
// they start at `start`, may both mint. Nothing: it is proved that there is none.
[[nodiscard]] std::optional<SharedId> shared_id(const LayoutChange& change, Instant stop,
                                                Instant start);

// The earliest instant, not before `from`, at which the old generators can stop and the new ones
// start: no integer is minted by both. Nothing: none is safe while the new layout has time.
[[nodiscard]] std::optional<Instant> earliest_switch(const LayoutChange& change, Instant from);
// The first instant after a safe one at which a switch is not safe any more. Nothing: there is
// none.
[[nodiscard]] std::optional<Instant> end_of_safety(const LayoutChange& change, Instant safe);
// The earliest instant, not before `stop`, at which the new generators can start when the old ones
// stop at `stop`. Nothing: as earliest_switch.
[[nodiscard]] std::optional<Instant> earliest_start(const LayoutChange& change, Instant stop);

// What there is to say of a switch at `at`.
struct ChangeAnswer {
  std::optional<Bounds<Snowflake>> old_ids{};
  std::optional<Bounds<Snowflake>> new_ids{};
  std::optional<SharedId> shared{};
  std::optional<Instant> earliest{};    // `at` itself where that is safe
  std::optional<Instant> safe_until{};  // from then on a switch that was safe at `earliest` is not
  std::optional<Instant> start{};       // of the new generators, when the old ones stop at `at`
};
[[nodiscard]] ChangeAnswer answer(const LayoutChange& change, Instant at);

}  // namespace idmint::advice
