// What happens again and again: how often, how regularly, and with how many documents.
#pragma once

#include <array>
#include <cstdint>

#include "restore/find/bounded_table.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Occurrences of one thing, as the drop of one collection.
class Habit {
 public:
  void add(Timestamp at, std::uint64_t documents);
  // One of `documents` that was added went on, and came to `more` of them.
  void grow(std::uint64_t documents, std::uint64_t more);

  [[nodiscard]] std::uint64_t times() const { return times_; }
  [[nodiscard]] Timestamp first() const { return first_; }
  [[nodiscard]] Timestamp last() const { return last_; }
  // Seconds between two, on average.
  [[nodiscard]] double every() const;
  // It went on from the beginning of the oplog, in about equal intervals: no mistake.
  [[nodiscard]] bool is_routine(Timestamp oplog_first, Timestamp oplog_last) const;
  // Those of at least a quarter of so many documents.
  [[nodiscard]] std::uint64_t similar(std::uint64_t documents) const;
  // One of so many documents is far larger than the usual ones.
  [[nodiscard]] bool is_outlier(std::uint64_t documents) const;
  // Documents of a usual one: the average of those of its size.
  [[nodiscard]] std::uint64_t usual() const;

  std::uint64_t left_out = 0;  // suspects that gave way to others of the habit

 private:
  std::uint32_t times_ = 0;
  Timestamp first_{};
  Timestamp last_{};
  double intervals_ = 0;  // sum, in seconds
  double squares_ = 0;    // sum
  // By the bits of the number of documents: how many there were, and their documents.
  std::array<std::uint32_t, 33> sizes_{};
  std::array<std::uint64_t, 33> documents_{};
};

// By Suspect::key.
using Habits = BoundedTable<Habit>;

}  // namespace idmint::restore
