// The target collection of inserts with ids, and the requests to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/mongodb/servers.h"
#include "engines/mongodb/unique_index_check.h"
#include "idmint/mongodb.h"
#include "mongo/bson.h"

namespace idmint::stores::mongodb {

// The requests of an inserter to the servers. Threads may share it.
class Target {
 public:
  Target(Connected connected, std::string database, std::string collection)
      : database_(std::move(database)),
        collection_(std::move(collection)),
        name_(database_ + "." + collection_),
        connected_(std::move(connected)) {}
  [[nodiscard]] const std::string& collection() const { return collection_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // `doing` is the action on the collection, such as "insert into".
  Result<Bson> write(Bson command, std::string_view doing, Terms terms = {});
  Result<Bson> read(Bson command, std::string_view doing, const std::string& database = {});

  // kInvalidArgument: not the name of a proxy, which is always in the database of the collection.
  [[nodiscard]] Result<void> check_proxy(const std::string& proxy) const;

  // Whether `collection` rejects repeated values of the field.
  Result<UniqueIndexCheck> judge_index(const std::string& collection, const std::string& field);
  // Ensures this, once. Creates a missing index if `make`.
  Result<void> need_unique(const std::string& field, bool make);
  // The same for the _id of a proxy; also checks that claims can be marked there.
  Result<void> need_proxy(const std::string& proxy);
  // The same for an index, unique or not, for look-ups in the collection.
  Result<void> need_look_up(const std::string& field, bool make);
  // Marks the claims of a proxy that `query` matches; returns how many had another state. Can be
  // repeated.
  Result<std::int64_t> mark(const std::string& proxy, const Bson& query, const char* state);
  // The reply to listIndexes; empty: the collection does not exist.
  Result<Bson> indexes(const std::string& collection);

 private:
  Result<Bson> run(Bson command, Kind kind, std::string_view doing, Terms terms);
  Result<Bson> hello();
  Result<void> make_index(const std::string& field, bool unique);
  bool known(const std::string& key);

  const std::string database_;
  const std::string collection_;
  const std::string name_;
  Connected connected_;
  std::mutex mutex_;
  // Successful checks: guarded fields; proxies, with a leading dot; fields for look-ups, with a
  // trailing dot. Under mutex_.
  std::set<std::string> known_;
};

// Implements document_from_json().
[[nodiscard]] Result<std::vector<std::byte>> from_json(std::string_view json);

}  // namespace idmint::stores::mongodb

namespace idmint::mongodb {

struct Collection::State final : stores::mongodb::Target {
  using Target::Target;
};

}  // namespace idmint::mongodb
