#include "server/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/code_of.h"

namespace idmint::server {
namespace {

using fakes::code_of;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

TokenSettings token_of(const std::string& name, const std::vector<std::string>& allow) {
  TokenSettings token{.name = name, .hash = hash_of(name)};
  for (const std::string& text : allow) token.allow.push_back(scope_of(text).value());
  return token;
}

TEST(Caller, ANameWithANulMatchesNothing) {
  const Caller caller({.name = "web", .hash = {}, .allow = {*scope_of("all orders")}});
  using std::string_view_literals::operator""sv;
  EXPECT_TRUE(caller.may(Verb::kNext, "orders"));
  EXPECT_FALSE(caller.may(Verb::kNext, "orders\0x"sv));
  EXPECT_FALSE(caller.sees("orders\0x"sv));
}

TEST(Scope, IsVerbsAndAPattern) {
  const Caller caller(
      token_of("web", {"next orders*", "next,peek eu/?", "all own.[a-c]", "metrics"}));
  EXPECT_TRUE(caller.may(Verb::kNext, "orders"));
  EXPECT_TRUE(caller.may(Verb::kNext, "orders.2026"));
  EXPECT_FALSE(caller.may(Verb::kPeek, "orders"));
  EXPECT_FALSE(caller.may(Verb::kNext, "my.orders"));
  EXPECT_FALSE(caller.may(Verb::kNext, "eu/orders")) << "a pattern is of whole names";
  EXPECT_TRUE(caller.may(Verb::kPeek, "eu/x"));
  EXPECT_TRUE(caller.may(Verb::kRetire, "own.b"));
  EXPECT_FALSE(caller.may(Verb::kRetire, "own.d"));
  EXPECT_TRUE(caller.may(Verb::kMetrics, ""));
}

TEST(Scope, ABadOneSaysWhatThereIs) {
  for (const std::string text :
       {"", "next", "nxt orders", "orders*", " orders", "next,, a,b", "next ", "next a b"}) {
    const Result<Scope> scope = scope_of(text);
    ASSERT_EQ(code_of(scope), Code::kInvalidArgument) << text;
    EXPECT_THAT(scope.error().message(), HasSubstr("the verbs are next, peek")) << text;
  }
}

TEST(Caller, WhoMayDoNothingWithASourceLearnsNothingOfIt) {
  const Caller caller(token_of("web", {"next orders", "metrics"}));
  EXPECT_TRUE(caller.sees("orders"));
  EXPECT_FALSE(caller.sees("customers"));
  EXPECT_FALSE(caller.sees("")) << "metrics are of no source";
  EXPECT_EQ(code_of(caller.check(Verb::kNext, "customers")), Code::kPermissionDenied);
}

TEST(Caller, ASecondBringsSoManyIds) {
  TokenSettings settings = token_of("web", {"next *"});
  settings.ids_per_second = 10;
  Caller caller(std::move(settings));
  const steady_clock::time_point begin{hours{5}};
  EXPECT_FALSE(caller.charge(7, begin));
  const auto refused = caller.charge(4, begin);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error.code, Code::kResourceExhausted);
  EXPECT_EQ(refused->retry_after, seconds{1});
  EXPECT_FALSE(caller.charge(3, begin)) << "what was refused was not counted";
  EXPECT_TRUE(caller.charge(1, begin));
  EXPECT_FALSE(caller.charge(5, begin + milliseconds{500}));
  EXPECT_TRUE(caller.charge(1, begin + milliseconds{500}));
  EXPECT_FALSE(caller.charge(10, begin + hours{1}));
  EXPECT_TRUE(caller.charge(1, begin + hours{1})) << "no more are saved up than a second's";
}

TEST(Caller, ADayBringsSoManyIds) {
  TokenSettings settings = token_of("web", {"next *"});
  settings.ids_per_day = 100;
  Caller caller(std::move(settings));
  const steady_clock::time_point begin{hours{5}};
  EXPECT_FALSE(caller.charge(60, begin));
  const auto refused = caller.charge(41, begin + hours{1});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error.code, Code::kResourceExhausted);
  EXPECT_EQ(refused->retry_after, seconds{hours{23}});
  EXPECT_FALSE(caller.charge(40, begin + hours{2}));
  EXPECT_TRUE(caller.charge(1, begin + hours{23}));
  EXPECT_FALSE(caller.charge(100, begin + hours{24}));
}

TEST(Caller, WhatNoCallMayHaveIsNoMatterOfTime) {
  TokenSettings settings = token_of("web", {"next *"});
  settings.largest_count = 20;
  settings.ids_per_second = 1000;
  Caller caller(std::move(settings));
  const auto refused = caller.charge(21, {});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error.code, Code::kInvalidArgument);
  EXPECT_EQ(refused->retry_after, seconds{0});
  EXPECT_FALSE(caller.charge(20, {}));
}

TEST(Access, KnowsATokenByItsHash) {
  const std::string token = new_token();
  TokenSettings web = token_of("web", {"next *"});
  web.hash = hash_of(token);
  const Access access({token_of("other", {}), web});
  EXPECT_EQ(access.anybody(), nullptr);
  ASSERT_NE(access.find(token), nullptr);
  EXPECT_EQ(access.find(token)->name(), "web");
  EXPECT_EQ(access.find(""), nullptr);
  EXPECT_EQ(access.find(token.substr(0, token.size() - 1)), nullptr);
}

TEST(Access, WithoutTokensEverybodyMayDoEverything) {
  const Access access;
  ASSERT_NE(access.anybody(), nullptr);
  EXPECT_TRUE(access.anybody()->may(Verb::kRetire, "orders"));
  EXPECT_FALSE(access.anybody()->charge(1'000'000'000, {}));
}

TEST(Access, ATokenThatIsGoneHasNoRights) {
  TokenSettings limited = token_of("web", {"next *"});
  limited.ids_per_day = 10;
  Access access({limited, token_of("gone", {"next *"})});
  const auto web = access.find("web");
  const auto gone = access.find("gone");
  EXPECT_FALSE(web->charge(10, {}));
  limited.allow = {scope_of("peek *").value()};
  access.replace({limited});
  EXPECT_TRUE(gone->is_revoked());
  EXPECT_FALSE(gone->may(Verb::kNext, "orders"));
  EXPECT_EQ(access.find("gone"), nullptr);
  EXPECT_EQ(access.find("web"), web) << "and what it has used stays used";
  EXPECT_FALSE(web->may(Verb::kNext, "orders"));
  EXPECT_TRUE(web->charge(1, {}));
}

TEST(Access, ATokenThatComesBackHasUsedWhatItUsed) {
  TokenSettings limited = token_of("web", {"next *"});
  limited.ids_per_day = 10;
  Access access({limited});
  EXPECT_FALSE(access.find("web")->charge(10, {}));
  const auto before = access.find("web");
  const std::vector<TokenSettings> other{token_of("other", {"next *"})};
  access.replace(other);
  access.replace(other);
  EXPECT_EQ(access.find("web"), nullptr);
  access.replace({limited});
  const auto web = access.find("web");
  ASSERT_NE(web, nullptr);
  EXPECT_TRUE(web->may(Verb::kNext, "orders"));
  EXPECT_TRUE(web->charge(1, {}));
  EXPECT_TRUE(before->is_revoked()) << "its connections have to give it again";
  EXPECT_FALSE(before->may(Verb::kNext, "orders"));

  TokenSettings renamed = limited;
  renamed.name = "site";
  access.replace({renamed});
  EXPECT_EQ(access.find("web"), web);
  EXPECT_EQ(web->name(), "site");
  EXPECT_TRUE(web->charge(1, {})) << "a new name is no new day";
}

TEST(Access, WhoCameInBeforeThereWereTokensHasNoRights) {
  Access access;
  const auto somebody = access.anybody();
  access.replace({token_of("web", {"next *"})});
  EXPECT_TRUE(somebody->is_revoked());
  EXPECT_FALSE(somebody->may(Verb::kNext, "orders"));
  EXPECT_EQ(access.anybody(), nullptr);
}

TEST(Quota, CountsWhatWasCreatedAndNothingElse) {
  Quota quota;
  quota.limit({.sources = 2, .stripes = 10});
  ASSERT_TRUE(quota.begin("a", 9, "web"));
  EXPECT_EQ(code_of(quota.begin("b", 2, "web")), Code::kResourceExhausted)
      << "what is under way counts";
  quota.end("a", 9, false);
  EXPECT_TRUE(quota.is_empty());
  ASSERT_TRUE(quota.begin("b", 10, "web"));
  quota.end("b", 10, true);
  ASSERT_TRUE(quota.begin("b", 10, "web")) << "the same again";
  quota.end("b", 10, false);
  EXPECT_FALSE(quota.is_empty()) << "another call made it";
  const Result<void> more = quota.begin("b", 11, "the token web");
  ASSERT_EQ(code_of(more), Code::kResourceExhausted);
  EXPECT_THAT(more.error().message(),
              HasSubstr("the token web may create at most 10 stripes and worker ids (max_stripes), "
                        "and has created 10; nothing was created"));
  quota.limit({.sources = 2, .stripes = 20});
  ASSERT_TRUE(quota.begin("b", 20, "web"));
  quota.end("b", 20, false);  // it is defined otherwise
  for (const std::string name : {"c", "d"}) {
    const Result<void> begun = quota.begin(name, 1, "web");
    EXPECT_EQ(begun.has_value(), name == "c");
    if (begun) quota.end(name, 1, true);
  }
  quota.limit({.sources = 1, .stripes = 1});
  EXPECT_EQ(code_of(quota.begin("e", 1, "web")), Code::kResourceExhausted);
}

// Two calls for one name, of which one is refused, leave it counted.
TEST(Quota, OfTwoCallsForOneNameTheOneThatMadeItCounts) {
  Quota quota;
  quota.limit({.sources = 1, .stripes = 1});
  ASSERT_TRUE(quota.begin("a", 1, "web"));
  ASSERT_TRUE(quota.begin("a", 1, "web"));
  quota.end("a", 1, true);
  quota.end("a", 1, false);
  EXPECT_EQ(code_of(quota.begin("b", 1, "web")), Code::kResourceExhausted);
}

TEST(Access, ATokenKeepsWhatItHasCreatedThroughAReload) {
  TokenSettings web = token_of("web", {"create *"});
  Access access({web}, {.sources = 1, .stripes = 10});
  ASSERT_TRUE(access.find("web")->quota()->begin("a", 1, "web"));
  access.find("web")->quota()->end("a", 1, true);
  const auto refused = [&] {
    return code_of(access.find("web")->quota()->begin("b", 1, "web")) == Code::kResourceExhausted;
  };
  EXPECT_TRUE(refused());
  access.replace({web}, {.sources = 1, .stripes = 10});
  EXPECT_TRUE(refused());
  access.replace({token_of("other", {"next *"})});
  access.replace({web}, {.sources = 1, .stripes = 10});
  EXPECT_TRUE(refused()) << "it was away";
  web.max_sources = 2;
  access.replace({web}, {.sources = 1, .stripes = 10});
  EXPECT_FALSE(refused()) << "its own limit";
}

TEST(NewToken, IsAnotherOneEachTime) {
  std::set<std::string> tokens;
  for (int i = 0; i < 1000; ++i) tokens.insert(new_token());
  EXPECT_EQ(tokens.size(), 1000U);
  EXPECT_EQ(tokens.begin()->size(), 50U);
}

}  // namespace
}  // namespace idmint::server
