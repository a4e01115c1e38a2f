#include "restore/replay/spare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "restore/output_file.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// It ends well at once, as mongod --fork does.
constexpr const char* kProgram = "/bin/true";

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const std::string& path) {
  struct stat facts{};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0);
  return facts.st_mode & 0777;
}

TEST(SpareFolder, IsClosedToOthers) {
  const fakes::TempFolder folder;
  const mode_t before = ::umask(0);
  const std::string fresh = folder.path("a/b");
  const std::string there = folder.path("c");
  EXPECT_EQ(::mkdir(there.c_str(), 0777), 0);
  for (const std::string& path : {fresh, there}) {
    const Result<Spare> spare = start_spare(path, kProgram);
    ASSERT_TRUE(spare.has_value()) << spare.error().message;
    EXPECT_EQ(mode_of(path), 0700U) << path;
    EXPECT_EQ(mode_of(path + "/idmint-restore.json"), 0600U);
    EXPECT_EQ(::chmod(path.c_str(), 0777), 0);
    ASSERT_TRUE(start_spare(path, kProgram).has_value());
    EXPECT_EQ(mode_of(path), 0700U) << path;
  }
  ::umask(before);
}

TEST(SpareFolder, IsNoSymbolicLinkAndHasNone) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("spare");
  const std::string victim = folder.path("victim");
  fs::create_directory(folder.path("elsewhere"));
  for (const std::string target : {"elsewhere", "absent"}) {
    fs::create_symlink(folder.path(target), path);
    for (const std::string& given : {path, path + "/"}) {
      EXPECT_EQ(look_at(given).error().code, Code::kFailedPrecondition) << given;
      const Result<Spare> spare = start_spare(given, kProgram);
      ASSERT_FALSE(spare.has_value()) << given;
      EXPECT_THAT(spare.error().message, HasSubstr("is a symbolic link")) << given;
    }
    fs::remove(path);
  }
  EXPECT_TRUE(fs::is_empty(folder.path("elsewhere")));
  EXPECT_FALSE(fs::exists(folder.path("absent")));

  // Of a run that was killed, or planted.
  std::ofstream(victim) << "precious";
  fs::create_directory(path);
  fs::create_symlink(victim, path + "/idmint-restore.json.part");
  ASSERT_TRUE(start_spare(path, kProgram).has_value());
  EXPECT_EQ(content(victim), "precious");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path + "/idmint-restore.json")));
  fs::create_symlink(victim, path + "/mongod.log");
  const Result<Spare> spare = start_spare(path, kProgram);
  ASSERT_FALSE(spare.has_value());
  EXPECT_THAT(spare.error().message, HasSubstr("mongod.log is a symbolic link"));
}

TEST(SpareFolder, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  const fakes::TempFolder folder;
  const std::string path = folder.path("spare");
  ASSERT_EQ(::mkdir(path.c_str(), 0777), 0);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  const Result<Spare> spare = start_spare(path, kProgram);
  ASSERT_FALSE(spare.has_value());
  EXPECT_EQ(spare.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(spare.error().message, HasSubstr("belongs to another user"));
}

TEST(OutputFiles, FollowNoSymbolicLink) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("out");
  for (const std::string target : {"victim", "absent"}) {
    std::ofstream(folder.path("victim")) << "precious";
    fs::create_symlink(folder.path(target), path);
    EXPECT_EQ(OutputFile::create(path, false).error().code, Code::kAlreadyExists) << target;
    fs::remove(path);
    EXPECT_FALSE(fs::exists(folder.path("absent")));
    EXPECT_EQ(content(folder.path("victim")), "precious");
  }
}

}  // namespace
}  // namespace idmint::restore
