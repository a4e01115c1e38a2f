// The outcomes of operations of an applyOps, which the oplog does not tell if somebody has run it
// outside a transaction: an insert may have replaced a document, an update may have inserted one,
// and a delete may have found none. Kept in the record by collection, so that verify compares
// exactly.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/chain.h"
#include "restore/replay/record.h"

namespace idmint::restore {

struct Outcome {
  std::int64_t replaced = 0;  // inserts over a document that was there
  std::int64_t upserted = 0;  // updates that inserted
  std::int64_t absent = 0;    // deletes that found nothing
};

// By the life of a collection, or by namespace.
using Outcomes = std::map<std::string, Outcome>;

// A name for each collection that it keeps when it is renamed, and that no other has which is made
// under the same name later. The same for each run that reads the same entries.
class Lives {
 public:
  [[nodiscard]] const std::string& of(std::string_view ns);
  // Follows a command, as OplogCheck begins a new tally.
  void follow(const Operation& command, const Position& position);
  // The outcomes of the collections that are there now.
  [[nodiscard]] Outcomes by_namespace(const Outcomes& by_life) const;

 private:
  std::map<std::string, std::string, std::less<>> lives_;
};

// Appends the operation that keeps the outcome of this life in the record.
void append_outcome(Operations& operations, const std::string& life, const Outcome& outcome);
// The outcomes that such operations have kept.
[[nodiscard]] Outcomes outcomes_in(const std::map<std::string, Bson>& recorded);

// Keeps them by namespace, as of the end of the replay, and reads them again.
[[nodiscard]] Result<void> keep_outcomes(Record& record, const Outcomes& by_namespace);
[[nodiscard]] Result<Outcomes> kept_outcomes(Record& record);

}  // namespace idmint::restore
