// The documents that production wrote since the mistake. They are lost if their collection is set
// back, unless they are merged.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "restore/observer.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct LaterDocument {
  Op last = Op::kUnknown;  // an insert, an update or a delete
  bool mistaken = false;   // written by the mistake
  std::uint32_t writes = 0;
};

struct LaterCollection {
  // By the bytes of the element _id (id_element()).
  std::map<std::string, LaterDocument, std::less<>> documents{};
  std::uint64_t commands = 0;  // on the collection: drop, collMod, createIndexes and others
  bool dropped = false;        // so every restored document was part of the mistake

  [[nodiscard]] std::uint64_t mistaken() const;
};

struct LaterWrites {
  std::map<std::string, LaterCollection, std::less<>> collections{};
  std::uint64_t documents = 0;
  Timestamp last{};  // of the last entry read
};

struct LaterSearch {
  std::string oplog{};  // a file, a folder, or the URI of a replica set
  Timestamp limit{};    // the first entry of the mistake
  // The last entry of the mistake. nullopt: unknown; every document counts as mistaken.
  std::optional<Timestamp> mistake_to{};
  std::function<bool(std::string_view ns)> wanted{};
};

// Nobody would read more, and they would take 1 GB.
inline constexpr std::uint64_t kMostLaterDocuments = 5'000'000;

// Counts uncommitted transactions too; their documents are unchanged. `progress` gets entries.
// Errors:
// - kOutOfRange: the oplog begins after the limit.
// - kResourceExhausted: there are more than kMostLaterDocuments.
[[nodiscard]] Result<LaterWrites> find_later(const LaterSearch& search,
                                             const TakeProgress& progress);

// The documents in the order of their _ids: numbers by their values, texts by their bytes. Types
// follow each other as BSON numbers them, the numbers first.
[[nodiscard]] std::vector<const std::pair<const std::string, LaterDocument>*> in_order_of_id(
    const LaterCollection& collection);

// {_id: ...} from an element in LaterCollection::documents.
[[nodiscard]] Bson only_id_of(std::string_view element);

}  // namespace idmint::restore
