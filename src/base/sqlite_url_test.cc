#include "base/sqlite_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace idmint {
namespace {

using testing::HasSubstr;

std::string path_of(std::string_view url) {
  const auto parsed = parse_sqlite_url(url);
  EXPECT_TRUE(parsed.has_value()) << url;
  return parsed ? parsed->path : "";
}

std::string why_not(std::string_view url) {
  const auto parsed = parse_sqlite_url(url);
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  return parsed.error().message();
}

TEST(SqliteUrl, NamesAFile) {
  EXPECT_EQ(path_of("sqlite:ids.db"), "./ids.db");
  EXPECT_EQ(path_of("sqlite:/srv/ids.db"), "/srv/ids.db");
  EXPECT_EQ(path_of("sqlite:///srv/ids.db"), "/srv/ids.db");
  EXPECT_EQ(path_of("sqlite::memory:"), "./:memory:");
  EXPECT_EQ(path_of("sqlite:a b#c&d"), "./a b#c&d");
  EXPECT_EQ(path_of("sqlite:what%3f%3Fis%25%41"), "./what??is%A");
  EXPECT_FALSE(parse_sqlite_url("sqlite:ids.db")->local_file_system);
}

TEST(SqliteUrl, ComesBackFromTheUrlOfAPath) {
  for (const std::string path : {"/a/ids.db", "/a b", "/50%?x=%3F"})
    EXPECT_EQ(path_of(sqlite_url(path)), path);
}

TEST(SqliteUrl, HasOneOption) {
  EXPECT_TRUE(parse_sqlite_url("sqlite:ids.db?filesystem=local")->local_file_system);
  EXPECT_EQ(path_of("sqlite:ids.db?filesystem=local"), "./ids.db");
  EXPECT_EQ(path_of("sqlite:ids.db?"), "./ids.db");
  EXPECT_THAT(why_not("sqlite:ids.db?mode=ro"), HasSubstr("Access::kReadOnly"));
  EXPECT_THAT(why_not("sqlite:ids.db?filesystem=shared"), HasSubstr("one value, local"));
  EXPECT_THAT(why_not("sqlite:ids.db?filesystem=local&cache=x"),
              HasSubstr("cache=***\": there is one option"));
}

// URLs of other kinds of store, with this scheme by mistake.
TEST(SqliteUrl, WhatMayBeASecretIsNotPrinted) {
  for (const char* const url :
       {"sqlite://me:secret@host/ids.db", "sqlite://me:sec@ret@host/ids?x", "sqlite://secret@/",
        "sqlite:ids.db?password=secret", "sqlite:ids.db?filesystem=secret", "sqlite:50%?key=secret",
        "sqlite:?secret"})
    EXPECT_THAT(why_not(url), testing::Not(HasSubstr("secret"))) << url;
  EXPECT_THAT(why_not("sqlite://me:secret@host/ids.db"), HasSubstr("sqlite:***"));
}

TEST(SqliteUrl, SaysWhatIsWrong) {
  EXPECT_THAT(why_not("sqlite:"), HasSubstr("path of a file"));
  EXPECT_THAT(why_not("sqlite:?filesystem=local"), HasSubstr("path of a file"));
  EXPECT_THAT(why_not("sqlite:a/"), HasSubstr("path of a file"));
  EXPECT_THAT(why_not("sqlite:a%00b"), HasSubstr("path of a file"));
  EXPECT_THAT(why_not("sqlite://host/ids.db"), HasSubstr("sqlite:///PATH"));
  for (const char* const url : {"sqlite:50%", "sqlite:50%4", "sqlite:50%-1", "sqlite:50%zz"})
    EXPECT_THAT(why_not(url), HasSubstr("%25")) << url;
}

}  // namespace
}  // namespace idmint
