// Secondary indexes, to be built once the documents are consistent.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "mongo/document.h"
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

  // The indexes of one collection, by name.
  using Indexes = std::map<std::string, Bson, std::less<>>;
  [[nodiscard]] const std::map<std::string, Indexes, std::less<>>& all() const { return indexes_; }
  [[nodiscard]] std::size_t size() const;

 private:
  // The indexes of `ns`. X and system.buckets.X are the same collection.
  [[nodiscard]] std::vector<Indexes*> of(std::string_view ns);

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
};
// The indexes of the catalog whose specifications the server refuses: servers allowed more once.
// Each is created on an empty collection of the record's database, which is dropped again.
[[nodiscard]] Result<std::vector<RefusedIndex>> refused_indexes(Server& server,
                                                                const IndexCatalog& catalog);
// Drops the indexes whose build was unfinished when the server's data folder was copied.
[[nodiscard]] Result<void> drop_unfinished_indexes(Server& server);
// Builds all indexes of the catalog. `progress` gets the number of finished collections. `refused`
// gets those that the server refuses; null: the first of them is an error.
[[nodiscard]] Result<void> build_indexes(Server& server, const IndexCatalog& catalog,
                                         const TakeProgress& progress,
                                         std::vector<RefusedIndex>* refused = nullptr);

}  // namespace idmint::restore
