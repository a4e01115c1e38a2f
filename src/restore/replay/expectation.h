// How many documents each collection should have after a restore: kept in the record, for verify.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "idmint/result.h"
#include "restore/oplog/check.h"
#include "restore/replay/record.h"

namespace idmint::restore {

// Of the base: what was loaded and, from the end of its slice on, what was there then. By
// namespace, without views; system.buckets.X for time-series.
using Loaded = std::map<std::string, std::uint64_t>;
[[nodiscard]] Result<Loaded> loaded(Record& record);
[[nodiscard]] Result<void> set_loaded(Record& record, const std::string& ns,
                                      std::uint64_t documents);
[[nodiscard]] Result<void> unset_loaded(Record& record, const std::string& ns);

// What the oplog does to them. A record that has it keeps it: of a data copy
// nobody knows any more what was there at first.
[[nodiscard]] Result<void> keep_tallies(Record& record, const OplogFacts& facts);

// How one number comes about: base + inserts - deletes.
struct Expected {
  std::uint64_t base = 0;
  std::uint64_t inserts = 0;
  std::uint64_t deletes = 0;

  // Below 0 where entries are missing.
  [[nodiscard]] std::int64_t documents() const {
    return static_cast<std::int64_t>(base + inserts - deletes);
  }
};
// Updates after the slice that found no document.
[[nodiscard]] Result<std::uint64_t> missed_updates(Record& record);
// By namespace. Those that a data copy had and the oplog does not touch are not there.
// kFailedPrecondition: the restore is not done.
[[nodiscard]] Result<std::map<std::string, Expected>> expected_documents(Record& record);

}  // namespace idmint::restore
