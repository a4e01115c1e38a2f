// sqlite:PATH. Layout of schema version 2, in a file with application_id "idmt":
//
//   store        one row:
//                id (16 bytes)
//                inode, born: of the file itself; birth time in ns since 1970; NULL: not known
//                changes: how many transactions changed the store
//                unmarked: how many had changed it when the log was begun, while the file may still
//                lack the mark of that log; NULL: a transaction found it there
//                boot, boot_clock, clock: the boot id of the host at the latest renewal of a lease,
//                its time since boot and its clock then, in ms; NULL: no lease was renewed
//   counters     name, first, last, stride, next, taken_from, closed
//   definitions  name, json (to_json)
//   spaces       name, claimed (how many of its claims there are), closed
//   claims       space, key
//   workers      pool, worker, token (16 bytes, or NULL: nobody's), holder, generation,
//                minted_until, taken_from, held_until (milliseconds since 1970),
//                nonce (16 bytes, of the latest extension, or NULL)
//
// Version 1 had the first column of `store` only, and no nonce. A file of version 1 is upgraded
// when it is first opened for writing; opened to read only it stays as it is, so that statements
// which only read must not name the columns of version 2.
//
// `next` is what the next advance hands out; `taken_from` is where the last one began, kept only so
// that the UPDATE can return it. The journal is a write-ahead log with synchronous=FULL: the frames
// of a transaction are on the disk before COMMIT returns, and no value is handed out, and no claim
// is anybody's, before that.
//
// user_version holds the version in bits 0 to 7 and the nonce of the latest log in bits 8 to 29.
// While the log holds changes that the file does not, the file itself has kMark (bit 30) too, and
// the log has not (docs/design/007-sqlite-trust.md): whoever loses the log is left with a marked
// file, every checkpoint takes the mark away, and a log whose nonce the file does not have is the
// log of another file.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/bounded_mutex.h"
#include "base/fork_wiped.h"
#include "base/local_disk.h"
#include "base/outcome.h"
#include "base/shell.h"
#include "base/sqlite_url.h"
#include "idmint/store.h"
#include "stores/backend.h"
#include "stores/sqlite_trust.h"

namespace idmint::stores {
namespace {

constexpr std::int64_t kApplicationId = 0x69646d74;  // "idmt"
constexpr std::int64_t kSchemaVersion = 2;
constexpr std::int64_t kVersionBits = 0xff;
constexpr std::int64_t kMark = 0x40000000;

// The same numbers as above.
constexpr const char* kSchema = R"(
  CREATE TABLE store (
    id BLOB NOT NULL CHECK (length(id) = 16),
    inode INTEGER,
    born INTEGER,
    changes INTEGER NOT NULL DEFAULT 0,
    unmarked INTEGER,
    boot TEXT,
    boot_clock INTEGER,
    clock INTEGER
  ) STRICT;
  CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    stride INTEGER NOT NULL,
    next INTEGER NOT NULL,
    taken_from INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    CHECK (0 <= first AND 1 <= stride AND first <= next AND next <= last + stride),
    CHECK ((next - first) % stride = 0)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE definitions (
    name TEXT NOT NULL PRIMARY KEY,
    json TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE spaces (
    name TEXT NOT NULL PRIMARY KEY,
    claimed INTEGER NOT NULL CHECK (claimed >= 0),
    closed INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE claims (
    space TEXT NOT NULL,
    key INTEGER NOT NULL,
    PRIMARY KEY (space, key)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE workers (
    pool TEXT NOT NULL,
    worker INTEGER NOT NULL CHECK (worker >= 0),
    token BLOB CHECK (length(token) = 16),
    holder TEXT NOT NULL,
    generation INTEGER NOT NULL,
    minted_until INTEGER NOT NULL CHECK (minted_until >= 0),
    taken_from INTEGER NOT NULL,
    held_until INTEGER NOT NULL,
    nonce BLOB CHECK (length(nonce) = 16),
    PRIMARY KEY (pool, worker)
  ) STRICT, WITHOUT ROWID;
  PRAGMA application_id = 0x69646d74;
  PRAGMA user_version = 2;
)";

constexpr const char* kUpgradeFrom1 = R"(
  ALTER TABLE store ADD COLUMN inode INTEGER;
  ALTER TABLE store ADD COLUMN born INTEGER;
  ALTER TABLE store ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE store ADD COLUMN unmarked INTEGER;
  ALTER TABLE store ADD COLUMN boot TEXT;
  ALTER TABLE store ADD COLUMN boot_clock INTEGER;
  ALTER TABLE store ADD COLUMN clock INTEGER;
  ALTER TABLE workers ADD COLUMN nonce BLOB CHECK (length(nonce) = 16);
  PRAGMA user_version = 2;
)";

enum Query : std::size_t {
  kAdvance,
  kRaise,
  kExtend,
  kClose,
  kCreate,
  kPeek,
  kListCounters,
  kDefine,
  kReplace,
  kFind,
  kListDefinitions,
  kCreateSpace,
  kSpace,
  kClaim,
  kCount,
  kHasClaim,
  kCloseSpace,
  kMakeWorker,
  kCountWorkers,
  kAcquire,
  kSmallestBound,
  kExtendLease,
  kRelease,
  kRaiseFloor,
  kWorker,
  kWorkers,
  kCountChange,
  kState,
  kUserVersion,
  kUnmarked,
  kSettle,
  kBegin,
  kCommit,
  kReadClocks,
  kWriteClocks,
  kQueries,
};

// How many values are left is (last - next + stride) / stride, as in CounterState::left(), and the
// value that a raise goes to is that of CounterBounds::at_or_above(). No sum overflows: 0 <= first,
// next <= last + stride <= 2^63 - 1.
constexpr std::array<const char*, kQueries> kSql = {
    "UPDATE counters SET taken_from = next,"
    " next = next + min(?2, (last - next + stride) / stride) * stride"
    " WHERE name = ?1 AND NOT closed AND (last - next + stride) / stride >= ?3"
    " RETURNING taken_from, stride, (next - taken_from) / stride",
    "UPDATE counters SET next = max(next,"
    " first + (min(max(?2, first), last + 1) - first + (stride - 1)) / stride * stride)"
    " WHERE name = ?1 RETURNING next",
    "UPDATE counters SET last = max(last, ?2)"
    " WHERE name = ?1 AND ?2 <= 9223372036854775806 - (stride - 1) RETURNING first, last, stride",
    "UPDATE counters SET closed = 1 WHERE name = ?1 RETURNING 1",
    "INSERT INTO counters (name, first, last, stride, next, taken_from, closed)"
    " VALUES (?1, ?2, ?3, ?4, ?2, ?2, 0) ON CONFLICT DO NOTHING",
    "SELECT name, first, last, stride, next, closed FROM counters WHERE name = ?1",
    "SELECT name, first, last, stride, next, closed FROM counters WHERE name >= ?1 ORDER BY name",
    "INSERT INTO definitions (name, json) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    "UPDATE definitions SET json = ?3 WHERE name = ?1 AND json = ?2",
    "SELECT name, json FROM definitions WHERE name = ?1",
    "SELECT name, json FROM definitions ORDER BY name",
    "INSERT INTO spaces (name, claimed, closed) VALUES (?1, 0, 0) ON CONFLICT DO NOTHING",
    "SELECT claimed, closed FROM spaces WHERE name = ?1",
    "INSERT INTO claims (space, key) VALUES (?1, ?2) ON CONFLICT DO NOTHING RETURNING 1",
    "UPDATE spaces SET claimed = claimed + ?2 WHERE name = ?1",
    "SELECT 1 FROM claims WHERE space = ?1 AND key = ?2",
    "UPDATE spaces SET closed = 1 WHERE name = ?1 RETURNING 1",
    "INSERT INTO workers (pool, worker, holder, generation, minted_until, taken_from, held_until)"
    " VALUES (?1, ?2, '', 0, 0, 0, 0) ON CONFLICT DO NOTHING",
    "SELECT count(*) FROM workers WHERE pool = ?1",
    // ?3 the clock of the pool, ?4 units (as lease_end(), ?4 being at least 1), ?5 how far ahead,
    // ?7 and ?8 the clock of the host
    "UPDATE workers SET taken_from = max(minted_until, ?3),"
    " minted_until = max(minted_until + 1, ?3 + ?4), generation = generation + (token IS NOT ?2),"
    " token = ?2, holder = ?6, held_until = ?8"
    " WHERE pool = ?1 AND minted_until <= ?5 AND worker = (SELECT worker FROM workers"
    "  WHERE pool = ?1 AND (token = ?2 OR token IS NULL OR held_until <= ?7)"
    "  ORDER BY token IS ?2 DESC, minted_until, worker LIMIT 1)"
    " RETURNING worker, generation, taken_from, minted_until",
    "SELECT minted_until FROM workers"
    " WHERE pool = ?1 AND (token = ?2 OR token IS NULL OR held_until <= ?3)"
    " ORDER BY token IS ?2 DESC, minted_until LIMIT 1",
    // ?5 the bound that is named, ?8 the nonce: as may_extend()
    "UPDATE workers SET minted_until = max(minted_until, ?6), held_until = ?7, nonce = ?8"
    " WHERE pool = ?1 AND worker = ?2 AND token = ?3 AND generation = ?4"
    "  AND (minted_until = ?5 OR (nonce = ?8 AND minted_until >= ?6))"
    " RETURNING 1",
    "UPDATE workers SET token = NULL, holder = ''"
    " WHERE pool = ?1 AND worker = ?2 AND token = ?3 AND generation = ?4 RETURNING 1",
    "UPDATE workers SET token = NULL, holder = '', generation = ?3,"
    " taken_from = max(minted_until, ?2),"
    " minted_until = max(minted_until, ?2) WHERE pool = ?1",
    "SELECT worker, token, holder, generation, minted_until, held_until, taken_from, nonce"
    " FROM workers WHERE pool = ?1 AND worker = ?2",
    "SELECT worker, token, holder, generation, minted_until, held_until, taken_from FROM workers"
    " WHERE pool = ?1 ORDER BY worker",
    "UPDATE store SET changes = ?1",  // RETURNING would make a table of its own each time
    "SELECT inode, born, changes, unmarked FROM store",
    "PRAGMA user_version",
    "UPDATE store SET unmarked = ?1",
    "UPDATE store SET inode = ?1, born = ?2, changes = ?3, unmarked = ?3",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "SELECT boot, boot_clock, clock FROM store",
    "UPDATE store SET boot = ?1, boot_clock = ?2, clock = ?3",
};

// Handles open in this process, and those that it or a forebear of it opened. They differ in a
// child of fork(): see open_sqlite.
int handles_seen = 0;  // guarded by the mutex of handles_here()
struct HandlesHere {
  std::mutex mutex;  // an open one in a child, whoever held it
  int count;
};
ForkWiped<HandlesHere>& handles_here() {
  // Never destroyed: a store may be, after every static.
  static auto& handles = *new ForkWiped<HandlesHere>;
  return handles;
}

void count_handles(int change) {
  const std::lock_guard lock(handles_here()->mutex);
  handles_seen += change;
  handles_here()->count += change;
}

bool forked_with_handles() {
  const std::lock_guard lock(handles_here()->mutex);
  return handles_seen != handles_here()->count;
}

// Of the header that begins an SQLite file; big-endian.
constexpr std::size_t kHeader = 100;
constexpr std::size_t kUserVersionAt = 60;
constexpr std::size_t kApplicationIdAt = 68;

using Header = std::array<unsigned char, kHeader>;

std::uint32_t number_at(const Header& header, std::size_t at) {
  return static_cast<std::uint32_t>(header[at]) << 24 |
         static_cast<std::uint32_t>(header[at + 1]) << 16 |
         static_cast<std::uint32_t>(header[at + 2]) << 8 | header[at + 3];
}

void put_number(Header& header, std::size_t at, std::int64_t number) {
  for (std::size_t i = 0; i < 4; ++i)
    header[at + i] = static_cast<unsigned char>(number >> (24 - 8 * i));
}

// SQLite's own handle of the file, without its log.
sqlite3_file& file_of(sqlite3* db) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file));
  return *file;
}

int read_header(sqlite3* db, Header& header) {
  sqlite3_file& file = file_of(db);
  return file.pMethods->xRead(&file, header.data(), static_cast<int>(header.size()), 0);
}

// Whether the file holds everything that was committed, synced. Then the next commit may begin the
// log anew, and no checkpoint writes what is in the log now. The log's index has the number of the
// last frame at 16, and at 96 that of the last frame that is in the file (SQLite's "WAL-mode file
// format").
// REQUIRES: a write transaction is open.
bool file_has_all_of_log(sqlite3* db) {
  constexpr int kRegion = 32768;
  sqlite3_file& file = file_of(db);
  void volatile* index = nullptr;
  if (file.pMethods->xShmMap(&file, 0, kRegion, 0, &index) != SQLITE_OK || index == nullptr)
    return false;
  const auto* const numbers = static_cast<const std::uint32_t volatile*>(index);
  return numbers[16 / 4] == numbers[96 / 4];
}

// With the slash; every path here has one.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// A prepared statement during one call. It must not outlive the lock under which it runs.
class Run {
 public:
  explicit Run(sqlite3_stmt* statement) : statement_(statement) {}
  ~Run() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void bind(int at, std::string_view text) {
    sqlite3_bind_text64(statement_, at, text.data() != nullptr ? text.data() : "", text.size(),
                        SQLITE_STATIC, SQLITE_UTF8);
  }
  void bind(int at, std::int64_t value) { sqlite3_bind_int64(statement_, at, value); }
  void bind(int at, std::optional<std::int64_t> value) {  // nothing: NULL
    if (value) bind(at, *value);
  }
  void bind(int at, const Uuid& id) {
    sqlite3_bind_blob(statement_, at, id.bytes().data(), static_cast<int>(id.bytes().size()),
                      SQLITE_STATIC);
  }

  [[nodiscard]] int step() { return sqlite3_step(statement_); }

  [[nodiscard]] std::int64_t integer(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] std::optional<std::int64_t> integer_or_null(int column) const {
    if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
    return integer(column);
  }
  // Valid until the next step.
  [[nodiscard]] std::string_view bytes(int column) const {
    const void* const data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return data == nullptr
               ? std::string_view{}
               : std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size));
  }

 private:
  sqlite3_stmt* statement_;
};

// One connection under one mutex. After an I/O error it is poisoned: an fsync that failed once may
// report success the next time without having written anything, so that nothing this handle would
// acknowledge afterwards could be believed.
class SqliteStore final : public Store,
                          private CounterStore,
                          private Catalog,
                          private UniqueIndex,
                          private LeaseTable {
 public:
  SqliteStore(std::string url, SqliteUrl parsed, const StoreOptions& options)
      : url_(std::move(url)),
        path_(std::move(parsed.path)),
        local_file_system_(parsed.local_file_system),
        patience_(options.deadline),
        read_only_(options.access == Access::kReadOnly),
        trust_folder_(options.trust_folder),
        options_(options),
        entropy_(options.entropy != nullptr ? *options.entropy : system_entropy()) {
    count_handles(1);
  }

  // In a child of fork() the handle is left as it is, on purpose: closing it there would take the
  // child for the last user of the file and remove the log that the parent still writes to.
  ~SqliteStore() override {
    if (!owner_) return;
    // The log at its path may be that of other processes by now; or the file is another one, where
    // the look leaves the log.
    if (db_ != nullptr && replaced_file())
      leave_log();
    else if (db_ != nullptr)
      look_for_doubt();
    for (sqlite3_stmt* const statement : statements_) sqlite3_finalize(statement);
    sqlite3_close(db_);
    count_handles(-1);
  }
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  const Uuid& id() const noexcept override { return id_; }
  std::string_view url() const noexcept override { return url_; }
  std::chrono::milliseconds deadline() const noexcept override { return patience_; }
  CounterStore* counters() noexcept override { return this; }
  Catalog* catalog() noexcept override { return this; }
  UniqueIndex* unique_index() noexcept override { return this; }
  LeaseTable* leases() noexcept override { return this; }
  std::optional<Error> doubt() override;
  Result<void> settle(Settle how) override;

  // Called once, before anything else.
  Result<void> open(const StoreOptions& options);

 private:
  using Lock = std::unique_lock<BoundedMutex>;

  Result<void> create(std::span<const NewCounter> counters) override;
  Result<Range> advance(std::string_view counter, std::int64_t count, Take take,
                        SteadyTime until) override;
  Result<std::vector<std::int64_t>> raise(std::span<const std::string> counters,
                                          std::int64_t floor) override;
  Result<std::vector<CounterBounds>> extend(std::span<const std::string> counters,
                                            std::int64_t last) override;
  Result<void> close(std::span<const std::string> counters) override;
  Result<CounterState> peek(std::string_view counter, SteadyTime until) override;
  Result<std::vector<CounterState>> list(std::string_view prefix, SteadyTime until) override;
  Result<Definition> define(const Definition& definition) override;
  Result<Definition> replace(const Definition& old, const Definition& updated) override;
  Result<Definition> find(std::string_view name, SteadyTime until) override;
  Result<std::vector<CatalogEntry>> list() override;
  Result<void> create_space(std::string_view space) override;
  Result<std::vector<bool>> insert(std::string_view space, std::span<const std::int64_t> keys,
                                   SteadyTime until) override;
  Result<std::int64_t> claimed(std::string_view space, SteadyTime until) override;
  Result<bool> contains(std::string_view space, std::int64_t key) override;
  Result<void> close_space(std::string_view space) override;
  Result<void> create_pool(std::string_view pool, std::int64_t workers) override;
  Result<Lease> acquire(std::string_view pool, const LeaseRequest& request,
                        SteadyTime until) override;
  Result<Lease> extend(std::string_view pool, const Lease& lease, std::int64_t to,
                       const Uuid& nonce, const LeaseTerms& terms, SteadyTime until) override;
  Result<void> release(std::string_view pool, std::int64_t worker, const Uuid& token,
                       std::int64_t generation, SteadyTime until) override;
  Result<void> raise_floor(std::string_view pool, std::int64_t floor) override;
  Result<std::vector<LeaseState>> workers(std::string_view pool) override;

  struct Space {
    std::int64_t claimed;
    bool closed;
  };

  Result<Lock> enter(SteadyTime by = SteadyTime::max());
  Result<sqlite3_stmt*> prepared(Query query);
  enum class Needs : std::uint8_t { kTrust, kNothing };
  Result<void> atomically(std::string_view doing, const std::function<Result<void>()>& changes,
                          Needs needs = Needs::kTrust);
  enum class Doubt : std::uint8_t { kStays, kEnds };
  Result<void> transact(std::string_view doing, const std::function<Result<void>()>& changes,
                        Doubt doubt = Doubt::kStays);
  Result<void> count_change();
  void remember_count();
  Result<void> checkpoint();
  Result<void> protect();
  struct State;
  Result<State> read_state(Run& row);
  bool is_elsewhere(const State& state) const;
  std::int64_t seen_where_it_was(const State& state) const;
  bool has_log_of_another(const State& state, std::int64_t seen) const;
  Result<std::int64_t> version_in_file();
  std::int64_t with_new_nonce(std::int64_t version);
  Result<void> write_unmarked(std::optional<std::int64_t> changes, std::string_view doing);
  Result<void> mark(std::int64_t version);
  Result<void> sync_mark(std::int64_t version);
  Error not_marked(int result);
  std::int64_t changes_seen() const;
  std::optional<Error> look_for_doubt();
  std::optional<std::string> replaced_file() const;
  Error lose(const std::string& file);
  Error lose_log_of_another();
  // Says what a change did to a counter, of the row that it returned.
  using OnRow = std::function<void(const Run& row)>;
  Result<void> change_each(Query query, std::span<const std::string> counters,
                           std::optional<std::int64_t> value, std::string_view doing,
                           const OnRow& on_row);
  Result<void> make_counter(const NewCounter& counter);
  Result<CounterState> read_counter(std::string_view counter);
  Result<bool> claim(std::string_view space, std::int64_t key);
  Result<Space> read_space(std::string_view space);
  Result<std::int64_t> count_workers(std::string_view pool);
  // Within the transaction of a lease: refuses a clock that went far ahead in this boot.
  Result<void> check_clock(std::string_view pool, const LeaseTerms& terms);
  Result<void> write_clocks(std::string_view boot, std::int64_t boot_clock, std::int64_t clock);
  // Why the row did not let the lease be extended under that nonce, or be released.
  std::unexpected<Error> refused(std::string_view pool, const Lease& lease,
                                 const Uuid* nonce = nullptr);
  Result<LeaseState> worker_of(const Run& row, std::int64_t now) const;
  Result<Definition> read_definition(std::string_view name, std::string* json = nullptr);
  static CounterState state_of(const Run& row);
  Result<Definition> definition_of(const Run& row) const;

  Result<void> check_file() const;
  Result<void> connect(const StoreOptions& options);
  Result<void> connect_without_writing();
  enum class Content : std::uint8_t { kNothing, kVersion1, kOurs };
  Result<Content> identify();
  Result<void> make_schema(const StoreOptions& options);
  Result<void> write_id(const Uuid& id);
  Result<void> write_place(const std::optional<Place>& place, std::int64_t changes);
  Result<void> switch_to_wal();
  Result<void> remember_files();
  Result<void> read_id();
  Result<std::int64_t> read_integer(const char* sql);
  Result<void> execute(const char* sql, std::string_view doing);
  Result<void> execute(Query query, std::string_view doing);

  Error failed(int result, std::string_view doing);
  std::string how_to_make() const;
  std::unexpected<Error> damaged(std::string why) const;
  void poison() noexcept;
  void leave_log() noexcept;
  bool wait_for_lock(int attempt) noexcept;

  const OwnedByProcess owner_;
  const std::string url_;
  const std::string path_;
  const bool local_file_system_;  // says the URL
  const std::chrono::milliseconds patience_;
  const bool read_only_;
  const std::string trust_folder_;
  const StoreOptions options_;
  Entropy& entropy_;
  Uuid id_;

  BoundedMutex mutex_;  // guards what follows
  sqlite3* db_ = nullptr;
  std::array<sqlite3_stmt*, kQueries> statements_{};
  SteadyTime begun_;  // the call under way
  SteadyTime until_;  // its deadline
  bool opening_ = true;
  bool poisoned_ = false;
  std::optional<Error> lost_;  // why this handle does nothing more
  struct File {
    std::string path;
    FileIdentity identity;  // when it was opened
  };
  std::vector<File> files_;  // the file, its log, the index of its log
  bool has_places_ = false;  // false: of version 1, opened to read only
  SeenChanges seen_;
  std::int64_t changes_ = 0;  // the largest count that this handle knows to be handed out
  std::int64_t counted_ = 0;  // the count of the transaction under way
  std::int64_t synced_ = 0;   // the mark, as user_version, that this handle knows to be on the disk
  bool doubtful_ = false;     // as it was looked at last
  // In doubt: something shows that it holds less than it handed out, besides its place.
  bool lacks_values_ = false;
  int log_pages_ = 0;  // after the latest commit
};

// ---- errors

std::string SqliteStore::how_to_make() const {
  return "make a store with: idmint create NAME --store " + shell_word(url_) +
         " (in a program: StoreOptions::create), or give the path of one";
}

std::unexpected<Error> SqliteStore::damaged(std::string why) const {
  return std::unexpected(
      Error{Code::kDataLoss, path_ + " is damaged: " + std::move(why) +
                                 "; restore it from a backup, and go on with sequences that begin "
                                 "past every value in use"});
}

std::string waited_since(SteadyTime begun) {
  const auto waited = std::chrono::steady_clock::now() - begun;
  return std::to_string(std::chrono::round<std::chrono::milliseconds>(waited).count()) + " ms";
}

// REQUIRES: `result` is what the latest call on db_ returned.
Error SqliteStore::failed(int result, std::string_view doing) {
  const int cause = sqlite3_system_errno(db_);
  const bool no_space = cause == ENOSPC || cause == EDQUOT || cause == EFBIG;
  const bool not_allowed = cause == EACCES || cause == EPERM || cause == EROFS;
  std::string what = "could not " + std::string(doing) + " " + path_ + ": ";
  std::string why = sqlite3_errmsg(db_);
  if ((result & 0xff) == SQLITE_CANTOPEN || (result & 0xff) == SQLITE_IOERR)
    if (cause != 0) why += std::string(" (") + std::strerror(cause) + ")";

  const auto full = [&] {
    return Error{Code::kResourceExhausted, what + "no space left (" + why +
                                               "); nothing was changed; free some and ask again"};
  };
  const auto refused = [&] {
    if (read_only_ && !opening_)
      return Error{Code::kPermissionDenied,
                   what + "it was opened to read only; open it to write (StoreOptions::access)"};
    return Error{Code::kPermissionDenied,
                 what + why + "; the file and its folder must be writable by this user"};
  };
  switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return {Code::kUnavailable, what + "others hold it locked (waited " + waited_since(begun_) +
                                      "); nothing was changed; ask again"};
    case SQLITE_FULL:
      return full();
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return refused();
    case SQLITE_NOTADB:
      return {Code::kDataLoss, path_ +
                                   " is not an SQLite file, or its first page is damaged; it was "
                                   "left as it is: give another path, or restore it from a backup"};
    case SQLITE_ERROR:
      return {Code::kDataLoss, path_ + " is not as idmint makes it: " + why +
                                   "; look at its tables before you restore anything"};
    case SQLITE_NOMEM:
      if (opening_) return {Code::kResourceExhausted, what + "out of memory; free some, try again"};
      poison();
      return {Code::kUnknown, what +
                                  "out of memory; it may have been done or not, and this handle "
                                  "does nothing more: free some memory, open the store again"};
    case SQLITE_CORRUPT:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
      return damaged(std::move(why)).error();
    case SQLITE_CANTOPEN:
      if (no_space) return full();
      if (not_allowed) return refused();
      return {Code::kUnavailable, what + why};
    default:
      break;
  }
  if (opening_) {
    if (no_space) return full();
    if (not_allowed) return refused();
    return {Code::kUnavailable, what + why};
  }
  // Nothing of a log frame that could not be written counts, so that is as a full disk is. Failing
  // anywhere else, the commit may be on the disk.
  if (result == SQLITE_IOERR_WRITE && no_space) return full();
  poison();
  return {Code::kUnknown, what + why +
                              "; it may have been done or not, and this handle does nothing more: "
                              "check the disk, then open the store again"};
}

// ---- waiting, and moving the log into the file

// SQLite's busy handler: sleeps for a random while, longer from attempt to attempt but never so
// long that the others always win. False: the deadline is over.
bool SqliteStore::wait_for_lock(int attempt) noexcept {
  const auto now = std::chrono::steady_clock::now();
  if (now >= until_) return false;
  std::array<std::byte, 2> random{};
  entropy_.fill(random);
  const int longest_us = std::min(50 << std::min(attempt, 10), 2000);
  const int us =
      1 + (std::to_integer<int>(random[0]) << 8 | std::to_integer<int>(random[1])) % longest_us;
  std::this_thread::sleep_until(std::min(until_, now + std::chrono::microseconds{us}));
  return true;
}

// Moves the log into the file where it is long. Stands in for SQLite's automatic checkpoint, which
// keeps failures to itself. The commit before it is durable whatever happens here, and is
// acknowledged; an I/O error poisons the handle for what comes after. What is merely not possible
// now (readers, a full disk) is tried again after a later commit. A checkpoint that readers stopped
// half-way took the mark away, and changes are left in the log: they are marked again.
Result<void> SqliteStore::checkpoint() {
  constexpr int kPages = 1000;
  if (log_pages_ < kPages) return {};
  int in_log = 0;
  int moved = 0;
  const int result =
      sqlite3_wal_checkpoint_v2(db_, "main", SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved);
  if ((result & 0xff) == SQLITE_IOERR) poison();
  if (result != SQLITE_OK || moved == in_log) return {};
  const Result<std::int64_t> version = version_in_file();
  if (!version) return std::unexpected(version.error());
  if ((*version & kMark) != 0) return {};
  Result<void> marked = protect();
  if (marked) remember_count();
  return marked;
}

// Marks the file again.
Result<void> SqliteStore::protect() {
  return transact("protect", [this] { return doubtful_ ? Result<void>() : count_change(); });
}

// Nothing more is done with the handle; nor does closing it move the log into the file.
void SqliteStore::poison() noexcept {
  poisoned_ = true;
  leave_log();
}

// Closing neither moves the log into the file nor removes it.
void SqliteStore::leave_log() noexcept {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

// ---- opening

Result<void> SqliteStore::execute(const char* sql, std::string_view doing) {
  if (const int result = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr); result != SQLITE_OK)
    return std::unexpected(failed(result, doing));
  return {};
}

Result<void> SqliteStore::execute(Query query, std::string_view doing) {
  const Result<sqlite3_stmt*> statement = prepared(query);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  if (const int result = run.step(); result != SQLITE_DONE)
    return std::unexpected(failed(result, doing));
  return {};
}

Result<std::int64_t> SqliteStore::read_integer(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  int result = sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr);
  std::int64_t value = 0;
  if (result == SQLITE_OK) {
    result = sqlite3_step(statement);
    if (result == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
  }
  Result<std::int64_t> answer = value;
  if (result != SQLITE_ROW) answer = std::unexpected(failed(result, "read"));
  sqlite3_finalize(statement);
  return answer;
}

// Only reads.
Result<SqliteStore::Content> SqliteStore::identify() {
  const Result<std::int64_t> application = read_integer("PRAGMA application_id");
  if (!application) return std::unexpected(application.error());
  Result<std::int64_t> version = read_integer("PRAGMA user_version");
  if (!version) return std::unexpected(version.error());
  if (*application == kApplicationId) {
    *version &= kVersionBits;
    if (*version == kSchemaVersion) return Content::kOurs;
    if (*version == 1) return Content::kVersion1;
    if (*version > kSchemaVersion)
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   path_ + " has schema version " + std::to_string(*version) +
                                       ", and this idmint knows versions up to " +
                                       std::to_string(kSchemaVersion) +
                                       "; it was left as it is: use a newer idmint"});
    return damaged("it has schema version " + std::to_string(*version));
  }
  if (sqlite3_get_autocommit(db_) != 0) {
    // Another process may be making the store at this moment: all of it must be of one snapshot.
    if (Result<void> begun = execute("BEGIN", "read"); !begun)
      return std::unexpected(begun.error());
    Result<Content> content = identify();
    if (!content) {
      sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
      return content;
    }
    if (Result<void> ended = execute("END", "read"); !ended) return std::unexpected(ended.error());
    return content;
  }
  const Result<std::int64_t> tables = read_integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return std::unexpected(tables.error());
  if (*application == 0 && *version == 0 && *tables == 0) return Content::kNothing;
  return std::unexpected(Error{Code::kFailedPrecondition,
                               path_ + " is an SQLite file of another program; it was left as it "
                                       "is: give another path"});
}

Result<void> SqliteStore::switch_to_wal() {
  // Not every lock taken here asks the busy handler.
  for (int attempt = 0;; ++attempt) {
    sqlite3_stmt* statement = nullptr;
    int result = sqlite3_prepare_v2(db_, "PRAGMA journal_mode = WAL", -1, &statement, nullptr);
    if (result == SQLITE_OK) result = sqlite3_step(statement);
    std::string mode;
    if (result == SQLITE_ROW) mode = Run(statement).bytes(0);
    std::optional<Error> error;
    if (result != SQLITE_ROW) error = failed(result, "set the journal of");
    sqlite3_finalize(statement);
    if (mode == "wal") return {};
    if (!error)
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   path_ + " cannot have a write-ahead log (journal_mode stays " +
                                       mode +
                                       "); put it on a local file system with shared memory"});
    if ((result & 0xff) != SQLITE_BUSY || !wait_for_lock(attempt))
      return std::unexpected(*std::move(error));
  }
}

// Makes or upgrades the tables. Of two processes that come here at once, one does it, and the other
// finds it done.
Result<void> SqliteStore::make_schema(const StoreOptions& options) {
  if (Result<void> begun = execute("BEGIN IMMEDIATE", "make the tables of"); !begun) return begun;
  const auto make = [&]() -> Result<void> {
    const Result<Content> content = identify();
    if (!content) return std::unexpected(content.error());
    if (*content == Content::kOurs) return {};
    if (*content == Content::kNothing) {
      if (Result<void> ok = execute(kSchema, "make the tables of"); !ok) return ok;
      if (Result<void> ok = write_id(draw_store_id(options)); !ok) return ok;
    } else {
      if (Result<void> ok = execute(kUpgradeFrom1, "upgrade the tables of"); !ok) return ok;
      if (Result<void> ok = read_id(); !ok) return ok;
      // This user saw the store upgraded before: this is an older backup of it, of whose place
      // nothing is known.
      if (is_counted(trust_folder_, id_)) return write_place(Place{0, std::nullopt}, 0);
    }
    return write_place(place_of(path_), 0);
  };
  Result<void> made = make();
  if (made) made = execute("COMMIT", "make the tables of");
  if (sqlite3_get_autocommit(db_) == 0) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  if (!made) return made;
  // Into the file at once, so that it can be read without its log. Where readers stop this, a file
  // that loses its log is found damaged.
  const int moved =
      sqlite3_wal_checkpoint_v2(db_, "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  if ((moved & 0xff) == SQLITE_IOERR) return std::unexpected(failed(moved, "make the tables of"));
  return {};
}

Result<void> SqliteStore::write_id(const Uuid& id) {
  sqlite3_stmt* statement = nullptr;
  int result =
      sqlite3_prepare_v2(db_, "INSERT INTO store (id) VALUES (?1)", -1, &statement, nullptr);
  if (result == SQLITE_OK) {
    Run run(statement);
    run.bind(1, id);
    result = run.step();
  }
  Result<void> written;
  if (result != SQLITE_DONE) written = std::unexpected(failed(result, "name"));
  sqlite3_finalize(statement);
  return written;
}

// Says where the store is, and how many changes were made.
Result<void> SqliteStore::write_place(const std::optional<Place>& place, std::int64_t changes) {
  const Result<sqlite3_stmt*> statement = prepared(kSettle);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  if (place) run.bind(1, place->inode);
  if (place) run.bind(2, place->born);
  run.bind(3, changes);
  if (const int result = run.step(); result != SQLITE_DONE)
    return std::unexpected(failed(result, "write the place of"));
  return {};
}

Result<void> SqliteStore::read_id() {
  sqlite3_stmt* statement = nullptr;
  int result = sqlite3_prepare_v2(db_, "SELECT id FROM store", -1, &statement, nullptr);
  if (result == SQLITE_OK) result = sqlite3_step(statement);
  Uuid::Bytes bytes{};
  Result<void> answer;
  if (result == SQLITE_ROW) {
    Run run(statement);
    const std::string_view id = run.bytes(0);
    if (id.size() == bytes.size()) {
      std::ranges::copy(id, bytes.begin());
      id_ = Uuid(bytes);
    } else {
      answer = damaged("its id has " + std::to_string(id.size()) + " bytes");
    }
  } else if (result == SQLITE_DONE) {
    answer = damaged("its id is missing");
  } else {
    answer = std::unexpected(failed(result, "read"));
  }
  sqlite3_finalize(statement);
  return answer;
}

// Of the effective user.
bool may(const std::string& path, int what) {
  return ::faccessat(AT_FDCWD, path.c_str(), what, AT_EACCESS) == 0;
}

Result<void> SqliteStore::connect(const StoreOptions& options) {
  if (read_only_ && may(path_, F_OK) && !(may(path_, W_OK) && may(folder_of(path_), W_OK)))
    return connect_without_writing();
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                    (options.create && !read_only_ ? SQLITE_OPEN_CREATE : 0);
  if (const int result = sqlite3_open_v2(path_.c_str(), &db_, flags, nullptr);
      result != SQLITE_OK) {
    if (db_ == nullptr)
      return std::unexpected(Error{Code::kResourceExhausted, "out of memory opening " + path_});
    if (sqlite3_system_errno(db_) != ENOENT) return std::unexpected(failed(result, "open"));
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    std::error_code ignored;
    if (!std::filesystem::exists(folder, ignored))
      return std::unexpected(Error{
          Code::kNotFound,
          "no folder " + folder.string() + " to hold " + path_ +
              (options.create && !read_only_ ? "; make it first" : "; give the path of a store")});
    // SQLite, not allowed to make the file, tried to read it.
    if (options.create && !read_only_)
      return std::unexpected(Error{Code::kPermissionDenied, "could not make " + path_ +
                                                                ": the folder " + folder.string() +
                                                                " must be writable by this user"});
    return std::unexpected(Error{Code::kNotFound, "no store at " + path_ + "; " + how_to_make()});
  }
  if (sqlite3_db_readonly(db_, "main") == 1)
    return std::unexpected(Error{Code::kPermissionDenied,
                                 path_ + " is read-only for this user; make it and its folder "
                                         "writable, or open it as its owner"});
  return {};
}

// For a user who may not write the file, or not make its log beside it. SQLite reads a file with a
// write-ahead log under the same locks as everybody, if the log and its index are there already;
// otherwise it would make them, and a user who may do that, of a file that he may not write, would
// make them so that nobody could write them any more. (immutable=1 goes without locks, and reads
// nonsense when somebody writes.)
Result<void> SqliteStore::connect_without_writing() {
  const auto refuse = [this](const std::string& why) {
    return std::unexpected(Error{Code::kPermissionDenied, path_ + why});
  };
  std::string uri = path_.starts_with('/') ? "file://" : "file:";
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : path_) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || c == '/' || c == '.';
    uri += plain ? std::string(1, c) : std::string{'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  const int flags =
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int result = sqlite3_open_v2((uri + "?readonly_shm=1").c_str(), &db_, flags, nullptr);
  if (db_ == nullptr)
    return std::unexpected(Error{Code::kResourceExhausted, "out of memory opening " + path_});
  if (sqlite3_system_errno(db_) == EACCES)
    return refuse(" may not be read by this user; open it as its owner");
  if (result != SQLITE_OK) return std::unexpected(failed(result, "open"));
  // SQLite did not look for the log yet. Read through its own descriptor: closing another one would
  // drop the locks that this process has on the file.
  Header header{};
  read_header(db_, header);
  constexpr std::size_t kFormatToWrite = 18;
  const bool has_log = header[kFormatToWrite] == 2;
  if (has_log &&
      (may(folder_of(path_), W_OK) || !may(path_ + "-wal", R_OK) || !may(path_ + "-shm", R_OK)))
    return refuse(
        std::string(may(folder_of(path_), W_OK)
                        ? " is read-only for this user, in a folder that is not."
                        : " or its folder is read-only for this user, and nobody has it open.") +
        " Make both writable, or read a copy that its owner makes: sqlite3 " + shell_word(path_) +
        " \"VACUUM INTO 'copy.db'\"");
  return {};
}

// Whether the file, which may not be there yet, can be a store by this name.
Result<void> SqliteStore::check_file() const {
  const auto refuse = [this](const std::string& why) {
    return std::unexpected(Error{Code::kFailedPrecondition, path_ + why});
  };
  // The log's shared memory and locks keep the processes of one host apart, and not two hosts.
  struct ::statfs system{};
  if (!local_file_system_ &&
      (::statfs(path_.c_str(), &system) == 0 || ::statfs(folder_of(path_).c_str(), &system) == 0) &&
      is_shared_between_hosts(system.f_type))
    return refuse(
        " lies on a file system that hosts share (such as NFS, SMB or FUSE), where two hosts could "
        "take the same values; keep it on a disk of this host, or where only this host uses it, "
        "add ?filesystem=local to the URL");
  // SQLite would wait for the other end of a FIFO, and write to a device.
  std::error_code unknown;
  const auto kind = std::filesystem::status(path_, unknown).type();
  if (kind != std::filesystem::file_type::regular && !unknown &&
      kind != std::filesystem::file_type::not_found)
    return refuse(std::string(kind == std::filesystem::file_type::directory
                                  ? " is a folder"
                                  : " is not a plain file") +
                  "; give the path of a file");
  // SQLite would open these in the same way, beside the file that a symbolic link leads to.
  const std::string file = std::filesystem::weakly_canonical(path_, unknown).string();
  for (const char* const suffix : {"-journal", "-wal", "-shm"}) {
    const std::string beside = file + suffix;
    const auto found = std::filesystem::symlink_status(beside, unknown).type();
    if (found != std::filesystem::file_type::regular && !unknown &&
        found != std::filesystem::file_type::not_found)
      return std::unexpected(
          Error{Code::kFailedPrecondition,
                beside + " is not a plain file, and SQLite would use it as one of the files of " +
                    path_ + "; find out what it is for, and move it away"});
  }
  // SQLite keeps the log beside the name that it is given.
  switch (names_of(path_)) {
    case Names::kOne:
      break;
    case Names::kHardLinks:
      return refuse(
          " has another name (a hard link): each name would have a log of its own, and give every "
          "value again; remove all names but one");
    case Names::kMountedAlone:
      return refuse(
          " is mounted without its folder: its log would stay outside, and every value be given "
          "again; mount the folder, never the file");
  }
  return {};
}

Result<void> SqliteStore::open(const StoreOptions& options) {
  begun_ = std::chrono::steady_clock::now();
  until_ = std::min(options.until, begun_ + patience_);
  if (Result<void> ok = check_file(); !ok) return ok;
  if (Result<void> ok = connect(options); !ok) return ok;
  sqlite3_busy_handler(
      db_,
      [](void* self, int attempt) noexcept -> int {
        return static_cast<SqliteStore*>(self)->wait_for_lock(attempt) ? 1 : 0;
      },
      this);
  // Until we know whose it is, a file is not even tidied up.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);

  const Result<Content> content = identify();
  if (!content) return std::unexpected(content.error());
  if (*content == Content::kNothing && (!options.create || read_only_))
    return std::unexpected(Error{Code::kNotFound, path_ + " is empty; " + how_to_make()});
  has_places_ = !read_only_ || *content == Content::kOurs;
  if (read_only_) {
    if (Result<void> ok = execute("PRAGMA query_only=ON", "set up"); !ok) return ok;
    if (Result<void> ok = read_id(); !ok) return ok;
    if (Result<void> ok = remember_files(); !ok) return ok;
    sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
    if (const auto place = place_of(path_)) seen_ = SeenChanges(trust_folder_, id_, *place, false);
    look_for_doubt();  // a log that is not to be moved into the file when this handle is closed
    opening_ = false;
    return {};
  }
  if (Result<void> ok = execute("PRAGMA synchronous=FULL", "set up"); !ok) return ok;
  if (Result<void> ok = switch_to_wal(); !ok) return ok;
  if (*content != Content::kOurs)
    if (Result<void> ok = make_schema(options); !ok) return ok;
  if (Result<void> ok = read_id(); !ok) return ok;
  // Where a sync fails while the journal is switched, SQLite answers "wal" and goes back.
  const Result<std::int64_t> wal =
      read_integer("SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'");
  if (!wal) return std::unexpected(wal.error());
  if (*wal != 1)
    return std::unexpected(
        Error{Code::kUnavailable, path_ + " could not be given a write-ahead log (an I/O error?); "
                                          "check the disk, then open it again"});

  if (Result<void> ok = remember_files(); !ok) return ok;
  sqlite3_wal_hook(
      db_,
      [](void* self, sqlite3*, const char*, int pages) noexcept -> int {
        static_cast<SqliteStore*>(self)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  if (const auto place = place_of(path_)) seen_ = SeenChanges(trust_folder_, id_, *place, true);
  doubtful_ = look_for_doubt().has_value();
  opening_ = false;
  return {};
}

// Which files were opened; how each is told from one that is put in its place. Between SQLite's
// opening and the look here another may have come: then no descriptor is open on what is found.
Result<void> SqliteStore::remember_files() {
  const std::string path = sqlite3_db_filename(db_, "main");
  const auto [log, index] = std::pair(path + "-wal", path + "-shm");
  for (const std::string& each : {path, log, index}) {
    const std::optional<FileIdentity> identity = identity_of(each);
    // One that is only read may be without a log.
    if (!identity && read_only_ && each != path) continue;
    if (!identity || (!read_only_ && !is_open_here(*identity)))
      return std::unexpected(
          Error{Code::kDataLoss, each + " was removed or replaced while it was opened; find out "
                                        "by whom, and open it again"});
    files_.push_back({each, *identity});
  }
  return {};
}

// ---- whether the file is trusted

// The one of its files that is not the one that was opened.
std::optional<std::string> SqliteStore::replaced_file() const {
  for (const File& file : files_)
    if (identity_of(file.path) != file.identity) return file.path;
  return std::nullopt;
}

Error SqliteStore::lose(const std::string& file) {
  leave_log();
  lost_ = Error{Code::kDataLoss,
                file +
                    " was moved, removed or replaced while it was open: other processes may "
                    "take the same values; end all programs that use the store, find out who "
                    "did it, and open it again, which says whether values are missing"};
  return *lost_;
}

Error SqliteStore::not_marked(int result) {
  if (result == SQLITE_FULL)
    return {Code::kResourceExhausted, "could not mark " + path_ +
                                          ": no space left; the values of this call are lost; "
                                          "free some and ask again"};
  poison();
  return {Code::kUnknown, "could not mark " + path_ + ": " + sqlite3_errstr(result) +
                              "; the values of this call are lost, and this handle does nothing "
                              "more: check the disk, then open the store again"};
}

// The user_version of the file itself, without its log.
Result<std::int64_t> SqliteStore::version_in_file() {
  Header header{};
  const int result = read_header(db_, header);
  if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ)
    return std::unexpected(Error{Code::kUnavailable, "could not read " + path_ + ": " +
                                                         sqlite3_errstr(result) +
                                                         "; check the disk, then ask again"});
  return number_at(header, kUserVersionAt);
}

std::int64_t SqliteStore::with_new_nonce(std::int64_t version) {
  constexpr std::int64_t kNonces = std::int64_t{1} << 22;
  std::array<std::byte, 3> random{};
  entropy_.fill(random);
  std::int64_t nonce = 0;
  for (const std::byte each : random) nonce = nonce << 8 | std::to_integer<std::int64_t>(each);
  const std::int64_t drawn = (version & kVersionBits) | nonce % kNonces << 8;
  constexpr std::int64_t kOther = 1 << 8;
  return drawn == (version & ~kMark) ? drawn ^ kOther : drawn;
}

// Keeps how many changes there were before the log was begun; nullopt: the file has its mark.
Result<void> SqliteStore::write_unmarked(std::optional<std::int64_t> changes,
                                         std::string_view doing) {
  const Result<sqlite3_stmt*> statement = prepared(kUnmarked);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, changes);
  if (const int result = run.step(); result != SQLITE_DONE)
    return std::unexpected(failed(result, doing));
  return {};
}

// Writes the mark into the file itself and syncs it. It lies in the first sector, so that a power
// cut leaves the old header or the new one.
// REQUIRES: the log holds the first page, and no checkpoint can move that into the file meanwhile.
Result<void> SqliteStore::mark(std::int64_t version) {
  Header header{};
  int result = read_header(db_, header);
  if (result == SQLITE_OK) {
    put_number(header, kUserVersionAt, version | kMark);
    put_number(header, kApplicationIdAt, kApplicationId);  // a new file may have it in its log only
    sqlite3_file& file = file_of(db_);
    constexpr std::size_t kEnd = kApplicationIdAt + 4;
    result = file.pMethods->xWrite(&file, &header[kUserVersionAt], kEnd - kUserVersionAt,
                                   kUserVersionAt);
  }
  if (result != SQLITE_OK) return std::unexpected(not_marked(result));
  return sync_mark(version);
}

Result<void> SqliteStore::sync_mark(std::int64_t version) {
  sqlite3_file& file = file_of(db_);
  const int result = file.pMethods->xSync(&file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
  if (result != SQLITE_OK) return std::unexpected(not_marked(result));
  synced_ = version;
  return {};
}

// The store as one snapshot of the log shows it, and beside it what the file itself says.
struct SqliteStore::State {
  std::optional<std::int64_t> inode;
  std::optional<std::int64_t> born;
  std::int64_t changes;
  std::optional<std::int64_t> unmarked;
  std::int64_t version;          // user_version
  std::int64_t version_in_file;  // may be later than the snapshot

  [[nodiscard]] bool is_marked() const { return version_in_file == (version | kMark); }
  // The first page of the log is in the file, or there is no log.
  [[nodiscard]] bool has_first_page() const { return version_in_file == version; }
  [[nodiscard]] bool has_nonce() const { return is_marked() || has_first_page(); }
};

// REQUIRES: `row` runs kState. The snapshot lasts as long as it.
Result<SqliteStore::State> SqliteStore::read_state(Run& row) {
  if (const int result = row.step(); result != SQLITE_ROW)
    return std::unexpected(failed(result, "read"));
  State state{.inode = row.integer_or_null(0),
              .born = row.integer_or_null(1),
              .changes = row.integer(2),
              .unmarked = row.integer_or_null(3),
              .version = 0,
              .version_in_file = 0};
  const Result<sqlite3_stmt*> statement = prepared(kUserVersion);
  if (!statement) return std::unexpected(statement.error());
  Run version(*statement);
  if (const int result = version.step(); result != SQLITE_ROW)
    return std::unexpected(failed(result, "read"));
  state.version = version.integer(0);
  const Result<std::int64_t> in_file = version_in_file();
  if (!in_file) return std::unexpected(in_file.error());
  state.version_in_file = *in_file;
  return state;
}

// Whether the file is not where it says that it lives.
bool SqliteStore::is_elsewhere(const State& state) const {
  const std::optional<Place> here = place_of(path_);
  if (!state.inode || !here) return false;
  // The birth time decides where both are known: an inode may change with a remount.
  return state.born && here->born ? *state.born != *here->born : *state.inode != here->inode;
}

// The count of changes that was seen in the place that a copy was made from.
std::int64_t SqliteStore::seen_where_it_was(const State& state) const {
  if (!state.inode || !is_elsewhere(state)) return 0;
  return SeenChanges(trust_folder_, id_, Place{*state.inode, state.born}, false).read();
}

// Whether the log was written for another file than the one that it lies beside, such as a backup
// that was put in the place of the file. A file lacks the nonce of its own log only until it is
// marked, and nothing is handed out before that.
// REQUIRES: `seen` was read before `state`.
bool SqliteStore::has_log_of_another(const State& state, std::int64_t seen) const {
  if (state.has_nonce()) return false;
  return !state.unmarked || std::max({seen, changes_, seen_where_it_was(state)}) > *state.unmarked;
}

// The log and the file are left as they are: closing would move the one into the other.
Error SqliteStore::lose_log_of_another() {
  leave_log();
  const std::string log = path_ + "-wal";
  lost_ = Error{Code::kDataLoss,
                path_ + " is not the file that its log " + log +
                    " was written for: an older state, such as a backup, was copied over it, and "
                    "what is read is a mixture of both; end all programs that use it, remove " +
                    log + " and " + path_ + "-shm, copy the older state again, and raise it past " +
                    "every value in use: idmint raise --all --store " + shell_word(url_) +
                    " --past N (or --past-from URL)"};
  return *lost_;
}

// The count that stands in the trust folder. A read may meet a write half-way.
std::int64_t SqliteStore::changes_seen() const {
  const std::int64_t seen = seen_.read();
  return seen <= changes_ ? seen : std::min(seen, seen_.read());
}

// Why the store may hold less than it handed out; or why that cannot be looked at.
std::optional<Error> SqliteStore::look_for_doubt() {
  if (!has_places_) return std::nullopt;
  const Result<sqlite3_stmt*> statement = prepared(kState);
  if (!statement) return statement.error();
  State state{};
  std::int64_t seen = 0;
  bool log_missing = true;
  bool log_of_another = true;
  // The log says otherwise before a mark is written. Whoever began to read before the one, and got
  // to the file after the other, sees another mark; then the next look does not.
  for (int look = 0; look < 3 && (log_missing || log_of_another); ++look) {
    seen = changes_seen();
    Run row(*statement);
    const Result<State> found = read_state(row);
    if (!found) return found.error();
    state = *found;
    log_missing = (state.version & kMark) != 0;
    log_of_another = has_log_of_another(state, seen);
  }
  if (log_of_another) return lose_log_of_another();
  // Nothing was handed out of a log whose mark is still missing.
  changes_ = std::max(changes_, state.has_nonce() ? state.changes : *state.unmarked);
  const bool moved = is_elsewhere(state);
  seen = std::max(seen, seen_where_it_was(state));
  lacks_values_ = log_missing || state.changes < seen;

  std::string why;
  if (log_missing) {
    why = "is without its log, " + path_ +
          "-wal, which held values that were handed out: it was removed, or left out of a copy";
  } else if (moved) {
    why =
        "is a copy, or a backup, or was moved to another file system: what was handed out since "
        "is not in it";
  } else if (state.changes < seen) {
    why = "is older than it was: it counts " + std::to_string(state.changes) + " changes, and " +
          std::to_string(seen) + " were seen in it (" + trust_folder_ + ")";
  } else {
    return std::nullopt;
  }
  const std::string raise = "idmint raise --all --store " + shell_word(url_);
  std::string advice =
      "it can be read, and gives no value until it is raised past every value in "
      "use: " +
      raise + " --past N (or --past-from URL)";
  if (!lacks_values_)
    advice += "; if nothing was handed out since it was moved: " + raise + " --moved";
  return Error{Code::kDataLoss, path_ + " " + why + "; " + advice};
}

std::optional<Error> SqliteStore::doubt() {
  const Result<Lock> lock = enter();
  if (!lock) return lock.error();
  return look_for_doubt();
}

Result<void> SqliteStore::settle(Settle how) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  std::optional<Error> doubt = look_for_doubt();
  if (!doubt) return {};
  if (doubt->code != Code::kDataLoss || (how == Settle::kOnlyMoved && lacks_values_))
    return std::unexpected(*std::move(doubt));
  // Past every count that another user, or another copy, may have reached meanwhile.
  constexpr std::int64_t kEpoch = std::int64_t{1} << 40;
  const std::int64_t changes = std::max(changes_, changes_seen()) + kEpoch;
  const Result<void> done =
      transact("settle", [&] { return write_place(place_of(path_), changes); }, Doubt::kEnds);
  if (!done) return done;
  if (const auto file = replaced_file()) return std::unexpected(lose(*file));
  changes_ = changes;
  seen_.write(changes_);
  doubtful_ = false;
  return {};
}

// ---- calls

Result<SqliteStore::Lock> SqliteStore::enter(SteadyTime by) {
  if (!owner_) return std::unexpected(inherited_handle(url_));
  const SteadyTime begun = std::chrono::steady_clock::now();
  const SteadyTime until = std::min(by, begun + patience_);
  Lock lock(mutex_, until);
  if (!lock)
    return std::unexpected(
        Error{Code::kUnavailable, path_ + " was busy with this process's own calls for " +
                                      waited_since(begun) + "; ask again"});
  if (poisoned_)
    return std::unexpected(
        Error{Code::kUnavailable, "an I/O error made this handle of " + path_ +
                                      " unusable; check the disk, then open the store again"});
  if (lost_) return std::unexpected(*lost_);
  if (const auto file = replaced_file()) return std::unexpected(lose(*file));
  begun_ = begun;
  until_ = until;
  return lock;
}

Result<sqlite3_stmt*> SqliteStore::prepared(Query query) {
  sqlite3_stmt*& statement = statements_[query];
  if (statement == nullptr) {
    const int result =
        sqlite3_prepare_v3(db_, kSql[query], -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (result != SQLITE_OK) return std::unexpected(failed(result, "read the tables of"));
  }
  return statement;
}

// What failed after the COMMIT: the changes are durable, whatever kept the call from its answer.
Error after_commit(Error why) {
  if (was_not_applied(why.code)) {
    why.code = Code::kUnknown;
    why.message += "; the changes were made all the same, and their values are lost";
  }
  return why;
}

// All of the changes in one transaction, or none; durable when it returns without an error, and
// then the file itself tells if the log that holds them is lost.
Result<void> SqliteStore::transact(std::string_view doing,
                                   const std::function<Result<void>()>& changes, Doubt doubt) {
  const Result<sqlite3_stmt*> snapshot = prepared(kState);
  if (!snapshot) return std::unexpected(snapshot.error());
  const std::int64_t seen = changes_seen();
  if (!doubtful_) changes_ = std::max(changes_, seen);
  if (Result<void> begun = execute(kBegin, doing); !begun) return begun;
  bool committed = false;
  bool unmarked = false;  // by somebody's checkpoint during this transaction
  Result<void> done;
  {
    // A read that goes on past the COMMIT: until it ends, no checkpoint moves what is committed
    // here into the file.
    Run reading(*snapshot);
    const Result<State> state = read_state(reading);
    if (!state)
      done = std::unexpected(state.error());
    else if (has_log_of_another(*state, seen))
      done = std::unexpected(lose_log_of_another());
    const bool marked = done && state->is_marked() && doubt == Doubt::kStays;
    std::int64_t version = done ? state->version & ~kMark : 0;
    if (done) {
      counted_ = state->changes;
      done = changes();
    }
    if (done && !marked) {
      // Otherwise the nonce stays. Another process may be about to mark the file with it; and a
      // checkpoint that was killed may be repeated, and write an older first page of this log.
      if (state->has_first_page() && file_has_all_of_log(db_)) {
        version = with_new_nonce(version);
        done = write_unmarked(std::max(state->changes, seen), doing);
      }
      const std::string first_page = "PRAGMA user_version = " + std::to_string(version);
      if (done) done = execute(first_page.c_str(), doing);
    } else if (done && state->unmarked) {
      // The process that wrote the mark may still be about to sync it.
      if (synced_ != version) done = sync_mark(version);
      if (done) done = write_unmarked(std::nullopt, doing);
    }
    if (done) done = execute(kCommit, doing);
    committed = done.has_value();
    if (done && !marked) done = mark(version);
    if (done) {
      const Result<std::int64_t> still = version_in_file();
      if (!still) done = std::unexpected(still.error());
      unmarked = still && *still != (version | kMark);
    }
  }
  if (sqlite3_get_autocommit(db_) == 0) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  // What later calls did would be part of that transaction, and never be durable.
  if (sqlite3_get_autocommit(db_) == 0) poison();
  if (done && unmarked) done = protect();
  if (!done && committed) return std::unexpected(after_commit(std::move(done.error())));
  return done;
}

// One more than the transaction found, or the file was set back.
// REQUIRES: within transact().
Result<void> SqliteStore::count_change() {
  const Result<sqlite3_stmt*> statement = prepared(kCountChange);
  if (!statement) return std::unexpected(statement.error());
  ++counted_;
  Run run(*statement);
  run.bind(1, counted_);
  if (const int result = run.step(); result != SQLITE_DONE)
    return std::unexpected(failed(result, "count a change of"));
  if (counted_ > changes_) return {};
  leave_log();
  lost_ = Error{Code::kDataLoss, path_ + " was set back while it was open: it counts " +
                                     std::to_string(counted_ - 1) + " changes, and " +
                                     std::to_string(changes_) +
                                     " were made; end all programs that use it, and open it again"};
  return std::unexpected(*lost_);
}

// The transaction that counted is durable.
void SqliteStore::remember_count() {
  changes_ = std::max(changes_, counted_);
  if (!doubtful_) seen_.write(changes_);
}

// A transaction of a call. It is counted, and what needs trust is refused in a store in doubt.
Result<void> SqliteStore::atomically(std::string_view doing,
                                     const std::function<Result<void>()>& changes, Needs needs) {
  if (doubtful_) {
    std::optional<Error> doubt = look_for_doubt();
    doubtful_ = doubt.has_value();
    if (doubt && needs == Needs::kTrust) return std::unexpected(*std::move(doubt));
  }
  Result<void> done = transact(doing, [&]() -> Result<void> {
    // Not in doubt: the count would reach the one that was seen, and there would be no doubt.
    if (!doubtful_)
      if (Result<void> counted = count_change(); !counted) return counted;
    return changes();
  });
  if (!done) return done;
  // Before anything is handed out.
  if (const auto gone = replaced_file()) return std::unexpected(lose(*gone));
  remember_count();
  if (Result<void> moved = checkpoint(); !moved)
    return std::unexpected(after_commit(std::move(moved.error())));
  return {};
}

CounterState SqliteStore::state_of(const Run& row) {
  return {std::string(row.bytes(0)),
          {row.integer(1), row.integer(2), row.integer(3)},
          row.integer(4),
          row.integer(5) != 0};
}

Result<CounterState> SqliteStore::read_counter(std::string_view counter) {
  const Result<sqlite3_stmt*> statement = prepared(kPeek);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, counter);
  const int result = run.step();
  if (result == SQLITE_ROW) return state_of(run);
  if (result == SQLITE_DONE) return std::unexpected(no_counter(counter, url_));
  return std::unexpected(failed(result, "read"));
}

Result<void> SqliteStore::make_counter(const NewCounter& counter) {
  const Result<sqlite3_stmt*> statement = prepared(kCreate);
  if (!statement) return std::unexpected(statement.error());
  {
    Run run(*statement);
    run.bind(1, counter.name);
    run.bind(2, counter.bounds.first);
    run.bind(3, counter.bounds.last);
    run.bind(4, counter.bounds.stride);
    if (const int result = run.step(); result != SQLITE_DONE)
      return std::unexpected(failed(result, "make a counter in"));
  }
  const Result<CounterState> there = read_counter(counter.name);
  if (!there) return std::unexpected(there.error());
  if (there->bounds != counter.bounds) return std::unexpected(other_bounds(*there, counter.bounds));
  return {};
}

Result<void> SqliteStore::create(std::span<const NewCounter> counters) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_new_counters(counters); !ok) return ok;
  return atomically("make counters in", [&]() -> Result<void> {
    for (const NewCounter& counter : counters)
      if (Result<void> made = make_counter(counter); !made) return made;
    return {};
  });
}

Result<Range> SqliteStore::advance(std::string_view counter, std::int64_t count, Take take,
                                   SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_count(counter, count); !ok) return std::unexpected(ok.error());
  const std::int64_t least = take == Take::kAll ? count : 1;
  Range taken;
  const Result<void> done = atomically("take values from", [&]() -> Result<void> {
    {
      const Result<sqlite3_stmt*> statement = prepared(kAdvance);
      if (!statement) return std::unexpected(statement.error());
      Run run(*statement);
      run.bind(1, counter);
      run.bind(2, count);
      run.bind(3, least);
      int result = run.step();
      const bool moved = result == SQLITE_ROW;
      if (moved) {
        taken = {run.integer(0), run.integer(1), run.integer(2)};
        result = run.step();
      }
      if (result != SQLITE_DONE) return std::unexpected(failed(result, "take values from"));
      if (moved) return {};
    }
    const Result<CounterState> state = read_counter(counter);
    return std::unexpected(state ? refused_advance(*state, count) : state.error());
  });
  if (!done) return std::unexpected(done.error());
  return taken;
}

// One transaction for all of them. The first that is not there, or that the statement refuses, is
// the answer when the others are on the disk.
Result<void> SqliteStore::change_each(Query query, std::span<const std::string> counters,
                                      std::optional<std::int64_t> value, std::string_view doing,
                                      const OnRow& on_row) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_counters(counters.size()); !ok) return ok;
  Result<void> all;
  const auto change = [&]() -> Result<void> {
    for (const std::string& counter : counters) {
      const Result<sqlite3_stmt*> statement = prepared(query);
      if (!statement) return std::unexpected(statement.error());
      Run run(*statement);
      run.bind(1, counter);
      if (value) run.bind(2, *value);
      int result = run.step();
      const bool changed = result == SQLITE_ROW;
      if (changed) {
        on_row(run);
        result = run.step();
      }
      if (result != SQLITE_DONE) return std::unexpected(failed(result, doing));
      if (changed || !all) continue;
      const Result<CounterState> there = read_counter(counter);
      if (!there && there.error().code != Code::kNotFound) return std::unexpected(there.error());
      all =
          std::unexpected(there ? too_large_an_end(counter, value.value_or(0), there->bounds.stride)
                                : there.error());
    }
    return {};
  };
  const Result<void> done = atomically(doing, change, Needs::kNothing);
  return done ? all : done;
}

Result<std::vector<std::int64_t>> SqliteStore::raise(std::span<const std::string> counters,
                                                     std::int64_t floor) {
  std::vector<std::int64_t> next;
  const Result<void> raised =
      change_each(kRaise, counters, floor, "raise a counter in",
                  [&next](const Run& row) { next.push_back(row.integer(0)); });
  if (!raised) return std::unexpected(raised.error());
  return next;
}

Result<std::vector<CounterBounds>> SqliteStore::extend(std::span<const std::string> counters,
                                                       std::int64_t last) {
  std::vector<CounterBounds> bounds;
  const Result<void> extended =
      change_each(kExtend, counters, last, "extend a counter in", [&bounds](const Run& row) {
        bounds.push_back({row.integer(0), row.integer(1), row.integer(2)});
      });
  if (!extended) return std::unexpected(extended.error());
  return bounds;
}

Result<void> SqliteStore::close(std::span<const std::string> counters) {
  return change_each(kClose, counters, std::nullopt, "close a counter in", [](const Run&) {});
}

Result<CounterState> SqliteStore::peek(std::string_view counter, SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  return read_counter(counter);
}

Result<std::vector<CounterState>> SqliteStore::list(std::string_view prefix, SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  const Result<sqlite3_stmt*> statement = prepared(kListCounters);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, prefix);
  std::vector<CounterState> found;
  int result = run.step();
  for (; result == SQLITE_ROW && run.bytes(0).starts_with(prefix); result = run.step())
    found.push_back(state_of(run));
  if (result != SQLITE_ROW && result != SQLITE_DONE) return std::unexpected(failed(result, "read"));
  return found;
}

Result<Definition> SqliteStore::definition_of(const Run& row) const {
  Result<Definition> definition = definition_from_json(row.bytes(1));
  if (!definition) {
    definition.error().message =
        path_ + ", " + shown(row.bytes(0)) + ": " + definition.error().message;
  } else if (definition->name != row.bytes(0)) {
    return damaged("the definition of " + shown(row.bytes(0)) + " is that of " +
                   shown(definition->name));
  }
  return definition;
}

// Puts the text itself into `json`.
Result<Definition> SqliteStore::read_definition(std::string_view name, std::string* json) {
  const Result<sqlite3_stmt*> statement = prepared(kFind);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, name);
  const int result = run.step();
  if (result == SQLITE_DONE) return std::unexpected(no_definition(name, url_));
  if (result != SQLITE_ROW) return std::unexpected(failed(result, "read"));
  if (json != nullptr) *json = run.bytes(1);
  return definition_of(run);
}

Result<Definition> SqliteStore::define(const Definition& definition) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_stored(definition); !ok) return std::unexpected(ok.error());
  const std::string json = to_json(definition);
  const Result<void> done = atomically("write a definition into", [&]() -> Result<void> {
    const Result<sqlite3_stmt*> statement = prepared(kDefine);
    if (!statement) return std::unexpected(statement.error());
    Run run(*statement);
    run.bind(1, definition.name);
    run.bind(2, json);
    if (const int result = run.step(); result != SQLITE_DONE)
      return std::unexpected(failed(result, "write a definition into"));
    return {};
  });
  if (!done) return std::unexpected(done.error());
  return read_definition(definition.name);
}

// Replaces the text that was read, and no other.
Result<Definition> SqliteStore::replace(const Definition& old, const Definition& updated) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_replacement(old, updated); !ok) return std::unexpected(ok.error());
  std::string json;
  Result<Definition> there = read_definition(old.name, &json);
  if (!there || *there != old) return there;
  const std::string updated_json = to_json(updated);
  const auto change = [&]() -> Result<void> {
    const Result<sqlite3_stmt*> statement = prepared(kReplace);
    if (!statement) return std::unexpected(statement.error());
    Run run(*statement);
    run.bind(1, old.name);
    run.bind(2, json);
    run.bind(3, updated_json);
    if (const int result = run.step(); result != SQLITE_DONE)
      return std::unexpected(failed(result, "replace a definition in"));
    return {};
  };
  const Result<void> done = atomically("replace a definition in", change, Needs::kNothing);
  if (!done) return std::unexpected(done.error());
  return read_definition(old.name);
}

Result<Definition> SqliteStore::find(std::string_view name, SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  return read_definition(name);
}

Result<std::vector<CatalogEntry>> SqliteStore::list() {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  const Result<sqlite3_stmt*> statement = prepared(kListDefinitions);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  std::vector<CatalogEntry> all;
  int result = run.step();
  for (; result == SQLITE_ROW; result = run.step())
    all.push_back({std::string(run.bytes(0)), definition_of(run)});
  if (result != SQLITE_DONE) return std::unexpected(failed(result, "read"));
  return all;
}

// ---- claims

Result<SqliteStore::Space> SqliteStore::read_space(std::string_view space) {
  const Result<sqlite3_stmt*> statement = prepared(kSpace);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, space);
  const int result = run.step();
  if (result == SQLITE_ROW) return Space{run.integer(0), run.integer(1) != 0};
  if (result == SQLITE_DONE) return std::unexpected(no_space(space, url_));
  return std::unexpected(failed(result, "read"));
}

Result<void> SqliteStore::create_space(std::string_view space) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_new_space(space); !ok) return ok;
  return atomically("make a space of claims in", [&]() -> Result<void> {
    const Result<sqlite3_stmt*> statement = prepared(kCreateSpace);
    if (!statement) return std::unexpected(statement.error());
    Run run(*statement);
    run.bind(1, space);
    if (const int result = run.step(); result != SQLITE_DONE)
      return std::unexpected(failed(result, "make a space of claims in"));
    return {};
  });
}

// Whether the key was free; it is taken now. REQUIRES: within a transaction.
Result<bool> SqliteStore::claim(std::string_view space, std::int64_t key) {
  const Result<sqlite3_stmt*> statement = prepared(kClaim);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, space);
  run.bind(2, key);
  int result = run.step();
  const bool free = result == SQLITE_ROW;
  if (free) result = run.step();
  if (result != SQLITE_DONE) return std::unexpected(failed(result, "claim numbers in"));
  return free;
}

Result<std::vector<bool>> SqliteStore::insert(std::string_view space,
                                              std::span<const std::int64_t> keys,
                                              SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_keys(space, keys.size()); !ok) return std::unexpected(ok.error());
  std::vector<bool> ours;
  ours.reserve(keys.size());
  const Result<void> done = atomically("claim numbers in", [&]() -> Result<void> {
    const Result<Space> there = read_space(space);
    if (!there) return std::unexpected(there.error());
    if (there->closed) return std::unexpected(closed_space(space));
    for (const std::int64_t key : keys) {
      const Result<bool> free = claim(space, key);
      if (!free) return std::unexpected(free.error());
      ours.push_back(*free);
    }
    const Result<sqlite3_stmt*> statement = prepared(kCount);
    if (!statement) return std::unexpected(statement.error());
    Run run(*statement);
    run.bind(1, space);
    run.bind(2, std::int64_t{std::ranges::count(ours, true)});
    if (const int result = run.step(); result != SQLITE_DONE)
      return std::unexpected(failed(result, "claim numbers in"));
    return {};
  });
  if (!done) return std::unexpected(done.error());
  return ours;
}

Result<std::int64_t> SqliteStore::claimed(std::string_view space, SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  const Result<Space> there = read_space(space);
  if (!there) return std::unexpected(there.error());
  return there->claimed;
}

Result<bool> SqliteStore::contains(std::string_view space, std::int64_t key) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  if (const Result<Space> there = read_space(space); !there) return std::unexpected(there.error());
  const Result<sqlite3_stmt*> statement = prepared(kHasClaim);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, space);
  run.bind(2, key);
  const int result = run.step();
  if (result != SQLITE_ROW && result != SQLITE_DONE) return std::unexpected(failed(result, "read"));
  return result == SQLITE_ROW;
}

Result<void> SqliteStore::close_space(std::string_view space) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  const auto close = [&]() -> Result<void> {
    const Result<sqlite3_stmt*> statement = prepared(kCloseSpace);
    if (!statement) return std::unexpected(statement.error());
    Run run(*statement);
    run.bind(1, space);
    int result = run.step();
    const bool there = result == SQLITE_ROW;
    if (there) result = run.step();
    if (result != SQLITE_DONE) return std::unexpected(failed(result, "close a space of claims in"));
    if (!there) return std::unexpected(no_space(space, url_));
    return {};
  };
  return atomically("close a space of claims in", close, Needs::kNothing);
}

// ---- worker ids

// Of the host: SQLite has none of its own. Only who may have a worker id next depends on it.
std::int64_t clock_of_the_host() {
  const Instant now = system_clock().now();
  return std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count();
}

// The boot of the host, and the time namespace, as CLOCK_BOOTTIME has an offset of its own in each.
// Empty: this host does not tell.
const std::string& this_boot() {
  static const std::string boot = [] {
    std::string id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
    std::error_code none;
    return id + " " + std::filesystem::read_symlink("/proc/self/ns/time", none).string();
  }();
  return boot;
}

std::int64_t time_since_boot() {
  timespec at{};
  ::clock_gettime(CLOCK_BOOTTIME, &at);
  return std::int64_t{at.tv_sec} * 1000 + at.tv_nsec / 1'000'000;
}

Result<void> SqliteStore::write_clocks(std::string_view boot, std::int64_t boot_clock,
                                       std::int64_t clock) {
  const Result<sqlite3_stmt*> statement = prepared(kWriteClocks);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, boot);
  run.bind(2, boot_clock);
  run.bind(3, clock);
  if (const int result = run.step(); result != SQLITE_DONE)
    return std::unexpected(failed(result, "keep the time of a lease in"));
  return {};
}

// A clock that is set far ahead for a moment would take every worker id that far ahead with it, and
// nobody could mint before that time. It shows while the host runs, against the time since boot. A
// day, as clocks are set by hours where machines were paused.
Result<void> SqliteStore::check_clock(std::string_view pool, const LeaseTerms& terms) {
  using std::chrono::milliseconds;
  constexpr std::int64_t kFarAhead = std::int64_t{24} * 60 * 60 * 1000;
  constexpr std::int64_t kKept = 60'000;  // so seldom they are written, as most agree
  constexpr std::int64_t kAgrees = 1000;
  if (terms.clock == Instant{} || this_boot().size() <= 1) return {};
  const std::int64_t clock =
      std::chrono::floor<milliseconds>(terms.clock.time_since_epoch()).count();
  const std::int64_t boot_clock = time_since_boot();
  {
    const Result<sqlite3_stmt*> statement = prepared(kReadClocks);
    if (!statement) return std::unexpected(statement.error());
    Run run(*statement);
    if (const int result = run.step(); result != SQLITE_ROW)
      return std::unexpected(failed(result, "read"));
    if (run.bytes(0) == this_boot()) {
      const std::int64_t since = boot_clock - run.integer(1);
      const std::int64_t right = run.integer(2) + since;
      if (clock - right > std::max<std::int64_t>(kFarAhead, terms.max_skew.count()))
        return std::unexpected(clock_far_ahead(pool, terms.clock, Instant{milliseconds{right}}));
      if (since >= 0 && since < kKept && std::abs(clock - right) < kAgrees) return {};
    }
  }
  return write_clocks(this_boot(), boot_clock, clock);
}

Result<std::int64_t> SqliteStore::count_workers(std::string_view pool) {
  const Result<sqlite3_stmt*> statement = prepared(kCountWorkers);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, pool);
  if (const int result = run.step(); result != SQLITE_ROW)
    return std::unexpected(failed(result, "read"));
  return run.integer(0);
}

Result<void> SqliteStore::create_pool(std::string_view pool, std::int64_t workers) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_new_pool(pool, workers); !ok) return ok;
  return atomically("make worker ids in", [&]() -> Result<void> {
    const Result<std::int64_t> there = count_workers(pool);
    if (!there) return std::unexpected(there.error());
    if (*there == workers) return {};
    if (*there != 0) return std::unexpected(other_pool(pool, *there, workers));
    const Result<sqlite3_stmt*> statement = prepared(kMakeWorker);
    if (!statement) return std::unexpected(statement.error());
    for (std::int64_t worker = 0; worker < workers; ++worker) {
      Run run(*statement);
      run.bind(1, pool);
      run.bind(2, worker);
      if (const int result = run.step(); result != SQLITE_DONE)
        return std::unexpected(failed(result, "make worker ids in"));
    }
    return {};
  });
}

Result<Lease> SqliteStore::acquire(std::string_view pool, const LeaseRequest& request,
                                   SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_request(pool, request); !ok) return std::unexpected(ok.error());
  Lease lease;
  // In one transaction with the reason why there is none.
  const Result<void> done = atomically("lease a worker id from", [&]() -> Result<void> {
    if (Result<void> right = check_clock(pool, request.terms); !right) return right;
    const std::int64_t now = clock_of_the_host();  // once the lock was had
    {
      const Result<sqlite3_stmt*> statement = prepared(kAcquire);
      if (!statement) return std::unexpected(statement.error());
      Run run(*statement);
      run.bind(1, pool);
      run.bind(2, request.token);
      run.bind(3, request.now);
      run.bind(4, request.units);
      run.bind(5, request.now + request.max_drift);
      run.bind(6, request.holder);
      run.bind(7, now);
      run.bind(8, now + request.terms.held.count());
      int result = run.step();
      const bool taken = result == SQLITE_ROW;
      if (taken) {
        lease = {run.integer(0), request.token, run.integer(1), run.integer(2), run.integer(3)};
        result = run.step();
      }
      if (result != SQLITE_DONE) return std::unexpected(failed(result, "lease a worker id from"));
      if (taken) return {};
    }
    const Result<std::int64_t> workers = count_workers(pool);
    if (!workers) return std::unexpected(workers.error());
    if (*workers == 0) return std::unexpected(no_pool(pool, url_));
    const Result<sqlite3_stmt*> statement = prepared(kSmallestBound);
    if (!statement) return std::unexpected(statement.error());
    Run run(*statement);
    run.bind(1, pool);
    run.bind(2, request.token);
    run.bind(3, now);
    const int result = run.step();
    if (result == SQLITE_ROW)
      return std::unexpected(refused_acquire(pool, request, run.integer(0)));
    if (result == SQLITE_DONE) return std::unexpected(refused_acquire(pool, request, std::nullopt));
    return std::unexpected(failed(result, "read"));
  });
  if (!done) return std::unexpected(done.error());
  return lease;
}

std::unexpected<Error> SqliteStore::refused(std::string_view pool, const Lease& lease,
                                            const Uuid* nonce) {
  const Result<sqlite3_stmt*> statement = prepared(kWorker);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, pool);
  run.bind(2, lease.worker);
  const int result = run.step();
  if (result == SQLITE_ROW) {
    const Result<LeaseState> there = worker_of(run, 0);
    if (!there) return std::unexpected(there.error());
    if (nonce == nullptr) return std::unexpected(refused_lease(pool, lease, *there));
    Uuid::Bytes latest{};  // zeros: no extension yet
    std::ranges::copy(run.bytes(7).substr(0, latest.size()), latest.begin());
    return std::unexpected(refused_extension(pool, lease, *there, Uuid(latest), *nonce));
  }
  if (result != SQLITE_DONE) return std::unexpected(failed(result, "read"));
  const Result<std::int64_t> workers = count_workers(pool);
  if (!workers) return std::unexpected(workers.error());
  return std::unexpected(*workers == 0 ? no_pool(pool, url_) : no_worker(pool, lease.worker));
}

Result<Lease> SqliteStore::extend(std::string_view pool, const Lease& lease, std::int64_t to,
                                  const Uuid& nonce, const LeaseTerms& terms, SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_extension(pool, lease, to, nonce); !ok)
    return std::unexpected(ok.error());
  Lease extended = lease;
  extended.to = to;
  const Result<void> done = atomically("extend a lease in", [&]() -> Result<void> {
    if (Result<void> right = check_clock(pool, terms); !right) return right;
    {
      const Result<sqlite3_stmt*> statement = prepared(kExtendLease);
      if (!statement) return std::unexpected(statement.error());
      Run run(*statement);
      run.bind(1, pool);
      run.bind(2, lease.worker);
      run.bind(3, lease.token);
      run.bind(4, lease.generation);
      run.bind(5, lease.to);
      run.bind(6, to);
      run.bind(7, clock_of_the_host() + terms.held.count());
      run.bind(8, nonce);
      int result = run.step();
      const bool moved = result == SQLITE_ROW;
      if (moved) result = run.step();
      if (result != SQLITE_DONE) return std::unexpected(failed(result, "extend a lease in"));
      if (moved) return {};
    }
    return refused(pool, lease, &nonce);
  });
  if (!done) return std::unexpected(done.error());
  return extended;
}

Result<void> SqliteStore::release(std::string_view pool, std::int64_t worker, const Uuid& token,
                                  std::int64_t generation, SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  const auto release = [&]() -> Result<void> {
    {
      const Result<sqlite3_stmt*> statement = prepared(kRelease);
      if (!statement) return std::unexpected(statement.error());
      Run run(*statement);
      run.bind(1, pool);
      run.bind(2, worker);
      run.bind(3, token);
      run.bind(4, generation);
      int result = run.step();
      const bool released = result == SQLITE_ROW;
      if (released) result = run.step();
      if (result != SQLITE_DONE) return std::unexpected(failed(result, "release a worker id of"));
      if (released) return {};
    }
    return refused(pool, {worker, token, generation, 0, 0});
  };
  return atomically("release a worker id of", release, Needs::kNothing);
}

Result<void> SqliteStore::raise_floor(std::string_view pool, std::int64_t floor) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  if (Result<void> ok = check_floor(pool, floor); !ok) return ok;
  const std::int64_t generation = draw_generation(options_);
  const auto raise = [&]() -> Result<void> {
    const Result<std::int64_t> workers = count_workers(pool);
    if (!workers) return std::unexpected(workers.error());
    if (*workers == 0) return std::unexpected(no_pool(pool, url_));
    const Result<sqlite3_stmt*> statement = prepared(kRaiseFloor);
    if (!statement) return std::unexpected(statement.error());
    Run run(*statement);
    run.bind(1, pool);
    run.bind(2, floor);
    run.bind(3, generation);
    if (const int result = run.step(); result != SQLITE_DONE)
      return std::unexpected(failed(result, "raise the worker ids of"));
    return write_clocks("", 0, 0);  // whoever raises has looked at the clock
  };
  return atomically("raise the worker ids of", raise, Needs::kNothing);
}

Result<LeaseState> SqliteStore::worker_of(const Run& row, std::int64_t now) const {
  const std::string_view token = row.bytes(1);
  Uuid::Bytes bytes{};
  if (!token.empty() && token.size() != bytes.size())
    return damaged("a token has " + std::to_string(token.size()) + " bytes");
  if (!token.empty()) std::ranges::copy(token, bytes.begin());
  LeaseState state{.worker = row.integer(0), .token = Uuid(bytes)};
  state.holder = row.bytes(2);
  state.generation = row.integer(3);
  state.minted_until = row.integer(4);
  if (!token.empty())
    state.held_for = std::chrono::milliseconds{std::max<std::int64_t>(row.integer(5) - now, 0)};
  state.taken_from = row.integer(6);
  return state;
}

Result<std::vector<LeaseState>> SqliteStore::workers(std::string_view pool) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  const Result<sqlite3_stmt*> statement = prepared(kWorkers);
  if (!statement) return std::unexpected(statement.error());
  Run run(*statement);
  run.bind(1, pool);
  const std::int64_t now = clock_of_the_host();
  std::vector<LeaseState> all;
  int result = run.step();
  for (; result == SQLITE_ROW; result = run.step()) {
    Result<LeaseState> state = worker_of(run, now);
    if (!state) return std::unexpected(std::move(state.error()));
    all.push_back(*std::move(state));
  }
  if (result != SQLITE_DONE) return std::unexpected(failed(result, "read"));
  if (all.empty()) return std::unexpected(no_pool(pool, url_));
  return all;
}

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite(std::string_view whole, const StoreOptions& options) {
  const std::string url(whole);
  Result<SqliteUrl> parsed = parse_sqlite_url(whole);
  if (!parsed) return std::unexpected(std::move(parsed.error()));
  // SQLite keeps, for the whole process, which locks it holds on which file, and a child of fork()
  // inherits that without the locks. A handle opened there would write to a file that others take
  // for unused, and remove or restart its log: acknowledged values would be lost.
  if (forked_with_handles())
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 "cannot open " + url +
                                     ": this process was forked from one that had an SQLite store "
                                     "open; open stores after the fork only, or call exec"});
  auto store = std::make_unique<SqliteStore>(url, *std::move(parsed), options);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(ok.error());
  return store;
}

}  // namespace idmint::stores
