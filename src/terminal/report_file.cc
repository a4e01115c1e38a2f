#include "terminal/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/shell.h"

namespace idmint {
namespace {

std::unexpected<Error> cannot_write(const std::string& path, int error,
                                    std::string_view advice = "") {
  const Code code = error == ENOSPC || error == EDQUOT || error == EFBIG  ? Code::kResourceExhausted
                    : error == EACCES || error == EPERM || error == EROFS ? Code::kPermissionDenied
                    : error == ENOENT || error == ENOTDIR || error == EISDIR
                        ? Code::kFailedPrecondition
                    : error == EEXIST || error == ELOOP ? Code::kAlreadyExists
                                                        : Code::kUnavailable;
  return std::unexpected(Error{code, "cannot write " + shell_word(path) + " (" +
                                         std::generic_category().message(error) + ")" +
                                         std::string(advice)});
}

}  // namespace

Result<ReportFile> ReportFile::open(std::string path) {
  ReportFile file(std::move(path));
  if (file.path_.starts_with("/dev/")) {
    // Appends: /dev/stdout may be a file.
    file.fd_ = ::open(file.path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file.fd_ < 0) return cannot_write(file.path_, errno);
    return file;
  }
  struct stat facts{};
  if (::lstat(file.path_.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return S_ISLNK(facts.st_mode)
               ? cannot_write(file.path_, ELOOP, ": it is a symbolic link; give the file itself")
               : cannot_write(file.path_, EEXIST, ": it is no file; give another name");
  const std::string partial = file.path_ + ".partial";
  file.fd_ = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file.fd_ < 0)
    return cannot_write(partial, errno,
                        errno == EEXIST   ? ": a run that was killed may have left it; remove it"
                        : errno == ENOENT ? ": give a file in a folder that is there"
                                          : "");
  file.partial_ = partial;
  return file;
}

ReportFile::ReportFile(ReportFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

ReportFile::~ReportFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Result<void> ReportFile::finish(std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd_, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(path_, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::close(std::exchange(fd_, -1)) != 0) return cannot_write(path_, errno);
  if (partial_.empty()) return {};
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return cannot_write(path_, errno);
  partial_.clear();
  return {};
}

}  // namespace idmint
