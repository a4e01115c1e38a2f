// How far the stores of idmint and the counter documents on a running server have come.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "restore/fence/handed_out.h"
#include "restore/server.h"

namespace idmint::restore {

// A server as it is when it is read: what a majority does not have yet too, as that may have been
// handed out.
struct ServerState {
  HandedOutStores stores{};  // by database; claims are not read
  // Databases and collections that are there, as DATABASE.COLLECTION, with their UUIDs in hex.
  std::map<std::string, std::string, std::less<>> collections{};
  bool writable = false;  // the primary of a set, or a server of its own that takes writes
  std::string process{};  // of the mongod that answered: no other one has the same
  std::vector<std::string> hosts{};  // of its set, as its members know each other
};

// Asks read_preference(). kPermissionDenied: the user may not see all.
[[nodiscard]] Result<ServerState> read_server_state(Server& server);

// The documents of a collection, of {_id: ID} as CountedField::id has it, by these bytes. One that
// is not there is left out.
[[nodiscard]] Result<std::map<std::string, Bson>> find_documents(Server& server,
                                                                 const std::string& ns,
                                                                 std::span<const std::string> ids);
// Each document of a collection, up to `most` of them.
[[nodiscard]] Result<void> each_document(Server& server, const std::string& ns, std::int64_t most,
                                         const std::function<Result<void>(Document)>& take);

// Each batch of at most 10,000 claims of a collection idmint.claims....
[[nodiscard]] Result<void> each_claims(
    Server& server, const std::string& ns,
    const std::function<Result<void>(std::span<const std::int64_t>)>& take);
// How many of these claims the collection lacks. REQUIRES: no claim stands there twice, and there
// are at most 10,000.
[[nodiscard]] Result<std::int64_t> missing_claims(Server& server, const std::string& ns,
                                                  std::span<const std::int64_t> claims);
inline constexpr std::size_t kClaimsAtOnce = 10'000;

// Whether the oplog of the server has the entry of this time and term.
[[nodiscard]] Result<bool> has_oplog_entry(Server& server, OpTime at);

}  // namespace idmint::restore
