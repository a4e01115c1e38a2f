#include "base/local_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace idmint {
namespace {

constexpr std::array<std::uint32_t, 23> kShared = {
    0x6969,      // NFS
    0x517b,      // SMB
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB 2
    0x564c,      // NCP
    0x00c36400,  // Ceph
    0x01021997,  // 9p
    0x5346414f,  // AFS
    0x6b414653,  // kAFS
    0x73757245,  // Coda
    0x0bd00bd0,  // Lustre
    0x7461636f,  // OCFS2
    0x01161970,  // GFS2
    0x65735546,  // FUSE, virtiofs
    0x47504653,  // GPFS
    0x19830326,  // BeeGFS
    0x20030528,  // OrangeFS
    0xaad7aaea,  // PanFS
    0x61636673,  // ACFS
    0xbeefdead,  // StorNext
    0x786f4256,  // vboxsf
    0xbacbacbc,  // vmhgfs
    0x7c7c6673,  // prl_fs
};

}  // namespace

bool is_shared_between_hosts(long file_system_type) noexcept {
  return std::ranges::find(kShared, static_cast<std::uint32_t>(file_system_type)) != kShared.end();
}

Names names_of(const std::string& path) noexcept {
  struct ::statx file{};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_NLINK | STATX_MNT_ID, &file) != 0)
    return Names::kOne;
  if ((file.stx_mask & STATX_NLINK) != 0 && file.stx_nlink > 1) return Names::kHardLinks;
  std::array<char, PATH_MAX> real{};
  if (::realpath(path.c_str(), real.data()) == nullptr) return Names::kOne;
  const std::string_view name(real.data());
  const std::string of_folder(name.substr(0, name.rfind('/') + 1));
  struct ::statx folder{};
  if (::statx(AT_FDCWD, of_folder.c_str(), 0, STATX_MNT_ID, &folder) != 0) return Names::kOne;
  const bool known = (file.stx_mask & folder.stx_mask & STATX_MNT_ID) != 0;
  return known && file.stx_mnt_id != folder.stx_mnt_id ? Names::kMountedAlone : Names::kOne;
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
