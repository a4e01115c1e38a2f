// The restore: a base backup or a data copy, and what the oplog says up to the limit, on a server.
#pragma once

#include <optional>
#include <string>

#include "idmint/result.h"
#include "restore/observer.h"
#include "restore/replay/minted.h"
#include "restore/replay/plan.h"
#include "restore/replay/report.h"
#include "restore/replay/spare.h"

namespace idmint::restore {

struct RestoreReport : Restored {
  std::string target{};  // the server, without a password
  bool resumed = false;  // it went on with a restore that was stopped before
  std::optional<Spare> spare{};
  bool spare_ended = false;
  std::string report{};   // the file that has the record by now; see report.h
  bool was_done = false;  // a run before this one had come to the end: nothing was done
  MintedReport minted{};
};

// Carries out the plan. At the end its record is a report (see report.h), and nothing of ours is on
// the server. After it was stopped or killed at any point, the same plan, made anew, goes on to the
// same end; after the end it changes nothing. Of a data copy it first fills in what the plan could
// not know. A spare that it started is ended on an error. kFailedPrecondition, kAlreadyExists:
// nothing was written. kUnknown: the server refused what the oplog or the base has, after something
// was written. kUnavailable: the server is gone, or the observer stopped it.
[[nodiscard]] Result<RestoreReport> restore(RestorePlan& plan, Observer& observer);

}  // namespace idmint::restore
