// When generators of one Snowflake layout can take over from those of another without a shared id.
// Exact arithmetic on whole numbers; opens nothing and prints nothing.
//
// Every Instant here is exact UTC. The clock of each host may differ from it by up to clock_error.
// So an old generator that stops at S has minted timestamps up to S + clock_error + drift. A new
// one that starts at T mints from the time unit of T - clock_error on, as long as its layout has
// time. Every worker id and sequence number of the layout, or of the given range, may occur with
// every timestamp.
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

// REQUIRES (for everything below): both layouts are valid, each range is in its layout and not
// empty, and drift and clock_error are 0 to 100 years.
struct LayoutChange {
  LayoutUse from{};
  LayoutUse to{};
  // How far the timestamp of an old id may be ahead of its host's clock.
  std::chrono::nanoseconds drift = SnowflakeOptions{}.max_drift;
  // The largest difference of any host's clock, old or new, from UTC.
  std::chrono::nanoseconds clock_error = std::chrono::seconds{1};
  // The earliest timestamp of an old id. Before the epoch: any.
  Instant since = Instant::min();
};

// An integer that is an id in both layouts.
struct SharedId {
  Snowflake id{};
  SnowflakeParts from{};
  SnowflakeParts to{};

  friend bool operator==(const SharedId&, const SharedId&) = default;
};

// Whether any integer is an id in both layouts, at any times.
[[nodiscard]] bool can_meet(const LayoutChange& change);

// The smallest and the largest id that the old generators may have minted when they stop, and that
// the new ones may mint. Nothing: there are none.
[[nodiscard]] std::optional<Bounds<Snowflake>> ids_until(const LayoutChange& change, Instant stop);
[[nodiscard]] std::optional<Bounds<Snowflake>> ids_from(const LayoutChange& change, Instant start);

// The smallest integer that both the old generators, stopped at `stop`, and the new ones, started
// at `start`, may mint. Nothing: provably none.
[[nodiscard]] std::optional<SharedId> shared_id(const LayoutChange& change, Instant stop,
                                                Instant start);

// The earliest instant from `from` on at which the old generators can stop and the new ones start
// without a shared id. Nothing: none is safe while the new layout has time.
[[nodiscard]] std::optional<Instant> earliest_switch(const LayoutChange& change, Instant from);
// The first instant after a safe one at which a switch is unsafe again. Nothing: none.
[[nodiscard]] std::optional<Instant> end_of_safety(const LayoutChange& change, Instant safe);
// The earliest instant from `stop` on at which the new generators can start if the old ones stop at
// `stop`. Nothing: as earliest_switch.
[[nodiscard]] std::optional<Instant> earliest_start(const LayoutChange& change, Instant stop);

// The answers for a switch at `at`.
struct ChangeAnswer {
  std::optional<Bounds<Snowflake>> old_ids{};
  std::optional<Bounds<Snowflake>> new_ids{};
  std::optional<SharedId> shared{};
  std::optional<Instant> earliest{};    // `at` itself if that is safe
  std::optional<Instant> safe_until{};  // a switch is unsafe again from here on
  std::optional<Instant> start{};       // for the new generators, if the old ones stop at `at`
};
[[nodiscard]] ChangeAnswer answer(const LayoutChange& change, Instant at);

}  // namespace idmint::advice
