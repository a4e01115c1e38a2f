#include "base/local_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace idmint {
namespace {

constexpr std::array<std::uint32_t, 10> kShared = {
    0x6969,      // NFS
    0x517b,      // SMB
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB 2
    0x00c36400,  // Ceph
    0x01021997,  // 9p
    0x5346414f,  // AFS
    0x0bd00bd0,  // Lustre
    0x7461636f,  // OCFS2
    0x01161970,  // GFS2
};

}  // namespace

bool is_shared_between_hosts(long file_system_type) noexcept {
  return std::ranges::find(kShared, static_cast<std::uint32_t>(file_system_type)) != kShared.end();
}

int sync_folder_of(const std::string& path) noexcept {
  const std::size_t slash = path.find_last_not_of('/') == std::string::npos
                                ? 0
                                : path.rfind('/', path.find_last_not_of('/'));
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int failed = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return failed;
}

}  // namespace idmint
