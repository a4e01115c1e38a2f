#include "base/data_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/code_of.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

using fakes::code_of;

TEST(DataFolder, FilesCanBeKeptWhereAFolderIsOrCanBeMade) {
  const fakes::TempFolder folder;
  EXPECT_TRUE(can_keep_files(folder.folder()));
  EXPECT_TRUE(can_keep_files(folder.path("not/made/yet")));
  EXPECT_FALSE(std::filesystem::exists(folder.path("not"))) << "nothing is made";
}

TEST(DataFolder, WhatIsInTheWayIsNamed) {
  const fakes::TempFolder folder;
  std::ofstream(folder.path("file")).flush();
  std::filesystem::create_symlink(folder.path("loop"), folder.path("loop"));
  std::filesystem::create_symlink(folder.path("nothing"), folder.path("dangling"));
  for (const char* const name : {"file", "file/below", "loop", "loop/below"})
    EXPECT_EQ(code_of(can_keep_files(folder.path(name))), Code::kFailedPrecondition) << name;
  for (const char* const name : {"dangling", "dangling/below"})
    EXPECT_NE(code_of(can_keep_files(folder.path(name))), Code{0}) << name;
  const Result<void> below = can_keep_files(folder.path("file/below"));
  EXPECT_THAT(below.error().message(), testing::HasSubstr(folder.path("file")));
  EXPECT_THAT(below.error().message(), testing::HasSubstr("XDG_DATA_HOME"));
}

}  // namespace
}  // namespace idmint
