#include "restore/find/histogram.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace idmint::restore {

void OperationHistogram::double_width() {
  timeline_.width *= 2;
  timeline_.used = (timeline_.used + 1) / 2;
  for (NamespaceFacts& row : rows_) {
    for (Buckets& buckets : row.buckets) {
      for (std::size_t i = 0; i < Timeline::kBuckets / 2; ++i)
        buckets[i] = buckets[2 * i] + buckets[2 * i + 1];
      std::fill(buckets.begin() + Timeline::kBuckets / 2, buckets.end(), 0);
    }
  }
}

void OperationHistogram::add(std::uint16_t row, const std::string& ns, Op kind, Timestamp at) {
  if (row == 0) {
    ++left_out_;
    return;
  }
  if (index_[row] == 0) {
    rows_.push_back({.ns = ns, .counts = {}, .buckets = {}, .first = at, .last = at});
    index_[row] = static_cast<std::uint16_t>(rows_.size());
  }
  NamespaceFacts& facts = rows_[index_[row] - 1U];
  if (timeline_.used == 0) timeline_.origin = at.seconds;
  const std::uint32_t since = at.seconds - std::min(at.seconds, timeline_.origin);
  while (since / timeline_.width >= Timeline::kBuckets) double_width();
  const std::size_t bucket = since / timeline_.width;
  timeline_.used = std::max(timeline_.used, bucket + 1);
  ++facts.counts[static_cast<std::size_t>(kind)];
  ++facts.buckets[static_cast<std::size_t>(kind)][bucket];
  facts.last = at;
}

std::vector<NamespaceFacts> OperationHistogram::take() {
  std::ranges::sort(rows_, {}, [](const NamespaceFacts& row) {
    const std::uint64_t all =
        std::accumulate(row.counts.begin(), row.counts.end(), std::uint64_t{0});
    return std::tuple(~all, row.ns);
  });
  return std::move(rows_);
}

}  // namespace idmint::restore
