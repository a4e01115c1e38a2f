// Whether a server can take a restore, found out before anything is written to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "mongo/document.h"
#include "restore/server.h"

namespace idmint::restore {

struct TargetNeeds {
  std::string version;          // of the server that the backup is of; empty: not known
  bool replica_set_ok = false;  // the target may be a member of one
  bool filled = false;          // the data is there already: of a data copy
  Document fingerprint{};       // of this run; none: whatever run began there is not gone on with
};

struct TargetFacts {
  bool ttl_runs = false;  // its TTL monitor deletes documents; see pause_ttl()
};

// kFailedPrecondition: it is of another version, or a member of a replica set. kAlreadyExists: it
// has collections, or another run began there. kPermissionDenied: with the commands that give what
// is missing.
[[nodiscard]] Result<TargetFacts> check_target(Server& server, const TargetNeeds& needs);

// Whether a backup of one version can be restored to a server of another: major and minor are the
// same ("6.0.5", "6.0.14").
[[nodiscard]] bool same_series(std::string_view one, std::string_view other);

// connectionStatus with showPrivileges: any action on any resource, which applyOps asks for, or no
// user at all, as on a server without access control.
[[nodiscard]] bool may_do_anything(Document connection_status);

// Ends what the server is still doing for a run that was killed: it would go on beside this one.
// kUnavailable: it does not end within a minute.
[[nodiscard]] Result<void> end_leftovers(Server& server);

// Whether there is anything that a TTL monitor deletes from.
[[nodiscard]] Result<bool> has_ttl(Server& server);

// Until the server ends, or is told otherwise: what a restore brings is old, and would be deleted.
[[nodiscard]] Result<void> pause_ttl(Server& server);

}  // namespace idmint::restore
