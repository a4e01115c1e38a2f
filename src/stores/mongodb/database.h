// The database of a store: reads and changes its collections one command at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "mongo/bson.h"
#include "stores/mongodb/servers.h"

namespace idmint::stores::mongodb {

inline constexpr const char* kClose = R"([{"$set":{"closed":true}}])";  // an update

// Shared by the counters, the definitions and the claims of one store. Threads may share it.
struct Database {
  const std::string url;    // without passwords
  const std::string where;  // for messages
  const milliseconds deadline;
  const Access access;
  const OwnedServers servers;

  using Use = std::function<void(const Document&)>;

  // The deadline of a call that begins now, at the latest `by`. kFailedPrecondition: this is a
  // child of fork(). enter() also: kPermissionDenied: the store was opened read-only.
  [[nodiscard]] Result<SteadyTime> enter_to_read(SteadyTime by = SteadyTime::max()) const;
  [[nodiscard]] Result<SteadyTime> enter(SteadyTime by = SteadyTime::max()) const;

  // Changes the one document that `query` matches, and passes its previous content to `before`.
  // False: there is none.
  Result<bool> change(std::string_view collection, Bson query, const Bson& update, SteadyTime until,
                      std::string_view doing, const Use& before) const;

  // Reads the document with that _id, including every acknowledged write. False: there is none.
  Result<bool> read(std::string_view collection, const Bson& id, SteadyTime until,
                    const Use& use) const;
  Result<bool> read(std::string_view collection, std::string_view name, SteadyTime until,
                    const Use& use) const {
    return read(collection, Bson().add("_id", name), until, use);
  }

  // Reads all documents from the name `from` on, sorted by name; string names come first. Reads a
  // page at a time, since no cursor outlives its primary. Stops when `use` returns false.
  Result<void> read_all(std::string_view collection, std::string_view from, SteadyTime until,
                        const std::function<bool(const Document&)>& use) const;

  // kDataLoss; the message says what is wrong and what to do.
  [[nodiscard]] std::unexpected<Error> damaged(std::string_view why) const;
};

}  // namespace idmint::stores::mongodb
