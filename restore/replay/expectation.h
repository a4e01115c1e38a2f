// The number of documents that each collection should have after a restore. Kept in the record, for
// verify.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "restore/error_in.h"
#include "restore/oplog/check.h"
#include "restore/replay/record.h"

namespace idmint::restore {

// The documents of each collection of the base, as loaded; after the replay of its slice, the
// documents at that point. By namespace, without views; system.buckets.X for time-series
// collections.
using Loaded = std::map<std::string, std::uint64_t>;
[[nodiscard]] Result<Loaded> loaded(Record& record);
[[nodiscard]] Result<void> set_loaded(Record& record, const std::string& ns,
                                      std::uint64_t documents);
[[nodiscard]] Result<void> unset_loaded(Record& record, const std::string& ns);

// Keeps the sum of what was loaded, and returns it. The numbers above change after the slice.
[[nodiscard]] Result<void> keep_in_base(Record& record);
[[nodiscard]] Result<std::uint64_t> documents_in_base(Record& record);

// Keeps the oplog's effect on these numbers. A record that has it keeps the old one: the initial
// numbers of a data copy cannot be determined again.
[[nodiscard]] Result<void> keep_tallies(Record& record, const OplogFacts& facts);

// The expected number of documents: base + inserts - deletes. An update that inserted is an insert;
// an insert over a document, and a delete that found none, are not counted.
struct Expected {
  std::uint64_t base = 0;
  std::uint64_t inserts = 0;
  std::uint64_t deletes = 0;

  // Negative if entries are missing.
  [[nodiscard]] std::int64_t documents() const {
    return static_cast<std::int64_t>(base + inserts - deletes);
  }
};
// The updates after the slice that found no document.
[[nodiscard]] Result<std::uint64_t> missed_updates(Record& record);
// By namespace. Omits collections of a data copy that the oplog does not touch.
// kFailedPrecondition: the restore is not done.
[[nodiscard]] Result<std::map<std::string, Expected>> expected_documents(Record& record);

}  // namespace idmint::restore
