// The fence: a restored server is brought past everything that production handed out, so that no id
// comes again.
//
// What production handed out is told by an oplog that was dumped, and by the live server: its
// oplog, its stores and counter documents, and the collections that hold ids. The largest of all
// counts. Every write is an atomic max or an insert of what is missing: the same again finishes
// what was cut off, and nothing is ever lowered.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/fence/report.h"
#include "restore/fence/shapes.h"
#include "restore/fence/sources.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct FenceOptions {
  std::string target{};  // a URI
  std::string oplog{};   // the file, or the folder it is in; empty: none
  std::string live{};    // a URI of production; empty: none. One of the two is REQUIRED.
  // The limit of the restore. Nothing: that of its report or record, if there is one.
  std::optional<Timestamp> limit{};
  std::string restore_report{};  // the report of run; empty: where run writes it (see report.h)
  bool leave_gap = false;        // of gapless sequences, too, the numbers are passed
  // What production retired after the limit was closed there to go on here: it is raised, and not
  // retired.
  bool reopen = false;
  bool allow_production = false;  // the target may be production itself
  std::vector<CounterField> counters{};
  std::vector<UsedIn> used_in{};
  // Left alone: a pattern of FencedSource::label(), of FencedDocument::label() or its namespace.
  std::vector<std::string> exclude{};
  std::chrono::milliseconds deadline = std::chrono::seconds{60};  // of a call of a store
};

enum class FenceMode : std::uint8_t { kPreview, kCarryOut };

// The steps, and what they count.
enum class FenceStep : std::uint8_t {
  kReadServers,  // servers
  kReadOplog,    // what the oplog counts in
  kPlan,         // nothing
  kFence,        // sources and documents
};

// Watches a fence, in the thread that calls it.
class FenceObserver {
 public:
  virtual ~FenceObserver() = default;
  // `unit`: of the oplog what it counts in, else empty. It outlives the step.
  virtual void begin(FenceStep step, std::string_view unit, std::optional<std::int64_t> total) = 0;
  // An error stops the fence, which returns it.
  [[nodiscard]] virtual Result<void> advance(std::int64_t done) = 0;
  // Before the first write: what is to be done, nothing of it done yet. An error, such as of a
  // report that cannot be kept, stops the fence before anything is written.
  [[nodiscard]] virtual Result<void> planned(const FenceReport& report) = 0;
};

// kInvalidArgument, kNotFound: of the options. kFailedPrecondition: the target takes no writes, or
// is production. kOutOfRange: the oplog does not reach from the limit on. kDataLoss: the oplog is
// cut, damaged or out of order: what it would have said is not known. In all of these nothing was
// written. Rows that are refused are no error of kPreview; of kCarryOut they are
// kFailedPrecondition, with the first of them, and nothing was written, unless `report` says
// carried_out. kUnknown: a row was refused by its server, after others were fenced; they are all in
// `report`. kUnavailable: a server is gone, or the observer stopped it: the same call goes on.
//
// `report` has, after an error too, what was found out.
[[nodiscard]] Result<void> fence(const FenceOptions& options, FenceMode mode,
                                 FenceObserver& observer, FenceReport& report);

}  // namespace idmint::restore
