// Dumps the oplog of a running replica set, and goes on over lost connections.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/oplog/dump.h"
#include "restore/oplog/live.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The beginning of a new dump.
struct OplogBegin {
  Timestamp at{};
  std::vector<std::uint8_t> entry{};  // the entry that must be there, of a base; empty: any
  std::string base{};                 // its name, for messages
};

struct FollowOptions {
  std::string uri{};
  ConnectOptions connect{};
  bool follow = false;                // go on with later entries, until stopped
  std::optional<OplogBegin> begin{};  // of a new dump; nullopt: the oldest entry
  // Called when what was appended is on disk, at least once a second while it follows. Returns the
  // dump to go on with: the same, or another one that has its last entry. Empty: the same.
  std::function<Result<OplogDump*>(OplogDump&)> synced{};
};

// Appends to the dump what the oplog has after its last entry. Ends without an error when the
// observer says so; tells it of each connection that is made again. Errors, besides those of
// OplogDump and LiveOplog; what was appended is on disk after each:
// - kOutOfRange: the oplog has rolled over the next entry.
// - kFailedPrecondition: the set is another one, or the dump begins later than it is to.
// - kUnavailable: no member answered for two minutes, or, without `follow`, the connection is lost.
[[nodiscard]] Result<void> follow_oplog(const FollowOptions& options, OplogDump& dump,
                                        Observer& observer);

}  // namespace idmint::restore
