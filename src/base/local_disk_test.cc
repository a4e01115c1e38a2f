#include "base/local_disk.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/in_child.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

TEST(LocalDisk, SharedFileSystemsAreThoseOfSeveralHostsAndFuse) {
  for (const long type : {0x6969L, 0x517bL, 0xff534d42L, 0x65735546L, 0x47504653L, 0x19830326L,
                          0x786f4256L, 0xbacbacbcL, 0x01021997L})
    EXPECT_TRUE(is_shared_between_hosts(type)) << std::hex << type;
  // ext, XFS, btrfs, tmpfs, overlayfs, ZFS
  for (const long type : {0xef53L, 0x58465342L, 0x9123683eL, 0x01021994L, 0x794c7630L, 0x2fc12fc1L})
    EXPECT_FALSE(is_shared_between_hosts(type)) << std::hex << type;
}

TEST(LocalDisk, AFileHasOneNameUntilItIsLinked) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("a");
  EXPECT_EQ(names_of(path), Names::kOne) << "not there";
  std::ofstream(path) << "x";
  EXPECT_EQ(names_of(path), Names::kOne);
  std::filesystem::create_symlink(path, folder.path("symbolic"));
  EXPECT_EQ(names_of(folder.path("symbolic")), Names::kOne);
  std::filesystem::create_hard_link(path, folder.path("b"));
  EXPECT_EQ(names_of(path), Names::kHardLinks);
  EXPECT_EQ(names_of(folder.path("symbolic")), Names::kHardLinks);
  std::filesystem::remove(path);
  EXPECT_EQ(names_of(folder.path("b")), Names::kOne);
}

// As `-v ./a:/data/b` does in a container.
TEST(LocalDisk, AFileThatIsMountedAloneIsTold) {
  const fakes::TempFolder folder;
  std::filesystem::create_directories(folder.path("data"));
  std::filesystem::create_directories(folder.path("mounted"));
  std::ofstream(folder.path("a")) << "x";
  std::ofstream(folder.path("data/b"));
  const auto mounted = [&](const std::string& what, const std::string& where) {
    return mount(folder.path(what).c_str(), folder.path(where).c_str(), nullptr, MS_BIND,
                 nullptr) == 0;
  };
  const bool may_mount = fakes::in_child([&] {
    if (getuid() != 0 && unshare(CLONE_NEWUSER) != 0) return false;
    if (unshare(CLONE_NEWNS) != 0) return false;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    if (!mounted("a", "data/b") || !mounted("", "mounted")) return false;
    EXPECT_EQ(names_of(folder.path("data/b")), Names::kMountedAlone);
    EXPECT_EQ(names_of(folder.path("a")), Names::kOne);
    EXPECT_EQ(names_of(folder.path("mounted/a")), Names::kOne) << "its folder is mounted";
    return true;
  });
  if (!may_mount) GTEST_SKIP() << "may not mount here";
}

}  // namespace
}  // namespace idmint
