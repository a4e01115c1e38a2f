// Survey: what the stores hold, looked at for /metrics. The loop does not wait for a store: each is
// looked at elsewhere, and whoever asks gets what is known by then.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "server/loop.h"
#include "server/sources.h"

namespace idmint::server {

// When a sequence is used up if it goes on as in the last hour. One thread at a time.
class Exhaustion final {
 public:
  // How far back the rate is measured, at most, and at least.
  static constexpr std::chrono::seconds kLongest = std::chrono::hours{1};
  static constexpr std::chrono::seconds kLeast{10};

  // `left` values are there at `now`. More than before: it was extended, and the rate is measured
  // from here on.
  void note(SteadyTime now, std::int64_t left);
  // How many seconds from the latest note until none is left. Infinity: none was taken. Nothing: it
  // has not been looked at for long enough.
  [[nodiscard]] std::optional<double> seconds() const;

 private:
  struct Sample {
    SteadyTime at;
    std::int64_t left;
  };
  std::deque<Sample> samples_{};  // 5 minutes apart, but for the latest
};

// A worker id of a pool that this process holds, and keeps.
struct OwnLease {
  std::int64_t worker = 0;
  Instant bound{};  // ids are minted up to here without asking the store
};

// A sequence or a pool in a store. Retired ones are left out.
struct SurveyedSource {
  std::string name{};  // as clients call it
  bool is_pool = false;
  std::optional<std::int64_t> next{};  // as SequenceStatus
  std::int64_t left = 0;               // values; of a pool: worker ids that nobody owns
  std::int64_t workers = 0;            // of a pool
  std::vector<OwnLease> leases{};      // of a pool that is open here
  // By the clock of this host, in seconds since 1970; infinity: never. Nothing: not known.
  std::optional<double> exhausts_at{};
};

// What the latest look at a store has found.
struct SurveyedStore {
  std::string name{};  // empty: that of sources without a store before their name
  // It has answered in time, and is not in doubt, as /readyz says it. Otherwise what follows is
  // what was found before.
  bool up = false;
  std::optional<Instant> looked_at{};                      // when it last answered; nothing: never
  std::chrono::nanoseconds took{};                         // reading its sources then
  std::optional<std::chrono::nanoseconds> clock_offset{};  // its own clock less that of this host
  std::vector<SurveyedSource> sources{};                   // by name
  std::size_t left_out = 0;                                // sources past kMostSources
  std::size_t damaged = 0;                                 // sources whose state cannot be read
};

// On the loop.
class Survey final {
 public:
  // Of one store.
  static constexpr std::size_t kMostSources = 500;
  // Stores that are looked at at a time: other calls need threads too.
  static constexpr std::size_t kMostAtOnce = 4;

  // Loop and sources outlive it. `patience`: how long look() waits for the stores.
  Survey(Loop& loop, const Sources& sources, std::chrono::milliseconds patience,
         Clock& clock = system_clock());

  // Looks at each store, but for those that are being looked at, and calls `then` when all have
  // answered, or when the patience is over. A store that has not answered by then is not up. Never
  // calls `then` before it returns, and always before the loop is destroyed.
  void look(std::move_only_function<void()> then);

  // As of the latest look, in the order of the options of the server.
  [[nodiscard]] const std::vector<SurveyedStore>& stores() const noexcept { return stores_; }

 private:
  struct Found;
  struct State {
    std::optional<SteadyTime> asked{};  // when the look under way was asked for
    std::map<std::string, Exhaustion> exhaustion{};
  };
  struct Waiting {
    std::move_only_function<void()> then;
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
  std::vector<SurveyedStore> stores_;
  std::vector<State> states_;      // of the same stores
  std::deque<std::size_t> due_{};  // stores whose turn has not come
  std::size_t under_way_ = 0;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Waiting> waiting_{};
};

}  // namespace idmint::server
