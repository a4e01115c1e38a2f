#include "server/settings_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "base/errors.h"
#include "base/text.h"

namespace idmint::server {

Result<std::string> read_plain_file(const std::string& path, std::size_t longest) {
  const auto failed = [&](int error) {
    return fail(error == ENOENT || error == ENOTDIR ? Code::kNotFound
                : error == EACCES                   ? Code::kPermissionDenied
                                                    : Code::kUnavailable,
                shown(path) + ": " + std::generic_category().message(error));
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return failed(errno);
  const auto close = [](const int* open) { ::close(*open); };
  const std::unique_ptr<const int, decltype(close)> closed(&descriptor, close);
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return failed(errno);
  if (!S_ISREG(facts.st_mode)) return refuse(shown(path) + " is no plain file");
  std::string text(longest, '\0');
  std::size_t size = 0;
  while (size < longest) {
    const ssize_t got = ::read(descriptor, text.data() + size, longest - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace idmint::server
