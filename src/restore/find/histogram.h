// How many operations of each kind each namespace has over time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "restore/find/answer.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// Holds the first kNamespaces namespaces. The buckets double their width as the time grows.
class OperationHistogram {
 public:
  static constexpr std::size_t kNamespaces = 1024;

  void add(const Operation& operation, Timestamp at);
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  // At the end, once: the busiest first.
  [[nodiscard]] std::vector<NamespaceFacts> take();
  // Operations on namespaces beyond kNamespaces.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  // Null: there is no room for the namespace.
  [[nodiscard]] NamespaceFacts* row_of(const Operation& operation, Timestamp at);
  void double_width();

  Timeline timeline_;
  std::vector<NamespaceFacts> rows_;
  std::map<std::string, std::uint16_t, std::less<>> index_;  // into rows_, by namespace
  std::array<std::uint16_t, kNamespaces> cache_{};           // of the index, by hash
  std::uint64_t left_out_ = 0;
};

}  // namespace idmint::restore
