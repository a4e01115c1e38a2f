// A collection of documents that get ids, and what is asked of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/mongodb.h"
#include "mongo/bson.h"
#include "stores/mongodb/guard.h"
#include "stores/mongodb/servers.h"

namespace idmint::stores::mongodb {

// What an inserter of documents asks of the servers. May be shared by threads.
class Target {
 public:
  Target(Connected connected, std::string database, std::string collection)
      : database_(std::move(database)),
        collection_(std::move(collection)),
        name_(database_ + "." + collection_),
        connected_(std::move(connected)) {}
  [[nodiscard]] const std::string& collection() const { return collection_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // `doing`: as "insert into", what is done to the collection.
  Result<Bson> write(Bson command, std::string_view doing, Terms terms = {});
  Result<Bson> read(Bson command, std::string_view doing, const std::string& database = {});

  // kInvalidArgument: no name of a proxy. One is always in the database of the collection.
  [[nodiscard]] Result<void> check_proxy(const std::string& proxy) const;

  // Whether `collection` lets no value of the field in twice.
  Result<Judgement> judge_index(const std::string& collection, const std::string& field);
  // Makes sure of it, once; a missing index is made where `make` says so.
  Result<void> need_unique(const std::string& field, bool make);
  // The same of the _id of a proxy, and that claims there can be marked.
  Result<void> need_proxy(const std::string& proxy);
  // The same of an index, unique or not, by which documents are found in the collection.
  Result<void> need_look_up(const std::string& field, bool make);
  // Marks the claims of a proxy that `query` finds; says how many were something else before. Again
  // is fine.
  Result<std::int64_t> mark(const std::string& proxy, const Bson& query, const char* state);
  // The reply to listIndexes; empty: there is no such collection.
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
  // What was found to be as it must: fields that are guarded; proxies, with a dot before; fields to
  // look up by, with a dot behind. Under mutex_.
  std::set<std::string> known_;
};

// As document_from_json().
[[nodiscard]] Result<std::vector<std::byte>> from_json(std::string_view json);

}  // namespace idmint::stores::mongodb

namespace idmint::mongodb {

struct Collection::State final : stores::mongodb::Target {
  using Target::Target;
};

}  // namespace idmint::mongodb
