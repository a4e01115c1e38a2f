// The replay: what entries of an oplog say is done to a server, each exactly once, also where the
// replay or the server is killed in between and another goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "idmint/result.h"
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
  // The slice of a base, which is fuzzy: what misses is normal. Else of what follows it.
  bool slice = false;
  // Entries up to this one are read for their transactions alone.
  Timestamp after{};
  // And what is from here on is not applied.
  std::optional<Timestamp> limit{};
  NamespaceFilter filter{};
  std::set<Timestamp> skip{};
  unsigned workers = 4;  // each with a connection; a run that goes on has as many as at first
};

// What was applied in all, also by the runs before this one.
struct ReplayCounts {
  std::uint64_t inserts = 0;
  std::uint64_t updates = 0;
  std::uint64_t deletes = 0;
  std::uint64_t commands = 0;
  // Updates that found no document: a sign of a gap, after the slice.
  std::uint64_t missed = 0;
  std::vector<std::string> first_missed;  // some of them, in words; of this run alone
  std::vector<std::string> notes;         // what else is worth telling; of this run alone
};

// Whether the server takes back a batch that fails as a whole, on which all relies.
// kFailedPrecondition: it does not. kPermissionDenied.
[[nodiscard]] Result<void> check_apply_ops(Record& record);

// Entries are given in order, all of them from the first, as OplogCheck took them: what is applied
// already, by the record, is passed over. Any error is final: a new Replay goes on after what was
// applied. kUnavailable: the server is gone, or the driver of the replay stops; the same call later
// goes on. kFailedPrecondition, kAlreadyExists: the server refuses, the latter as a unique index
// has the key; the message names the entry (ts, op, ns, _id) and the reason. For one thread, but
// for what it does inside.
class Replay {
 public:
  // `transactions` is what the slice left open, and outlives this, as all others do. `catalog`: of
  // the slice, for index commands; null: they are run on the server.
  [[nodiscard]] static Result<std::unique_ptr<Replay>> begin(Server& server, Record& record,
                                                             Transactions& transactions,
                                                             IndexCatalog* catalog,
                                                             ReplayOptions options);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Valid for the call: its bytes are copied where they are needed later.
  [[nodiscard]] Result<void> apply(const Entry& entry);
  // Waits until all is applied.
  [[nodiscard]] Result<ReplayCounts> finish();

 private:
  class Engine;
  explicit Replay(std::unique_ptr<Engine> engine);
  std::unique_ptr<Engine> engine_;
};

// All of a file (or of the folder it is in) up to the limit. `progress` is given bytes of the file
// that were read.
[[nodiscard]] Result<ReplayCounts> replay_oplog(const std::string& path, Server& server,
                                                Record& record, Transactions& transactions,
                                                const ReplayOptions& options,
                                                const TakeProgress& progress);

}  // namespace idmint::restore
