#include "ids/state_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/fork_wiped.h"
#include "base/local_disk.h"

namespace idmint {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSlots = 2;
constexpr std::size_t kCopies = 2;
constexpr std::size_t kFileSize = kPage * kSlots * kCopies;
constexpr std::array<char, 8> kMagic = {'i', 'd', 'm', 'i', 'n', 't', 'S', 'F'};
constexpr std::uint32_t kVersion = 1;

struct Record {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t id_space_size = 0;
  std::uint64_t serial = 0;
  std::uint64_t generation = 0;
  std::int64_t minted_until = 0;
  std::array<std::byte, 16> token{};
  OwnersWords words{};
  std::array<char, StateFileOptions::kMaxIdSpace> id_space{};
  std::uint64_t checksum = 0;

  [[nodiscard]] std::string_view id_space_text() const noexcept {
    return {id_space.data(), std::min<std::size_t>(id_space_size, id_space.size())};
  }
  friend bool operator==(const Record&, const Record&) = default;
};
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(Record) == 336 && std::is_trivially_copyable_v<Record>);
static_assert(std::has_unique_object_representations_v<Record>, "no padding goes to the file");

using Page = std::array<std::byte, kPage>;
using Pages = std::array<Page, kSlots * kCopies>;

// CRC-64/XZ of the record without its last field. Not a digest of libcrypto: damage is no attack,
// and the first digest of a process loads libcrypto's providers, which costs a command that mints
// one id more than everything else. Detects every burst of up to 64 bits, and other errors with
// odds of 1 - 2^-64.
std::uint64_t checksum_of(const Record& record) noexcept {
  std::array<unsigned char, sizeof(Record)> bytes;
  std::memcpy(bytes.data(), &record, sizeof record);
  std::uint64_t crc = ~std::uint64_t{0};
  for (std::size_t i = 0; i < offsetof(Record, checksum); ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xc96c5795d7870f42 : 0);
    }
  }
  return ~crc;
}

Page page_of(Record record) noexcept {
  record.checksum = checksum_of(record);
  Page page{};
  std::memcpy(page.data(), &record, sizeof record);
  return page;
}

std::optional<Record> read_page(const Page& page) noexcept {
  Record record;
  std::memcpy(&record, page.data(), sizeof record);
  if (record.magic != kMagic || record.checksum != checksum_of(record)) return std::nullopt;
  return record;
}

std::size_t page_index(std::size_t slot, std::size_t copy) noexcept { return copy * kSlots + slot; }

std::size_t slot_of(const Record& record) noexcept { return record.serial % kSlots; }

Error failed(Code code, const std::filesystem::path& path, std::string_view what) {
  return {code, "state file " + path.string() + ": " + std::string(what)};
}

Code code_of(int error) noexcept {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOLCK:
      return Code::kResourceExhausted;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return Code::kFailedPrecondition;
    default:
      return Code::kUnknown;
  }
}

std::string_view advice(Code code) noexcept {
  switch (code) {
    case Code::kPermissionDenied:
      return "make the file and its folder writable for this user";
    case Code::kResourceExhausted:
      return "free some disk space, files or memory and try again";
    case Code::kFailedPrecondition:
      return "make its folder first, or name another path";
    default:
      return "look at the disk and at the kernel's log";
  }
}

Error failed_call(const std::filesystem::path& path, std::string_view call, int error) {
  const Code code = code_of(error);
  return failed(code, path,
                std::string(call) + " failed (" + std::generic_category().message(error) + "); " +
                    std::string(advice(code)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// 0 or the error number. Continues a short write.
int write_at(int fd, const void* data, std::size_t size, std::size_t offset) noexcept {
  const char* from = static_cast<const char*>(data);
  while (size != 0) {
    const ::ssize_t wrote =
        uninterrupted([&] { return ::pwrite(fd, from, size, static_cast<::off_t>(offset)); });
    if (wrote < 0) return errno;
    if (wrote == 0) return ENOSPC;
    const auto advanced = static_cast<std::size_t>(wrote);
    from += advanced;
    offset += advanced;
    size -= advanced;
  }
  return 0;
}

// 0 or the error number; ENODATA: the file is too short.
int read_pages(int fd, Pages& pages) noexcept {
  char* const to = reinterpret_cast<char*>(pages.data());
  std::size_t have = 0;
  while (have != kFileSize) {
    const ::ssize_t got = uninterrupted(
        [&] { return ::pread(fd, to + have, kFileSize - have, static_cast<::off_t>(have)); });
    if (got < 0) return errno;
    if (got == 0) return ENODATA;
    have += static_cast<std::size_t>(got);
  }
  return 0;
}

// Reading a named pipe or a device could block for ever.
Result<void> must_be_plain(int fd, const std::filesystem::path& path) {
  struct ::stat opened{};
  if (::fstat(fd, &opened) != 0) return std::unexpected(failed_call(path, "fstat", errno));
  if (S_ISREG(opened.st_mode)) return {};
  return std::unexpected(failed(Code::kFailedPrecondition, path,
                                "it is no plain file; remove it, or name another path"));
}

// Locks over a network do not reliably exclude other hosts, and fdatasync() is weaker there than on
// a disk.
Result<void> refuse_network(int fd, const std::filesystem::path& path) {
  struct ::statfs system{};
  if (::fstatfs(fd, &system) != 0) return std::unexpected(failed_call(path, "statfs", errno));
  if (!is_shared_between_hosts(system.f_type)) return {};
  return std::unexpected(failed(Code::kFailedPrecondition, path,
                                "it lies on a file system that hosts share (such as NFS, SMB or "
                                "FUSE), whose locks and writes cannot be relied on; keep it on a "
                                "disk of this host"));
}

// A file with two names has one lock, but replacing one of the names makes two files of it.
Result<void> refuse_second_name(const std::filesystem::path& path) {
  switch (names_of(path.string())) {
    case Names::kOne:
      break;
    case Names::kHardLinks:
      return std::unexpected(failed(Code::kFailedPrecondition, path,
                                    "it has another name (a hard link), which can become a file "
                                    "of its own; remove all names but one"));
    case Names::kMountedAlone:
      return std::unexpected(failed(Code::kFailedPrecondition, path,
                                    "it is mounted without its folder, where it can be replaced "
                                    "unseen; mount the folder, never the file"));
  }
  return {};
}

// Writes and syncs the file under another name, then renames it without replacing, so that a reader
// of the path sees a whole file. True: this call created it.
Result<bool> make(const StateFileOptions& options, std::span<const std::byte> token) {
  std::string name = options.path.string() + ".new-";
  for (const std::byte byte : token) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(byte));
    name += digits;
  }
  const Descriptor fd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return std::unexpected(failed_call(options.path, "making it", errno));
  struct Unlink {
    const std::string& name;
    ~Unlink() { ::unlink(name.c_str()); }
  } const unlink_at_end{name};

  if (Result<void> local = refuse_network(fd.get(), options.path); !local) {
    return std::unexpected(std::move(local.error()));
  }
  Record record;
  record.id_space_size = static_cast<std::uint32_t>(options.id_space.size());
  std::ranges::copy(options.id_space, record.id_space.begin());
  Pages pages;
  for (std::size_t copy = 0; copy < kCopies; ++copy) {
    for (record.serial = 0; record.serial < kSlots; ++record.serial) {
      pages[page_index(slot_of(record), copy)] = page_of(record);
    }
  }
  int error = write_at(fd.get(), pages.data(), kFileSize, 0);
  if (error == 0 && ::fsync(fd.get()) != 0) error = errno;
  if (error != 0) return std::unexpected(failed_call(options.path, "making it", error));
  if (::renameat2(AT_FDCWD, name.c_str(), AT_FDCWD, options.path.c_str(), RENAME_NOREPLACE) == 0)
    return true;
  // On a file system without RENAME_NOREPLACE, the file has two names for a moment.
  const bool unknown = errno == EINVAL || errno == ENOSYS;
  if (unknown && ::link(name.c_str(), options.path.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  return std::unexpected(failed_call(options.path, "making it", errno));
}

// Whether the path still names the file that is open. An error: it could not be looked up.
Result<bool> names(const std::filesystem::path& path, int fd) {
  struct ::stat at_path{};
  struct ::stat opened{};
  if (::stat(path.c_str(), &at_path) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return std::unexpected(failed_call(path, "looking it up", errno));
  }
  if (::fstat(fd, &opened) != 0) return std::unexpected(failed_call(path, "fstat", errno));
  return at_path.st_dev == opened.st_dev && at_path.st_ino == opened.st_ino;
}

// False: another holder kept it until the deadline.
Result<bool> lock(int fd, const std::filesystem::path& path, steady_clock::time_point deadline) {
  constexpr std::chrono::milliseconds longest_nap{32};
  std::chrono::milliseconds nap{1};
  while (uninterrupted([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) return std::unexpected(failed_call(path, "locking it", errno));
    const steady_clock::time_point now = steady_clock::now();
    if (now >= deadline) return false;
    std::this_thread::sleep_for(std::min<steady_clock::duration>(nap, deadline - now));
    nap = std::min(nap * 2, longest_nap);
  }
  return true;
}

Error damaged(const std::filesystem::path& path, std::string_view how, std::string_view owner) {
  const std::string of(owner);
  return failed(Code::kDataLoss, path,
                std::string(how) + ", or not a state file of idmint; use a " + of +
                    " that was never used before, or remove the file when the clock is later than "
                    "every id minted for this " +
                    of);
}

// The newest record, as the header defines it.
Result<Record> newest_of(const Pages& pages, const std::filesystem::path& path,
                         std::string_view owner) {
  Record newest;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    bool readable = false;
    for (std::size_t copy = 0; copy < kCopies; ++copy) {
      const std::optional<Record> record = read_page(pages[page_index(slot, copy)]);
      if (!record) continue;
      readable = true;
      if (record->serial >= newest.serial) newest = *record;
    }
    if (!readable) {
      return std::unexpected(damaged(path, "it is damaged", owner));
    }
  }
  return newest;
}

Result<Record> read_newest(int fd, const std::filesystem::path& path, std::string_view owner) {
  Pages pages;
  const int error = read_pages(fd, pages);
  if (error == ENODATA) {
    return std::unexpected(damaged(path, "it is cut short", owner));
  }
  if (error != 0) return std::unexpected(failed_call(path, "reading it", error));
  return newest_of(pages, path, owner);
}

Result<void> check_belongs(const Record& record, const StateFileOptions& options) {
  if (record.version != kVersion) {
    return std::unexpected(failed(Code::kFailedPrecondition, options.path,
                                  "it was written by a newer idmint; use that one"));
  }
  if (record.id_space_text() != options.id_space) {
    return std::unexpected(failed(Code::kFailedPrecondition, options.path,
                                  "it is for other ids (" + std::string(record.id_space_text()) +
                                      "), not for (" + options.id_space + "); name another file"));
  }
  return {};
}

}  // namespace

struct StateFile::State {
  ~State() {
    // A child of fork() shares the lock, so unlocking there would take it from the parent. Without
    // this unlock, a surviving child would keep the file locked.
    if (owned && fd) ::flock(fd.get(), LOCK_UN);
  }

  StateFileOptions options;
  Descriptor fd;
  std::array<std::byte, 16> token{};
  Record known;  // read at opening, or the last one acknowledged
  OwnersWords words{};
  std::int64_t found = 0;
  std::int64_t reach = 1;
  bool made = false;
  bool acquired = false;
  bool poisoned = false;
  bool lost = false;
  OwnedByProcess owned;
};

StateFile::StateFile(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

StateFile::~StateFile() = default;

std::int64_t StateFile::minted_until() const noexcept { return state_->found; }

bool StateFile::made() const noexcept { return state_->made; }

const OwnersWords& StateFile::words() const noexcept { return state_->words; }

void StateFile::set_words(const OwnersWords& words) noexcept { state_->words = words; }

Result<std::unique_ptr<StateFile>> StateFile::open(const StateFileOptions& options,
                                                   Entropy& entropy) {
  if (options.id_space.empty() || options.id_space.size() > StateFileOptions::kMaxIdSpace ||
      options.window < 1 || options.path.empty()) {
    return std::unexpected(failed(Code::kInvalidArgument, options.path,
                                  "needs a path, an id space of 1 to 256 characters and a window "
                                  "of at least one tick"));
  }
  auto state = std::make_unique<State>();
  state->options = options;
  entropy.fill(state->token);
  const std::filesystem::path& path = options.path;
  const steady_clock::time_point now = steady_clock::now();
  const SteadyTime deadline =
      options.lock_wait < options.until - now ? now + options.lock_wait : options.until;

  // Repeats if another process created, removed or replaced the file in between.
  constexpr int attempts = 100;
  bool holding = false;
  for (int attempt = 0; attempt < attempts && !holding; ++attempt) {
    state->fd = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (!state->fd) {
      if (errno != ENOENT) return std::unexpected(failed_call(path, "opening it", errno));
      Result<bool> made = make(options, state->token);
      if (!made) return std::unexpected(std::move(made.error()));
      continue;
    }
    if (Result<void> plain = must_be_plain(state->fd.get(), path); !plain) {
      return std::unexpected(std::move(plain.error()));
    }
    if (Result<void> local = refuse_network(state->fd.get(), path); !local) {
      return std::unexpected(std::move(local.error()));
    }
    Result<bool> locked = lock(state->fd.get(), path, deadline);
    if (!locked) return std::unexpected(std::move(locked.error()));
    if (!*locked) {
      return std::unexpected(failed(Code::kUnavailable, path,
                                    "another generator holds it; wait for that one to end, or give "
                                    "this one another " +
                                        std::string(options.owner) + " and file"));
    }
    Result<bool> named = names(path, state->fd.get());
    if (!named) return std::unexpected(std::move(named.error()));
    holding = *named;
  }
  if (!holding) {
    return std::unexpected(failed(Code::kUnavailable, path,
                                  "it is being removed or replaced again and again; find out by "
                                  "whom, and try again"));
  }

  if (Result<void> one = refuse_second_name(path); !one) {
    return std::unexpected(std::move(one.error()));
  }
  Result<Record> newest = read_newest(state->fd.get(), path, options.owner);
  if (!newest) return std::unexpected(std::move(newest.error()));
  if (Result<void> belongs = check_belongs(*newest, options); !belongs) {
    return std::unexpected(std::move(belongs.error()));
  }
  // An unused file: its name may not be on the disk yet, whoever created it.
  if (newest->generation == 0) {
    // Syncs the folder's own name too: its creator may have died before it was on the disk.
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    for (const std::filesystem::path& named : {path, folder}) {
      if (const int error = sync_folder_of(named.string()); error != 0) {
        return std::unexpected(failed_call(path, "syncing its folder", error));
      }
    }
    state->made = true;
  }
  state->known = *newest;
  state->words = state->made ? options.words : newest->words;
  state->found = newest->minted_until;
  return std::unique_ptr<StateFile>(new StateFile(std::move(state)));
}

Result<void> StateFile::usable(std::int64_t tick) const {
  const State& state = *state_;
  const std::filesystem::path& path = state.options.path;
  if (!state.owned) {
    return std::unexpected(
        failed(Code::kFailedPrecondition, path,
               "it was inherited through fork(); open another one in the child"));
  }
  if (state.lost) {
    return std::unexpected(
        failed(Code::kDataLoss, path,
               "it was removed, replaced, damaged or written by somebody else; find out by whom, "
               "and start again"));
  }
  if (state.poisoned) {
    return std::unexpected(
        failed(Code::kUnavailable, path,
               "an earlier write failed, what the disk holds is not known; mend the disk and open "
               "the generator again"));
  }
  if (tick < 0 || tick == std::numeric_limits<std::int64_t>::max()) {
    return std::unexpected(
        failed(Code::kInvalidArgument, path, "asked for a time that no bound lies above"));
  }
  return {};
}

Result<std::int64_t> StateFile::extend(std::int64_t tick, SteadyTime /*until*/) {
  State& state = *state_;
  if (Result<void> may = usable(tick); !may) return std::unexpected(std::move(may.error()));
  if (tick < state.found) {
    return std::unexpected(failed(Code::kInvalidArgument, state.options.path,
                                  "asked for a time that was given away before it was opened"));
  }
  const std::int64_t reach = std::min(state.reach, std::numeric_limits<std::int64_t>::max() - tick);
  return write(std::max(state.known.minted_until, tick + reach), state.words);
}

Result<std::int64_t> StateFile::set_apart(const OwnersWords& words, std::int64_t tick) {
  State& state = *state_;
  if (Result<void> may = usable(tick); !may) return std::unexpected(std::move(may.error()));
  const std::int64_t reach = std::min(state.reach, std::numeric_limits<std::int64_t>::max() - tick);
  Result<std::int64_t> bound = write(tick + reach, words);
  if (bound) {
    state.words = words;
    state.found = 0;  // nothing was minted under these words before
  }
  return bound;
}

Result<std::int64_t> StateFile::write(std::int64_t minted_until, const OwnersWords& words) {
  State& state = *state_;
  const std::filesystem::path& path = state.options.path;
  const auto lose = [&](std::string_view why) {
    state.lost = true;
    return std::unexpected(
        failed(Code::kDataLoss, path, std::string(why) + "; find out by whom, and start again"));
  };

  Result<bool> named = names(path, state.fd.get());
  if (!named) return std::unexpected(Error{Code::kUnavailable, named.error().message()});
  if (!*named) return lose("it was removed or replaced");
  const Result<Record> newest = read_newest(state.fd.get(), path, state.options.owner);
  if (!newest) {
    if (newest.error().code == Code::kDataLoss) return lose("it was damaged");
    return std::unexpected(Error{Code::kUnavailable, newest.error().message()});
  }
  // A failed write of this object may have left its record, or the record of an earlier attempt.
  const bool own_attempt = newest->token == state.token && newest->serial == state.known.serial + 1;
  if (*newest != state.known && !own_attempt) return lose("somebody else wrote it");

  // Writes the slot without the known record, so that the known one stays whatever happens.
  Record next = state.known;
  next.serial = state.known.serial + 1;
  if (!state.acquired) next.generation = state.known.generation + 1;
  next.token = state.token;
  next.words = words;
  next.minted_until = minted_until;
  next.checksum = checksum_of(next);
  const Page page = page_of(next);
  for (std::size_t copy = 0; copy < kCopies; ++copy) {
    const std::size_t offset = page_index(slot_of(next), copy) * kPage;
    if (const int error = write_at(state.fd.get(), page.data(), kPage, offset); error != 0) {
      Error failure = failed_call(path, "writing it", error);
      state.poisoned = failure.code == Code::kUnknown;
      return std::unexpected(std::move(failure));
    }
  }
  if (::fdatasync(state.fd.get()) != 0) {
    // The kernel may have dropped the pages that it could not write, so reading them back does not
    // show the state of the disk.
    const int error = errno;
    state.poisoned = true;
    return std::unexpected(Error{Code::kUnknown, failed_call(path, "syncing it", error).message()});
  }
  state.known = next;
  state.acquired = true;
  state.reach =
      std::min(state.reach > state.options.window / 2 ? state.options.window : state.reach * 2,
               state.options.window);
  return next.minted_until;
}

Result<StateFileContent> read_state_file(const std::filesystem::path& path,
                                         std::string_view owner) {
  // Non-blocking, because opening a named pipe would wait for a writer.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::unexpected(failed_call(path, "opening it", errno));
  if (Result<void> plain = must_be_plain(fd.get(), path); !plain) {
    return std::unexpected(std::move(plain.error()));
  }
  if (const Result<void> one = refuse_second_name(path); !one) {
    return std::unexpected(one.error());
  }
  const Result<Record> newest = read_newest(fd.get(), path, owner);
  if (!newest) return std::unexpected(newest.error());
  if (newest->version != kVersion) {
    return std::unexpected(
        failed(Code::kFailedPrecondition, path, "it was written by a newer idmint; use that one"));
  }
  return StateFileContent{std::string(newest->id_space_text()), newest->minted_until,
                          newest->words};
}

}  // namespace idmint
