// Repeated events: their frequency, regularity and size.
#pragma once

#include <array>
#include <cstdint>

#include "restore/find/bounded_table.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The occurrences of one event, such as the drop of one collection.
class RecurringEvent {
 public:
  void add(Timestamp at, std::uint64_t documents);
  // An occurrence that was added with `documents` has grown to `more` documents.
  void grow(std::uint64_t documents, std::uint64_t more);

  [[nodiscard]] std::uint64_t times() const { return times_; }
  [[nodiscard]] Timestamp first() const { return first_; }
  [[nodiscard]] Timestamp last() const { return last_; }
  // Seconds between two, on average.
  [[nodiscard]] double every() const;
  // Whether it occurred from the beginning of the oplog on, in about equal intervals. If so, it is
  // no mistake.
  [[nodiscard]] bool is_routine(Timestamp oplog_first, Timestamp oplog_last) const;
  // The number of occurrences with at least a quarter of `documents`.
  [[nodiscard]] std::uint64_t similar(std::uint64_t documents) const;
  // Whether an occurrence with `documents` is far larger than usual.
  [[nodiscard]] bool is_outlier(std::uint64_t documents) const;
  // The documents of a usual occurrence: the average in the size class of the median.
  [[nodiscard]] std::uint64_t usual() const;

  std::uint64_t left_out = 0;  // suspects replaced by others of this habit

 private:
  std::uint32_t times_ = 0;
  Timestamp first_{};
  Timestamp last_{};
  double intervals_ = 0;  // sum, in seconds
  double squares_ = 0;    // sum
  // By the bit width of an occurrence's documents: the occurrences, and their documents.
  std::array<std::uint32_t, 33> sizes_{};
  std::array<std::uint64_t, 33> documents_{};
};

// By Suspect::key.
using RecurringEvents = BoundedTable<RecurringEvent>;

}  // namespace idmint::restore
