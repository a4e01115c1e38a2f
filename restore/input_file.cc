#include "restore/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/errors.h"

namespace idmint::restore {
namespace {

constexpr std::uint64_t kReadBlock = std::uint64_t{1} << 20;

}  // namespace

struct InputFile::Stream : z_stream {};

bool is_gzip(std::span<const std::uint8_t, kGzipHeader> begin) {
  return begin[0] == 0x1f && begin[1] == 0x8b && begin[2] == 8 && (begin[3] & 0xe0) == 0;
}

std::unexpected<Error> unreadable(const std::string& path, int error) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound
                    : error == EACCES                   ? Code::kPermissionDenied
                                                        : Code::kUnavailable;
  return fail(code, "cannot read " + path + ": " + std::generic_category().message(error));
}

Result<std::unique_ptr<InputFile>> InputFile::open(const std::string& path, As as) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return unreadable(path, errno);
  std::unique_ptr<InputFile> file(new InputFile(fd));
  if (const int error = file->begin(as); error != 0) return unreadable(path, error);
  return file;
}

InputFile::InputFile(int fd) : fd_(fd) {}

InputFile::~InputFile() {
  if (stream_) inflateEnd(stream_.get());
  ::close(fd_);
}

int InputFile::begin(As as) {
  struct stat facts{};
  if (::fstat(fd_, &facts) != 0) return errno;
  if (S_ISDIR(facts.st_mode)) return EISDIR;
  size_ = static_cast<std::uint64_t>(facts.st_size);
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  if (as == As::kStored) return 0;
  std::array<std::uint8_t, kGzipHeader> header{};
  if (::pread(fd_, header.data(), header.size(), 0) != std::ssize(header) || !is_gzip(header))
    return 0;
  auto stream = std::make_unique<Stream>();
  if (inflateInit2(stream.get(), 15 + 16) != Z_OK) return ENOMEM;
  stream_ = std::move(stream);
  input_.resize(std::min(size_, kReadBlock));
  return 0;
}

void InputFile::hash_first(std::uint64_t bytes) {
  hash_.emplace();
  to_hash_ = bytes;
}

bool InputFile::skip(std::uint64_t bytes) {
  if (stream_ || bytes > size_ || ::lseek(fd_, static_cast<off_t>(bytes), SEEK_SET) < 0)
    return false;
  consumed_ = bytes;
  return true;
}

InputFile::Read InputFile::read(std::span<std::uint8_t> to) {
  if (!stream_) return read_file(to);
  stream_->next_out = to.data();
  stream_->avail_out = static_cast<uInt>(to.size());
  while (stream_->avail_out == to.size()) {
    if (stream_->avail_in == 0) {
      const Read raw = read_file(input_);
      if (raw.error != 0) return raw;
      if (raw.size == 0) return {.damage = ended_ ? nullptr : "its compressed data is cut"};
      stream_->next_in = input_.data();
      stream_->avail_in = static_cast<uInt>(raw.size);
    }
    if (ended_) {  // another member follows
      if (inflateReset(stream_.get()) != Z_OK) return {.damage = "its compressed data is damaged"};
      ended_ = false;
    }
    const int status = inflate(stream_.get(), Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      ended_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return {.damage = "its compressed data is damaged"};
    }
  }
  return {.size = to.size() - stream_->avail_out};
}

InputFile::Read InputFile::read_file(std::span<std::uint8_t> to) {
  ssize_t size = 0;
  do {
    size = ::read(fd_, to.data(), to.size());
  } while (size < 0 && errno == EINTR);
  if (size < 0) return {.error = errno};
  const auto fresh = static_cast<std::size_t>(size);
  if (hash_ && consumed_ < to_hash_)
    hash_->add(
        to.first(static_cast<std::size_t>(std::min<std::uint64_t>(fresh, to_hash_ - consumed_))));
  consumed_ += fresh;
  return {.size = static_cast<std::size_t>(size)};
}

Result<std::string> read_text(const std::string& path, std::size_t most) {
  const Result<std::unique_ptr<InputFile>> file = InputFile::open(path);
  if (!file) return error_in(file);
  const auto damaged = [&](const std::string& what) {
    return fail(Code::kDataLoss, path + " is damaged: " + what);
  };
  std::string text;
  std::vector<std::uint8_t> block(std::size_t{64} * 1024);
  while (true) {
    const InputFile::Read read = (*file)->read(block);
    if (read.error != 0) return unreadable(path, read.error);
    if (read.damage != nullptr) return damaged(read.damage);
    if (read.size == 0) return text;
    text.append(reinterpret_cast<const char*>(block.data()), read.size);
    if (text.size() > most) return damaged("it is longer than " + std::to_string(most) + " bytes");
  }
}

}  // namespace idmint::restore
