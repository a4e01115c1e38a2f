// dump as its users run it; what is in a backup is tested beside restore/backup/dump.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "restore/tests/program.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using servers::mongo_set;
using testing::AllOf;
using testing::HasSubstr;

Ended dump(const fakes::TempFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), "dump");
  return Program(folder, std::move(words)).end();
}

TEST(DumpProgram, TellsWhatTheBackupIs) {
  const fakes::TempFolder folder;
  const std::string uri = mongo_set().url("admin");
  servers::mongo_command(uri, "shop", R"({"insert":"orders","documents":[{"x":1}]})");
  const Ended text = dump(folder, {"--uri", uri, "--out", folder.path("base")});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("MongoDB 6.0"), HasSubstr("collections in"),
                    testing::ContainsRegex("entr(y|ies), "), HasSubstr("dump the oplog from")));
  const Ended json = dump(folder, {"--uri", uri, "--out", folder.path("base.archive"), "--archive",
                                   "--gzip", "--json"});
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_THAT(json.out, AllOf(HasSubstr(R"("form":"archive","gzip":true)"),
                              HasSubstr(R"("server_version":"6.0)"), HasSubstr(R"("documents":)"),
                              HasSubstr(R"("oplog":{"first":")")));
  EXPECT_TRUE(fs::is_regular_file(folder.path("base.archive")));
}

TEST(DumpProgram, RefusesWithAStatusThatSaysWhatToDo) {
  const fakes::TempFolder folder;
  const std::string uri = mongo_set().url("admin");
  fs::create_directory(folder.path("there"));
  const Ended there = dump(folder, {"--uri", uri, "--out", folder.path("there/")});
  EXPECT_EQ(there.status, 4);
  EXPECT_THAT(there.err, HasSubstr("give another name"));
  EXPECT_EQ(dump(folder, {"--uri", uri, "--out", "/"}).status, 2);
  EXPECT_EQ(dump(folder, {"--uri", uri}).status, 2);
  EXPECT_EQ(dump(folder, {"--uri", uri, "--out", folder.path("no/such/folder")}).status, 3);
  const Ended standalone = dump(
      folder, {"--uri", servers::mongo_standalone().url(""), "--out", folder.path("standalone")});
  EXPECT_EQ(standalone.status, 5);
  EXPECT_THAT(standalone.err, HasSubstr("no member of a replica set"));
}

TEST(DumpProgram, LeavesNothingWhenItIsStopped) {
  const fakes::TempFolder folder;
  const std::string uri = mongo_set().url("admin");
  const std::string filling(100'000, 'x');
  for (int i = 0; i < 100; ++i)
    servers::mongo_command(uri, "stopped",
                           R"({"insert":"c","documents":[{"x":")" + filling + R"("}]})");
  Program program(folder, {"dump", "--uri", uri, "--out", folder.path("base")});
  while (program.runs() && !fs::exists(folder.path("base.partial")) &&
         !fs::exists(folder.path("base"))) {
  }
  program.signal(SIGTERM);
  const Ended ended = program.end();
  EXPECT_FALSE(fs::exists(folder.path("base.partial")));
  EXPECT_EQ(fs::exists(folder.path("base")), ended.status == 0);
  EXPECT_TRUE(ended.status == 0 || ended.status == 128 + SIGTERM) << ended.status << ended.err;
}

}  // namespace
}  // namespace idmint::restore
