// Numbers that rise and then fall: counters that were set back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "restore/find/bounded_table.h"
#include "restore/find/number.h"
#include "restore/find/suspects.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// Remembers the last value of kCounters numbers, each a field of a document.
class Falls {
 public:
  static constexpr std::size_t kCounters = std::size_t{1} << 18;

  explicit Falls(Suspects& suspects) : suspects_(suspects) {}

  // Compares the numbers of the new document with those of an earlier document with the same _id.
  // Does not remember new numbers, because most documents are never updated.
  void inserted(const Operation& insert, const Place& place);
  // Compares the numbers in a field that an update sets, and remembers them. `document` is
  // document_hash(). `path` is the field's; it has its old value again when this returns.
  void updated(const Operation& update, std::uint64_t document, std::string& path,
               const Field& field, const Place& place) {
    compare_within(update, document, path, field, 0, place);
  }
  [[nodiscard]] static std::uint64_t document_hash(const Operation& operation, const Field& id);
  // At the end: adjusts the score by how often the field fell and rose.
  void weigh(Suspect& fall);
  // The number of values that were evicted.
  [[nodiscard]] std::uint64_t forgotten() const { return counters_.forgotten(); }

 private:
  struct Counter {
    std::uint16_t rises = 0;
    PackedNumber last{};
  };
  static_assert(sizeof(BoundedTable<Counter>::Slot) == 24);  // most of the memory of an analysis
  struct FieldFacts {
    std::uint32_t rises = 0;
    std::uint32_t falls = 0;
  };

  // `only_known`: does not remember new numbers.
  void compare(const Operation& operation, std::uint64_t document, std::string_view path,
               const Field& field, bool only_known, const Place& place);
  void compare_within(const Operation& update, std::uint64_t document, std::string& path,
                      const Field& field, int depth, const Place& place);
  void fell(const Operation& operation, std::string_view path, std::uint64_t key,
            const Counter& counter, Number to, const Place& place);

  Suspects& suspects_;
  BoundedTable<Counter> counters_{kCounters};
  BoundedTable<FieldFacts> fields_{std::size_t{1} << 13};
};

}  // namespace idmint::restore
