// The way back: restored collections into the running replica set, with writers blocked and every
// counter raised past what was handed out. docs/design/009-way-back.md has the steps, and what
// holds after a kill in each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/fence/report.h"
#include "restore/observer.h"
#include "restore/promote/plan.h"
#include "restore/promote/record.h"
#include "restore/replay/state.h"

namespace idmint::restore {

// Watches a promotion. The thread that promotes calls it.
class PromoteObserver {
 public:
  virtual ~PromoteObserver() = default;
  // A part of a step begins: "documents compared". No total: it is not known.
  virtual void begin(std::string_view what, std::optional<std::uint64_t> total) = 0;
  // So much of it is done. An error stops the promotion, which returns it; the same call goes on.
  [[nodiscard]] virtual Result<void> advance(std::uint64_t done) = 0;
  // Something is about to be written to production: "block shop.orders". An error stops it before.
  [[nodiscard]] virtual Result<void> about_to(std::string_view what) = 0;

  [[nodiscard]] TakeProgress of(std::string_view what, std::optional<std::uint64_t> total = {}) {
    begin(what, total);
    return [this](std::uint64_t done) { return advance(done); };
  }
};

struct MergeCounts {
  std::uint64_t documents = 0;         // taken over, deletes too
  std::vector<std::string> refused{};  // a unique index or a capped collection has no room for it
};

struct PromoteReport {
  PromoteStep step = PromoteStep::kBlock;  // that was come to
  bool resumed = false;
  std::string id{};
  std::uint64_t documents = 0;  // copied by this run
  MergeCounts merged{};
  std::optional<FenceReport> fence{};
  std::vector<std::string> promoted{};  // namespaces
  std::vector<std::string> in_place{};  // likewise: their counters were raised
  std::vector<std::string> kept{};      // old collections, until --finish; after an undo: those of
                                        // the promotion, for somebody to look at
  std::vector<std::string> notes{};
};

// Carries out the plan. After it was stopped or killed at any point, the same plan, made anew, goes
// on to the same end. kFailedPrecondition: the plan refuses something, or the fence does; before
// anything was replaced. kDataLoss: a copy differs from the spare; the old collections are still in
// their places, and --undo opens them. kUnavailable: a server is gone, or the observer stopped it.
[[nodiscard]] Result<PromoteReport> promote(PromotePlan& plan, PromoteObserver& observer);

// Gives the promotion up that is under way on production: blocks, draws the fence again, puts the
// old collections back, and lets writers in. What programs wrote to the promoted ones is kept under
// other names. kNotFound: none is under way. Killed at any point, the same call goes on.
[[nodiscard]] Result<PromoteReport> undo_promotion(const PromoteOptions& options,
                                                   PromoteObserver& observer);

// Drops the old collections. kNotFound: none is under way. kFailedPrecondition: it is not done yet,
// or is being undone.
[[nodiscard]] Result<PromoteReport> finish_promotion(const PromoteOptions& options,
                                                     PromoteObserver& observer);

}  // namespace idmint::restore
