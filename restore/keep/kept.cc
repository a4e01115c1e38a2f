#include "restore/keep/kept.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/shell.h"
#include "mongo/bson.h"
#include "restore/checksums.h"
#include "restore/oplog/reader.h"
#include "restore/output_file.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKeepMark = "keep.json";
constexpr const char* kLockName = "keep.lock";
constexpr std::string_view kDamagedName = ".damaged";
constexpr const char* kMadeByKeep = "idmint-restore keep";

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::uint64_t bytes_of(const Checksums& sums) {
  std::uint64_t bytes = 0;
  for (const auto& [name, sum] : sums.files) bytes += sum.bytes;
  return bytes;
}

// Whether each file is there in its size. The rest is read before a base is needed (BaseBackup).
bool has_files(const std::string& path, const Checksums& sums) {
  return std::ranges::all_of(sums.files, [&](const auto& each) {
    std::error_code failed;
    return fs::file_size(fs::path(path) / each.first, failed) == each.second.bytes && !failed;
  });
}

void add_base(Kept& kept, const std::string& name) {
  const std::string path = kept.bases_folder() + "/" + name;
  const Result<std::optional<Checksums>> read =
      read_checksums(path + "/" + std::string(kChecksumsOfFolder));
  const std::optional<Checksums> sums = read.value_or(std::nullopt);
  if (!sums || !has_files(path, *sums) || name.ends_with(kDamagedName)) {
    kept.notes.push_back(path + " is damaged or unfinished, and is not used");
    return;
  }
  kept.bases.push_back(
      {.path = path, .first = sums->first, .last = sums->last, .bytes = bytes_of(*sums)});
}

// The last entry of a slice that has no whole checksums, as its writer was killed. 0: it ends
// within the first. `whole`: nothing follows it.
Result<Timestamp> last_of(const std::string& path, bool& whole) {
  Result<OplogReader> oplog = OplogReader::open(path);
  if (!oplog) return error_in(oplog);
  Timestamp last{};
  for (;;) {
    const Result<std::optional<Entry>> next = oplog->next();
    if (!next && !oplog->is_cut() && last == Timestamp{}) return error_in(next);
    whole = next.has_value();
    if (!next) return last;
    const std::optional<Entry>& entry = *next;
    if (!entry) return last;
    last = entry->at.ts;
  }
}

// Whether the slice begins with the entry that its name says, or within that.
Result<bool> begins_with(const std::string& path, Timestamp first) {
  Result<OplogReader> oplog = OplogReader::open(path);
  if (!oplog) return error_in(oplog);
  const Result<std::optional<Entry>> next = oplog->next();
  if (!next && oplog->is_cut()) return true;
  if (!next) return error_in(next);
  const std::optional<Entry>& entry = *next;
  return !entry || entry->at.ts == first;
}

void add_slice(Kept& kept, const std::string& name, Timestamp first) {
  const std::string path = kept.oplog_folder() + "/" + name;
  std::error_code failed;
  const std::uintmax_t bytes = fs::file_size(path, failed);
  if (failed) return;
  if (const Result<bool> begins = begins_with(path, first); !begins || !*begins) {
    kept.notes.push_back(begins ? path + " begins with another entry than its name says"
                                : begins.error().message());
    kept.damaged.push_back(path);
    return;
  }
  // Damaged ones count as none: the slice itself says what it has.
  const std::optional<Checksums> sums =
      read_checksums(checksums_beside(path)).value_or(std::nullopt);
  if (sums && bytes_of(*sums) > bytes)
    kept.notes.push_back(path + " is " + std::to_string(bytes_of(*sums) - bytes) +
                         " bytes shorter than its checksums say: its last entries are missing");
  Timestamp last{};
  bool whole = true;
  if (sums && bytes_of(*sums) == bytes) {
    last = sums->last;
  } else {
    const Result<Timestamp> found = last_of(path, whole);
    if (!found) {
      kept.notes.push_back(found.error().message());
      kept.damaged.push_back(path);
      return;
    }
    last = *found;
  }
  if (last == Timestamp{}) {
    kept.begun.push_back(path);
  } else {
    kept.slices.push_back(
        {.path = path, .first = first, .last = last, .bytes = bytes, .whole = whole});
  }
}

// A slice before the newest one that does not end with an entry: no restore reads past that.
void leave_out_damaged(Kept& kept) {
  if (kept.slices.empty()) return;
  const std::string newest = kept.slices.back().path;
  std::erase_if(kept.slices, [&](const KeptSlice& each) {
    if (each.whole || each.path == newest) return false;
    kept.notes.push_back(each.path + " is damaged behind the entry " + print_timestamp(each.last) +
                         ", and is not used");
    return true;
  });
}

bool is_kept(const std::string& folder) {
  std::error_code failed;
  return fs::is_regular_file(fs::path(folder) / kKeepMark, failed);
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return unwritable(path, errno);
}

}  // namespace

std::vector<Hole> Kept::holes() const {
  std::vector<Hole> found;
  for (std::size_t i = 1; i < slices.size(); ++i)
    if (slices[i].first != slices[i - 1].last)
      found.push_back({.after = slices[i - 1].last, .before = slices[i].first});
  return found;
}

std::vector<Reach> Kept::reaches() const {
  std::vector<Reach> found;
  for (std::size_t base = 0; base < bases.size(); ++base) {
    const Timestamp from = bases[base].last;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      if (slices[i].first > from || slices[i].last < from) continue;
      Timestamp to = slices[i].last;
      for (std::size_t next = i + 1; next < slices.size() && slices[next].first == to; ++next)
        to = slices[next].last;
      found.push_back({.base = base, .from = from, .to = to});
      break;
    }
  }
  return found;
}

std::optional<Reach> Kept::reach_to(Timestamp limit) const {
  std::optional<Reach> best;
  for (const Reach& each : reaches())
    if (each.from < limit && limit <= each.to) best = each;
  return best;
}

std::optional<Reach> Kept::reach_to_end() const {
  const std::vector<Reach> all = reaches();
  if (all.empty() || all.back().to != slices.back().last) return std::nullopt;
  return all.back();
}

std::vector<Span> Kept::spans() const {
  std::vector<Span> found;
  for (const Reach& each : reaches()) {
    if (!found.empty() && each.from <= found.back().to)
      found.back().to = std::max(found.back().to, each.to);
    else
      found.push_back({.from = each.from, .to = each.to});
  }
  return found;
}

namespace {

// The first whole second after it, as a time is given in seconds.
Timestamp after(Timestamp at) { return {.seconds = at.seconds + 1, .ordinal = 0}; }

}  // namespace

std::string Kept::in_words() const {
  const std::vector<Span> all = spans();
  if (all.empty()) return "nothing can be restored yet";
  std::string text = "each moment";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [from, to] = all[i];
    const bool within_a_second = to < after(from);
    text += i == 0 ? " from " : ", and from ";
    text += within_a_second ? print_timestamp(from) : print_seconds(after(from));
    text += " to ";
    text += within_a_second ? print_timestamp(to) : print_seconds(to);
  }
  return text + " can be restored";
}

Result<FileLock> FileLock::take(const std::string& path, Kind kind) {
  FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (lock.fd_ < 0) return unwritable(path, errno);
  if (::flock(lock.fd_, (kind == Kind::kAlone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK)
    return fail(Code::kFailedPrecondition, "another process holds " + shell_word(path));
  return fail(Code::kUnavailable,
              "the file system of " + shell_word(path) + " has no locks: use another one");
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Result<FileLock> lock_to_keep(const std::string& folder) {
  Result<FileLock> lock = FileLock::take(folder + "/" + kLockName, FileLock::Kind::kAlone);
  if (!lock && lock.error().code == Code::kFailedPrecondition)
    lock.error() = {Code::kFailedPrecondition,
                    "another idmint-restore keeps " + shell_word(folder) + ": end it first"};
  return lock;
}

std::string lock_of_base(const std::string& path) { return path + ".lock"; }

Result<FileLock> hold_base(const KeptBase& base) {
  Result<FileLock> lock = FileLock::take(lock_of_base(base.path), FileLock::Kind::kShared);
  if (!lock && lock.error().code == Code::kPermissionDenied) return FileLock();
  std::error_code failed;
  if (lock && !fs::exists(base.path, failed))
    return fail(Code::kNotFound, base.path + " has been removed meanwhile: try again");
  return lock;
}

Result<FileLock> lock_to_remove(const KeptBase& base) {
  return FileLock::take(lock_of_base(base.path), FileLock::Kind::kAlone);
}

Result<Kept> read_kept(const std::string& folder) {
  std::ifstream file(fs::path(folder) / kKeepMark);
  if (!file)
    return fail(Code::kNotFound, shell_word(folder) + " is no folder of idmint-restore keep");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Result<Bson> mark = from_json(text);
  Kept kept{.folder = folder};
  if (mark && text_of(mark->view(), "made_by") == kMadeByKeep) {
    kept.set = text_of(mark->view(), "set");
    kept.id = text_of(mark->view(), "id");
  }
  if (kept.set.empty())
    return fail(Code::kDataLoss, folder + "/" + kKeepMark + " is damaged: mend it from a copy");
  for (const std::string& name : names_in(kept.bases_folder()))
    if (!name.starts_with(".") && !name.contains(".partial") && !name.ends_with(".lock"))
      add_base(kept, name);
  for (const std::string& name : names_in(kept.oplog_folder()))
    if (const std::optional<Timestamp> first = first_of_slice(name)) add_slice(kept, name, *first);
  leave_out_damaged(kept);
  std::ranges::sort(kept.bases, {}, &KeptBase::last);
  return kept;
}

Result<void> make_kept_folder(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(fs::path(folder).parent_path(), failed);
  return make_folder(folder);
}

Result<Kept> make_kept(const std::string& folder, const std::string& set, const std::string& id) {
  if (!is_kept(folder)) {
    // A lock that an earlier run may have left, and the folder that each new volume has.
    constexpr std::array<std::string_view, 2> ours = {kLockName, "lost+found"};
    for (const std::string& name : names_in(folder))
      if (std::ranges::find(ours, name) == ours.end() && !name.contains(".partial"))
        return fail(Code::kAlreadyExists,
                    shell_word(folder) + " is not empty: give --to a new folder");
    const std::string mark =
        to_relaxed_json(Bson("made_by", kMadeByKeep, "set", set, "id", id).view()) + "\n";
    if (Result<void> written = replace_file(folder + "/" + kKeepMark, mark); !written)
      return error_in(written);
  }
  for (const char* const each : {"/bases", "/oplog"})
    if (Result<void> made = make_folder(folder + each); !made) return error_in(made);
  Result<Kept> kept = read_kept(folder);
  if (!kept) return kept;
  if (kept->set != set)
    return fail(Code::kFailedPrecondition, shell_word(folder) + " is of the replica set " +
                                               kept->set + ", and this one is " + set +
                                               ": give another folder");
  if (!kept->id.empty() && !id.empty() && kept->id != id)
    return fail(Code::kFailedPrecondition, shell_word(folder) +
                                               " is of another replica set of the "
                                               "name " +
                                               set + ": give another folder");
  return kept;
}

}  // namespace idmint::restore
