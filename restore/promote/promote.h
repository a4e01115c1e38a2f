// The way back: moves restored collections into the running replica set, with writers blocked and
// every counter raised past what was handed out. docs/design/009-way-back.md has the steps, and the
// state after a kill in each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/fence/report.h"
#include "restore/observer.h"
#include "restore/promote/plan.h"
#include "restore/promote/record.h"
#include "restore/replay/state.h"

namespace idmint::restore {

struct KeptCollection {
  std::string ns{};
  // After an undo or a finish: the documents that may be nowhere else. nullopt: unknown, because
  // the oplog does not reach back to when it was made.
  std::optional<std::uint64_t> written{};
  std::vector<std::string> ids{};  // of these, or of some, by id_key()
};

struct NamedLoss {
  std::string ns{};
  LostDocument lost{};
};

struct PromoteReport {
  PromoteStep step = PromoteStep::kBlock;  // the last step reached
  bool resumed = false;
  std::string id{};
  std::uint64_t documents = 0;  // copied by this run
  std::uint64_t merged = 0;     // documents, including deletes, by this run
  // As the record lists them: rejected by a unique index or a capped collection; and lost since the
  // plan was shown.
  std::vector<NamedLoss> unmerged{};
  std::vector<NamedLoss> unlisted{};
  std::vector<NamedLoss> planned{};  // lost, as the plan of the first run named them
  std::optional<FenceReport> fence{};
  std::vector<std::string> put_back{};  // sequences and pools that production lacked
  std::vector<std::string> promoted{};  // namespaces
  std::vector<std::string> in_place{};  // likewise, with raised counters
  std::vector<KeptCollection> kept{};   // old collections, until --finish; after an undo the
                                        // promoted ones, for somebody to examine
  std::vector<std::string> notes{};
};

// Carries out the plan. If it is stopped or killed at any point, the same plan, made again,
// continues to the same result. Errors:
// - kFailedPrecondition: the plan or production refuses something; no writer was blocked.
// - kUnknown: something was refused after writers were blocked, such as by the fence. Nothing was
//   replaced, and --undo lets them in.
// - kDataLoss: a copy differs from the spare. The old collections are still in place, and --undo
//   lets their writers in.
// - kUnavailable: a server is gone, or the observer stopped the promotion.
[[nodiscard]] Result<PromoteReport> promote(PromotePlan& plan, Observer& observer);

// Undoes the promotion that is under way on production: blocks writers, repeats the fence, puts the
// old collections back, and lets writers in. Keeps what programs wrote to the promoted collections
// under other names. If it is killed at any point, the same call continues. kNotFound: no promotion
// is under way.
[[nodiscard]] Result<PromoteReport> undo_promotion(const PromoteOptions& options,
                                                   Observer& observer);

// Drops the old collections. Errors:
// - kNotFound: no promotion is under way.
// - kFailedPrecondition: it is not complete, or is being undone.
[[nodiscard]] Result<PromoteReport> finish_promotion(const PromoteOptions& options,
                                                     Observer& observer);

}  // namespace idmint::restore
