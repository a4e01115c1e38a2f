// Routes over HTTP that say something about ids, plan, and change or end a source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/mint.h"
#include "server/openapi.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using fakes::TempFolder;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

class AdviceRoutesTest : public testing::Test {
 protected:
  AdviceRoutesTest() {
    Mint mint(MintOptions{.store = url("ids")});
    EXPECT_TRUE(mint.create(SequenceDefinition{.name = "few", .last = 3}));
    Mint other(MintOptions{.store = url("eu")});
    EXPECT_TRUE(other.create(SequenceDefinition{.name = "few", .last = 3}));
  }
  [[nodiscard]] std::string url(const std::string& name) const {
    return "sqlite:" + folder_.path(name + ".db");
  }
  [[nodiscard]] ServerOptions options() const {
    ServerOptions options;
    options.stores.push_back({.mint = {.store = url("ids")}});
    options.stores.push_back({.name = "eu", .mint = {.store = url("eu")}});
    options.drain = kNever;
    return options;
  }
  static TokenSettings token(const std::string& name, const std::string& allow) {
    return {.name = name, .hash = hash_of(name), .allow = {scope_of(allow).value()}};
  }
  static std::string bearer(const std::string& token) {
    return "Authorization: Bearer " + token + "\r\n";
  }

  TempFolder folder_;
};

TEST_F(AdviceRoutesTest, ASequenceThatIsExtendedGoesOnAtOnce) {
  const Running server(options());
  Client web(server, Protocol::kHttp);
  for (const std::string source : {"few", "eu/few"}) {
    EXPECT_EQ(web.http("POST /v1/ids/" + source + "?count=3").body, "1\n2\n3\n");
    EXPECT_EQ(web.http("POST /v1/ids/" + source).status, "HTTP/1.1 409 Conflict");
    const std::string path = "POST /v1/sources/" + source + "/extend";
    EXPECT_EQ(Json::parse(web.http(path, "", R"({"max": 5})").body)["last"], "5");
    EXPECT_EQ(web.http("POST /v1/ids/" + source).body, "4\n");
    EXPECT_EQ(web.http(path, "", R"({"max": 4})").status, "HTTP/1.1 409 Conflict");
    EXPECT_EQ(web.http(path, "", "{}").status, "HTTP/1.1 400 Bad Request");
  }
}

TEST_F(AdviceRoutesTest, ASourceIsRetiredOnlyIfItIsMeant) {
  const Running server(options());
  Client web(server, Protocol::kHttp);
  const std::string path = "POST /v1/sources/eu%2Ffew/retire";
  EXPECT_EQ(web.http(path, "", R"({"yes": false})").status, "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(web.http("POST /v1/ids/eu/few").body, "1\n");
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(Json::parse(web.http(path, "", R"({"yes": true})").body)["state"], "retired");
  EXPECT_EQ(web.http("POST /v1/ids/eu/few").status, "HTTP/1.1 409 Conflict");
  EXPECT_EQ(web.http("POST /v1/ids/few").body, "1\n");  // of the other store
}

TEST_F(AdviceRoutesTest, EachChangeNeedsItsRight) {
  ServerOptions with = options();
  with.tokens = {token("extender", "extend few"), token("retirer", "retire few")};
  const Running server(std::move(with));
  Client web(server, Protocol::kHttp);
  const std::string extend = "POST /v1/sources/few/extend";
  const std::string retire = "POST /v1/sources/few/retire";
  EXPECT_EQ(web.http(extend, bearer("retirer"), R"({"max": 5})").status, "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(web.http(retire, bearer("extender"), R"({"yes": true})").status,
            "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(web.http(extend, bearer("extender"), R"({"max": 5})").status, "HTTP/1.1 200 OK");
  EXPECT_EQ(web.http(retire, bearer("retirer"), R"({"yes": true})").status, "HTTP/1.1 200 OK");
  EXPECT_EQ(web.http("GET /v1/plan").status, "HTTP/1.1 401 Unauthorized");
  EXPECT_EQ(web.http("GET /v1/plan", bearer("retirer")).status, "HTTP/1.1 200 OK");
  EXPECT_EQ(web.http("GET /openapi.json").body, kOpenapi);
}

TEST_F(AdviceRoutesTest, TheRootNamesPathsThatAreThere) {
  const Running server(options());
  Client web(server, Protocol::kHttp);
  const Json root = Json::parse(web.http("GET /").body);
  EXPECT_EQ(root["ids"], "POST /v1/ids/SOURCE");
  for (const auto& [what, value] : root.items()) {
    const auto path = value.get<std::string>();
    if (!path.starts_with('/')) continue;
    EXPECT_EQ(web.http("GET " + path).status, "HTTP/1.1 200 OK") << what;
  }
}

TEST_F(AdviceRoutesTest, TellsBoundsAndConverts) {
  const Running server(options());
  Client web(server, Protocol::kHttp);
  EXPECT_EQ(web.http("GET /v1/bounds?format=ulid&at=2026-01-01").body,
            R"({"format":"ulid","smallest":"01KDVDNA000000000000000000",)"
            R"("largest":"01KDVDNA00ZZZZZZZZZZZZZZZZ"})"
            "\n");
  EXPECT_THAT(web.http("GET /v1/bounds?format=uuid4&at=2026-01-01").status,
              StartsWith("HTTP/1.1 400"));
  const std::string uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
  const Json base58 = Json::parse(web.http("GET /v1/convert?to=base58&id=" + uuid).body);
  const Json back = Json::parse(web.http("GET /v1/convert?to=canonical&from=uuid:base58&id=" +
                                         base58["result"].get<std::string>())
                                    .body);
  EXPECT_EQ(back["result"], uuid);
  EXPECT_THAT(web.http("GET /v1/convert?to=base58").body, HasSubstr("id is missing"));
  EXPECT_THAT(web.http("GET /v1/convert?to=base58&to=hex&id=" + uuid).body,
              HasSubstr("given twice"));
}

TEST_F(AdviceRoutesTest, PlansWithTheFewBestChoices) {
  const Running server(options());
  Client web(server, Protocol::kHttp);
  const Json plan = Json::parse(web.http("GET /v1/plan?count=1e9&hosts=40").body);
  EXPECT_EQ(plan["needs"]["hosts"], 40);
  EXPECT_TRUE(plan["recommended"].is_object());
  EXPECT_EQ(plan["alternatives"].size(), 3U);
  EXPECT_TRUE(plan["unfitting"].empty());
  const Json none = Json::parse(web.http("GET /v1/plan?digits=3&count=1e9").body);
  EXPECT_TRUE(none["recommended"].is_null());
  EXPECT_FALSE(none["unfitting"].empty());
}

TEST_F(AdviceRoutesTest, AFormatIsPrintedInTheFormThatIsAskedFor) {
  const Running server(options());
  Client web(server, Protocol::kHttp);
  EXPECT_EQ(web.http("POST /v1/ids/uuid7?form=hex").body.size(), 33U);
  EXPECT_EQ(web.http("POST /v1/ids/few?form=hex").status, "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(web.http("POST /v1/ids/few").body, "1\n");  // nothing was taken
}

}  // namespace
}  // namespace idmint::server
