#include "server/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/settings_file.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::string_view kHash =
    "7a1422f205bdd0bbfae86142ebd8a408f7051e18d0caafc2838d10a8b3d6ff26";

TEST(SettingsToml, HasAllOfTheSettings) {
  Settings settings;
  EXPECT_THAT(read_toml("t",
                        R"(
store = "sqlite:/ids.db"
also = ["sqlite:/new.db"]
over = ["sqlite:/a.db", "env:B"]
redis = ["127.0.0.1:1", "tls:0.0.0.0:2"]
http = []
max_connections = 5
drain_seconds = 7
integers = "64-bit"
max_sources = 8
max_stripes = 9
[stores]
eu = "mongodb://eu/ids"
[tls]
certificate = "c"
key = "k"
client_ca = "ca"
[log]
level = "debug"
format = "json"
[token.web]
sha256 = ")" + std::string(kHash) +
                            R"("
allow = ["next orders*", "peek *"]
ids_per_second = 1
ids_per_day = 2_000_000_000
largest_count = 3
max_sources = 4
max_stripes = 5
)",
                        settings),
              IsEmpty());
  EXPECT_EQ(settings.store.url, "sqlite:/ids.db");
  EXPECT_EQ(settings.store.origin, "t: line 2: store");
  EXPECT_THAT(settings.also.urls, ElementsAre("sqlite:/new.db"));
  EXPECT_EQ(settings.also.origin, "t: line 3: also");
  EXPECT_THAT(settings.over.urls, ElementsAre("sqlite:/a.db", "env:B"));
  EXPECT_EQ(settings.over.origin, "t: line 4: over");
  EXPECT_THAT(settings.stores, ElementsAre(StoreSetting{"eu", "mongodb://eu/ids"}));
  EXPECT_EQ(settings.stores.front().origin, "t: line 13: stores.eu");
  EXPECT_THAT(settings.redis, ElementsAre("127.0.0.1:1", "tls:0.0.0.0:2"));
  EXPECT_THAT(settings.http, IsEmpty());
  EXPECT_EQ(settings.max_connections, 5);
  EXPECT_EQ(settings.drain_seconds, 7);
  EXPECT_TRUE(settings.all_hold_64_bits);
  EXPECT_EQ(settings.max_sources, 8);
  EXPECT_EQ(settings.max_stripes, 9);
  EXPECT_EQ(settings.tls, (TlsSettings{"c", "k", "ca"}));
  EXPECT_EQ(settings.log.level, LogSettings::Level::kDebug);
  EXPECT_EQ(settings.log.format, LogSettings::Format::kJson);
  ASSERT_THAT(settings.tokens, SizeIs(1));
  const TokenSettings& token = settings.tokens.front();
  EXPECT_EQ(token.name, "web");
  EXPECT_EQ(token.hash.front(), 0x7a);
  EXPECT_EQ(token.hash.back(), 0x26);
  EXPECT_THAT(token.allow, SizeIs(2));
  EXPECT_EQ(token.ids_per_second, 1);
  EXPECT_EQ(token.ids_per_day, 2'000'000'000);
  EXPECT_EQ(token.largest_count, 3);
  EXPECT_EQ(token.max_sources, 4);
  EXPECT_EQ(token.max_stripes, 5);
}

TEST(SettingsToml, TellsAllThatIsWrongWithItsLine) {
  Settings settings;
  const std::vector<Error> faults = read_toml("t", R"(stor = "x"
redis = "127.0.0.1:1"
max_connections = 0
[stores]
"a/b" = "x"
c = 5
[tls]
cert = "x"
[log]
level = "loud"
[token.web]
allow = ["nxt *", "next"]
[token.other]
sha256 = "12"
ids_per_day = 0
rights = 1
)",
                                              settings);
  std::string all;
  for (const Error& fault : faults) all += fault.message() + "\n";
  for (const std::string_view wanted :
       {"line 1: there is no key \"stor\"",
        "line 2: redis is a list: write redis = [\"127.0.0.1:1\"]",
        "line 3: max_connections takes a whole number",
        "line 5: a store cannot have the name \"a/b\"", "line 6: c is not",
        "line 8: there is no key \"tls.cert\"", "line 10: log.level", "line 11: sha256 is missing",
        "line 12: there is no verb \"nxt\"", "line 12: the pattern is missing",
        "line 14: sha256 is not", "line 15: ids_per_day is no whole number",
        "line 16: there is no key \"rights\""}) {
    EXPECT_THAT(all, HasSubstr(wanted));
  }
}

TEST(StoreName, StandsBeforeASlashInTheNamesOfSources) {
  for (const std::string name : {"eu", "EU-west_1.a", "1"}) EXPECT_TRUE(check_store_name(name));
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("eu west"),
                                  std::string("ü"), std::string(61, 'a'), std::string("a\n")})
    EXPECT_FALSE(check_store_name(name)) << name;
}

TEST(SettingsToml, ATokenThatIsThereTwiceIsAFault) {
  Settings settings;
  const std::string keys = "sha256 = \"" + std::string(kHash) + "\"\nallow = [\"next *\"]\n";
  EXPECT_THAT(read_toml("t", "[token.a]\n" + keys + "[token.b]\n" + keys, settings), SizeIs(1));
}

TEST(SettingsToml, ATokenThatMayDoNothingIsAFault) {
  Settings settings;
  const std::vector<Error> faults =
      read_toml("t", "[token.a]\nsha256 = \"" + std::string(kHash) + "\"\n", settings);
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_THAT(faults.front().message(), HasSubstr("t: line 1: allow is missing"));
}

TEST(SettingsToml, AUrlInTheWrongPlaceIsNotPrintedWithItsPassword) {
  Settings settings;
  std::string all;
  for (const std::string text :
       {"\"mongodb://u:secret@h/d\" = \"eu\"", "[stores]\n\"mongodb://u:secret@h/d\" = \"eu\"",
        "[log]\nlevel = \"mongodb://u:secret@h/d\""}) {
    const std::vector<Error> faults = read_toml("t", text, settings);
    ASSERT_THAT(faults, SizeIs(1)) << text;
    all += faults.front().message();
  }
  EXPECT_THAT(all, Not(HasSubstr("secret")));
}

TEST(PlainFile, IsReadUpToALength) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("settings");
  std::ofstream(path) << "0123456789";
  EXPECT_EQ(read_plain_file(path, 100), "0123456789");
  EXPECT_EQ(read_plain_file(path, 4), "0123");
}

TEST(PlainFile, NeverWaitsForAPipe) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const std::string& name : {path, folder.folder().string(), std::string("/dev/null")})
    EXPECT_EQ(fakes::code_of(read_plain_file(name, 10)), Code::kInvalidArgument) << name;
  EXPECT_EQ(fakes::code_of(read_plain_file(path + "2", 10)), Code::kNotFound);
}

TEST(SettingsToml, WhatIsNoTomlIsAFault) {
  Settings settings;
  EXPECT_THAT(read_toml("t", "a = ", settings), SizeIs(1));
  EXPECT_THAT(read_toml("t", std::string(300, '.'), settings), SizeIs(1));
  EXPECT_THAT(read_toml("t", std::string(std::size_t{2} << 20, ' '), settings), SizeIs(1));
}

// The advice comes before the words of the parser.
TEST(SettingsToml, WhatIsNoTomlHasItsLineAndWhatToDo) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"redis = [\"a\"\nhttp = [\"b\"]\n",
       "line 2: no TOML: a list that begins here or above is not closed"},
      {"redis = [\"a\"", "line 1: no TOML: a list that begins here or above is not closed"},
      {"[tls\nkey = \"k\"\n",
       "line 1: no TOML: the name of a table is not closed: write ] behind it"},
      {"\nstore = sqlite:x\n", "line 2: no TOML: a text needs quotes"},
      {"redis = [127.0.0.1:1]\n", "line 1: no TOML: a text needs quotes"},
      {"redis = [0.0.0.0:1]\n", "line 1: no TOML: a text needs quotes"},
      {"store = \"x\n", "line 1: no TOML: a text is not closed"},
      {"store: \"x\"\n", "line 1: no TOML: an equals sign is missing"},
      {"store = \n", "line 1: no TOML: a value is missing"},
      {"store = \"a\"\nstore = \"b\"\n", "line 2: no TOML: it stands here a second time"},
      {"store = \"a\" redis = []\n", "line 1: no TOML: something follows the value"}};
  for (const auto& [text, said] : rows) {
    Settings settings;
    const std::vector<Error> faults = read_toml("t", text, settings);
    ASSERT_THAT(faults, SizeIs(1)) << text;
    EXPECT_THAT(faults.front().message(), StartsWith("t: " + said)) << text;
  }
}

TEST(SettingsToml, AValueOfAnotherKindIsToBeWrittenOtherwise) {
  Settings settings;
  const std::vector<Error> faults = read_toml(
      "t", "max_connections = \"5\"\nstore = [\"x\"]\nhttp = \"mongodb://u:secret@h/d\"\n",
      settings);
  ASSERT_THAT(faults, SizeIs(3));
  EXPECT_EQ(faults[0].message(), "t: line 1: max_connections takes a whole number, without quotes");
  EXPECT_EQ(faults[1].message(), "t: line 2: store is no list: write its value without brackets");
  EXPECT_EQ(faults[2].message(),
            "t: line 3: http is a list: write http = [\"mongodb://u:***@h/d\"]");
}

TEST(SettingsEnvironment, OverridesTheFile) {
  Settings settings;
  ASSERT_THAT(read_toml("t", "redis = [\"a\"]\nmax_connections = 5\nstore = \"x\"", settings),
              IsEmpty());
  const std::map<std::string, std::string> set{{"IDMINTD_REDIS", "127.0.0.1:1,unix:/r"},
                                               {"IDMINT_ALSO", "mongodb://a,b/ids  sqlite:x"},
                                               {"IDMINT_OVER", "mongodb://c,d/ids sqlite:y"},
                                               {"IDMINTD_MAX_CONNECTIONS", "6"},
                                               {"IDMINTD_LOG_LEVEL", "info"},
                                               {"IDMINT_STORE", ""}};
  const auto value_of = [&](const char* name) {
    const auto found = set.find(name);
    return found != set.end() ? found->second.c_str() : nullptr;
  };
  EXPECT_THAT(read_environment(value_of, settings), IsEmpty());
  EXPECT_THAT(settings.redis, ElementsAre("127.0.0.1:1", "unix:/r"));
  EXPECT_THAT(settings.also.urls, ElementsAre("mongodb://a,b/ids", "sqlite:x"));
  EXPECT_EQ(settings.also.origin, "IDMINT_ALSO");
  EXPECT_THAT(settings.over.urls, ElementsAre("mongodb://c,d/ids", "sqlite:y"));
  EXPECT_EQ(settings.over.origin, "IDMINT_OVER");
  EXPECT_EQ(settings.max_connections, 6);
  EXPECT_EQ(settings.log.level, LogSettings::Level::kInfo);
  EXPECT_EQ(settings.store.url, "x") << "an empty variable is none";
}

TEST(SettingsEnvironment, TellsWhichVariableIsWrong) {
  Settings settings;
  const auto value_of = [](const char* name) -> const char* {
    const std::string_view variable = name;
    if (variable == "IDMINTD_MAX_CONNECTIONS") return "many";
    return variable == "IDMINTD_LOG_FORMAT" ? "xml" : nullptr;
  };
  const std::vector<Error> faults = read_environment(value_of, settings);
  ASSERT_THAT(faults, SizeIs(2));
  EXPECT_THAT(faults[0].message(), HasSubstr("IDMINTD_MAX_CONNECTIONS"));
  EXPECT_THAT(faults[1].message(), HasSubstr("neither text nor json"));
}

TEST(TokenToml, IsReadAsItWasWritten) {
  Settings settings;
  const TokenSettings::Hash hash = hash_of("secret");
  ASSERT_THAT(read_toml("t", to_toml("web", hash, {"next orders*", "peek *"}), settings),
              IsEmpty());
  ASSERT_THAT(settings.tokens, SizeIs(1));
  EXPECT_EQ(settings.tokens.front().hash, hash);
  EXPECT_THAT(settings.tokens.front().allow, SizeIs(2));
}

}  // namespace
}  // namespace idmint::server
