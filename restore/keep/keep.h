// Keeps backups of a replica set: follows its oplog into slices, makes bases on a schedule, and
// removes what is no longer needed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "idmint/clock.h"
#include "restore/error_in.h"
#include "restore/keep/kept.h"
#include "restore/observer.h"
#include "restore/server.h"

namespace idmint::restore {

struct KeepOptions {
  std::string uri{};
  std::string folder{};
  ConnectOptions connect{};
  std::chrono::seconds every{std::chrono::hours{24}};  // between two bases
  std::chrono::seconds slice{std::chrono::minutes{10}};
  std::uint64_t slice_bytes = std::uint64_t{256} << 20;
  std::chrono::seconds keep{std::chrono::days{7}};  // each moment of this time can be restored
  unsigned readers = 4;                             // connections that read a base side by side
  bool gzip = false;                                // the bases
  std::vector<std::string> excluded{};              // patterns of namespaces
  bool once = false;                                // do what is due now, and end
  Clock* clock = &system_clock();
};

// Goes on with a folder where an earlier run was stopped or killed; the folder is locked meanwhile.
// The observer gets notices: a base was made or removed, entries are missing, a connection is made
// again. If the oplog has rolled over what the folder needs next, makes a base at once.
// A base or a removal that fails is told, and tried again a minute later by the clock of the set.
// Damaged slices and bases get names under which nothing is used. Returns what the folder has at
// the end. Errors, whose messages say what can be restored:
// - kFailedPrecondition: the folder is of another set, or another process keeps it.
// - kResourceExhausted: the disk is full.
// - kUnavailable: no member answers; the same command goes on.
// - With `once`, the last failure of a base or a removal.
[[nodiscard]] Result<Kept> keep_backups(const KeepOptions& options, Observer& observer);

}  // namespace idmint::restore
