// The fence: raises a restored server past everything that production handed out, so that no id is
// repeated.
//
// Two sources tell what was handed out: a dumped oplog, and the live server with its oplog, its
// stores and counter documents, and the collections that hold ids. The largest value counts. Every
// write is an atomic max or an insert of a missing document. So a second call completes an
// interrupted one, and nothing is ever lowered.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restore/error_in.h"
#include "restore/fence/report.h"
#include "restore/fence/shapes.h"
#include "restore/fence/sources.h"
#include "restore/observer.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct FenceOptions {
  std::string target{};  // a URI
  std::string oplog{};   // the file, or its folder; empty: none
  std::string live{};    // a URI of production; empty: none. One of the two is REQUIRED.
  // The limit of the restore. nullopt: the limit in its report or record, if there is one.
  std::optional<Timestamp> limit{};
  std::string restore_report{};  // the report of run; empty: where run writes it (see report.h)
  bool leave_gap = false;        // skip numbers of gapless sequences too
  // Production retired a source after the limit to continue it here: raise it instead of retiring
  // it.
  bool reopen = false;
  bool allow_production = false;  // the target may be production itself
  std::vector<CounterField> counters{};
  std::vector<UsedIn> used_in{};
  // Skips what matches: a pattern of FencedSource::label(), FencedDocument::label() or its
  // namespace.
  std::vector<std::string> exclude{};
  std::chrono::milliseconds deadline = std::chrono::seconds{60};  // for one call of a store
};

// The step in which a fence writes, as the observer is told it. It counts sources and documents.
inline constexpr std::string_view kFenceStep = "counters fenced";

enum class FenceMode : std::uint8_t { kPreview, kCarryOut };

// Errors that occur before anything is written:
// - kInvalidArgument, kNotFound: the options are wrong.
// - kFailedPrecondition: the target takes no writes, or is production; or, in kCarryOut, a row is
//   refused (the message names the first). kPreview returns refused rows without an error.
// - kOutOfRange: the oplog does not cover the time from the limit on.
// - kDataLoss: the oplog is cut, damaged or out of order.
// Errors that may occur after a write, if report.carried_out is set:
// - kUnknown: the server refused a row; all other rows were fenced.
// - kUnavailable: a server is gone, or the observer stopped the fence. The same call continues it.
//
// `report` has the findings, after an error too. The observer's about_to("fence") is called once,
// before the first write, when `report` has the plan: an error of it prevents every write, for
// example if the plan cannot be saved.
[[nodiscard]] Result<void> fence(const FenceOptions& options, FenceMode mode, Observer& observer,
                                 FenceReport& report);

}  // namespace idmint::restore
