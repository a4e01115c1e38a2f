#include "server/http_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace idmint::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(HttpTarget, HasSegmentsAndParametersDecoded) {
  const auto target = target_of("/v1/ids/eu%2Forders?count=3&form=a%20b+c&flag&=x&&y==z");
  ASSERT_TRUE(target);
  EXPECT_THAT(target->path, ElementsAre("v1", "ids", "eu/orders"));
  EXPECT_THAT(target->query, ElementsAre(Pair("count", "3"), Pair("form", "a b c"),
                                         Pair("flag", ""), Pair("", "x"), Pair("y", "=z")));
  EXPECT_THAT(target_of("/")->path, ElementsAre(""));
  EXPECT_THAT(target_of("/a+b/?")->path, ElementsAre("a+b", ""));
  EXPECT_THAT(target_of("/a?")->query, IsEmpty());
}

TEST(HttpTarget, MayNameItsHost) {
  const auto target = target_of("HTTP://localhost:7380/v1/ids/a?count=3");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->authority, "localhost:7380");
  EXPECT_THAT(target->path, ElementsAre("v1", "ids", "a"));
  EXPECT_THAT(target->query, ElementsAre(Pair("count", "3")));
  EXPECT_THAT(target_of("https://[::1]")->path, ElementsAre(""));
  EXPECT_EQ(target_of("https://[::1]")->authority, "[::1]");
  EXPECT_EQ(target_of("/http://a")->authority, "");
}

TEST(HttpTarget, WhatCannotBeReadIsNone) {
  for (const std::string_view text : {"", "*", "a", "ftp://localhost/a", "http://", "http:///a",
                                      "http:/a", "/%", "/%4", "/%zz", "/a?b=%4", "/a?%=b"})
    EXPECT_FALSE(target_of(text)) << text;
}

TEST(Accept, TheTypeThatWeighsMostIsTaken) {
  for (const auto& [accept, wanted] : {
           std::pair{"", IdsAs::kText},
           std::pair{" , ", IdsAs::kText},
           std::pair{"*/*", IdsAs::kText},
           std::pair{"application/*", IdsAs::kJson},
           std::pair{"Application/JSON", IdsAs::kJson},
           std::pair{"application/json, text/plain, */*", IdsAs::kJson},
           std::pair{"application/json;q=0.5, text/plain", IdsAs::kText},
           std::pair{"application/json ; Q=0.001 , text/plain;q=0.0", IdsAs::kJson},
           std::pair{"application/json;charset=\"a,b;q=0\", text/plain;q=0.9", IdsAs::kJson},
           std::pair{"text/html, application/xhtml+xml, */*;q=0.8", IdsAs::kText},
           std::pair{"application/x-ndjson;q=1.000", IdsAs::kJsonLines},
       })
    EXPECT_EQ(ids_as(accept), wanted) << accept;
}

TEST(Accept, TheClosestElementSaysTheWeightOfAType) {
  EXPECT_EQ(ids_as("*/*, text/plain;q=0"), IdsAs::kJson);
  EXPECT_EQ(ids_as("text/plain;q=0, application/json;q=0, */*;q=0.1"), IdsAs::kJsonLines);
  EXPECT_EQ(ids_as("application/*;q=0.9, application/json;q=0.1, text/plain;q=0.5"),
            IdsAs::kJsonLines);
}

TEST(Accept, MayTakeNone) {
  for (const std::string_view accept :
       {"image/png", "text/plain;q=0", "text", "*", "text/*;q=0, image/*", "/", ";q=1"})
    EXPECT_EQ(ids_as(accept), std::nullopt) << accept;
}

// A number that is none would weigh more than anything, or less.
TEST(Accept, AnElementWithoutAValidWeightDoesNotCount) {
  for (const std::string weight :
       {"nan", "inf", "-1", "2", "1.001", "0.1234", "1e3", "", "0x1", ".5"}) {
    EXPECT_EQ(ids_as("text/plain;q=" + weight + ", application/json;q=0.1"), IdsAs::kJson)
        << weight;
    EXPECT_EQ(ids_as("text/plain;q=" + weight), std::nullopt) << weight;
  }
}

TEST(Host, NamesThisMachine) {
  for (const std::string_view host : {"localhost", "LocalHost:80", "localhost.", "a.localhost:7380",
                                      "127.0.0.1", "127.255.0.9:1", "[::1]", "[::1]:7380"})
    EXPECT_TRUE(names_this_machine(host)) << host;
  for (const std::string_view host : {"",
                                      "example.org",
                                      "localhost.example.org",
                                      "127.0.0.1.example.org",
                                      "192.0.2.1",
                                      "[::2]:80",
                                      "localhost:80:80",
                                      "localhost:x",
                                      "::1",
                                      "::1:80",
                                      "[::1",
                                      "[127.0.0.1]",
                                      "[::1]80",
                                      "[]",
                                      "[::1%1]",
                                      "localhost:[::1]",
                                      "user@localhost",
                                      "0.0.0.0",
                                      "127.0.0.1 ",
                                      "notlocalhost"})
    EXPECT_FALSE(names_this_machine(host)) << host;
  EXPECT_FALSE(names_this_machine(std::string("[::1") + '\0' + ".example.org]"));
}

TEST(Origin, IsTheServerItself) {
  EXPECT_TRUE(is_own_origin("http://localhost:7380", "localhost:7380", false));
  EXPECT_TRUE(is_own_origin("https://LOCALHOST", "localhost", true));
  for (const std::string_view origin : {"", "null", "http://localhost", "https://localhost:7380",
                                        "http://localhost:7380.example.org"})
    EXPECT_FALSE(is_own_origin(origin, "localhost:7380", false)) << origin;
}

TEST(BearerToken, StandsBehindItsScheme) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bEARER a b"), "a b");
  for (const std::string_view header : {"", "Bearer", "Bearer ", "Basic abc", "Bearerabc"})
    EXPECT_EQ(bearer_token(header), "") << header;
}

}  // namespace
}  // namespace idmint::server
