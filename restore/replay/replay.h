// The replay: applies the entries of an oplog to a server, each exactly once, even if the replay or
// the server is killed and another replay continues.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/namespaces.h"
#include "restore/observer.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/transactions.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/record.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct ReplayOptions {
  // The entries are the slice of a base, in which missed updates are normal; otherwise they follow
  // the base.
  bool slice = false;
  // Entries up to this one are read for their transactions only.
  Timestamp after{};
  // The first entry that is not applied. nullopt: all are.
  std::optional<Timestamp> limit{};
  NamespaceFilter filter{};
  std::set<Timestamp> skip{};
  // Leaves out the indexes that the server refuses, beside those that the record has; see LeftOut.
  bool report_index_errors = false;
  unsigned workers = 4;  // each has a connection; a continued run keeps its first number
};

// Totals, including those of earlier runs.
struct ReplayCounts {
  // Documents that became more, and less: an insert over a document that is there is `replaced`, an
  // update that inserted is an insert, and a delete that found nothing does not count.
  std::uint64_t inserts = 0;
  std::uint64_t updates = 0;
  std::uint64_t deletes = 0;
  std::uint64_t commands = 0;
  // Updates that found no document. After the slice they indicate a gap.
  std::uint64_t missed = 0;
  std::uint64_t replaced = 0;
  std::vector<std::string> first_missed;  // some of them, in words; of this run only
  std::vector<std::string> notes;         // other remarks; of this run only
};

// Checks that the server rolls back a batch that fails, which the replay relies on.
// kFailedPrecondition: it does not. kPermissionDenied: the user lacks privileges.
[[nodiscard]] Result<void> check_apply_ops(Record& record);

// Takes all entries in order from the first, as OplogCheck took them. Skips what is already applied
// according to the record. Any error is final; a new Replay continues after the applied part. For
// one caller's thread; it has threads of its own. Errors:
// - kUnavailable: the server is gone, or the caller stopped the replay; the same call continues
//   later.
// - kAlreadyExists: a unique index refuses a key.
// - kFailedPrecondition: the server refuses an entry for another reason.
// The message names a refused entry (ts, op, ns, _id) and the reason.
class Replay {
 public:
  // `transactions` has the ones that the slice left open. All references must outlive the replay.
  // `catalog` gets the index commands of the slice; null: they are run on the server.
  [[nodiscard]] static Result<std::unique_ptr<Replay>> begin(Server& server, Record& record,
                                                             Transactions& transactions,
                                                             IndexCatalog* catalog,
                                                             ReplayOptions options);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // `entry` must be valid during the call only.
  [[nodiscard]] Result<void> apply(const Entry& entry);
  // Waits until all entries are applied.
  [[nodiscard]] Result<ReplayCounts> finish();

 private:
  class Engine;
  explicit Replay(std::unique_ptr<Engine> engine);
  std::unique_ptr<Engine> engine_;
};

// Replays the file at `path`, or in the folder `path`, up to the limit. `progress` gets the bytes
// of the file that were read.
[[nodiscard]] Result<ReplayCounts> replay_oplog(const std::string& path, Server& server,
                                                Record& record, Transactions& transactions,
                                                const ReplayOptions& options,
                                                const TakeProgress& progress);

}  // namespace idmint::restore
