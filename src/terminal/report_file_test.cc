#include "terminal/report_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

namespace fs = std::filesystem;

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ReportFile, ReplacesAnOlderFileWhenItIsWhole) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("a.svg");
  std::ofstream(path) << "older";
  {
    const Result<ReportFile> unfinished = ReportFile::open(path);
    ASSERT_TRUE(unfinished.has_value());
    EXPECT_EQ(content(path), "older");
  }
  EXPECT_EQ(content(path), "older");
  Result<ReportFile> file = ReportFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_EQ(ReportFile::open(path).error().code, Code::kAlreadyExists) << "another is at work";
  EXPECT_TRUE(file->finish("newer").has_value());
  EXPECT_EQ(content(path), "newer");
  EXPECT_FALSE(fs::exists(path + ".partial"));
}

TEST(ReportFile, FollowsNoSymbolicLink) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("a.svg");
  const std::string victim = folder.path("victim");
  std::ofstream(victim) << "precious";
  for (const std::string& planted : {path, path + ".partial"}) {
    fs::create_symlink(victim, planted);
    EXPECT_EQ(ReportFile::open(path).error().code, Code::kAlreadyExists) << planted;
    fs::remove(planted);
    fs::create_symlink(folder.path("absent"), planted);
    EXPECT_EQ(ReportFile::open(path).error().code, Code::kAlreadyExists) << planted;
    fs::remove(planted);
  }
  // Planted after it was opened: the link is replaced, and not what it leads to.
  Result<ReportFile> file = ReportFile::open(path);
  ASSERT_TRUE(file.has_value());
  fs::create_symlink(victim, path);
  EXPECT_TRUE(file->finish("picture").has_value());
  EXPECT_EQ(content(path), "picture");
  EXPECT_EQ(content(victim), "precious");
  EXPECT_FALSE(fs::exists(folder.path("absent")));
}

TEST(ReportFile, SaysWhyAPathCannotBeWritten) {
  const fakes::TempFolder folder;
  EXPECT_EQ(ReportFile::open(folder.path("none/a")).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(ReportFile::open(folder.path("")).error().code, Code::kAlreadyExists);
  Result<ReportFile> full = ReportFile::open("/dev/full");
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->finish("x").error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace idmint
