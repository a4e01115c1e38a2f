// How many operations of each kind each namespace has over time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "restore/find/answer.h"
#include "restore/find/namespace_counts.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// By the rows of NamespaceCounts. The buckets double their width as the time grows.
class OperationHistogram {
 public:
  // `row`: of NamespaceCounts; 0 is left out.
  void add(std::uint16_t row, const std::string& ns, Op kind, Timestamp at);
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  // At the end, once: the busiest first.
  [[nodiscard]] std::vector<NamespaceFacts> take();
  // Operations on namespaces that there was no room for.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  void double_width();

  Timeline timeline_;
  std::vector<NamespaceFacts> rows_;
  std::array<std::uint16_t, NamespaceCounts::kRows> index_{};  // into rows_, plus 1, by row
  std::uint64_t left_out_ = 0;
};

}  // namespace idmint::restore
