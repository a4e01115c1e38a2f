// The restore: brings a base backup or a data copy to a server, and replays the oplog up to the
// limit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/plan.h"
#include "restore/replay/report.h"
#include "restore/replay/spare.h"
#include "restore/server.h"

namespace idmint::restore {

struct RestoreReport : Restored {
  std::string target{};  // the server, without a password
  bool resumed = false;  // an earlier run was continued
  std::optional<Spare> spare{};
  bool spare_ended = false;
  std::string report{};   // the file that has the record; see report.h
  bool was_done = false;  // an earlier run had finished; nothing was done
};

// Called once with the restored server, before a spare is ended. May be empty.
using LookAtRestored = std::function<Result<void>(Server&)>;

// Carries out the plan. At the end, the record is a report (report.h), and nothing of ours is on
// the server. If it is stopped or killed at any point, the same plan, made again, continues to the
// same result; a finished restore is not changed. For a data copy, first completes the plan after
// recovery. On an error, ends a spare that it started. Errors:
// - kFailedPrecondition, kAlreadyExists: nothing was written.
// - kUnknown: the server refused something from the oplog or the base, after writes.
// - kUnavailable: the server is gone, or the observer stopped the restore.
// - Those of `look`: the restore is done.
[[nodiscard]] Result<RestoreReport> restore(RestorePlan& plan, Observer& observer,
                                            const LookAtRestored& look = {});

// For a dry run to a spare: the indexes of the base and the oplog that its mongod refuses. Starts
// one on a temporary folder, which is removed. Empty for a data copy, and for a plan with another
// target, which restore() asks before it loads. Errors: those of start_temporary_spare()
// and remove_spare().
[[nodiscard]] Result<std::vector<RefusedIndex>> try_indexes(const RestorePlan& plan,
                                                            Observer& observer);
// kFailedPrecondition, with each of them. `by`: who refuses them.
[[nodiscard]] Error refusal_of(const std::vector<RefusedIndex>& refused, const std::string& by);

}  // namespace idmint::restore
