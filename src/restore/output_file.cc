#include "restore/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace idmint::restore {
namespace {

constexpr std::size_t kWriteBlock = std::size_t{1} << 20;

}  // namespace

struct OutputFile::Stream : z_stream {};

std::unexpected<Error> unwritable(const std::string& path, int error) {
  const Code code = error == EEXIST || error == ENOTEMPTY || error == ELOOP ? Code::kAlreadyExists
                    : error == ENOSPC || error == EDQUOT || error == EFBIG
                        ? Code::kResourceExhausted
                    : error == EACCES || error == EPERM || error == EROFS ? Code::kPermissionDenied
                    : error == ENOENT || error == ENOTDIR                 ? Code::kNotFound
                                                                          : Code::kUnavailable;
  return std::unexpected(
      Error{code, "cannot write " + path + ": " +
                      (error == ELOOP ? "it is a symbolic link; give the path that it leads to"
                                      : std::generic_category().message(error))});
}

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string& path, bool gzip) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return unwritable(path, errno);
  std::unique_ptr<OutputFile> file(new OutputFile(path, fd));
  if (!gzip) return file;
  auto stream = std::make_unique<Stream>();
  if (deflateInit2(stream.get(), Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return unwritable(path, ENOMEM);
  file->stream_ = std::move(stream);
  file->compressed_.resize(kWriteBlock);
  return file;
}

OutputFile::OutputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
  block_.reserve(kWriteBlock);
}

OutputFile::~OutputFile() {
  if (stream_) deflateEnd(stream_.get());
  ::close(fd_);
}

Result<void> OutputFile::write(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kWriteBlock - block_.size());
    block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    bytes = bytes.subspan(size);
    if (block_.size() < kWriteBlock) break;
    if (Result<void> done = flush(false); !done) return done;
  }
  return {};
}

Result<void> OutputFile::finish() {
  if (Result<void> done = flush(true); !done) return done;
  if (::fsync(fd_) != 0) return unwritable(path_, errno);
  return {};
}

Result<void> OutputFile::flush(bool end) {
  if (!stream_) {
    Result<void> done = write_file(block_);
    block_.clear();
    return done;
  }
  stream_->next_in = block_.data();
  stream_->avail_in = static_cast<uInt>(block_.size());
  do {
    stream_->next_out = compressed_.data();
    stream_->avail_out = static_cast<uInt>(compressed_.size());
    deflate(stream_.get(), end ? Z_FINISH : Z_NO_FLUSH);
    Result<void> done =
        write_file(std::span(compressed_).first(compressed_.size() - stream_->avail_out));
    if (!done) return done;
  } while (stream_->avail_out == 0);
  block_.clear();
  return {};
}

Result<void> OutputFile::write_file(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return unwritable(path_, errno);
    const auto size = static_cast<std::size_t>(written);
    hash_.add(bytes.first(size));
    bytes_ += size;
    bytes = bytes.subspan(size);
  }
  return {};
}

Result<void> rename_new(const std::string& from, const std::string& to) {
  int error =
      ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0 ? errno : 0;
  if (error == EINVAL || error == ENOSYS) {  // the file system has no atomic form of it
    struct stat facts{};
    error = ::lstat(to.c_str(), &facts) == 0             ? EEXIST
            : std::rename(from.c_str(), to.c_str()) != 0 ? errno
                                                         : 0;
  }
  if (error != 0) return unwritable(to, error);
  return {};
}

Result<void> replace_file(const std::string& path, std::string_view text) {
  const std::string partial = path + ".partial";
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);  // left by a killed process
  {
    const Result<std::unique_ptr<OutputFile>> file = OutputFile::create(partial, false);
    if (!file) return std::unexpected(file.error());
    Result<void> done = (*file)->write(text);
    if (done) done = (*file)->finish();
    if (!done) {
      std::filesystem::remove(partial, ignored);
      return done;
    }
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::filesystem::remove(partial, ignored);
    return unwritable(path, error);
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return sync_folder(folder.empty() ? "." : folder.string());
}

Result<void> check_replaceable(const std::string& path) {
  const std::string partial = path + ".partial";
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return unwritable(path, EISDIR);
  std::filesystem::remove(partial, ignored);
  const Result<std::unique_ptr<OutputFile>> file = OutputFile::create(partial, false);
  if (!file) return std::unexpected(file.error());
  std::filesystem::remove(partial, ignored);
  return {};
}

Result<void> sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return unwritable(path, errno);
  const int failed = ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  if (failed != 0) return unwritable(path, failed);
  return {};
}

}  // namespace idmint::restore
