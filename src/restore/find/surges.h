// More of one kind of operation than the collection usually has: what a script does through many
// sessions, or without one, while programs do the same.
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

// Compares the operations of each second with the average of those before. A surge lasts three
// seconds or more. Its limit is the first operation of the second before it, as nothing tells its
// own operations from the usual ones.
class Surges {
 public:
  static constexpr std::uint32_t kWarmUp = 10;  // seconds of the oplog that tell what is usual

  explicit Surges(Suspects& suspects) : suspects_(suspects) {}

  // `key`: what the operation does; `document`: a hash of its _id.
  void add(std::uint64_t key, Reason reason, const Operation& operation, std::uint64_t document,
           std::string_view fields, const Place& place);
  // Of the suspects: not that of a run, as each has a habit of its own.
  [[nodiscard]] static std::uint64_t key_of(std::uint64_t run_key) { return (run_key | 1) ^ 2; }
  // At the end: ends all surges.
  void end();

 private:
  struct Second {
    std::uint32_t at = 0;
    std::uint64_t count = 0;
    Place place{};  // of its first operation
    Remembered first{};
  };
  struct Rate {
    double usual = 0;  // operations in a second
    Second now{};
    Second before{};
    // Of a surge, and of what may become one.
    std::uint32_t high = 0;  // seconds
    std::uint32_t low = 0;   // seconds in a row since then
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
  std::optional<std::uint32_t> first_;  // second of the oplog
  BoundedTable<Rate> rates_{std::size_t{1} << 11};
};

}  // namespace idmint::restore
