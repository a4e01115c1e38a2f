// Many operations at once: runs of deletes or of updates alike, as one command makes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "restore/find/bounded_table.h"
#include "restore/find/hash.h"
#include "restore/find/hyper_log_log.h"
#include "restore/find/suspects.h"
#include "restore/oplog/changes.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// Which fields an update changes. The updates of one command have the same shape.
class UpdateShape {
 public:
  // `seed`: of the collection.
  void begin(std::uint64_t seed) {
    hash_ = seed;
    unsets_ = false;
    replaces_ = false;
    fields_.clear();
  }
  void add(std::string_view path, Change change) {
    if (change == Change::kReplaced) {
      replaces_ = true;
      return;
    }
    unsets_ = unsets_ || change == Change::kUnset;
    hash_ += hash_of(path, static_cast<std::uint64_t>(change));
    if (fields_.size() >= 100) return;
    if (!fields_.empty()) fields_ += ", ";
    fields_ += path;
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_of(std::string_view{}, hash_); }
  [[nodiscard]] Reason reason() const { return unsets_ ? Reason::kUnsetWave : Reason::kMassUpdate; }
  // The first of them, in words.
  [[nodiscard]] std::string_view fields() const {
    return replaces_ ? std::string_view("replaced as a whole") : fields_;
  }

 private:
  std::uint64_t hash_ = 0;
  bool unsets_ = false;
  bool replaces_ = false;
  std::string fields_;
};

class Runs {
 public:
  explicit Runs(Suspects& suspects) : suspects_(suspects) {}

  void deleted(const Operation& operation, const Place& place);
  // `document`: a hash of its _id.
  void updated(const Operation& operation, std::uint64_t document, const UpdateShape& shape,
               const Place& place);
  // The next entry that changes anything, for the runs that began in the one before.
  void next_entry(Timestamp at);
  // At the end: ends all runs.
  void end();
  // After end(): how many runs are about as large decides how likely a suspect is.
  void weigh(Suspect& run);

 private:
  // Operations that were in no run, in this and in the last period of kPause.
  class RecentCount {
   public:
    void add(std::int64_t wall, std::uint64_t count) {
      turn(wall);
      now_ += count;
    }
    [[nodiscard]] std::uint64_t at(std::int64_t wall) {
      turn(wall);
      return now_ + earlier_;
    }

   private:
    void turn(std::int64_t wall) {
      const std::int64_t period = wall / kPause;
      if (period == period_) return;
      earlier_ = period == period_ + 1 ? now_ : 0;
      now_ = 0;
      period_ = period;
    }

    std::uint64_t now_ = 0;
    std::uint64_t earlier_ = 0;
    std::int64_t period_ = 0;
  };

  struct Run {
    Reason reason{};
    std::string ns{};
    std::string fields{};
    Place begun{};
    std::optional<Timestamp> after{};  // the next entry
    Remembered first{};
    Timestamp last{};
    std::int64_t wall = 0;      // of the last operation
    std::int64_t seen = 0;      // wall of the last operation of its key, in the run or not
    std::uint64_t seen_at = 0;  // the same in operations of the oplog
    std::uint64_t count = 0;
    std::uint64_t unbroken = 0;  // operations since the last pause
    std::uint64_t ahead = 0;     // operations before that pause
    bool mass = false;           // kMass of them came unbroken
    RecentCount recent{};
    std::uint64_t same = 0;  // operations that equal the one before byte by byte
    std::uint64_t content = 0;
    HyperLogLog documents{};
    std::array<std::uint32_t, 64> sizes{};  // of ended runs of this key, by log2
  };

  static constexpr std::int64_t kPause = 5000;  // milliseconds

  // `content`: a hash of what the operation sets.
  void add(std::uint64_t key, Reason reason, const Operation& operation, std::uint64_t document,
           std::uint64_t content, std::string_view fields, const Place& place);
  void end(std::uint64_t key, Run& run);

  Suspects& suspects_;
  BoundedTable<Run> runs_{std::size_t{1} << 11};
  // Runs that began in the entry before, with its changes_before_entry.
  std::vector<std::pair<Run*, std::uint64_t>> begun_;
};

}  // namespace idmint::restore
