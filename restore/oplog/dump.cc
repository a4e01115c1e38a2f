#include "restore/oplog/dump.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/errors.h"
#include "restore/checksums.h"
#include "restore/document_reader.h"
#include "restore/input_file.h"
#include "restore/oplog/entry.h"
#include "restore/output_file.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kDumpBlock = std::size_t{1} << 20;
// Bytes between two writes of the checksums.
constexpr std::uint64_t kBetweenSeals = std::uint64_t{16} << 20;

}  // namespace

OplogDump::OplogDump(OplogDump&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      made_(std::exchange(other.made_, false)),
      first_(other.first_),
      last_(other.last_),
      synced_(other.synced_),
      last_entry_(std::move(other.last_entry_)),
      block_(std::move(other.block_)),
      hash_(std::move(other.hash_)),
      bytes_(other.bytes_),
      sealed_(other.sealed_),
      entries_(other.entries_),
      synced_entries_(other.synced_entries_) {}

OplogDump::~OplogDump() {
  if (made_ && !first_) ::unlink(path_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

Result<OplogDump> OplogDump::open(const std::string& path) {
  constexpr int flags = O_RDWR | O_CLOEXEC | O_APPEND | O_NOFOLLOW | O_NONBLOCK;
  OplogDump dump(path, ::open(path.c_str(), flags | O_CREAT | O_EXCL, 0600));
  dump.made_ = dump.fd_ >= 0;
  if (dump.fd_ < 0 && errno == EEXIST) dump.fd_ = ::open(path.c_str(), flags);
  if (dump.fd_ < 0) return unwritable(path, errno);
  if (struct stat facts{};
      ::fstat(dump.fd_, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid())
    return std::unexpected(
        at_place(path, {Code::kAlreadyExists,
                        "cannot be written: it is no file of this user; give another name"}));
  if (dump.made_) {
    ::unlink(checksums_beside(path).c_str());  // left by an earlier dump
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    Result<void> named = sync_folder(folder.empty() ? "." : folder.string());
    if (!named) return error_in(named);
  }
  if (::flock(dump.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return unwritable(path, errno);
    return fail(Code::kFailedPrecondition, "another process writes to " + path + ": end it first");
  }
  if (Result<void> read = dump.read(); !read) return error_in(read);
  dump.synced_ = dump.last_;
  dump.synced_entries_ = dump.entries_;
  return dump;
}

Result<void> OplogDump::read() {
  struct stat facts{};
  if (::fstat(fd_, &facts) != 0) return unreadable(path_, errno);
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  const Result<std::optional<FileSum>> known = sum_of_oplog_dump(path_);
  if (!known) return error_in(known);
  const std::optional<FileSum>& sum = *known;
  FileSum is{.bytes = sum ? std::min(size, sum->bytes) : 0, .sha256 = {}};
  // Checked first: otherwise new checksums would certify a changed dump.
  const auto check = [&] { return sum ? check_sum(path_, is, *sum) : Result<void>{}; };
  if (size == 0) return check();
  std::array<std::uint8_t, kGzipHeader> header{};
  if (::pread(fd_, header.data(), header.size(), 0) == std::ssize(header) && is_gzip(header))
    return fail(Code::kFailedPrecondition,
                path_ +
                    " is compressed, and cannot be gone on with: name another "
                    "file, with --since " +
                    "the last entry of this one");
  Result<DocumentReader> reader = DocumentReader::open(path_);
  if (!reader) return error_in(reader);
  for (;;) {
    const Result<std::optional<Document>> next = reader->next();
    if (!next && next.error().code != Code::kDataLoss) return error_in(next);
    const std::optional<Document> document = next ? *next : std::nullopt;
    if (next && !document) return check();
    const Result<Entry> entry = document ? parse_entry(*document) : error_in(next);
    if (entry && (!last_ || *last_ < entry->at.ts)) {
      if (!first_) first_ = entry->at.ts;
      last_ = entry->at.ts;
      const std::span<const std::uint8_t> bytes = entry->document.bytes();
      last_entry_.assign(bytes.begin(), bytes.end());
      hash_.add(bytes);
      bytes_ += bytes.size();
      ++entries_;
      if (sum && bytes_ == sum->bytes) is.sha256 = hash_.hex();
      continue;
    }
    if (Result<void> same = check(); !same) return same;
    if (!last_)
      return fail(Code::kAlreadyExists,
                  path_ + " is there, and does not begin as an oplog does: name another file");
    // A partly written entry is written again.
    const std::uint64_t begin = document ? reader->offset() : reader->position();
    std::uint32_t length = 0;
    const std::uint64_t left = size - begin;
    const bool cut =
        !document &&
        (left < sizeof length ||
         (::pread(fd_, &length, sizeof length, static_cast<off_t>(begin)) ==
              static_cast<ssize_t>(sizeof length) &&
          BSON_UINT32_FROM_LE(length) <= kLargestDocument && BSON_UINT32_FROM_LE(length) > left));
    if (cut) {
      if (::ftruncate(fd_, static_cast<off_t>(begin)) != 0) return unwritable(path_, errno);
      return {};
    }
    return fail(Code::kDataLoss,
                path_ + " is damaged at byte " + std::to_string(begin) + ", after " +
                    print_timestamp(*last_) + ": " +
                    (entry ? "entry " + print_timestamp(entry->at.ts) + " is out of order"
                           : entry.error().message()) +
                    "; name another file");
  }
}

Result<void> OplogDump::append(Timestamp at, Document entry) {
  if (last_ && at <= *last_)
    return fail(Code::kFailedPrecondition, "entry " + print_timestamp(at) + " came after " +
                                               print_timestamp(*last_) +
                                               ": the oplog is out of order");
  if (!first_) first_ = at;
  last_ = at;
  const std::span<const std::uint8_t> bytes = entry.bytes();
  block_.insert(block_.end(), bytes.begin(), bytes.end());
  last_entry_.assign(bytes.begin(), bytes.end());
  ++entries_;
  return block_.size() >= kDumpBlock ? flush() : Result<void>();
}

Result<void> OplogDump::flush() {
  std::size_t done = 0;
  int error = 0;
  while (done != block_.size() && error == 0) {
    const ssize_t written = ::write(fd_, block_.data() + done, block_.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  hash_.add(std::span(block_).first(done));
  bytes_ += done;
  // The next attempt continues where this one ended.
  block_.erase(block_.begin(), block_.begin() + static_cast<std::ptrdiff_t>(done));
  if (error != 0) return unwritable(path_, error);
  return {};
}

Result<void> OplogDump::sync() {
  if (Result<void> written = flush(); !written) return written;
  if (::fdatasync(fd_) != 0) return unwritable(path_, errno);
  synced_ = last_;
  synced_entries_ = entries_;
  return bytes_ - sealed_ >= kBetweenSeals ? seal() : Result<void>{};
}

Result<void> OplogDump::seal() {
  if (!synced_ || !first_ || sealed_ == bytes_) return {};
  Checksums sums{.files = {},
                 .first = first_.value_or(Timestamp{}),
                 .last = synced_.value_or(Timestamp{}),
                 .entries = entries_};
  sums.files[std::filesystem::path(path_).filename().string()] = {.bytes = bytes_,
                                                                  .sha256 = hash_.hex()};
  if (Result<void> written = write_checksums(checksums_beside(path_), sums); !written)
    return written;
  sealed_ = bytes_;
  return {};
}

}  // namespace idmint::restore
