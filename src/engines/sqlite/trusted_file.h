// The file of a store, shared by its tables: one connection under one mutex, counted transactions,
// and the trust in the file (docs/design/007-sqlite-trust.md).
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "base/bounded_mutex.h"
#include "base/sqlite_url.h"
#include "engines/sqlite/schema.h"
#include "engines/sqlite/trust.h"
#include "store/engine.h"

namespace idmint::stores::sqlite {

// The number that settle() adds to the count of changes: beyond every count that another user or
// another copy may have reached meanwhile.
constexpr std::int64_t kSettlement = std::int64_t{1} << 40;

enum class Needs : std::uint8_t {
  kTrust,    // the call hands out or creates something: it fails in a store in doubt
  kNothing,  // the call works in a store in doubt too
};

// The action of a call on the file, for messages; its deadline; and its needs.
struct Call {
  std::string_view doing;
  SteadyTime until = SteadyTime::max();
  Needs needs = Needs::kTrust;
};

using Changes = std::function<Result<void>()>;

class TrustedFile final : public Connection, public Engine {
 public:
  using Lock = std::unique_lock<BoundedMutex>;

  TrustedFile(std::string url, SqliteUrl parsed, const StoreOptions& options, Entropy& entropy);
  ~TrustedFile();
  TrustedFile(const TrustedFile&) = delete;
  TrustedFile& operator=(const TrustedFile&) = delete;

  // Called once, before anything else.
  Result<void> open();
  [[nodiscard]] const Uuid& id() const noexcept { return id_; }
  [[nodiscard]] const std::string& trust_folder() const { return trust_folder_; }

  std::string_view shown_url() const noexcept override { return url(); }
  Entropy& entropy() const noexcept override { return Connection::entropy(); }
  Result<SteadyTime> enter(Purpose purpose, SteadyTime by) override;
  Result<void> expect_trust(SteadyTime until) override;

  // The start of every call. kUnavailable: other calls of this process held the mutex until then.
  Result<Lock> enter(SteadyTime until = SteadyTime::max());
  // Makes all of the changes in one transaction, or none; durable if it returns without an error.
  // REQUIRES: the caller has entered.
  Result<void> atomically(const Call& call, const Changes& changes);
  // enter() and atomically().
  Result<void> change(const Call& call, const Changes& changes);

  // As those of Store.
  std::optional<Error> doubt(SteadyTime until);
  std::optional<Error> unrecorded();
  Result<void> settle(Store::Settle how);
  [[nodiscard]] std::int64_t settle_count() const noexcept { return settled_; }
  Result<std::int64_t> read_settle_count(SteadyTime until);
  Result<void> mark_gone_back(std::string_view why, std::int64_t settled, SteadyTime until);

  // Writes the place of the store, its count of changes and that of settlements. REQUIRES: a write
  // transaction is open.
  Result<void> write_place(const std::optional<Place>& place, std::int64_t changes,
                           std::int64_t settled);

 private:
  // The store in one snapshot, and the version in the file at that time.
  struct State {
    std::optional<Place> place;
    std::int64_t changes;
    std::optional<std::int64_t> unmarked;
    std::int64_t version;          // user_version
    std::int64_t version_in_file;  // may be later than the snapshot

    [[nodiscard]] bool is_marked() const { return version_in_file == (version | kMark); }
    // The first page of the log is in the file, or there is no log.
    [[nodiscard]] bool has_first_page() const { return version_in_file == version; }
    [[nodiscard]] bool has_nonce() const { return is_marked() || has_first_page(); }
  };
  struct File {
    std::string path;
    FileIdentity identity;  // when it was opened
  };
  enum class Doubt : std::uint8_t { kStays, kEnds };

  Result<void> remember_files();
  Result<void> complete(const std::optional<Place>& here, bool is_whole);

  Result<void> transact(std::string_view doing, const Changes& changes,
                        Doubt doubt = Doubt::kStays);
  Result<void> count_change();
  void remember_count();
  Result<void> shorten_log();
  Result<void> protect();
  std::int64_t with_new_nonce(std::int64_t version);

  Result<State> read_state(Statement& row);
  [[nodiscard]] bool is_elsewhere(const State& state) const;
  [[nodiscard]] std::int64_t seen_where_it_was(const State& state) const;
  [[nodiscard]] bool has_log_of_another(const State& state, std::int64_t seen) const;
  [[nodiscard]] std::int64_t changes_seen() const;
  std::optional<Error> look_for_doubt();
  [[nodiscard]] Error in_doubt(const std::string& why) const;
  // One of its files that was replaced since it was opened, or else has a second name now.
  struct Amiss {
    std::string file;
    bool is_replaced;
  };
  [[nodiscard]] std::optional<Amiss> file_amiss() const;
  [[nodiscard]] std::optional<std::string> replaced_file() const;
  // The error of a call while a file has a second name.
  Error refuse_linked(const std::string& file);
  // Disables the handle, and leaves the log and the file as they are.
  Error lose(Error why);
  Error lose_replaced(const std::string& file);
  Error lose_log_of_another();

  const bool local_file_system_;    // says the URL
  const std::string trust_folder_;  // empty: none
  const bool lacks_trust_folder_;   // one is wanted, and the data folder is unknown
  Uuid id_;
  std::atomic<std::int64_t> settled_ = 0;  // as in the latest State

  BoundedMutex mutex_;  // guards the connection and the members below
  Query state_{
      "SELECT inode, born, changes, unmarked, NULL, 0, NULL FROM store"};  // or kWholeState
  Query user_version_{"PRAGMA user_version"};
  Query count_change_{"UPDATE store SET changes = ?1"};  // RETURNING creates a table each time
  Query unmarked_{"UPDATE store SET unmarked = ?1"};
  Query settle_{
      "UPDATE store SET inode = ?1, born = ?2, volume = ?3, changes = ?4, unmarked = ?4,"
      " settled = ?5, gone_back = NULL"};
  Query volume_{"UPDATE store SET volume = ?1"};
  Query gone_back_{"UPDATE store SET gone_back = ?1 WHERE gone_back IS NULL AND settled = ?2"};
  Query begin_{"BEGIN IMMEDIATE"};
  Query commit_{"COMMIT"};
  std::optional<Error> lost_;  // why this handle does nothing more
  std::vector<File> files_;    // the file, its log, the index of its log
  bool has_places_ = false;    // false: of version 1, opened to read only
  SeenChanges seen_;
  std::int64_t changes_ = 0;  // the largest count that this handle knows to be handed out
  std::int64_t counted_ = 0;  // the count of the transaction under way
  bool doubtful_ = false;     // at the latest look
  std::optional<std::string> lost_values_;  // as gone_back in the latest State
  // The store in doubt has other evidence than its place that it holds less than it handed out.
  bool lacks_values_ = false;
};

// Creates or upgrades the tables. If two processes do so at once, one does it, and the other finds
// it done.
[[nodiscard]] Result<void> make_schema(TrustedFile& file);

}  // namespace idmint::stores::sqlite
