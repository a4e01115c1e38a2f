// A connection of SQLite to the file of a store: its statements, its waits, and the meaning of
// SQLite's error codes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/fork_wiped.h"
#include "idmint/store.h"

struct sqlite3;
struct sqlite3_stmt;

namespace idmint::stores::sqlite {

class Connection;

// A statement that is prepared at its first use and kept as long as the connection.
struct Query {
  const char* sql;
  sqlite3_stmt* prepared = nullptr;
};

// One execution of a statement. It must end before the mutex of the connection is unlocked.
class Statement {
 public:
  // `sql` is a Query or a text. Binds the values to ?1, ?2 and so on; they must outlive the
  // statement. `doing` is the action on the file, for messages.
  template <typename Sql, typename... Values>
  Statement(Connection& db, Sql& sql, std::string_view doing, const Values&... values)
      : db_(db), doing_(doing) {
    prepare(sql);
    int at = 0;
    if (statement_ != nullptr) (bind(++at, values), ...);
  }
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Steps to the next row. False: there is none, or the statement failed.
  bool next();
  // Steps over all remaining rows.
  [[nodiscard]] Result<void> end();
  [[nodiscard]] bool is_done() const;  // next() found the end
  [[nodiscard]] bool is_busy() const;  // next() found the file locked
  // The error if there is no row. REQUIRES: next() returned false, and `db` was not used since.
  [[nodiscard]] Error failure() const;

  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::optional<std::int64_t> integer_or_null(int column) const;
  [[nodiscard]] bool is_null(int column) const;
  // Valid until the next step.
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  void prepare(Query& query);
  void prepare(const char* sql);  // for this execution only
  void bind(int at, std::string_view text);
  void bind(int at, std::int64_t value);
  void bind(int at, std::optional<std::int64_t> value);
  void bind(int at, const Uuid& id);

  Connection& db_;
  sqlite3_stmt* statement_ = nullptr;  // null: it could not be prepared
  std::string_view doing_;
  bool finalize_ = false;
  int result_ = 0;  // of the latest call of SQLite
};

// False in a child of a process that had a connection open when it forked.
[[nodiscard]] bool may_connect();

// With its final slash. Every path of a store has one.
[[nodiscard]] inline std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/') + 1);
}

// "12 ms", for messages.
[[nodiscard]] std::string waited_since(SteadyTime begun);

// After an I/O error the connection is poisoned: an fsync that failed once may report success the
// next time without having written anything, so no later commit could be believed.
class Connection {
 public:
  Connection(std::string url, std::string path, const StoreOptions& options, Entropy& entropy);
  // In a child of fork() the connection is left alone: closing it there would take the child for
  // the last user of the file, and remove the log that the parent still writes.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] bool is_owned() const { return bool(owner_); }  // false in a child of fork()
  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const StoreOptions& options() const { return options_; }
  [[nodiscard]] bool is_read_only() const { return options_.access == Access::kReadOnly; }
  [[nodiscard]] bool may_create() const { return options_.create && !is_read_only(); }
  [[nodiscard]] Entropy& entropy() const { return entropy_; }

  // Opens the file; closing the connection leaves the log as it is until tidy_log().
  Result<void> connect();
  [[nodiscard]] bool is_connected() const { return db_ != nullptr; }
  void set_opened() { opening_ = false; }  // the store is open: from now on commits count
  [[nodiscard]] std::string full_path() const;

  Result<void> execute(const char* sql, std::string_view doing);  // any number of statements
  Result<void> execute(Query& query, std::string_view doing);
  Result<std::int64_t> read_integer(const char* sql);
  [[nodiscard]] bool is_in_transaction() const;
  void roll_back();  // the open transaction, if there is one
  // Later reads come from the log and the file again, but for the first page.
  void forget_pages() noexcept;

  // A call that begins now and waits for locks until its deadline.
  void begin_call(SteadyTime begun, SteadyTime until);
  // The call under way is to change something: its errors say that nothing was changed.
  void begin_changes() { changes_something_ = true; }
  // Whether the deadline of the call has passed, and its error, for calls that read many rows.
  [[nodiscard]] bool is_late() const { return std::chrono::steady_clock::now() >= until_; }
  [[nodiscard]] Error too_long_a_list(std::size_t read) const;
  // Sleeps for a random time, longer with each attempt, at most 2 ms, so that no process always
  // loses. False: the deadline has passed. Also SQLite's busy handler.
  bool wait_for_lock(int attempt) noexcept;

  // Moves the log into the file as far as its readers allow.
  struct Checkpoint {
    int io_error;  // SQLite's code of an I/O error; 0: there was none
    bool partial;  // readers need the rest of the log
  };
  Checkpoint checkpoint();
  void count_log_pages();  // from now on; ends SQLite's automatic checkpoints
  [[nodiscard]] int log_pages() const { return log_pages_; }  // after the latest commit
  // At closing, the log is moved into the file and removed (tidy), or both stay.
  void tidy_log() noexcept;
  void leave_log() noexcept;

  // The file itself, without its log. The mark is as in docs/design/007-sqlite-trust.md.
  [[nodiscard]] bool is_in_wal_mode();
  Result<std::int64_t> version_in_file();  // user_version
  // Whether the file has all committed changes, synced. Then the next commit may restart the log,
  // and no checkpoint writes the present log. REQUIRES: a write transaction is open.
  [[nodiscard]] bool file_has_all_of_log();
  // Writes the mark and the rest of `version` into the file and syncs it. Both are in the first
  // sector, so a power cut leaves the old header or the new one. REQUIRES: the log has the first
  // page, and no checkpoint can move it into the file meanwhile.
  Result<void> mark(std::int64_t version);
  // Syncs a mark of another process, unless this connection knows that it is on the disk.
  Result<void> sync_mark(std::int64_t version);

  // The error for a code of SQLite. Poisons the connection if a commit may or may not be on the
  // disk. REQUIRES: `result` is the result of the latest call of SQLite.
  Error failed(int result, std::string_view doing);
  // "; nothing was changed", in a call that is to change something.
  [[nodiscard]] std::string unchanged() const;
  [[nodiscard]] Error no_store(const std::string& why) const;
  [[nodiscard]] std::unexpected<Error> damaged(std::string why) const;
  // Disables all later calls, and leaves the log as it is.
  void poison() noexcept;
  [[nodiscard]] bool is_poisoned() const { return poisoned_; }

 private:
  friend class Statement;
  // SQLite's operating system, whose sleeps end by the deadline of the call: SQLite waits for up to
  // ten seconds for the index of a log that is inconsistent, and calls no busy handler there.
  struct Vfs;
  int open_file(const char* path, int flags);
  Result<void> connect_to_write();
  Result<void> connect_without_writing();
  Error not_marked(int result);

  const OwnedByProcess owner_;
  const std::string url_;
  const std::string path_;
  const StoreOptions options_;
  Entropy& entropy_;

  std::unique_ptr<Vfs> vfs_;
  sqlite3* db_ = nullptr;
  SteadyTime begun_;  // of the call under way
  bool changes_something_ = false;
  SteadyTime until_;  // its deadline
  bool opening_ = true;
  bool poisoned_ = false;
  int log_pages_ = 0;
  std::int64_t synced_ = 0;  // the user_version with the mark that is known to be on the disk
};

}  // namespace idmint::stores::sqlite
