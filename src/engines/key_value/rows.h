// Rows as the values of keys, in JSON, as etcd and ZooKeeper have them.
//
//   a counter    {"next","first","last","stride","closed"}
//   a pool       {"workers"}
//   a worker id  {"minted_until","generation","token","holder","taken_from","held_until","nonce"};
//                held_until is in ms since 1970
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/uuid.h"
#include "store/callers_clock.h"
#include "store/counter_store.h"
#include "store/engine.h"

namespace idmint::stores::key_value {

// A row of a pool. LeaseState::held_for stands in held_until.
struct WorkerRecord {
  WorkerRow row{};
  // ms since 1970, by the clock of the host that wrote it; not negative
  std::int64_t held_until = 0;

  // What is left of the lease at a time.
  [[nodiscard]] WorkerRow at(std::int64_t now) const {
    WorkerRow there = row;
    there.state.held_for = std::chrono::milliseconds{
        row.state.token == Uuid{} ? 0 : std::max<std::int64_t>(held_until - now, 0)};
    return there;
  }
};

// The clock of the host, for a store without one. It only decides which worker ids are free.
[[nodiscard]] inline std::int64_t clock_of_the_host() { return since_1970(system_clock().now()); }

// Those of a space of claims.
inline constexpr std::string_view kOpen = "open";
inline constexpr std::string_view kClosed = "closed";

// Of values. The reading ones give nothing where the value is damaged.
[[nodiscard]] std::string text_of(const CounterState& counter);
[[nodiscard]] std::optional<CounterState> read_counter(std::string_view name,
                                                       std::string_view text);
[[nodiscard]] std::string pool_text(std::int64_t workers);
[[nodiscard]] std::optional<std::int64_t> read_pool(std::string_view text);
[[nodiscard]] std::string text_of(const WorkerRecord& row);
[[nodiscard]] std::optional<WorkerRecord> read_worker(std::int64_t worker, std::string_view text);

}  // namespace idmint::stores::key_value
