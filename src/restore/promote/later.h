// What production wrote from the mistake on, by document: it is lost where its collection is set
// back, unless it is merged.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "restore/observer.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct LaterDocument {
  Op last = Op::kUnknown;  // an insert, an update or a delete
  bool mistaken = false;   // written within the mistake
  std::uint32_t writes = 0;
};

struct LaterCollection {
  // By the element _id, as id_element() has it.
  std::map<std::string, LaterDocument, std::less<>> documents{};
  std::uint64_t commands = 0;  // on the collection: drop, collMod, createIndexes and others
  bool dropped = false;        // so that each restored document was within the mistake

  [[nodiscard]] std::uint64_t mistaken() const;
};

struct LaterWrites {
  std::map<std::string, LaterCollection, std::less<>> collections{};
  std::uint64_t documents = 0;
  Timestamp last{};  // of the last entry that was read
};

struct LaterSearch {
  std::string oplog{};  // a file, a folder, or the URI of a replica set
  Timestamp limit{};    // the first entry of the mistake
  // The last entry of it. Nothing: not known, and every document counts as mistaken.
  std::optional<Timestamp> mistake_to{};
  std::function<bool(std::string_view ns)> wanted{};
};

// More would not be read by anybody, and take 1 GB.
inline constexpr std::uint64_t kMostLaterDocuments = 5'000'000;

// Transactions that were not committed are counted too: then the documents are as they were.
// kOutOfRange: the oplog begins after the limit. kResourceExhausted: more than
// kMostLaterDocuments. `progress` is given entries.
[[nodiscard]] Result<LaterWrites> find_later(const LaterSearch& search,
                                             const TakeProgress& progress);

// {_id: ...} of an element of LaterCollection::documents.
[[nodiscard]] Bson only_id_of(std::string_view element);

}  // namespace idmint::restore
