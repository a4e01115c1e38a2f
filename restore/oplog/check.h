// Checks a whole oplog before anything is written: can it be replayed?
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/bson.h"
#include "restore/error_in.h"
#include "restore/namespaces.h"
#include "restore/observer.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/sharding.h"
#include "restore/oplog/transactions.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The options of collections, as for create, by namespace. Without those that have none.
using OptionsByName = std::map<std::string, std::shared_ptr<const Bson>, std::less<>>;
// The options of `ns`. For system.buckets.X also those that a base lists for X. Null: none.
[[nodiscard]] std::shared_ptr<const Bson> options_of(const OptionsByName& all, std::string_view ns);

struct OplogCheckOptions {
  // The oplog is the slice of a base; otherwise the oplog after the base. A slice may have renames
  // only if the collections of its base were read by UUID (`renames`).
  bool slice = false;
  bool renames = false;
  // The replay begins after this entry, which must exist. nullopt: it begins with the first.
  std::optional<Timestamp> after{};
  // `after` is not known yet: checks only order, damage and the limit.
  bool anywhere = false;
  // The oplog is known to be of no sharded cluster, whatever its entries show.
  bool not_sharded = false;
  // The replay ends before the first entry at or after this one, which must exist. nullopt: it ends
  // after the last.
  std::optional<Timestamp> limit{};
  NamespaceFilter filter{};
  // Entries to skip; for a transaction, the entry that commits it. Refused if a later entry depends
  // on one, unless `skip_forced`.
  std::set<Timestamp> skip{};
  bool skip_forced = false;
  // The collections and views that exist when the replay begins. Writes to any other are refused.
  // nullopt: unknown.
  std::optional<std::set<std::string, std::less<>>> collections{};
  // Their known UUIDs, 16 bytes each. Writes to a collection with one of these names and another
  // UUID are refused, except in a slice, which may begin before its base was listed.
  std::map<std::string, std::string, std::less<>> uuids{};
  // The temporary ones among them ($out and others).
  std::vector<std::string> temporary{};
  OptionsByName collection_options{};
};

// An index that an entry builds.
struct BuiltIndex {
  Timestamp at{};
  std::string ns;
  std::shared_ptr<const Bson> options;  // of the collection; null: none
  std::shared_ptr<const Bson> spec;
};

// The effect of the replay on a collection that exists at its end, where each operation does what
// it says; see outcomes.h.
struct Tally {
  // The base's collection from which its documents came; it has another name if it was renamed.
  // Empty: the oplog created or emptied it.
  std::string base;
  std::uint64_t inserts = 0;
  std::uint64_t updates = 0;
  std::uint64_t deletes = 0;
};

// A time without entries. A primary writes at least one every 20 s.
struct Silence {
  Timestamp after{};
  std::uint32_t seconds = 0;
};

inline constexpr std::string_view kUsersAndRoles = "users and roles";

struct OplogFacts {
  // Whether the checksums were verified, and the bytes at the end that they do not cover.
  bool has_checksums = false;
  std::uint64_t unchecked = 0;
  std::uint64_t lacking = 0;  // bytes that the checksums cover, and the newest slice lacks
  std::uint64_t silences = 0;
  Silence longest{};
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;  // of all entries
  // The part before the limit. It does not change when the file grows.
  struct {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
    Timestamp last{};
  } before_limit;
  Timestamp first{};
  Timestamp last{};              // in the file
  Timestamp last_applied{};      // before the limit; 0:0: none is applied
  std::uint64_t operations = 0;  // operations to apply, including those in transactions
  // By namespace; without dropped ones, and without those that only the base has.
  std::map<std::string, Tally, std::less<>> tallies;
  // Collections that existed at the beginning and that the oplog dropped, emptied or renamed away;
  // only if the initial ones are known.
  std::set<std::string, std::less<>> gone;
  // The collections that commands concern, by every name that they have there; "DATABASE." for a
  // database that was dropped.
  std::set<std::string, std::less<>> commanded;
  // Indexes, by namespace, whose build began before the first replayed entry and ended later,
  // possibly after the limit, or not at all. A base may list them as complete.
  std::map<std::string, std::set<std::string>> building;
  // Transactions that begin before the limit and do not commit before it. They are not applied.
  std::vector<OpenTransaction> open;
  // Temporary collections ($out and others) that exist at the limit.
  std::vector<std::string> temporary;
  // Operations with fromMigrate, if there is no other trace of a shard; see ShardTraces.
  std::uint64_t migrated = 0;
  // Operations that are not applied, by database (admin, config); those on is_users() apart, as
  // kUsersAndRoles.
  std::map<std::string, std::uint64_t, std::less<>> left_out;
  // The skipped entries, in words.
  std::vector<std::string> skipped;
  // The collections at the end; nullopt: the initial ones are unknown.
  std::optional<std::set<std::string, std::less<>>> collections;
  std::map<std::string, std::string, std::less<>> uuids;  // theirs, if known
  OptionsByName collection_options;
  // The indexes that the operations build, each specification once per collection, and once for all
  // temporary collections with the same options. None for a slice.
  std::vector<BuiltIndex> built;
};

// Takes all entries in the order of the file, with their offsets. Errors of add() begin with `path`
// and the offset, and are final. For one thread. Errors:
// - kDataLoss: the oplog is damaged or out of order.
// - kFailedPrecondition: an entry cannot be replayed; from finish() also: the oplog is of a sharded
//   cluster.
// - kOutOfRange: the entry `after`, the limit, or a part of a transaction is missing.
class OplogCheck {
 public:
  // `transactions` has the ones that the slice left open. It must outlive the check.
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
  void follow_builds_before(const Operation& operation);
  void follow_indexes(const Operation& operation, const std::string& ns);
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
  std::uint64_t offset_ = 0;  // of the current entry
  bool after_found_ = false;
  bool limit_reached_ = false;
  std::set<std::string, std::less<>> temporary_;
  std::set<std::string> built_;   // what is in facts_.built, each as one text
  std::set<std::string> builds_;  // index builds that have begun
  struct Build {
    std::string build;
    std::string ns;
    std::string name;
  };
  std::vector<Build> builds_before_;  // begun before the base and not ended there; each index
  // In a slice: collections written to while they did not exist, and not dropped later; with the
  // first error.
  std::map<std::string, std::string, std::less<>> missing_;
  std::unique_ptr<Skipped> skipped_;
  ShardTraces sharding_;
};

// Checks the file at `path`, or in the folder `path`, in one read. `progress` gets the bytes of the
// file that were read.
[[nodiscard]] Result<OplogFacts> check_oplog(const std::string& path,
                                             const OplogCheckOptions& options,
                                             Transactions& transactions,
                                             const TakeProgress& progress);

}  // namespace idmint::restore
