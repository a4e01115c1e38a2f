// Secondary indexes that are to be built once the documents are consistent.
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

// By namespace. It begins with the indexes of a base, and follows what its slice of the oplog does
// to them. For one thread.
class IndexCatalog {
 public:
  // An index as listIndexes gives it, or a spec of createIndexes. One of that name is replaced.
  // _id_ is passed over: it comes with its collection.
  void add(std::string_view ns, Document spec);
  // It is not there.
  void remove(std::string_view ns, std::string_view name);
  // The collection is not there.
  void drop(std::string_view ns);
  // What a command does to indexes: create, drop, dropDatabase, createIndexes, startIndexBuild,
  // commitIndexBuild, abortIndexBuild, dropIndexes, collMod. Others do nothing.
  // renameCollection moves them. kFailedPrecondition: an index option of collMod is not known.
  [[nodiscard]] Result<void> apply(const Operation& command);

  // Of one collection, by name.
  using Indexes = std::map<std::string, Bson, std::less<>>;
  [[nodiscard]] const std::map<std::string, Indexes, std::less<>>& all() const { return indexes_; }
  [[nodiscard]] std::size_t size() const;

 private:
  // Those of system.buckets.X are X's too.
  [[nodiscard]] std::vector<Indexes*> of(std::string_view ns);

  std::map<std::string, Indexes, std::less<>> indexes_;
};

// Those of one collection with one command, as they were: an index without a collation does not get
// that of its collection. The ones that are there already stay. Errors name the collection.
[[nodiscard]] Result<void> create_indexes(Server& server, std::string_view ns,
                                          const std::vector<Document>& specs);
// Those whose build a server was about when its data folder was copied.
[[nodiscard]] Result<void> drop_unfinished_indexes(Server& server);
// All of the catalog. `progress` is given how many collections are done.
[[nodiscard]] Result<void> build_indexes(Server& server, const IndexCatalog& catalog,
                                         const TakeProgress& progress);

}  // namespace idmint::restore
