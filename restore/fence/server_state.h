// The state of idmint's stores and of counter documents on a running server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mongo/bson.h"
#include "restore/error_in.h"
#include "restore/fence/handed_out.h"
#include "restore/server.h"

namespace idmint::restore {

// The current state of a server. It includes writes that a majority does not have yet, because
// their values may have been handed out.
struct ServerState {
  HandedOutStores stores{};  // by database; claims are not read
  // All collections, as DATABASE.COLLECTION, with their UUIDs in hex.
  std::map<std::string, std::string, std::less<>> collections{};
  bool writable = false;             // a primary, or a standalone that takes writes
  std::string process{};             // of the mongod that answered; unique to it
  std::vector<std::string> hosts{};  // of its set, as the members address each other
};

// Reads the store in a database, without claims. Without a store there, it is empty.
[[nodiscard]] Result<HandedOutStore> read_store(Server& server, const std::string& database);

// Reads with read_preference(). kPermissionDenied: the user may not see all.
[[nodiscard]] Result<ServerState> read_server_state(Server& server);

// The stores on the spare and on production.
struct BothStores {
  HandedOutStores restored{};
  HandedOutStores now{};
};
[[nodiscard]] Result<BothStores> read_both_stores(Server& spare, Server& production);

// Finds documents of a collection by {_id: ID} (CountedField::id), and returns them by these bytes.
// Missing ones are omitted.
[[nodiscard]] Result<std::map<std::string, Bson>> find_documents(Server& server,
                                                                 const std::string& ns,
                                                                 std::span<const std::string> ids);
// The least values that idmint may give of a document that it has adopted, as fields for $max.
// Empty: there are none.
[[nodiscard]] Bson floors_of(Document adopted);
// Calls `take` with each document of a collection, at most `most` of them.
[[nodiscard]] Result<void> each_document(Server& server, const std::string& ns, std::int64_t most,
                                         const std::function<Result<void>(Document)>& take);

// Calls `take` with batches of at most 10,000 claims from a collection idmint.claims....
[[nodiscard]] Result<void> each_claims(
    Server& server, const std::string& ns,
    const std::function<Result<void>(std::span<const std::int64_t>)>& take);
// The number of these claims that the collection lacks. REQUIRES: no claim stands there twice, and
// there are at most 10,000.
[[nodiscard]] Result<std::int64_t> missing_claims(Server& server, const std::string& ns,
                                                  std::span<const std::int64_t> claims);
inline constexpr std::size_t kClaimsAtOnce = 10'000;

// Whether the server's oplog has an entry with this timestamp and term.
[[nodiscard]] Result<bool> has_oplog_entry(Server& server, OpTime at);

}  // namespace idmint::restore
