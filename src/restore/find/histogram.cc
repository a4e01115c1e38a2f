#include "restore/find/histogram.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "restore/find/hash.h"
#include "restore/oplog/operation_text.h"

namespace idmint::restore {

NamespaceFacts* OperationHistogram::row_of(const Operation& operation, Timestamp at) {
  const bool command = operation.op == Op::kCommand;
  const std::string target = command ? target_of(operation) : std::string();
  const std::string_view ns = command ? std::string_view(target) : operation.ns;
  std::uint16_t& cached = cache_[hash_of(ns, 0) % cache_.size()];
  if (cached < rows_.size() && rows_[cached].ns == ns) return &rows_[cached];
  if (const auto found = index_.find(ns); found != index_.end()) {
    cached = found->second;
    return &rows_[cached];
  }
  if (rows_.size() == kNamespaces) return nullptr;
  cached = static_cast<std::uint16_t>(rows_.size());
  index_.emplace(ns, cached);
  NamespaceFacts& row = rows_.emplace_back();
  row.ns = ns;
  row.first = at;
  return &row;
}

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

void OperationHistogram::add(const Operation& operation, Timestamp at) {
  NamespaceFacts* const row = row_of(operation, at);
  if (row == nullptr) {
    ++left_out_;
    return;
  }
  if (timeline_.used == 0) timeline_.origin = at.seconds;
  const std::uint32_t since = at.seconds - std::min(at.seconds, timeline_.origin);
  while (since / timeline_.width >= Timeline::kBuckets) double_width();
  const std::size_t bucket = since / timeline_.width;
  timeline_.used = std::max(timeline_.used, bucket + 1);
  const auto kind = static_cast<std::size_t>(operation.op);
  ++row->counts[kind];
  ++row->buckets[kind][bucket];
  row->last = at;
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
