// StoreProbe: the state of the stores for /metrics. The loop does not wait for stores: they are
// read on other threads, and a caller gets what is known in time.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/executor.h"
#include "server/loop.h"
#include "server/sources.h"

namespace idmint::server {

// Predicts when a sequence is used up at the rate of the last hour. One thread at a time.
class Exhaustion final {
 public:
  // The longest and the shortest span for measuring the rate.
  static constexpr std::chrono::seconds kLongest = std::chrono::hours{1};
  static constexpr std::chrono::seconds kLeast{10};

  // Notes that `left` values are left at `now`. An increase means an extension; the rate is then
  // measured from here on.
  void note(SteadyTime now, std::int64_t left);
  // The seconds from the latest note until none is left. Infinity: none was taken. nullopt: the
  // span is too short.
  [[nodiscard]] std::optional<double> seconds() const;

 private:
  struct Sample {
    SteadyTime at;
    std::int64_t left;
  };
  std::deque<Sample> samples_{};  // 5 minutes apart, except the latest
};

// A worker id of a pool that this process holds.
struct OwnLease {
  std::int64_t worker = 0;
  Instant bound{};  // ids are minted up to here without a call of the store
};

// A sequence or a pool in a store, unless retired.
struct ProbedSource {
  std::string name{};  // for clients
  bool is_pool = false;
  std::optional<std::int64_t> next{};  // of SequenceStatus
  std::int64_t left = 0;               // values; or worker ids of a pool that nobody owns
  std::int64_t workers = 0;            // in a pool
  std::vector<OwnLease> leases{};      // in a pool that is open here
  // On this host's clock, in seconds since 1970; infinity: never. nullopt: unknown.
  std::optional<double> exhausts_at{};
};

// The result of the latest probe of a store.
struct ProbedStore {
  std::string name{};  // empty: its sources have no prefix
  // Whether it has answered in time and is not in doubt, as for /readyz. If not, the members below
  // are older results.
  bool up = false;
  std::optional<Instant> looked_at{};                      // its last answer; nullopt: never
  std::chrono::nanoseconds took{};                         // reading its sources at that time
  std::optional<std::chrono::nanoseconds> clock_offset{};  // its clock minus this host's
  std::vector<ProbedSource> sources{};                     // by name
  std::size_t left_out = 0;                                // beyond kMostSources
  std::size_t damaged = 0;                                 // with an unreadable state
};

// Call it on the loop.
class StoreProbe final {
 public:
  // Per store.
  static constexpr std::size_t kMostSources = 500;
  // Stores probed at a time. Other calls need threads too.
  static constexpr std::size_t kMostAtOnce = 4;

  // Loop and sources must outlive it. `patience`: the longest that look() waits for the stores.
  StoreProbe(Loop& loop, const Sources& sources, std::chrono::milliseconds patience,
             Clock& clock = system_clock());

  // Probes each store, unless its probe is in progress, and calls `then` when all have answered
  // or the patience is over. A store without an answer by then is not up. Never calls `then` before
  // it returns, and always before the loop is destroyed.
  void look(MoveOnlyFunction<void()> then);

  // As of the latest probe, in the order of the server's options.
  [[nodiscard]] const std::vector<ProbedStore>& stores() const noexcept { return stores_; }

 private:
  struct Found;
  struct State {
    std::optional<SteadyTime> asked{};  // the start of a probe in progress
    std::map<std::string, Exhaustion> exhaustion{};
  };
  struct Waiting {
    MoveOnlyFunction<void()> then;
    boost::asio::steady_timer timer;
  };

  void start_due();
  void start(std::size_t store);
  void finish(std::size_t store, Result<Found> found);
  void answer(std::uint64_t number);
  [[nodiscard]] static Result<Found> look_at(Mint& mint, const std::string& before,
                                             const std::vector<std::string>& open_pools,
                                             Clock& clock, SteadyTime until);

  Loop& loop_;
  const Sources& sources_;
  const std::chrono::milliseconds patience_;
  Clock& clock_;
  std::vector<ProbedStore> stores_;
  std::vector<State> states_;      // of the same stores
  std::deque<std::size_t> due_{};  // stores that wait for their turn
  std::size_t under_way_ = 0;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Waiting> waiting_{};
};

}  // namespace idmint::server
