// The indexes that the server refused, and that a restore leaves out (--index-errors report).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/record.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Follows them through the commands of the oplog, in order from the first, so that a later change
// of one is known to concern nothing. The record has them, so a continued run knows those of the
// run before. For one thread. `record` must outlive it.
class LeftOut {
 public:
  explicit LeftOut(Record& record) : record_(&record) {}

  // Reads those that the record has.
  [[nodiscard]] Result<void> read();
  // Adds some, and keeps them in the record.
  [[nodiscard]] Result<void> add(std::vector<RefusedIndex> refused);
  // Applies the effect of the command, of the entry at `at`, on those that are left out.
  void follow(const Operation& command, Timestamp at);
  // Whether the command is collMod or dropIndexes of one of them.
  [[nodiscard]] bool concerns(const Operation& command) const {
    return there_.has_index_of(command);
  }
  // Keeps in the record which of them are left out at the end: neither dropped, nor built later.
  [[nodiscard]] Result<void> keep_end();

  // The number of indexes of the base among them.
  [[nodiscard]] std::size_t of_base() const;

 private:
  void place(const RefusedIndex& refused);
  [[nodiscard]] Result<void> keep();

  Record* record_;
  std::vector<RefusedIndex> all_;
  IndexCatalog there_;  // the specifications, each with its reason in a field
};

// Adds indexes of the base that are built after the oplog, whose commands concern none of them.
[[nodiscard]] Result<void> keep_left_out_at_end(Record& record, std::vector<RefusedIndex> refused);

// The indexes that are left out at the end, in words.
[[nodiscard]] Result<std::vector<std::string>> left_out_in_words(Record& record);

}  // namespace idmint::restore
