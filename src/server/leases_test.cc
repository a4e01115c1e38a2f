// Leases over each protocol: each rule of design note 005, as a program of any language meets it.
#include "server/leases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "idmint/mint.h"
#include "server/server.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using Given = std::map<std::string, std::string>;

// What was answered, with the members of the layout among the others; or the code of an error, such
// as FAILEDPRECONDITION.
struct LeaseAnswer {
  Given its{};
  std::string error{};

  [[nodiscard]] std::string operator[](const std::string& name) const {
    const auto found = its.find(name);
    return found != its.end() ? found->second : "(missing)";
  }
  [[nodiscard]] std::int64_t number(const std::string& name) const {
    return std::strtoll((*this)[name].c_str(), nullptr, 10);
  }
};

std::string without_underscores(std::string text) {
  std::erase(text, '_');
  return text;
}

// A client of the protocol.
class Holder {
 public:
  Holder(const Running& server, Protocol protocol, std::string token = "")
      : client_(server, protocol), is_http_(protocol == Protocol::kHttp), token_(std::move(token)) {
    if (!is_http_ && !token_.empty()) client_.ask("AUTH " + token_);
  }

  LeaseAnswer lease(const Given& wish = {}, const std::string& pool = "web") {
    if (is_http_) return post("/v1/pools/" + pool + "/leases", wish);
    std::string command = "ID.LEASE " + pool;
    for (const auto& [name, value] : wish) {
      if (name == "repeated") {
        command += " REPEATED";
        continue;
      }
      command += " " + (name == "window_ms" ? "WINDOW" : upper_case(name)) + " " + value;
    }
    return ask(command);
  }
  // Of the lease as it was answered; `other` replaces members.
  LeaseAnswer extend(const LeaseAnswer& held, const Given& other) {
    Given all{{"new_nonce", "00000000-0000-4000-8000-000000000001"}};
    for (const char* const name : {"worker", "token", "generation", "from", "to", "nonce"})
      all[name] = held[name];
    for (const auto& [name, value] : other) all[name] = value;
    const std::string worker = all["worker"];
    if (is_http_) {
      all.erase("worker");
      return post("/v1/pools/web/leases/" + worker + "/extend", all);
    }
    std::string command = "ID.EXTEND web " + worker;
    for (const char* const name :
         {"token", "generation", "from", "to", "nonce", "new_to", "new_nonce"})
      command += " " + (all[name].empty() ? std::string("\"\"") : all[name]);
    return ask(command + (all.contains("window_ms") ? " WINDOW " + all["window_ms"] : ""));
  }
  LeaseAnswer release(const LeaseAnswer& held, const Given& other = {}) {
    Given all = held.its;
    for (const auto& [name, value] : other) all[name] = value;
    if (is_http_)
      return http("DELETE /v1/pools/web/leases/" + all["worker"] + "?token=" + all["token"] +
                      "&generation=" + all["generation"],
                  "");
    return ask("ID.RELEASE web " + all["worker"] + " " + all["token"] + " " + all["generation"]);
  }

 private:
  LeaseAnswer post(const std::string& path, const Given& members) {
    nlohmann::json body = nlohmann::json::object();
    for (const auto& [name, value] : members) body[name] = value;
    if (body.contains("repeated")) body["repeated"] = true;
    return http("POST " + path, body.dump());
  }
  LeaseAnswer http(const std::string& request, const std::string& body) {
    const Client::Response response = client_.http(
        request, token_.empty() ? "" : "Authorization: Bearer " + token_ + "\r\n", body);
    LeaseAnswer answer;
    if (response.body.empty()) return answer;
    nlohmann::json json = nlohmann::json::parse(response.body);
    if (json.contains("code")) return {.error = without_underscores(json["code"])};
    json.update(json["layout"]);
    json.erase("layout");
    for (const auto& [name, value] : json.items())
      answer.its[name] = value.is_string() ? value.get<std::string>() : value.dump();
    return answer;
  }

  LeaseAnswer ask(const std::string& command) {
    client_.send(command + "\r\n");
    LeaseAnswer answer;
    const std::string head = client_.line();
    if (head.starts_with('-')) {
      answer.error = head.substr(1, head.find(' ') - 1);
      if (answer.error == "ERR") answer.error = "INVALIDARGUMENT";
      if (answer.error == "NOPERM") answer.error = "PERMISSIONDENIED";
    } else if (head.starts_with('*')) {
      read_pairs(head, answer);
    }
    return answer;
  }
  void read_pairs(const std::string& head, LeaseAnswer& answer) {
    for (int left = std::atoi(head.c_str() + 1) / 2; left > 0; --left) {
      client_.line();
      const std::string name = client_.line();
      const std::string value = client_.line();
      if (value.starts_with('*')) {
        read_pairs(value, answer);
      } else {
        answer.its[name] = value.starts_with(':') ? value.substr(1) : client_.line();
      }
    }
  }

  Client client_;
  const bool is_http_;
  const std::string token_;
};

class LeasesStore {
 protected:
  LeasesStore() {
    Mint mint = make_mint();
    EXPECT_TRUE(mint.create(PoolDefinition{.name = "web", .workers = 2}));
    EXPECT_TRUE(mint.create(SequenceDefinition{.name = "orders"}));
  }
  [[nodiscard]] std::string url() const { return "sqlite:" + folder_.path("ids.db"); }
  [[nodiscard]] Mint make_mint() const { return Mint(MintOptions{.store = url()}); }
  [[nodiscard]] ServerOptions options() const {
    ServerOptions options;
    options.stores.push_back({.mint = {.store = url()}});
    options.stores.back().mint.store_options.deadline = kNever;
    return options;
  }
  // The token is "idmint_" and its name.
  static void add_token(ServerOptions& options, const std::string& name, const std::string& allow,
                        std::optional<std::int64_t> most_leases) {
    options.tokens.push_back({.name = name,
                              .hash = hash_of("idmint_" + name),
                              .allow = {*scope_of(allow)},
                              .max_leases = most_leases});
  }
  [[nodiscard]] static std::string plus(const LeaseAnswer& held, std::int64_t units) {
    return std::to_string(held.number("to") + units);
  }

  fakes::TempFolder folder_;
};
class LeasesTest : public LeasesStore, public testing::TestWithParam<Protocol> {};
class LeasesOverRedis : public LeasesStore, public testing::Test {};

constexpr auto kSomeToken = "0b2f4c1e-7a55-4f0c-9c3e-3f0f7d1c2a10";

TEST_P(LeasesTest, ALeaseHasAllThatItsHolderNeeds) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease({{"holder", "a"}, {"window_ms", "2000"}});
  EXPECT_EQ(held.error, "");
  EXPECT_EQ(held["pool"], "web");
  EXPECT_EQ(held["worker"], "0");
  EXPECT_EQ(held["generation"], "1");
  EXPECT_EQ(held["held_ms"], "2000");
  EXPECT_EQ(held["from"], held["now"]);
  EXPECT_EQ(held.number("to") - held.number("from"), 2000);
  EXPECT_EQ(held.number("latest") - held.number("now"), 20'000);
  EXPECT_EQ(held["epoch"], "1420070400000000000");
  EXPECT_EQ(held["unit"], "1000000");
  EXPECT_EQ(held["time_bits"] + "," + held["worker_bits"] + "," + held["sequence_bits"],
            "41,10,12");
  EXPECT_EQ(held["time_shift"] + "," + held["worker_shift"] + "," + held["sequence_shift"],
            "22,12,0");
  const std::int64_t units = (held.number("clock") - held.number("epoch")) / held.number("unit");
  EXPECT_EQ(units, held.number("now"));
  EXPECT_EQ(make_mint().list_workers("web")->front().holder, "a");
}

TEST_P(LeasesTest, AnOwnedWorkerIdIsNobodyElses) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer first = holder.lease();
  const LeaseAnswer second = holder.lease();
  EXPECT_EQ(first["worker"] + second["worker"], "01");
  EXPECT_NE(first["token"], second["token"]);
  EXPECT_EQ(holder.lease().error, "RESOURCEEXHAUSTED");
}

TEST_P(LeasesTest, TheNextOwnerBeginsWhereTheLastOneEndedWithAnotherGeneration) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer other = holder.lease({{"window_ms", "5000"}});
  const LeaseAnswer first = holder.lease();
  EXPECT_EQ(holder.release(first).error, "");
  const LeaseAnswer next = holder.lease();
  EXPECT_EQ(next["worker"], first["worker"]);
  EXPECT_GE(next.number("from"), first.number("to"));
  EXPECT_GT(next.number("generation"), first.number("generation"));
  EXPECT_NE(next["worker"], other["worker"]);
}

TEST_P(LeasesTest, AnExtensionNamesTheExactBoundAndNeedsItsOwner) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease();
  const auto refused = [&](const Given& other) {
    Given all = other;
    all.emplace("new_to", plus(held, 100));
    return holder.extend(held, all).error;
  };
  // A store that knew such a lease could not show this row.
  EXPECT_EQ(refused({{"token", kSomeToken}}), "DATALOSS");
  EXPECT_EQ(refused({{"generation", "0"}}), "DATALOSS");
  EXPECT_EQ(refused({{"to", plus(held, -1)}}), "FAILEDPRECONDITION");
  EXPECT_EQ(refused({{"new_to", plus(held, -1)}}), "OUTOFRANGE") << "a bound never falls";
  const LeaseAnswer longer = holder.extend(held, {{"new_to", plus(held, 100)}});
  EXPECT_EQ(longer["to"], plus(held, 100));
  EXPECT_EQ(longer["from"], held["from"]);
  EXPECT_EQ(longer["nonce"], "00000000-0000-4000-8000-000000000001");
  // A copy of the holder, which knows the bound before.
  EXPECT_EQ(refused({{"new_nonce", "00000000-0000-4000-8000-000000000002"}}), "FAILEDPRECONDITION");
}

TEST_P(LeasesTest, WhatHadNoAnswerIsAskedForAgain) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease({{"token", kSomeToken}});
  EXPECT_EQ(held["token"], kSomeToken);
  const LeaseAnswer again = holder.lease({{"token", kSomeToken}, {"repeated", "true"}});
  EXPECT_EQ(again["worker"], held["worker"]);
  EXPECT_EQ(again["generation"], held["generation"]);
  EXPECT_GE(again.number("from"), held.number("to")) << "a later range, not the same one";
  const Given wish{{"new_to", plus(again, 50)}};
  const LeaseAnswer first = holder.extend(again, wish);
  const LeaseAnswer second = holder.extend(again, wish);
  EXPECT_EQ(first["to"], plus(again, 50));
  EXPECT_EQ(second["to"], first["to"]);
  EXPECT_EQ(second.error, "");
  // It may go on from either answer.
  EXPECT_EQ(holder
                .extend(second, {{"new_to", plus(second, 50)},
                                 {"new_nonce", "00000000-0000-4000-8000-000000000003"}})
                .error,
            "");
}

TEST_P(LeasesTest, AWorkerIdThatWasGivenBackIsNotExtended) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease();
  EXPECT_EQ(holder.release(held, {{"token", kSomeToken}}).error, "FAILEDPRECONDITION");
  EXPECT_EQ(holder.release(held, {{"generation", "99"}}).error, "FAILEDPRECONDITION");
  EXPECT_EQ(holder.release(held).error, "");
  EXPECT_EQ(holder.release(held).error, "FAILEDPRECONDITION");
  EXPECT_EQ(holder.extend(held, {{"new_to", plus(held, 1)}}).error, "FAILEDPRECONDITION");
}

TEST_P(LeasesTest, AClockThatIsFarAheadMovesNoBound) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease();
  EXPECT_EQ(holder.extend(held, {{"new_to", plus(held, 3'600'000)}}).error, "OUTOFRANGE");
  EXPECT_EQ(holder.extend(held, {{"new_to", plus(held, 1)}}).error, "") << "nothing was changed";
  // With a longer window a holder may be further ahead.
  const LeaseAnswer longer = holder.extend(
      holder.extend(held, {{"new_to", plus(held, 1)}}),
      {{"new_to", plus(held, 40'000)}, {"window_ms", "60000"}, {"new_nonce", kSomeToken}});
  EXPECT_EQ(longer["held_ms"], "60000");
}

TEST_P(LeasesTest, AFenceEndsALeaseAndIsBelowTheNextOne) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease();
  const Result<std::int64_t> floor =
      make_mint().raise_pool("web", system_clock().now() + std::chrono::seconds{10});
  ASSERT_TRUE(floor) << floor.error().message();
  EXPECT_EQ(holder.extend(held, {{"new_to", plus(held, 1)}}).error, "FAILEDPRECONDITION");
  EXPECT_GE(holder.lease().number("from"), *floor);
}

TEST_P(LeasesTest, SaysWhatItDoesNotUnderstand) {
  const Running server(options());
  Holder holder(server, GetParam());
  for (const Given& wish :
       {Given{{"window_ms", "999"}}, Given{{"window_ms", "60001"}}, Given{{"window_ms", "x"}},
        Given{{"token", "x"}}, Given{{"holder", std::string(101, 'x')}}})
    EXPECT_EQ(holder.lease(wish).error, "INVALIDARGUMENT") << wish.begin()->second;
  EXPECT_EQ(holder.lease({}, "orders").error, "FAILEDPRECONDITION") << "it is no pool";
  EXPECT_EQ(holder.lease({}, "missing").error, "NOTFOUND");
  const LeaseAnswer held = holder.lease();
  for (const char* const name :
       {"token", "generation", "from", "to", "nonce", "new_to", "new_nonce", "window_ms"}) {
    Given wish{{"new_to", held["to"]}};
    wish[name] = "x";
    EXPECT_EQ(holder.extend(held, wish).error, "INVALIDARGUMENT") << name;
  }
  const std::string nil = Uuid{}.to_string();
  EXPECT_EQ(holder.extend(held, {{"new_to", held["to"]}, {"new_nonce", nil}}).error,
            "INVALIDARGUMENT");
  EXPECT_EQ(holder.extend(held, {{"new_to", held["to"]}, {"worker", "77"}}).error, "NOTFOUND");
  EXPECT_EQ(holder.release(held, {{"token", "x"}}).error, "INVALIDARGUMENT");
}

TEST_P(LeasesTest, ATokenNeedsTheRightAndHoldsSoManyAtATime) {
  ServerOptions with_tokens = options();
  add_token(with_tokens, "reader", "next,peek *", std::nullopt);
  add_token(with_tokens, "one", "lease web", 1);
  const Running server(std::move(with_tokens));
  EXPECT_EQ(Holder(server, GetParam(), "idmint_reader").lease().error, "PERMISSIONDENIED");
  Holder holder(server, GetParam(), "idmint_one");
  EXPECT_EQ(holder.lease({}, "orders").error, "PERMISSIONDENIED");
  const LeaseAnswer held = holder.lease();
  EXPECT_EQ(held.error, "");
  EXPECT_EQ(holder.lease().error, "RESOURCEEXHAUSTED");
  EXPECT_EQ(holder.extend(held, {{"new_to", plus(held, 1)}}).error, "");
  EXPECT_EQ(holder.release(held).error, "");
  EXPECT_EQ(holder.lease().error, "");
}

TEST_P(LeasesTest, WhatIsHeldIsCountedByItsLeaseAndUntilOthersCanUseIt) {
  ServerOptions with_token = options();
  add_token(with_token, "one", "lease web", 1);
  const Running server(std::move(with_token));
  Holder holder(server, GetParam(), "idmint_one");
  const LeaseAnswer held = holder.lease({{"token", kSomeToken}});
  // An answer that was lost takes no second place.
  EXPECT_EQ(holder.lease({{"token", kSomeToken}, {"repeated", "true"}}).error, "");
  const LeaseAnswer lost = holder.lease({{"token", held["nonce"]}});
  EXPECT_EQ(lost.error, "RESOURCEEXHAUSTED");
  EXPECT_EQ(holder.release(held).error, "");
  // Of another one, which is not held, the limit holds for extensions too.
  const LeaseAnswer other =
      Holder(server, GetParam(), "idmint_one").lease({{"window_ms", "60000"}});
  EXPECT_EQ(other.error, "");
  EXPECT_EQ(holder.extend(held, {{"new_to", plus(held, 1)}}).error, "RESOURCEEXHAUSTED");
  // Given back, it begins a minute ahead for everybody.
  EXPECT_EQ(holder.release(other).error, "");
  EXPECT_EQ(holder.lease().error, "RESOURCEEXHAUSTED");
}

TEST_P(LeasesTest, NoTurnOfCallsHoldsMoreThanTheLimit) {
  ServerOptions with_token = options();
  add_token(with_token, "one", "lease web", 1);
  const Running server(std::move(with_token));
  Holder holder(server, GetParam(), "idmint_one");
  // The bound is a minute ahead, whatever a later extension says of its window.
  const LeaseAnswer held = holder.lease({{"token", kSomeToken}, {"window_ms", "60000"}});
  EXPECT_EQ(holder.extend(held, {{"new_to", held["to"]}, {"window_ms", "1000"}}).error, "");
  EXPECT_EQ(holder.release(held).error, "");
  EXPECT_EQ(holder.lease().error, "RESOURCEEXHAUSTED");
  // What was given back is not repeated.
  EXPECT_EQ(holder.lease({{"token", kSomeToken}, {"repeated", "true"}}).error, "RESOURCEEXHAUSTED");
}

TEST_P(LeasesTest, ARowThatNobodyOwnsIsNotExtendedByTheTokenOfNobody) {
  const Running server(options());
  Holder holder(server, GetParam());
  const std::string nil = Uuid{}.to_string();
  LeaseAnswer nobodys;
  nobodys.its = {{"worker", "1"}, {"token", nil}, {"generation", "0"},
                 {"from", "0"},   {"to", "0"},    {"nonce", nil}};
  EXPECT_EQ(holder.extend(nobodys, {{"new_to", "5"}}).error, "INVALIDARGUMENT");
  const LeaseAnswer held = holder.lease();
  EXPECT_EQ(holder.release(held).error, "");
  EXPECT_EQ(holder.extend(held, {{"token", nil}, {"new_to", plus(held, 1)}}).error,
            "INVALIDARGUMENT");
}

TEST_F(LeasesOverRedis, AskedForInOnePipelineTheyAreCountedOneByOne) {
  ServerOptions with_token = options();
  add_token(with_token, "two", "lease web", 2);
  const Running server(std::move(with_token));
  Client client(server);
  client.send("AUTH idmint_two\r\nID.LEASE web\r\nID.LEASE web\r\nID.LEASE web\r\nPING\r\n");
  const std::string all = [&] {
    std::string text;
    for (std::string line = client.line(); line != "+PONG"; line = client.line())
      text += line + "\n";
    return text;
  }();
  std::size_t leases = 0;
  for (std::size_t at = all.find("\nworker\n"); at != std::string::npos;
       at = all.find("\nworker\n", at + 1))
    ++leases;
  EXPECT_EQ(leases, 2U);
  EXPECT_THAT(all, testing::HasSubstr("\n-RESOURCEEXHAUSTED "));
}

TEST_P(LeasesTest, ARestartedAndASecondDaemonKnowNothingAndGoOn) {
  LeaseAnswer held;
  {
    const Running server(options());
    held = Holder(server, GetParam()).lease();
  }
  const Running one(options());
  const Running two(options());
  const LeaseAnswer longer = Holder(one, GetParam()).extend(held, {{"new_to", plus(held, 10)}});
  EXPECT_EQ(longer["to"], plus(held, 10));
  const LeaseAnswer again =
      Holder(two, GetParam())
          .extend(longer, {{"new_to", plus(longer, 10)}, {"new_nonce", kSomeToken}});
  EXPECT_EQ(again["to"], plus(longer, 10));
  EXPECT_EQ(Holder(one, GetParam()).release(again).error, "");
}

TEST_P(LeasesTest, ARetiredPoolExtendsNothing) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease();
  ASSERT_TRUE(make_mint().retire("web"));
  EXPECT_EQ(holder.extend(held, {{"new_to", plus(held, 1)}}).error, "FAILEDPRECONDITION");
  EXPECT_EQ(holder.lease().error, "FAILEDPRECONDITION");
}

TEST_P(LeasesTest, NoRangeEndsPastTheLastTimeOfTheLayout) {
  // An epoch so long ago that 10 s of its times are left.
  constexpr int bits = 20;
  const std::int64_t units = (std::int64_t{1} << bits) - 10;
  SnowflakeLayout layout{.unit = std::chrono::seconds{1}, .time_bits = bits};
  layout.epoch =
      std::chrono::floor<std::chrono::seconds>(system_clock().now()) - std::chrono::seconds{units};
  ASSERT_TRUE(make_mint().create(PoolDefinition{.name = "late", .layout = layout, .workers = 1}));
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease({}, "late");
  EXPECT_EQ(held.error, "");
  EXPECT_LE(held.number("to"), std::int64_t{1} << bits);
}

TEST_P(LeasesTest, WhatAClientSaysOfTheStoreIsNoErrorOfTheServer) {
  const Running server(options());
  Holder holder(server, GetParam());
  const LeaseAnswer held = holder.lease();
  EXPECT_EQ(holder.extend(held, {{"to", plus(held, 5)}, {"new_to", plus(held, 6)}}).error,
            "DATALOSS");
  Client web(server, Protocol::kHttp);
  EXPECT_THAT(web.http("GET /metrics").body,
              testing::HasSubstr("idmint_errors_total{code=\"DATA_LOSS\"} 0\n"));
  EXPECT_EQ(holder.lease().error, "") << "the store is not in doubt";
}

TEST_P(LeasesTest, APoolOfANamedStoreIsLeasedFromToo) {
  ServerOptions named = options();
  named.stores.push_back({.name = "eu", .mint = {.store = url()}});
  const Running server(std::move(named));
  Holder holder(server, GetParam());
  EXPECT_EQ(holder.lease({}, "eu/web")["pool"], "eu/web");
}

INSTANTIATE_TEST_SUITE_P(Protocols, LeasesTest, testing::Values(Protocol::kRedis, Protocol::kHttp),
                         [](const auto& its) {
                           return its.param == Protocol::kRedis ? "Redis" : "Http";
                         });

}  // namespace
}  // namespace idmint::server
