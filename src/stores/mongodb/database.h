// The database of a store: its collections read and changed one command at a time.
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

// What the counters, the definitions and the claims of one store share. May be shared by threads.
struct Database {
  const std::string url;    // without passwords
  const std::string where;  // for messages
  const milliseconds deadline;
  const Access access;
  const OwnedServers servers;

  using Use = std::function<void(const Document&)>;

  // When a call that begins now must have answered; at the latest at `by`. kFailedPrecondition: in
  // a child of fork(). enter() also: kPermissionDenied, where the store was opened to read.
  [[nodiscard]] Result<SteadyTime> enter_to_read(SteadyTime by = SteadyTime::max()) const;
  [[nodiscard]] Result<SteadyTime> enter(SteadyTime by = SteadyTime::max()) const;

  // Changes the one document that `query` finds, and shows it as it was before. False: there is
  // none.
  Result<bool> change(std::string_view collection, Bson query, const Bson& update, SteadyTime until,
                      std::string_view doing, const Use& before) const;

  // The one document with that _id, as the last acknowledged write left it. False: there is none.
  Result<bool> read(std::string_view collection, const Bson& id, SteadyTime until,
                    const Use& use) const;
  Result<bool> read(std::string_view collection, std::string_view name, SteadyTime until,
                    const Use& use) const {
    return read(collection, Bson().add("_id", name), until, use);
  }

  // All documents from the name `from` on, in the order of their names. Names that are strings come
  // first. Reads a page at a time, since no cursor outlives its primary. Stops where `use` says
  // false.
  Result<void> read_all(std::string_view collection, std::string_view from, SteadyTime until,
                        const std::function<bool(const Document&)>& use) const;

  // kDataLoss, with what is wrong and what to do.
  [[nodiscard]] std::unexpected<Error> damaged(std::string why) const;
};

}  // namespace idmint::stores::mongodb
