// A histogram over time of the operations of each kind on each namespace.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "restore/find/answer.h"
#include "restore/find/namespace_counts.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// Has one row for each row of NamespaceCounts. The width of the buckets doubles as the time grows.
class OperationHistogram {
 public:
  // `row`: of NamespaceCounts; row 0 is ignored.
  void add(std::uint16_t row, const std::string& ns, Op kind, Timestamp at);
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  // At the end, once. Sorted, the busiest first.
  [[nodiscard]] std::vector<NamespaceFacts> take();
  // Operations on namespaces beyond the capacity.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  void double_width();

  Timeline timeline_;
  std::vector<NamespaceFacts> rows_;
  std::array<std::uint16_t, NamespaceCounts::kRows> index_{};  // index in rows_, plus 1, by row
  std::uint64_t left_out_ = 0;
};

}  // namespace idmint::restore
