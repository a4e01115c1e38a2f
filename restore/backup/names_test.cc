#include "restore/backup/names.h"

#include <gtest/gtest.h>

#include <string>

namespace idmint::restore {
namespace {

struct Escaped {
  std::string name;
  std::string stem;
};

TEST(FileStem, IsWhatTheCommonToolWrites) {
  const std::string very = [] {
    std::string text = "a";
    for (int i = 0; i < 44; ++i) text += "Very";
    return text;
  }();
  for (const auto& [name, stem] : {
           Escaped{"plain", "plain"},
           Escaped{"a-b_c.d~e", "a-b_c.d~e"},
           Escaped{"with space", "with+space"},
           Escaped{"with+plus", "with%2Bplus"},
           Escaped{"a/b", "a%2Fb"},
           Escaped{"../up", "..%2Fup"},
           Escaped{"100%", "100%25"},
           Escaped{"größe", "gr%C3%B6%C3%9Fe"},
           // From mongorestore/testdata/longcollectionname of the tools.
           Escaped{very + "LongCollectionNameConsistingOfExactlyTwoHundredAndFortySevenCharacters",
                   very + "LongCollectionNameConsistingOfE%24xFO0VquRn7cg3QooSZD5sglTddU"},
       }) {
    EXPECT_EQ(file_stem(name), stem);
    EXPECT_EQ(is_cut_stem(stem), name.size() > 200);
    if (!is_cut_stem(stem)) {
      EXPECT_EQ(unescape_stem(stem), name);
    }
  }
}

TEST(FileStem, IsCutFrom239BytesOn) {
  EXPECT_EQ(file_stem(std::string(238, 'x')), std::string(238, 'x'));
  const std::string cut = file_stem(std::string(239, 'x'));
  EXPECT_EQ(cut.size(), 238);
  EXPECT_EQ(cut.substr(0, 211), std::string(208, 'x') + "%24");
  EXPECT_NE(file_stem(std::string(240, 'x')), cut);
}

TEST(UnescapeStem, RefusesWhatIsNoEscape) {
  for (const char* const stem : {"%", "a%2", "%zz", "%-1", "%+1", "% 1", "%00", "a%0gb"})
    EXPECT_EQ(unescape_stem(stem), std::nullopt) << stem;
  EXPECT_EQ(unescape_stem("%2f"), "/");
}

TEST(Names, ThatNoServerHasAreRefused) {
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string("a.b"), std::string(".."),
        std::string("a\\b"), std::string("a b"), std::string("a\"b"), std::string("$a"),
        std::string("a\0b", 3), std::string(64, 'a')})
    EXPECT_TRUE(wrong_database_name(name)) << name;
  for (const char* const name : {"a", "größe", "a-b", "a%2Fb"})
    EXPECT_FALSE(wrong_database_name(name)) << name;
  for (const std::string& name :
       {std::string(), std::string(".a"), std::string("../a"), std::string("a\0b", 3),
        std::string("a$b"), std::string(254, 'a')})
    EXPECT_TRUE(wrong_collection_name("d", name)) << name;
  for (const std::string& name : {std::string("a/../b"), std::string("a b"), std::string("a%2Fb"),
                                  std::string("$admin.system.users"), std::string(253, 'a')})
    EXPECT_FALSE(wrong_collection_name("d", name)) << name;
}

TEST(LeftOut, IsWhatBelongsToTheCluster) {
  EXPECT_TRUE(is_left_out("admin", "system.users"));
  EXPECT_TRUE(is_left_out("config", "settings"));
  EXPECT_TRUE(is_left_out("local", "oplog.rs"));
  EXPECT_TRUE(is_left_out("shop", "system.profile"));
  EXPECT_TRUE(is_left_out("shop", "system.views"));
  EXPECT_TRUE(is_left_out("shop", "$admin.system.users"));
  EXPECT_FALSE(is_left_out("shop", "system.js"));
  EXPECT_FALSE(is_left_out("shop", "system.buckets.weather"));
  EXPECT_FALSE(is_left_out("shop", "systems"));
}

}  // namespace
}  // namespace idmint::restore
