// Whether an oplog can be replayed, found out from all of it before anything is written.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/namespaces.h"
#include "restore/observer.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/sharding.h"
#include "restore/oplog/transactions.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct OplogCheckOptions {
  // Of a base: renames are refused, unless its collections were read by their UUIDs. Else of what
  // follows it.
  bool slice = false;
  bool renames = false;
  // The replay begins after this entry, which must be there. Nothing: with the first.
  std::optional<Timestamp> after{};
  // Which entry that is nobody knows yet: order, damage and limit alone are looked at.
  bool anywhere = false;
  // It is known to be of no sharded cluster, whatever its entries show.
  bool not_sharded = false;
  // And ends before the first entry from here on, which must be there. Nothing: after the last.
  std::optional<Timestamp> limit{};
  NamespaceFilter filter{};
  // Entries that are left out; of a transaction, the one that commits it. Refused where a later
  // one needs one of them, unless forced.
  std::set<Timestamp> skip{};
  bool skip_forced = false;
  // The collections and views that are there when the replay begins: who writes to another is
  // refused. Nothing: that is not known.
  std::optional<std::set<std::string, std::less<>>> collections{};
  // Their UUIDs, 16 bytes each, as far as they are known: who writes to a collection of this name
  // and another UUID is refused. Not so in a slice, which may begin before its base was listed.
  std::map<std::string, std::string, std::less<>> uuids{};
  // Of them those that are temporary, of $out and the like.
  std::vector<std::string> temporary{};
};

// What the replay makes of one collection that is there at its end.
struct Tally {
  // The collection of the base whose documents it has, under another name where it was renamed.
  // Empty: it was made, or made empty, by the oplog.
  std::string base;
  std::uint64_t inserts = 0;
  std::uint64_t updates = 0;
  std::uint64_t deletes = 0;
};

// A time in which an oplog has no entry, where a primary writes one within 20 s.
struct Silence {
  Timestamp after{};
  std::uint32_t seconds = 0;
};

struct OplogFacts {
  // Whether its checksums were compared, and how many bytes at its end they are not of.
  bool has_checksums = false;
  std::uint64_t unchecked = 0;
  std::uint64_t silences = 0;
  Silence longest{};
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;  // of them
  // What is before the limit: it stays the same in a file that grows.
  struct {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
    Timestamp last{};
  } before_limit;
  Timestamp first{};
  Timestamp last{};              // of the file
  Timestamp last_applied{};      // before the limit; 0:0: none is applied
  std::uint64_t operations = 0;  // to apply, those within transactions too
  // By namespace. What was dropped is not there; a namespace that only the base has neither.
  std::map<std::string, Tally, std::less<>> tallies;
  // Of the collections that were there at first, where these are known: dropped, emptied or renamed
  // away by the oplog.
  std::set<std::string, std::less<>> gone;
  // Indexes, by namespace, whose build began before the first entry that is replayed and ended
  // after it, if only after the limit. A base may list them as if they were there.
  std::map<std::string, std::set<std::string>> building;
  // Transactions that have begun before the limit and do not commit before it: not applied.
  std::vector<OpenTransaction> open;
  // Temporary collections of $out and the like that are there at the limit.
  std::vector<std::string> temporary;
  // Operations marked as migrated between shards, in an oplog without any other trace of one; see
  // ShardTraces.
  std::uint64_t migrated = 0;
  // Operations that no restore applies, by database: admin, config.
  std::map<std::string, std::uint64_t, std::less<>> left_out;
  // The entries that are left out, in words.
  std::vector<std::string> skipped;
  // Those that are there at the end, where it is known what was there at the beginning.
  std::optional<std::set<std::string, std::less<>>> collections;
  std::map<std::string, std::string, std::less<>> uuids;  // those of them that are known
};

// Entries are given in the order of the file, all of them, with their offsets. The errors of add()
// begin with `path` and the offset, and are final. kDataLoss: damaged, or out of order.
// kFailedPrecondition: what cannot be replayed; finish(): of a sharded cluster. kOutOfRange: the
// entry `after`, the limit, or a part of a transaction is not in it. For one thread.
class OplogCheck {
 public:
  // `transactions` has those that the slice left open, and outlives this.
  OplogCheck(std::string path, OplogCheckOptions options, Transactions& transactions);
  ~OplogCheck();
  OplogCheck(const OplogCheck&) = delete;
  OplogCheck& operator=(const OplogCheck&) = delete;
  [[nodiscard]] Result<void> add(const Entry& entry, std::uint64_t offset);
  [[nodiscard]] Result<OplogFacts> finish();

 private:
  struct Skipped;
  [[nodiscard]] Result<void> order(const Entry& entry);
  [[nodiscard]] Result<void> count(const Entry& entry, const Operation& operation);
  [[nodiscard]] Result<void> missing(const Operation& operation, const std::string& ns);
  [[nodiscard]] Result<void> count_write(const Operation& operation);
  [[nodiscard]] Result<void> check_uuid(const Operation& operation) const;
  [[nodiscard]] Result<void> count_command(const Operation& operation);
  [[nodiscard]] Result<void> look_for_skipped(const Entry& entry, const Operation& operation);
  [[nodiscard]] std::unexpected<Error> refuse(Code code, const std::string& why) const;
  void follow_builds(const Operation& operation);
  void rename(const std::string& from, const std::string& to);
  void drop(const std::string& ns);
  Tally& tally(std::string_view ns);
  void forget(const std::string& ns);
  using Names = std::set<std::string, std::less<>>;
  [[nodiscard]] static bool lists(const Names& names, std::string_view ns);
  [[nodiscard]] bool is_there(std::string_view ns) const {
    return !facts_.collections || lists(*facts_.collections, ns);
  }

  const std::string path_;
  const OplogCheckOptions options_;
  Transactions& transactions_;
  OplogFacts facts_;
  OpTime previous_{};
  std::uint64_t offset_ = 0;  // of the entry at hand
  bool after_found_ = false;
  bool limit_reached_ = false;
  std::set<std::string, std::less<>> temporary_;
  std::set<std::string> builds_;  // of indexes, that have begun
  // Of the slice: written to while they were not there, and not dropped since; with where.
  std::map<std::string, std::string, std::less<>> missing_;
  std::unique_ptr<Skipped> skipped_;
  ShardTraces sharding_;
};

// All of a file (or of the folder it is in), read once. `progress` is given bytes of file that were
// read.
[[nodiscard]] Result<OplogFacts> check_oplog(const std::string& path,
                                             const OplogCheckOptions& options,
                                             Transactions& transactions,
                                             const TakeProgress& progress);

}  // namespace idmint::restore
