// The number of operations on each namespace, now and at an earlier moment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "restore/find/answer.h"
#include "restore/find/hash.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// The namespace, with * for the generated part of a collection's name: six or more hexadecimal
// digits, at least one of them decimal, and the names that MongoDB generates for internal
// collections. "shop.import_2a143e1b17a0" becomes "shop.import_*"; "shop.orders_2026" is returned
// unchanged.
[[nodiscard]] std::string name_pattern(std::string_view ns);

// Holds the first kRows namespaces by their patterns. Row 0 is for all others.
class NamespaceCounts {
 public:
  static constexpr std::size_t kRows = 1024;

  struct Row {
    std::string ns;
    KindCounts counts{};
    bool generated = false;  // the pattern stands for many collections
  };
  struct Counted {
    std::uint16_t row = 0;
    bool generated = false;
  };

  NamespaceCounts() { rows_.resize(1); }

  // `target`: target_of() a command, otherwise its namespace.
  Counted add(const Operation& operation, std::string_view target) {
    const std::uint16_t row = row_of(target);
    const auto kind = static_cast<std::size_t>(operation.op);
    ++rows_[row].counts[kind];
    recent_[operations_++ % kRecent] = static_cast<std::uint16_t>(std::size_t{row} * 4 + kind);
    return {.row = row, .generated = rows_[row].generated};
  }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

  struct Earlier {
    std::vector<KindCounts> counts{};  // by row; shorter than rows() if namespaces came later
    bool exact = true;  // false: the moment is too long ago, and the counts are too large
  };
  // The counts after the first `operations` operations.
  [[nodiscard]] Earlier at(std::uint64_t operations) const;

 private:
  static constexpr std::size_t kRecent = std::size_t{1} << 16;
  static_assert(kRows <= std::size_t{1} << 14);  // a row and a kind in 16 bits

  [[nodiscard]] std::uint16_t row_of(std::string_view ns) {
    const std::uint16_t cached = cache_[hash_of(ns, 0) % cache_.size()];
    if (cached < rows_.size() && rows_[cached].ns == ns) return cached;
    return find_row(ns);
  }
  std::uint16_t find_row(std::string_view ns);

  std::vector<Row> rows_;
  std::map<std::string, std::uint16_t, std::less<>> index_;  // into rows_, by pattern
  std::array<std::uint16_t, 1024> cache_{};                  // of the index, by hash
  std::string last_ns_;  // the latest generated name, and its row
  std::uint16_t last_row_ = 0;
  std::uint64_t operations_ = 0;
  std::array<std::uint16_t, kRecent> recent_{};  // row and kind, by the number of the operation
};

}  // namespace idmint::restore
