// Secondary indexes, to be built once the documents are consistent.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/document.h"
#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/oplog/entry.h"
#include "restore/server.h"

namespace idmint::restore {

// Indexes by namespace. Begins with those of a base, and follows the changes in its slice of the
// oplog. For one thread.
class IndexCatalog {
 public:
  // Adds an index, as listIndexes returns it or as a spec of createIndexes. Replaces one of the
  // same name. Ignores _id_, which is created with its collection.
  void add(std::string_view ns, Document spec);
  // Removes the index, if there is one.
  void remove(std::string_view ns, std::string_view name);
  // Removes the indexes of the collection.
  void drop(std::string_view ns);
  // Applies a command's effect on indexes: create, drop, dropDatabase, renameCollection,
  // createIndexes, startIndexBuild, commitIndexBuild, abortIndexBuild, dropIndexes, collMod.
  // Ignores other commands. kFailedPrecondition: collMod has an unknown index option.
  [[nodiscard]] Result<void> apply(const Operation& command);

  // Whether collMod or dropIndexes names one of these indexes, or its key.
  [[nodiscard]] bool has_index_of(const Operation& command) const;

  // The indexes of one collection, by name.
  using Indexes = std::map<std::string, Bson, std::less<>>;
  [[nodiscard]] const std::map<std::string, Indexes, std::less<>>& all() const { return indexes_; }
  [[nodiscard]] std::size_t size() const;

 private:
  // The indexes of `ns`. X and system.buckets.X are the same collection.
  [[nodiscard]] std::vector<Indexes*> of(std::string_view ns);
  [[nodiscard]] std::vector<const Indexes*> of(std::string_view ns) const;

  std::map<std::string, Indexes, std::less<>> indexes_;
};

// The spec for createIndexes of an index that listIndexes or an oplog has, unchanged.
[[nodiscard]] Bson index_spec(Document index);
// Creates the indexes of one collection with one command, unchanged: an index without a collation
// does not inherit its collection's. Skips existing ones. Errors name the collection.
[[nodiscard]] Result<void> create_indexes(Server& server, std::string_view ns,
                                          const std::vector<Document>& specs);
// An index that the server refuses, and why.
struct RefusedIndex {
  std::string ns;
  std::string name;
  std::string why;
  Bson spec = Bson::none();
  Timestamp built{};  // the entry of the oplog that builds it; 0:0: the base has it
};
// "the index a_1 of shop.orders, built at 1795230181:16: WHY".
[[nodiscard]] std::string in_words(const RefusedIndex& refused);
// Creates the indexes one by one, and appends those that the server refuses to `refused`.
// kUnavailable: the server is gone.
[[nodiscard]] Result<void> create_one_by_one(Server& server, std::string_view ns,
                                             const std::vector<Document>& specs,
                                             std::vector<RefusedIndex>& refused);
// Drops the indexes whose build was unfinished when the server's data folder was copied.
[[nodiscard]] Result<void> drop_unfinished_indexes(Server& server);
// Builds all indexes of the catalog. `progress` gets the number of finished collections. `refused`
// gets those that the server refuses; null: the first of them is an error.
[[nodiscard]] Result<void> build_indexes(Server& server, const IndexCatalog& catalog,
                                         const TakeProgress& progress,
                                         std::vector<RefusedIndex>* refused = nullptr);

}  // namespace idmint::restore
