// Opens and closes the file of a store.
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>

#include "base/local_disk.h"
#include "stores/sqlite/trusted_file.h"

namespace idmint::stores::sqlite {
namespace {

// Whether the file, which may not exist yet, can be a store under this name.
Result<void> check_file(const std::string& path, bool local_file_system) {
  const auto refuse = [&path](const std::string& why) {
    return std::unexpected(Error{Code::kFailedPrecondition, path + why});
  };
  // The log's shared memory and locks separate the processes of one host, not two hosts.
  struct ::statfs system{};
  if (!local_file_system &&
      (::statfs(path.c_str(), &system) == 0 || ::statfs(folder_of(path).c_str(), &system) == 0) &&
      is_shared_between_hosts(system.f_type))
    return refuse(
        " lies on a file system that hosts share (such as NFS, SMB or FUSE), where two hosts could "
        "take the same values; keep it on a disk of this host, or where only this host uses it, "
        "add ?filesystem=local to the URL");
  // SQLite would wait for a writer of a FIFO, and write to a device.
  std::error_code unknown;
  const auto kind = std::filesystem::status(path, unknown).type();
  if (kind != std::filesystem::file_type::regular && !unknown &&
      kind != std::filesystem::file_type::not_found)
    return refuse(std::string(kind == std::filesystem::file_type::directory
                                  ? " is a folder"
                                  : " is not a plain file") +
                  "; give the path of a file");
  // SQLite would open these in the same way, beside the file that a symbolic link points to.
  const std::string file = std::filesystem::weakly_canonical(path, unknown).string();
  for (const char* const suffix : {"-journal", "-wal", "-shm"}) {
    std::string beside = file + suffix;
    const auto found = std::filesystem::symlink_status(beside, unknown).type();
    if (found != std::filesystem::file_type::regular && !unknown &&
        found != std::filesystem::file_type::not_found)
      return std::unexpected(Error{
          Code::kFailedPrecondition,
          beside.append(" is not a plain file, and SQLite would use it as one of the files of ")
              .append(path)
              .append("; find out what it is for, and move it away")});
  }
  // SQLite puts the log beside the name under which the file is opened.
  switch (names_of(path)) {
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

Result<void> switch_to_wal(Connection& db) {
  // Not every lock here calls the busy handler.
  for (int attempt = 0;; ++attempt) {
    Error error;
    bool busy = false;
    {
      Statement row(db, "PRAGMA journal_mode = WAL", "set the journal of");
      if (row.next()) {
        if (row.bytes(0) == "wal") return {};
        return std::unexpected(Error{
            Code::kFailedPrecondition,
            db.path() + " cannot have a write-ahead log (journal_mode stays " +
                std::string(row.bytes(0)) + "); put it on a local file system with shared memory"});
      }
      error = row.failure();
      busy = row.is_busy();
    }
    if (!busy || !db.wait_for_lock(attempt)) return std::unexpected(std::move(error));
  }
}

}  // namespace

TrustedFile::TrustedFile(std::string url, SqliteUrl parsed, const StoreOptions& options,
                         Entropy& entropy)
    : Connection(std::move(url), std::move(parsed.path), options, entropy),
      local_file_system_(parsed.local_file_system),
      trust_folder_(options.trust_folder) {}

TrustedFile::~TrustedFile() {
  if (!is_owned() || !is_connected()) return;
  // The log at its path may belong to other processes by now, or to another file; then the check
  // leaves the log.
  if (replaced_file())
    leave_log();
  else
    look_for_doubt();
}

Result<void> TrustedFile::open() {
  const SteadyTime begun = std::chrono::steady_clock::now();
  begin_call(begun, std::min(options().until, begun + options().deadline));
  if (Result<void> ok = check_file(path(), local_file_system_); !ok) return ok;
  // The file is not even tidied up before it is identified.
  if (Result<void> ok = connect(); !ok) return ok;
  const Result<Content> content = identify(*this);
  if (!content) return std::unexpected(content.error());
  if (*content == Content::kNothing && !may_create())
    return std::unexpected(no_store(path() + " is empty"));
  const bool has_schema = *content == Content::kOurs;
  has_places_ = !is_read_only() || has_schema;
  if (is_read_only()) {
    if (Result<void> ok = execute("PRAGMA query_only=ON", "set up"); !ok) return ok;
  } else {
    if (Result<void> ok = execute("PRAGMA synchronous=FULL", "set up"); !ok) return ok;
    if (Result<void> ok = switch_to_wal(*this); !ok) return ok;
    if (!has_schema)
      if (Result<void> ok = make_schema(*this); !ok) return ok;
  }
  const Result<Uuid> id = read_id(*this);
  if (!id) return std::unexpected(id.error());
  id_ = *id;
  if (!is_read_only()) {
    // If a sync fails during the switch, SQLite answers "wal" and switches back.
    const Result<std::int64_t> wal =
        read_integer("SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'");
    if (!wal) return std::unexpected(wal.error());
    if (*wal != 1)
      return std::unexpected(Error{
          Code::kUnavailable, path() + " could not be given a write-ahead log (an I/O error?); "
                                       "check the disk, then open it again"});
  }
  if (Result<void> ok = remember_files(); !ok) return ok;
  if (!is_read_only()) count_log_pages();
  tidy_log();
  if (const auto place = place_of(path()))
    seen_ = SeenChanges(trust_folder_, id_, *place, !is_read_only());
  // Closing a read-only handle does not move the log of another file into this one.
  const bool in_doubt = look_for_doubt().has_value();
  doubtful_ = in_doubt && !is_read_only();
  set_opened();
  return {};
}

// Records the identities of the opened files, to detect replacements. A file that is replaced
// between SQLite's opening and this check has no open descriptor.
Result<void> TrustedFile::remember_files() {
  const std::string path = full_path();
  for (const std::string& each : {path, path + "-wal", path + "-shm"}) {
    const std::optional<FileIdentity> identity = identity_of(each);
    // A read-only file may have no log.
    if (!identity && is_read_only() && each != path) continue;
    if (!identity || (!is_read_only() && !is_open_here(*identity)))
      return std::unexpected(
          Error{Code::kDataLoss, each + " was removed or replaced while it was opened; find out "
                                        "by whom, and open it again"});
    files_.push_back({each, *identity});
  }
  return {};
}

}  // namespace idmint::stores::sqlite
