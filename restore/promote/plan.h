// The plan of a promotion, before anything is written: the request, what it replaces, and what it
// loses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "idmint/clock.h"
#include "restore/error_in.h"
#include "restore/fence/report.h"
#include "restore/fence/shapes.h"
#include "restore/namespaces.h"
#include "restore/observer.h"
#include "restore/promote/later.h"
#include "restore/promote/record.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct PromoteOptions {
  std::string from{};                     // the URI of the spare, which nobody writes to
  std::string to{};                       // the URI of production
  std::string oplog{};                    // a file or a folder; empty: production's own oplog
  std::optional<Timestamp> limit{};       // nullopt: that of the restore's report
  std::string restore_report{};           // the report of run; empty: where run writes it
  std::optional<Timestamp> mistake_to{};  // the last entry of the mistake
  NamespaceFilter filter{};
  bool alike = false;                    // LaterSearch::alike. REQUIRES: mistake_to
  bool merge_later = false;              // REQUIRES: mistake_to
  bool leave_gap = false;                // a gapless sequence may lack numbers afterwards
  std::vector<CounterField> counters{};  // of programs, beside the classic recipes
  Clock* clock = &system_clock();
};

// A collection to replace, and its replacement.
struct PlannedItem {
  PromoteItem item{};
  std::uint64_t documents = 0;  // on the spare
  std::uint64_t bytes = 0;
  std::uint64_t now = 0;  // documents on production
};

struct PlannedRefusal {
  std::string ns{};
  std::string why{};
};

struct PromotePlan {
  PromoteOptions options{};
  bool resumed = false;  // a promotion is under way: `state` is its own, and nothing else is set
  PromoteState state{};  // as it will be recorded
  std::vector<PlannedItem> items{};
  std::vector<PlannedRefusal> refused{};  // any of these prevents the promotion
  std::vector<PlannedRefusal> left{};     // kept as production has it, and why
  LaterWrites later{};                    // of the items only
  std::vector<std::string> notes{};
  FenceReport fence{};  // a preview as of now

  // The number of documents that production wrote since the mistake and that would be lost.
  [[nodiscard]] std::uint64_t lost() const;
  // Those of them that only entries unlike the mistake's wrote to, in its time.
  [[nodiscard]] std::uint64_t lost_unlike() const;
  // Whether there is nothing to do.
  [[nodiscard]] bool is_empty() const {
    return !resumed && items.empty() && state.databases.empty();
  }
};

// Examines both servers, and the oplog from the limit on. Writes nothing. Errors:
// - kInvalidArgument: the options contradict each other.
// - kFailedPrecondition: the spare is not a restored server, or is a member of production.
// - kAlreadyExists: another promotion is under way on production.
// - kPermissionDenied: check_rights().
// - kOutOfRange: the oplog does not reach back to the limit.
[[nodiscard]] Result<PromotePlan> plan_promotion(PromoteOptions options,
                                                 const TakeProgress& progress);

// kPermissionDenied: the user may not rename two collections under one lock, which requires any
// action on any resource. The message has the commands that grant it.
[[nodiscard]] Result<void> check_rights(Server& production);

// The id of a promotion that begins now: "20261122-175426".
[[nodiscard]] std::string promotion_id(Instant now);

// The fields of counter documents in the collection, by the classic recipes and `more`. Empty:
// there are none. Reads the whole collection.
[[nodiscard]] Result<std::vector<std::string>> counter_fields(
    Server& server, const std::string& ns, const std::vector<CounterField>& more);

}  // namespace idmint::restore
