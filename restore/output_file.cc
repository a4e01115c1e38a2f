#include "restore/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/errors.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kWriteBlock = std::size_t{1} << 20;  // a multiple of a page

}  // namespace

std::unexpected<Error> unwritable(const std::string& path, int error) {
  const Code code = error == EEXIST || error == ENOTEMPTY || error == ELOOP ? Code::kAlreadyExists
                    : error == ENOSPC || error == EDQUOT || error == EFBIG
                        ? Code::kResourceExhausted
                    : error == EACCES || error == EPERM || error == EROFS ? Code::kPermissionDenied
                    : error == ENOENT || error == ENOTDIR                 ? Code::kNotFound
                                                                          : Code::kUnavailable;
  return std::unexpected(at_place(
      path, {code, "cannot be written: " +
                       (error == ELOOP ? "it is a symbolic link; give the path that it leads to"
                                       : std::generic_category().message(error))}));
}

Result<std::vector<std::uint8_t>> gzip_member(std::span<const std::uint8_t> bytes) {
  constexpr int kWindow = 15;
  constexpr int kAsGzip = 16;
  constexpr int kMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kWindow + kAsGzip, kMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return fail(Code::kResourceExhausted, "no memory to compress with");
  std::vector<std::uint8_t> member(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<Bytef*>(bytes.data());  // NOLINT: zlib only reads it
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = member.data();
  stream.avail_out = static_cast<uInt>(member.size());
  const bool whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  member.resize(stream.total_out);
  deflateEnd(&stream);
  if (!whole) return fail(Code::kUnknown, "zlib compressed a block in part");
  return member;
}

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return unwritable(path, errno);
  return std::unique_ptr<OutputFile>(new OutputFile(path, fd));
}

OutputFile::OutputFile(std::string path, int fd)
    : path_(std::move(path)),
      fd_(fd),
      block_(std::make_unique_for_overwrite<Page[]>(kWriteBlock / sizeof(Page))) {}

OutputFile::~OutputFile() { ::close(fd_); }

Result<void> OutputFile::write(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kWriteBlock - used_);
    std::memcpy(block() + used_, bytes.data(), size);
    used_ += size;
    bytes = bytes.subspan(size);
    if (used_ < kWriteBlock) break;
    if (Result<void> done = write_block(); !done) return done;
  }
  return {};
}

Result<void> OutputFile::finish() {
  if (Result<void> done = write_block(); !done) return done;
  if (::fsync(fd_) != 0) return unwritable(path_, errno);
  return {};
}

void OutputFile::set_direct(bool direct) {
  direct = direct && may_be_direct_;
  if (direct == direct_) return;
  const int flags = ::fcntl(fd_, F_GETFL);
  may_be_direct_ =
      ::fcntl(fd_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 && may_be_direct_;
  direct_ = direct && may_be_direct_;
}

Result<void> OutputFile::write_block() {
  const std::span<const std::uint8_t> all(block(), used_);
  for (std::span<const std::uint8_t> left = all; !left.empty();) {
    set_direct(left.size() == kWriteBlock);
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && direct_) {
      may_be_direct_ = false;  // the file system wants blocks of another size
      continue;
    }
    if (written < 0) return unwritable(path_, errno);
    left = left.subspan(static_cast<std::size_t>(written));
  }
  hash_.add(all);
  bytes_ += used_;
  used_ = 0;
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
    const Result<std::unique_ptr<OutputFile>> file = OutputFile::create(partial);
    if (!file) return error_in(file);
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
  const Result<std::unique_ptr<OutputFile>> file = OutputFile::create(partial);
  if (!file) return error_in(file);
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
