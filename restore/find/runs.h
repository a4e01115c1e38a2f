// Many operations at once: runs of deletes or of similar updates, as one command causes them.
#pragma once

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
#include "restore/find/surges.h"
#include "restore/find/suspects.h"
#include "restore/oplog/changes.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// The fields that an update changes. All updates of one command have the same shape.
class UpdateShape {
 public:
  static constexpr std::string_view kWhole = "replaced as a whole";

  // `seed`: a hash of the collection.
  void begin(std::uint64_t seed) {
    hash_ = seed;
    unsets_ = false;
    replaces_ = false;
    changes_ = false;
    fields_.clear();
  }
  void add(std::string_view path, Change change) {
    if (change == Change::kReplaced) {
      replaces_ = true;
      return;
    }
    unsets_ = unsets_ || change == Change::kUnset;
    changes_ = changes_ || change != Change::kNew;
    hash_ += hash_of(path, static_cast<std::uint64_t>(change));
    if (fields_.size() >= 100) return;
    if (!fields_.empty()) fields_ += ", ";
    fields_ += path;
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_of(std::string_view{}, hash_); }
  [[nodiscard]] Reason reason() const { return unsets_ ? Reason::kUnsetWave : Reason::kMassUpdate; }
  // Whether it only adds fields, so that no old value is lost.
  [[nodiscard]] bool only_adds() const { return !changes_ && !replaces_; }
  // The first changed fields, in words.
  [[nodiscard]] std::string_view fields() const {
    return replaces_ ? kWhole : std::string_view(fields_);
  }

 private:
  std::uint64_t hash_ = 0;
  bool unsets_ = false;
  bool replaces_ = false;
  bool changes_ = false;
  std::string fields_;
};

// A run is a series of operations of one session without a pause. Multi-document commands and the
// TTL monitor have no session. A run is a suspect if it is far more than other sessions do
// meanwhile.
class Runs {
 public:
  explicit Runs(Suspects& suspects) : suspects_(suspects) {}

  void deleted(const Operation& operation, const Place& place);
  // `document`: a hash of its _id.
  void updated(const Operation& operation, std::uint64_t document, const UpdateShape& shape,
               const Place& place);
  // The next entry that changes anything; completes the runs that began in the entry before.
  void next_entry(Timestamp at);
  // At the end: ends all runs.
  void end();
  // After end(), for a suspect that is not a surge: completes its text; lowers its score if it
  // spans most of a long oplog.
  void weigh(Suspect& run, Timestamp oplog_first, Timestamp oplog_last);

 private:
  // Operations outside of runs, in the current and in the previous period of kPause.
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

  // The same kind of operation by all sessions.
  struct Group {
    std::uint64_t operations = 0;
    HyperLogLog sessions{};
    RecentCount recent{};
  };

  struct Run {
    Reason reason{};
    std::uint64_t group = 0;  // the key of its group
    bool by_session = false;
    bool only_adds = false;
    std::string ns{};
    std::string fields{};
    Place begun{};
    std::optional<Timestamp> after{};  // the next entry
    Remembered first{};
    Timestamp last{};
    std::int64_t wall = 0;      // of the last operation
    std::int64_t seen = 0;      // of the last operation with its key, in the run or not
    std::uint64_t seen_at = 0;  // likewise, as a count of the oplog's operations
    std::uint64_t count = 0;
    std::uint64_t group_before = 0;       // operations of the group before the run
    std::uint64_t group_after = 0;        // the same, up to the run's last one
    std::uint64_t unbroken = 0;           // operations since the last pause
    std::uint64_t ahead = 0;              // operations before that pause
    std::optional<std::uint64_t> held{};  // the document of an operation that may be of the run
    bool mass = false;                    // there were kMass without a pause
    std::uint64_t same = 0;               // operations identical to the one before
    std::uint64_t content = 0;
    HyperLogLog documents{};
    std::vector<KindCounts> before_counts{};  // for a run with `mass`, if there was room
    bool lost_is_least = false;
  };

  static constexpr std::int64_t kPause = 5000;  // milliseconds

  // The effect of an operation.
  struct Action {
    std::uint64_t group = 0;
    Reason reason{};
    std::uint64_t document = 0;  // a hash of its _id
    std::uint64_t content = 0;   // a hash of what it sets
    std::string_view fields{};
    bool only_adds = false;
  };

  void add(const Action& action, const Operation& operation, const Place& place);
  void begin(Run& run, const Operation& operation, const Place& place);
  void became_mass(Run& run);
  void end(Run& run);
  // Whether the run does little more than each other session does meanwhile.
  [[nodiscard]] bool is_usual(const Run& run, const Group& group, std::uint64_t count) const;

  Suspects& suspects_;
  Surges surges_{suspects_};
  std::optional<std::int64_t> first_wall_;  // of the oplog
  BoundedTable<Run> runs_{std::size_t{1} << 13};
  BoundedTable<Group> groups_{std::size_t{1} << 12};
  std::size_t counts_kept_ = 0;  // bytes in Run::before_counts
  // Runs that began in the entry before, with their changes_before_entry.
  std::vector<std::pair<Run*, std::uint64_t>> begun_;
};

}  // namespace idmint::restore
