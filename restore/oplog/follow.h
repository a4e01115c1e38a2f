// Dumps the oplog of a running replica set, and goes on over lost connections.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "idmint/result.h"
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
};

class FollowObserver {
 public:
  virtual ~FollowObserver() = default;
  [[nodiscard]] virtual bool stopped() = 0;
  // An entry was appended. `to`: where a dump that does not follow will end.
  virtual void appended(Timestamp at, Timestamp begin, Timestamp to) = 0;
  // A connection was lost, and is made again.
  virtual void reconnects(const Error& why) = 0;
  // What was appended is on disk. At least once a second while it follows. Returns the dump to go
  // on with: `dump`, or another one that has its last entry.
  [[nodiscard]] virtual Result<OplogDump*> synced(OplogDump& dump) = 0;
};

// Appends to the dump what the oplog has after its last entry. Errors, besides those of OplogDump
// and LiveOplog; what was appended is on disk after each:
// - kOutOfRange: the oplog has rolled over the next entry.
// - kFailedPrecondition: the set is another one, or the dump begins later than it is to.
// - kUnavailable: no member answered for two minutes, or, without `follow`, the connection is lost.
[[nodiscard]] Result<void> follow_oplog(const FollowOptions& options, OplogDump& dump,
                                        FollowObserver& observer);

}  // namespace idmint::restore
