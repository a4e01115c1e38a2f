// A restore before anything is written: what is asked for, and what was found out about it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "restore/backup/base.h"
#include "restore/namespaces.h"
#include "restore/observer.h"
#include "restore/oplog/check.h"
#include "restore/oplog/transactions.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct RestoreOptions {
  // What is restored: a base backup, a folder or an archive; or a copy of a member's data folder,
  // which becomes the spare.
  std::string base{};
  std::string data_copy{};
  std::optional<Timestamp> base_at{};  // the moment of a base that has no slice of the oplog
  std::string oplog{};  // the file, or the folder it is in; empty: the base alone is restored
  std::optional<Timestamp> limit{};  // the first entry that is not applied; nothing: all are
  std::set<Timestamp> skip{};        // entries that are left out
  bool force_skip = false;           // though later entries need them
  bool not_sharded = false;          // base and oplog are known to be of no shard
  NamespaceFilter filter{};

  // Where to: the URI of an empty server, or the folder of a spare that is to be started.
  std::string target{};
  bool allow_replica_set = false;  // the target may be a member of one
  std::string spare{};
  std::string mongod{};     // the program of the spare; empty: that on the PATH
  bool stop_spare = false;  // end it after the restore
  // The file for the report; empty: report_beside() the spare's folder, or report_here().
  std::string report{};

  unsigned writers = 4;  // connections that write at once
};

struct RestorePlan {
  RestoreOptions options{};
  std::unique_ptr<BaseBackup> base{};  // null: a data copy
  bool sliced = false;                 // the base has a slice of the oplog
  // The moment of the base. Nothing: of a data copy that was not recovered yet, and of a base
  // without a slice that is restored alone.
  std::optional<Timestamp> after{};
  OplogFacts slice{};
  OplogFacts oplog{};
  std::string program{};  // the mongod to start; empty: none

  // Collections that are there before the oplog is applied; nothing: not known.
  std::optional<std::set<std::string, std::less<>>> collections{};
  std::map<std::string, std::string, std::less<>> uuids{};  // theirs, as far as they are known
  std::vector<std::string> temporary{};  // those of them that $out and the like left
  Bson fingerprint = Bson::none();       // which restore it is, for the record of progress

  // What a person should know about the inputs, each a sentence.
  [[nodiscard]] std::vector<std::string> notes() const;
};

// Reads and checks both inputs whole, and looks at the server, or at the folder and the program of
// the spare. Of a data copy only order, damage and limit of the oplog are checked: what was its
// last entry is known when it is recovered. Nothing is written. Errors say what to give instead.
[[nodiscard]] Result<RestorePlan> plan_restore(RestoreOptions options, Observer& observer);

// Checks the oplog, where there is one, from plan.after on, and fills in plan.oplog and
// plan.fingerprint. `transactions` has those that the slice left open.
[[nodiscard]] Result<void> check_oplog(RestorePlan& plan, Transactions& transactions,
                                       Observer& observer);

}  // namespace idmint::restore
