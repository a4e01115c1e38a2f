// Surges: one kind of operation is more frequent than usual in the collection. They reveal a script
// that uses many sessions, or none, while programs do the same kind of operation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restore/find/bounded_table.h"
#include "restore/find/hyper_log_log.h"
#include "restore/find/suspects.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// Compares the operations of each second with the average before. A surge lasts at least three
// seconds. Its limit is the first operation of the second before it, because its own operations
// look like the usual ones.
class Surges {
 public:
  static constexpr std::uint32_t kWarmUp = 10;  // seconds of the oplog that define the usual rate

  explicit Surges(Suspects& suspects) : suspects_(suspects) {}

  // `key`: the kind of operation. `document`: a hash of its _id.
  void add(std::uint64_t key, Reason reason, const Operation& operation, std::uint64_t document,
           std::string_view fields, const Place& place);
  // Suspect::key of a surge. It differs from that of a run, because each has its own habit.
  [[nodiscard]] static std::uint64_t key_of(std::uint64_t run_key) { return (run_key | 1) ^ 2; }
  // At the end: ends all surges.
  void end();

 private:
  struct Second {
    std::uint32_t at = 0;
    std::uint64_t count = 0;
    Place place{};  // the place of its first operation
    Remembered first{};
  };
  struct Rate {
    double usual = 0;  // operations per second
    Second now{};
    Second before{};
    // The surge, or what may become one.
    std::uint32_t high = 0;  // seconds
    std::uint32_t low = 0;   // consecutive seconds since then
    Second begun{};
    Reason reason{};
    std::string ns{};
    std::string fields{};
    std::uint64_t count = 0;
    std::uint32_t end = 0;  // the last high second
    HyperLogLog documents{};
    std::vector<KindCounts> before_counts{};
    bool lost_is_least = false;
  };

  void close_second(std::uint64_t key, Rate& rate);
  void begin(Rate& rate);
  void end(std::uint64_t key, Rate& rate);

  Suspects& suspects_;
  std::optional<std::uint32_t> first_;  // the first second of the oplog
  BoundedTable<Rate> rates_{std::size_t{1} << 11};
};

}  // namespace idmint::restore
