// Checks whether a server can take a restore, before anything is written to it.
#pragma once

#include <string>
#include <string_view>

#include "mongo/document.h"
#include "restore/error_in.h"
#include "restore/server.h"

namespace idmint::restore {

struct TargetNeeds {
  std::string version;          // of the server that was backed up; empty: unknown
  bool replica_set_ok = false;  // the target may be a member of one
  bool filled = false;          // the data is already there: a data copy
  bool users = false;           // users and roles are restored, too
  Document fingerprint{};       // of this run; none: continue no run
};

struct TargetFacts {
  bool ttl_runs = false;  // the TTL monitor runs; see pause_ttl()
};

// Errors:
// - kFailedPrecondition: the server has another version, or is a member of a replica set.
// - kAlreadyExists: it has collections, or users or roles where those are restored, or another run
//   has begun there.
// - kPermissionDenied: the user lacks privileges; the message has the commands that grant them.
[[nodiscard]] Result<TargetFacts> check_target(Server& server, const TargetNeeds& needs);

// Whether a backup from one version can be restored to the other: major and minor version are equal
// ("6.0.5", "6.0.14").
[[nodiscard]] bool same_series(std::string_view one, std::string_view other);

// Whether the reply to connectionStatus with showPrivileges has any action on any resource, which
// applyOps needs, or no user at all, as without access control.
[[nodiscard]] bool may_do_anything(Document connection_status);
// kPermissionDenied: the user may not. The message is "the user of SERVER", `why`, and how to
// permit it.
[[nodiscard]] Result<void> check_privileges(Server& server, std::string_view why);

// Ends operations that the server still runs for a killed run, which would interfere with this one.
// kUnavailable: they do not end within a minute.
[[nodiscard]] Result<void> end_leftovers(Server& server);

// Whether an index or a clustered collection has an expiry.
[[nodiscard]] Result<bool> has_ttl(Server& server);

// Pauses the TTL monitor until the server ends or somebody resumes it. Restored documents are old
// and would be deleted.
[[nodiscard]] Result<void> pause_ttl(Server& server);

}  // namespace idmint::restore
