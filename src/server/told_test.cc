// The errors that clients with a token see if a store fails, or if a source is not theirs. A call
// that took nothing costs nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idmint/sequence.h"
#include "server/log.h"
#include "server/server.h"
#include "tests/fakes/gated_server.h"
#include "tests/fakes/multi_store_pair.h"

namespace idmint::server {
namespace {

using fakes::GatedStore;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ToldTest : public fakes::GatedServer {
 protected:
  ToldTest() {
    EXPECT_TRUE(create_sequence(*store_, {.name = "few", .last = 2}));
    EXPECT_TRUE(create_sequence(*store_, {.name = "secrets"}));
  }
  [[nodiscard]] ServerOptions options(const std::vector<std::string>& allow) const {
    ServerOptions options = GatedServer::options();
    TokenSettings token{.name = "web", .hash = hash_of("web")};
    for (const std::string& text : allow) token.allow.push_back(*scope_of(text));
    if (!allow.empty()) options.tokens = {token};
    return options;
  }
  static constexpr const char* kWeb = "Authorization: Bearer web\r\n";
};

TEST_F(ToldTest, ANameThatIsNotThereTellsOfNoOther) {
  const Running server(options({"all *"}));
  Client redis(server);
  Client http(server, Protocol::kHttp);
  EXPECT_EQ(redis.ask("AUTH web"), "+OK");
  for (const std::string command :
       {"INCR secret", "GET secret", "ID.PEEK secret", "ID.RAISE secret 9", "ID.NEXT secret"})
    EXPECT_EQ(redis.ask(command), "-NOTFOUND there is no such source") << command;
  for (const std::string request :
       {"POST /v1/ids/secret", "GET /v1/sources/secret", "GET /v1/pools/secret/workers"}) {
    EXPECT_THAT(http.http(request, kWeb).body,
                AllOf(HasSubstr("there is no such source"), Not(HasSubstr("secrets"))))
        << request;
  }
  for (const std::string act : {"raise", "extend", "retire"}) {
    const std::string body = act == "raise"    ? R"({"past":9})"
                             : act == "extend" ? R"({"max":9})"
                                               : R"({"yes":true})";
    EXPECT_THAT(http.http("POST /v1/sources/secret/" + act, kWeb, body).body,
                AllOf(HasSubstr("there is no such source"), Not(HasSubstr("secrets"))));
  }
}

TEST_F(ToldTest, NoPlaceOfAStoreIsToldAndTheLogHasIt) {
  testing::internal::CaptureStderr();
  {
    Log log(LogSettings{});
    ServerOptions secured = options({"all *"});
    secured.log = &log;
    Running server(std::move(secured));
    Client redis(server);
    Client http(server, Protocol::kHttp);
    EXPECT_EQ(redis.ask("AUTH web"), "+OK");
    EXPECT_EQ(redis.ask("INCR orders"), ":1");
    for (const Code code :
         {Code::kUnavailable, Code::kUnknown, Code::kDeadlineExceeded, Code::kInternal,
          Code::kFailedPrecondition, Code::kInvalidArgument, Code::kDataLoss}) {
      const Error error{code, "no answer from db.example:27017 of mongodb://db.example/shop"};
      store_->fail_next({.error = error});
      EXPECT_THAT(redis.ask("INCR orders"), AllOf(StartsWith("-"), Not(HasSubstr("db.example"))));
      store_->fail_next({.error = error});
      EXPECT_THAT(http.http("POST /v1/ids/orders", kWeb).body,
                  AllOf(HasSubstr(std::string(name(code))), Not(HasSubstr("db.example"))));
      store_->fail_call(1, {.error = error});
      EXPECT_THAT(http.http("GET /v1/sources", kWeb).body,
                  AllOf(HasSubstr(std::string(name(code))), Not(HasSubstr("db.example"))));
      store_->fail_call(1, {.error = error});
      EXPECT_THAT(redis.ask("KEYS *"), AllOf(StartsWith("-"), Not(HasSubstr("db.example"))));
      store_->be_away(error);
      EXPECT_THAT(http.http("GET /readyz").body,
                  AllOf(HasSubstr(std::string(name(code))), Not(HasSubstr("db.example"))));
      store_->be_away(std::nullopt);
    }
    server.stop();
    log.flush();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("store_error"), HasSubstr("source=orders"),
                    HasSubstr("code=UNAVAILABLE"), HasSubstr("db.example:27017")));
}

TEST_F(ToldTest, TheLogHasAStoreOfSeveralThatIsLeftOutAndItsReturn) {
  fakes::MultiStorePair pair;
  testing::internal::CaptureStderr();
  {
    Log log(LogSettings{});
    ServerOptions over = options({});
    over.stores = {{.store = pair.gated, .mint = pair.options()}};
    over.log = &log;
    Running server(std::move(over));
    Client redis(server);
    pair.fail();
    EXPECT_EQ(redis.ask("INCR tickets"), ":2");
    pair.mend();
    for (int i = 0; i < 5; ++i) EXPECT_THAT(redis.ask("INCR tickets"), StartsWith(":"));
    server.stop();
    log.flush();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning store_left_out source=tickets store=redis://gated-a "
                              "code=UNAVAILABLE message=away"),
                    HasSubstr("warning store_returned source=tickets store=redis://gated-a")));
}

// An error about the call is shown, without the place where it was found.
TEST_F(ToldTest, WhatIsWrongWithACallIsTold) {
  const Running server(options({"all *"}));
  Client redis(server);
  Client http(server, Protocol::kHttp);
  EXPECT_EQ(redis.ask("AUTH web"), "+OK");
  EXPECT_EQ(redis.ask("INCRBY few 2"), ":2");
  EXPECT_THAT(redis.ask("INCR few"), AllOf(StartsWith("-OUTOFRANGE sequence few: "),
                                           HasSubstr("2 is the last"), Not(HasSubstr("gated-"))));
  EXPECT_THAT(http.http("POST /v1/sources", kWeb, R"({"name":"few","max":9})").body,
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("idmint alter few --max 9"),
                    Not(HasSubstr("gated-"))));
  EXPECT_THAT(http.http("POST /v1/sources/few/retire", kWeb, R"({"yes":true})").status,
              HasSubstr("200"));
  EXPECT_THAT(redis.ask("ID.RAISE few 9"), AllOf(StartsWith("-FAILEDPRECONDITION"),
                                                 HasSubstr("retired"), Not(HasSubstr("gated-"))));
}

// The subject says that the error is about what the caller named. Its place stays here.
TEST_F(ToldTest, AnErrorWithASubjectIsToldWithoutItsPlace) {
  const Running server(options({"all *"}));
  Client redis(server);
  EXPECT_EQ(redis.ask("AUTH web"), "+OK");
  EXPECT_EQ(redis.ask("INCR orders"), ":1");
  Error error{.code = Code::kFailedPrecondition,
              .what = "it is closed",
              .subject = "sequence orders",
              .place = "mongodb://db.example/shop",
              .outcome = "nothing was changed"};
  store_->fail_next({.error = error});
  EXPECT_EQ(redis.ask("INCR orders"),
            "-FAILEDPRECONDITION sequence orders: it is closed; nothing was changed");
  error.subject.clear();
  store_->fail_next({.error = error});
  EXPECT_EQ(redis.ask("INCR orders"),
            "-FAILEDPRECONDITION the server cannot use its store: its log says why");
}

TEST_F(ToldTest, WithoutTokensAllIsTold) {
  const Running server(options({}));
  Client redis(server);
  EXPECT_EQ(redis.ask("INCR orders"), ":1");
  store_->fail_next({.error = {Code::kUnavailable, "no answer from db.example:27017"}});
  EXPECT_THAT(redis.ask("INCR orders"), HasSubstr("db.example:27017"));
  EXPECT_THAT(redis.ask("INCR secret"), HasSubstr("did you mean secrets"));
}

// Another store is away: whoever may see nothing in it does not notice.
TEST_F(ToldTest, AStoreThatIsAwayFailsTheListsOfThoseWhoMaySeeItsSources) {
  const auto eu = std::make_shared<GatedStore>();
  ServerOptions two = options({"all orders", "all few*"});
  TokenSettings abroad{.name = "abroad", .hash = hash_of("abroad"), .allow = {*scope_of("all e*")}};
  two.tokens.push_back(abroad);
  two.stores.push_back({.name = "eu", .store = eu});
  const Running server(std::move(two));
  Client http(server, Protocol::kHttp);
  Client redis(server);
  EXPECT_EQ(redis.ask("AUTH web"), "+OK");
  const Error away{Code::kUnavailable, "gone"};
  eu->fail_call(1, {.error = away});
  EXPECT_THAT(http.http("GET /v1/sources", kWeb).body,
              AllOf(HasSubstr("orders"), HasSubstr("few"), Not(HasSubstr("secrets"))));
  EXPECT_EQ(redis.ask("KEYS *"), "*2");
  EXPECT_THAT(http.http("GET /v1/sources", "Authorization: Bearer abroad\r\n").status,
              HasSubstr("503"));
}

// ---- quotas

TEST_F(ToldTest, IdsThatNoStoreHasTakenAreGivenBack) {
  ServerOptions limited = options({"next *"});
  limited.tokens[0].ids_per_day = 4;
  const Running server(std::move(limited));
  Client redis(server);
  Client http(server, Protocol::kHttp);
  EXPECT_EQ(redis.ask("AUTH web"), "+OK");
  EXPECT_EQ(redis.ask("INCR orders"), ":1");
  const Error away{Code::kUnavailable, "gone"};
  for (const std::string command :
       {"INCR orders", "ID.NEXT orders COUNT 3", "INCRBY orders 3", "ID.RANGE orders 2"}) {
    store_->fail_next({.error = away});
    EXPECT_THAT(redis.ask(command), StartsWith("-UNAVAILABLE")) << command;
  }
  store_->fail_next({.error = away});
  EXPECT_THAT(http.http("POST /v1/ids/orders?count=3", kWeb).status, HasSubstr("503"));
  EXPECT_EQ(redis.ask("INCRBY orders 2"), ":3");
  store_->fail_next({.error = {Code::kUnknown, "no answer"}});
  EXPECT_THAT(redis.ask("INCR orders"), StartsWith("-UNKNOWN"));
  EXPECT_THAT(redis.ask("INCR orders"), StartsWith("-RESOURCEEXHAUSTED"))
      << "what may have been taken is counted";
}

}  // namespace
}  // namespace idmint::server
