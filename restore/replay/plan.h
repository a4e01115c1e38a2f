// The plan of a restore, before anything is written: the request, and the findings about it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/bson.h"
#include "restore/backup/base.h"
#include "restore/error_in.h"
#include "restore/namespaces.h"
#include "restore/observer.h"
#include "restore/oplog/check.h"
#include "restore/oplog/transactions.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The steps of a restore, as the observer is told them.
namespace restore_step {
inline constexpr std::string_view kCheckBase = "MB of the base checked";
inline constexpr std::string_view kCheckOplog = "MB of the oplog checked";
inline constexpr std::string_view kLoad = "MB of documents";
inline constexpr std::string_view kReplaySlice = "entries of the slice";
inline constexpr std::string_view kBuildIndexes = "collections indexed";
inline constexpr std::string_view kReplayOplog = "MB of the oplog";
inline constexpr std::string_view kStartServer = "starting the server";
}  // namespace restore_step

struct RestoreOptions {
  // The input: a base backup (a folder or an archive), or a copy of a member's data folder, which
  // becomes the spare.
  std::string base{};
  std::string data_copy{};
  std::optional<Timestamp> base_at{};  // the moment of a base without a slice
  std::string oplog{};                 // the file, or its folder; empty: restores the base alone
  std::optional<Timestamp> limit{};    // the first entry that is not applied; nullopt: none
  std::set<Timestamp> skip{};          // entries to skip
  bool force_skip = false;             // even if later entries need them
  bool not_sharded = false;            // base and oplog are known to be of no sharded cluster
  NamespaceFilter filter{};            // with users(): their collections are restored, too
  // Leaves out the indexes that the server refuses, and reports them.
  bool report_index_errors = false;

  // The destination: the URI of an empty server, or the folder of a spare to start.
  std::string target{};
  bool allow_replica_set = false;  // the target may be a member of one
  std::string spare{};
  std::string mongod{};  // for the spare; empty: mongod from the PATH
  std::vector<std::string> mongod_arguments{};
  bool stop_spare = false;  // end it after the restore
  // The file for the report; empty: report_beside() the spare's folder, or report_here().
  std::string report{};

  unsigned writers = 4;  // concurrent connections for writing
};

struct RestorePlan {
  RestoreOptions options{};
  std::unique_ptr<BaseBackup> base{};  // null: a data copy
  std::string base_stamp{};            // stamp_of_files() before it was checked, and how
  bool checked_before = false;         // by an earlier run to the same spare
  bool sliced = false;                 // the base has a slice of the oplog
  // The moment of the base. nullopt: a data copy that was not recovered yet, or a base without a
  // slice and without an oplog.
  std::optional<Timestamp> after{};
  OplogFacts slice{};
  OplogFacts oplog{};
  std::string program{};  // the mongod to start; empty: none

  // The collections before the oplog is applied; nullopt: unknown.
  std::optional<std::set<std::string, std::less<>>> collections{};
  std::map<std::string, std::string, std::less<>> uuids{};  // theirs, if known
  std::vector<std::string> temporary{};                     // the temporary ones ($out and others)
  OptionsByName collection_options{};
  Bson fingerprint = Bson::none();  // identifies the restore in the record

  [[nodiscard]] const OptionsByName& options_after_slice() const {
    return sliced ? slice.collection_options : collection_options;
  }

  // Notes for a person about the inputs, each a sentence.
  [[nodiscard]] std::vector<std::string> notes() const;
};

// Reads and checks both inputs completely, but not again the documents of a base that an earlier
// run to the same spare has checked and whose files are unchanged, and examines the server, or the
// spare's folder and program. For a data copy it checks only order, damage and limit of the oplog,
// because the copy's last entry is known only after recovery. Writes nothing. Errors say what to
// provide instead.
[[nodiscard]] Result<RestorePlan> plan_restore(RestoreOptions options, Observer& observer);

// Checks the oplog, if there is one, from plan.after on; sets plan.oplog and plan.fingerprint.
// `transactions` has the ones that the slice left open.
[[nodiscard]] Result<void> check_oplog(RestorePlan& plan, Transactions& transactions,
                                       Observer& observer);

}  // namespace idmint::restore
