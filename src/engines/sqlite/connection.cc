#include "engines/sqlite/connection.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/shell.h"
#include "store/backend.h"

namespace idmint::stores::sqlite {
namespace {

// The connections that this process opened, and those that it or its ancestors opened. The numbers
// differ in a child of fork().
int connections_seen = 0;  // guarded by the mutex of connections_here()
struct ConnectionsHere {
  std::mutex mutex;  // unlocked in a child, even if held in the parent
  int count;
};
ForkWiped<ConnectionsHere>& connections_here() {
  // Never destroyed: a store may outlive every static object.
  static auto& connections = *new ForkWiped<ConnectionsHere>;
  return connections;
}

void count_connections(int change) {
  const std::lock_guard lock(connections_here()->mutex);
  connections_seen += change;
  connections_here()->count += change;
}

// Whether the effective user may do so.
bool may(const std::string& path, int what) {
  return ::faccessat(AT_FDCWD, path.c_str(), what, AT_EACCESS) == 0;
}
bool may_write_folder_of(const std::string& path) { return may(folder_of(path), W_OK); }

}  // namespace

bool may_connect() {
  const std::lock_guard lock(connections_here()->mutex);
  return connections_seen == connections_here()->count;
}

std::string waited_since(SteadyTime begun) {
  const auto waited = std::chrono::steady_clock::now() - begun;
  return std::to_string(std::chrono::round<std::chrono::milliseconds>(waited).count()) + " ms";
}

// ---- statements

void Statement::prepare(Query& query) {
  if (query.prepared == nullptr) {
    result_ = sqlite3_prepare_v3(db_.db_, query.sql, -1, SQLITE_PREPARE_PERSISTENT, &query.prepared,
                                 nullptr);
    if (result_ != SQLITE_OK) doing_ = "read the tables of";
  }
  statement_ = query.prepared;
}

void Statement::prepare(const char* sql) {
  finalize_ = true;
  result_ = sqlite3_prepare_v2(db_.db_, sql, -1, &statement_, nullptr);
}

Statement::~Statement() {
  if (finalize_) {
    sqlite3_finalize(statement_);
  } else if (statement_ != nullptr) {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
}

bool Statement::next() {
  if (result_ == SQLITE_OK || result_ == SQLITE_ROW) result_ = sqlite3_step(statement_);
  return result_ == SQLITE_ROW;
}

Result<void> Statement::end() {
  while (next()) {
  }
  if (!is_done()) return std::unexpected(failure());
  return {};
}

bool Statement::is_done() const { return result_ == SQLITE_DONE; }

bool Statement::is_busy() const { return (result_ & 0xff) == SQLITE_BUSY; }

Error Statement::failure() const { return db_.failed(result_, doing_); }

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::optional<std::int64_t> Statement::integer_or_null(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::string_view Statement::bytes(int column) const {
  const void* const data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

void Statement::bind(int at, std::string_view text) {
  sqlite3_bind_text64(statement_, at, text.data() != nullptr ? text.data() : "", text.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::bind(int at, std::int64_t value) { sqlite3_bind_int64(statement_, at, value); }

void Statement::bind(int at, std::optional<std::int64_t> value) {
  if (value) bind(at, *value);  // unbound parameters are NULL
}

void Statement::bind(int at, const Uuid& id) {
  sqlite3_bind_blob(statement_, at, id.bytes().data(), static_cast<int>(id.bytes().size()),
                    SQLITE_STATIC);
}

Result<void> Connection::execute(const char* sql, std::string_view doing) {
  if (const int result = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr); result != SQLITE_OK)
    return std::unexpected(failed(result, doing));
  return {};
}

Result<void> Connection::execute(Query& query, std::string_view doing) {
  return Statement(*this, query, doing).end();
}

Result<std::int64_t> Connection::read_integer(const char* sql) {
  Statement row(*this, sql, "read");
  if (!row.next()) return std::unexpected(row.failure());
  return row.integer(0);
}

bool Connection::is_in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

void Connection::forget_pages() noexcept { sqlite3_db_release_memory(db_); }

void Connection::roll_back() {
  if (is_in_transaction()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

// ---- errors

Error Connection::no_store(const std::string& why) const {
  return {Code::kNotFound,
          why + "; give the path of a store, or make one",
          {Remedy::kCreateStore, url_}};
}

std::unexpected<Error> Connection::damaged(std::string why) const {
  return std::unexpected(
      Error{Code::kDataLoss, path_ + " is damaged: " + std::move(why) +
                                 "; restore it from a backup, and go on with sequences that begin "
                                 "past every value in use"});
}

std::string Connection::unchanged() const {
  return changes_something_ ? std::string(kNothingChanged) : "";
}

Error Connection::failed(int result, std::string_view doing) {
  const int cause = sqlite3_system_errno(db_);
  const bool no_space = cause == ENOSPC || cause == EDQUOT || cause == EFBIG;
  const bool not_allowed = cause == EACCES || cause == EPERM || cause == EROFS;
  const int kind = result & 0xff;  // without SQLite's extended code
  std::string what = "could not " + std::string(doing) + " " + path_ + ": ";
  std::string why = sqlite3_errmsg(db_);
  if ((kind == SQLITE_CANTOPEN || kind == SQLITE_IOERR) && cause != 0)
    why += std::string(" (") + std::strerror(cause) + ")";

  const auto full = [&] {
    return Error{.code = Code::kResourceExhausted,
                 .what = what + "no space left (" + why + "); free some and ask again",
                 .outcome = unchanged()};
  };
  const auto refused = [&] {
    if (is_read_only() && !opening_)
      return Error{Code::kPermissionDenied,
                   what + "it was opened to read only; open it to write (StoreOptions::access)"};
    return Error{Code::kPermissionDenied,
                 what + why + "; the file and its folder must be writable by this user"};
  };
  switch (kind) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return {
          .code = Code::kUnavailable,
          .what = what + "others hold it locked (waited " + waited_since(begun_) + "); ask again",
          .outcome = unchanged()};
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
    default:
      break;
  }
  if (opening_ || kind == SQLITE_CANTOPEN) {
    if (no_space) return full();
    if (not_allowed) return refused();
    return {Code::kUnavailable, what + why};
  }
  // A log frame that was not written does not count, so this is like a full disk. After any other
  // failure the commit may be on the disk.
  if (result == SQLITE_IOERR_WRITE && no_space) return full();
  poison();
  return {Code::kUnknown, what + why +
                              "; it may have been done or not, and this handle does nothing more: "
                              "check the disk, then open the store again"};
}

void Connection::poison() noexcept {
  poisoned_ = true;
  leave_log();
}

// ---- waits, and the log

void Connection::begin_call(SteadyTime begun, SteadyTime until) {
  begun_ = begun;
  until_ = until;
  changes_something_ = false;
}

bool Connection::wait_for_lock(int attempt) noexcept {
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

Error Connection::too_long_a_list(std::size_t read) const {
  return {Code::kUnavailable,
          path_ + " has more rows than could be read in time: " + std::to_string(read) + " in " +
              waited_since(begun_) + "; ask for fewer at a time, or wait longer"};
}

Connection::Checkpoint Connection::checkpoint() {
  int in_log = 0;
  int moved = 0;
  const int result =
      sqlite3_wal_checkpoint_v2(db_, "main", SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved);
  return {.io_error = (result & 0xff) == SQLITE_IOERR ? result : 0,
          .partial = result == SQLITE_OK && moved != in_log};
}

void Connection::count_log_pages() {
  sqlite3_wal_hook(
      db_,
      [](void* self, sqlite3*, const char*, int pages) noexcept -> int {
        static_cast<Connection*>(self)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
}

void Connection::tidy_log() noexcept {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
}

void Connection::leave_log() noexcept {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

// ---- opening and closing

struct Connection::Vfs {
  explicit Vfs(Connection& its_connection)
      : connection(its_connection), name("idmint-" + std::to_string(++made)) {}
  Vfs(const Vfs&) = delete;
  Vfs& operator=(const Vfs&) = delete;

  // REQUIRES: `vfs` is the member of a Vfs.
  static int sleep(sqlite3_vfs* vfs, int us) noexcept {
    const SteadyTime until = reinterpret_cast<Vfs*>(vfs)->connection.until_;
    const auto now = std::chrono::steady_clock::now();
    if (now < until)
      std::this_thread::sleep_until(std::min(until, now + std::chrono::microseconds{us}));
    return us;
  }

  sqlite3_vfs vfs{};  // the first member
  Connection& connection;
  const std::string name;
  static inline std::atomic<int> made = 0;
};

// These flags hold whatever the program sets for its own connections
// (sqlite3_enable_shared_cache()).
constexpr int kAlways = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE;

// Found by its name while the file is opened. The connection keeps a pointer to it.
int Connection::open_file(const char* path, int flags) {
  sqlite3_vfs* const system = sqlite3_vfs_find(nullptr);
  if (system == nullptr) return SQLITE_ERROR;
  vfs_ = std::make_unique<Vfs>(*this);
  vfs_->vfs = *system;
  vfs_->vfs.pNext = nullptr;
  vfs_->vfs.zName = vfs_->name.c_str();
  vfs_->vfs.xSleep = &Vfs::sleep;
  sqlite3_vfs_register(&vfs_->vfs, 0);
  const int result = sqlite3_open_v2(path, &db_, flags, vfs_->vfs.zName);
  sqlite3_vfs_unregister(&vfs_->vfs);
  return result;
}

Connection::Connection(std::string url, std::string path, const StoreOptions& options,
                       Entropy& entropy)
    : url_(std::move(url)), path_(std::move(path)), options_(options), entropy_(entropy) {
  count_connections(1);
}

Connection::~Connection() {
  if (!owner_) return;
  while (sqlite3_stmt* const prepared = db_ != nullptr ? sqlite3_next_stmt(db_, nullptr) : nullptr)
    sqlite3_finalize(prepared);
  sqlite3_close(db_);
  count_connections(-1);
}

Result<void> Connection::connect() {
  const bool without_writing =
      is_read_only() && may(path_, F_OK) && !(may(path_, W_OK) && may_write_folder_of(path_));
  Result<void> connected = without_writing ? connect_without_writing() : connect_to_write();
  if (!connected) return connected;
  sqlite3_busy_handler(
      db_,
      [](void* self, int attempt) noexcept -> int {
        return static_cast<Connection*>(self)->wait_for_lock(attempt) ? 1 : 0;
      },
      this);
  leave_log();
  return {};
}

Result<void> Connection::connect_to_write() {
  const int flags = SQLITE_OPEN_READWRITE | kAlways | (may_create() ? SQLITE_OPEN_CREATE : 0);
  if (const int result = open_file(path_.c_str(), flags); result != SQLITE_OK) {
    if (db_ == nullptr)
      return std::unexpected(Error{Code::kResourceExhausted, "out of memory opening " + path_});
    if (sqlite3_system_errno(db_) != ENOENT) return std::unexpected(failed(result, "open"));
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    std::error_code ignored;
    if (!std::filesystem::exists(folder, ignored))
      return std::unexpected(
          Error{Code::kNotFound, "no folder " + folder.string() + " to hold " + path_ +
                                     "; make it first" +
                                     (may_create() ? "" : ", or give the path of a store")});
    // SQLite may not create the file, so it tried to read it.
    if (may_create())
      return std::unexpected(Error{Code::kPermissionDenied, "could not make " + path_ +
                                                                ": the folder " + folder.string() +
                                                                " must be writable by this user"});
    return std::unexpected(no_store("no store at " + path_));
  }
  if (sqlite3_db_readonly(db_, "main") == 1)
    return std::unexpected(Error{Code::kPermissionDenied,
                                 path_ + " is read-only for this user; make it and its folder "
                                         "writable, or open it as its owner"});
  return {};
}

// For a user who may not write the file or create its log. SQLite reads a file in WAL mode under
// the usual locks if the log and its index exist; otherwise it creates them. If a user who may
// write the folder but not the file created them, nobody else could write them. (immutable=1 takes
// no locks, and reads garbage if somebody writes.)
Result<void> Connection::connect_without_writing() {
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
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | kAlways;
  const int result = open_file((uri + "?readonly_shm=1").c_str(), flags);
  if (db_ == nullptr)
    return std::unexpected(Error{Code::kResourceExhausted, "out of memory opening " + path_});
  if (sqlite3_system_errno(db_) == EACCES)
    return refuse(" may not be read by this user; open it as its owner");
  if (result != SQLITE_OK) return std::unexpected(failed(result, "open"));
  // SQLite has not looked for the log yet.
  const bool may_write_folder = may_write_folder_of(path_);
  if (is_in_wal_mode() &&
      (may_write_folder || !may(path_ + "-wal", R_OK) || !may(path_ + "-shm", R_OK)))
    return refuse(
        std::string(may_write_folder
                        ? " is read-only for this user, in a folder that is not."
                        : " or its folder is read-only for this user, and nobody has it open.") +
        " Make both writable, or read a copy that its owner makes: sqlite3 " + shell_word(path_) +
        " \"VACUUM INTO 'copy.db'\"");
  return {};
}

std::string Connection::full_path() const { return sqlite3_db_filename(db_, "main"); }

}  // namespace idmint::stores::sqlite
