// Opens and closes the file of a store.
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/data_folder.h"
#include "base/local_disk.h"
#include "base/shell.h"
#include "engines/sqlite/trusted_file.h"

namespace idmint::stores::sqlite {
namespace {

// Refuses a file that exists under a second name. SQLite finds the log by the name of the file, and
// idmint and SQLite find out by the file who else uses the log.
Result<void> check_names(const std::string& path, const std::string& file) {
  const bool is_log = path != file;
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(Error{Code::kFailedPrecondition, file + why});
  };
  switch (names_of(file)) {
    case Names::kOne:
      break;
    case Names::kHardLinks:
      return refuse(
          " has another name (a hard link): " +
          std::string(is_log ? "two files would use one log, and values in it would come again"
                             : "each name would have a log of its own, and give every value "
                               "again") +
          "; remove all names but one (find FOLDER -samefile " + shell_word(file) + ")");
    case Names::kMountedAlone:
      return refuse(" is mounted without its folder: " +
                    std::string(is_log ? "it is the log of another file"
                                       : "its log would stay outside, and every value be given "
                                         "again") +
                    "; mount the folder, never the file");
  }
  return {};
}

constexpr std::array kBeside = {"-journal", "-wal", "-shm"};

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
  for (const char* const suffix : kBeside) {
    std::string beside = file + suffix;
    const auto found = std::filesystem::symlink_status(beside, unknown).type();
    if (found != std::filesystem::file_type::regular && !unknown &&
        found != std::filesystem::file_type::not_found)
      return std::unexpected(Error{
          Code::kFailedPrecondition,
          beside.append(" is not a plain file, and SQLite would use it as one of the files of ")
              .append(path)
              .append("; find out what it is for, and move it away")});
    if (Result<void> one = check_names(file, beside); !one) return one;
  }
  return check_names(path, path);
}

constexpr std::chrono::milliseconds kLastLook{500};  // of a destructor

constexpr const char* kWholeState =
    "SELECT inode, born, changes, unmarked, volume, settled, gone_back FROM store";

bool wants_data_folder(const StoreOptions& options) {
  return options.trust_folder && options.trust_folder->empty();
}

std::string trust_folder_of(const StoreOptions& options) {
  if (!wants_data_folder(options)) return std::string(options.trust_folder.value_or(""));
  const Result<std::filesystem::path> data = data_folder();
  return data ? data->string() : "";
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
      trust_folder_(trust_folder_of(options)),
      lacks_trust_folder_(trust_folder_.empty() && wants_data_folder(options)) {}

TrustedFile::~TrustedFile() {
  if (!is_owned() || !is_connected()) return;
  const SteadyTime now = std::chrono::steady_clock::now();
  begin_call(now, now + std::min<std::chrono::milliseconds>(options().deadline, kLastLook));
  // The log at its path may belong to other processes by now, or to another file; then the check
  // leaves the log.
  if (file_amiss()) {
    leave_log();
    return;
  }
  const std::optional<Error> doubt = look_for_doubt();
  if (doubt && doubt->code != Code::kDataLoss) leave_log();
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
  const Result<bool> whole = has_all_columns(*this);
  if (!whole) return std::unexpected(whole.error());
  if (*whole) state_ = {kWholeState};
  if (!is_read_only()) count_log_pages();
  tidy_log();
  const std::optional<Place> here = place_of(full_path());
  if (here) seen_ = SeenChanges(trust_folder_, id_, *here, !is_read_only());
  // Closing a read-only handle does not move the log of another file into this one.
  const bool in_doubt = look_for_doubt().has_value();
  doubtful_ = in_doubt && !is_read_only();
  if (!is_read_only() && !lost_)
    if (Result<void> ok = complete(here, *whole); !ok) return ok;
  set_opened();
  return {};
}

// Adds the columns that a file of an older version lacks, and the file system to a place without
// it, because of such a version or of a kernel that told no id.
Result<void> TrustedFile::complete(const std::optional<Place>& here, bool is_whole) {
  bool records = here && here->volume && !doubtful_;
  if (records) {
    Statement row(*this, state_, "read");
    const Result<State> state = read_state(row);
    if (!state) return std::unexpected(state.error());
    const std::optional<Place>& place = state->place;
    records = place && !place->volume;
  }
  if (is_whole && !records) return {};
  const Call call{.doing = "write the place of", .needs = Needs::kNothing};
  const Result<void> done = atomically(call, [&]() -> Result<void> {
    if (Result<void> added = add_columns(*this); !added) return added;
    return records ? Statement(*this, volume_, call.doing, here->volume).end() : Result<void>();
  });
  if (done) state_ = {kWholeState};
  return done;
}

// Records the identities of the opened files, to detect replacements. A file that is replaced
// between SQLite's opening and this check has no open descriptor.
Result<void> TrustedFile::remember_files() {
  const std::string path = full_path();
  for (const std::string& each : {path, path + "-wal", path + "-shm"}) {
    const std::optional<FoundFile> found = file_at(each);
    // A read-only file may have no log.
    if (!found && is_read_only() && each != path) continue;
    // A name that was given to it while SQLite opened it.
    if (Result<void> one = check_names(path, each); !one) return one;
    if (!found || (!is_read_only() && !is_open_here(found->identity)))
      return std::unexpected(
          Error{Code::kDataLoss, each + " was removed or replaced while it was opened; find out "
                                        "by whom, and open it again"});
    files_.push_back({each, found->identity});
  }
  return {};
}

}  // namespace idmint::stores::sqlite
