// Requests of HTTP as RFC 9110 and RFC 9112 have them, and the paths of sources.
#include "server/http_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/sequence.h"
#include "server/server.h"
#include "tests/fakes/gated_server.h"

namespace idmint::server {
namespace {

using fakes::GatedStore;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class HttpSessionTest : public fakes::GatedServer {
 protected:
  static TokenSettings token(const std::string& name, const std::string& allow) {
    return {.name = name, .hash = hash_of(name), .allow = {*scope_of(allow)}};
  }
};

// ---- messages

TEST_F(HttpSessionTest, ASenderWhoWaitsForItIsToldToGoOn) {
  const Running server(options());
  const std::string body = R"({"past":9})";
  for (const std::string rest :
       {"Content-Length: 10\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"}) {
    Client client(server, Protocol::kHttp);
    client.send(
        "POST /v1/sources/orders/raise HTTP/1.1\r\nHost: localhost\r\n"
        "Expect: 100-continue\r\n" +
        rest);
    EXPECT_EQ(client.line(), "HTTP/1.1 100 Continue");
    EXPECT_EQ(client.line(), "");
    client.send(rest.starts_with('C') ? body : "a\r\n" + body + "\r\n0\r\n\r\n");
    EXPECT_EQ(client.response().status, "HTTP/1.1 200 OK");
  }
  Client at_once(server, Protocol::kHttp);
  EXPECT_EQ(at_once.http("POST /v1/sources/orders/raise", "Expect: 100-continue\r\n", body).status,
            "HTTP/1.1 200 OK")
      << "who sends the body at once is not asked for it";
}

// A proxy looks at the head of a request only.
TEST_F(HttpSessionTest, WhatComesAfterTheBodyIsNoHeader) {
  ServerOptions secured = options();
  secured.tokens = {token("web", "next orders")};
  const Running server(std::move(secured));
  Client client(server, Protocol::kHttp);
  client.send(
      "POST /v1/ids/orders HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
      "\r\n0\r\nAuthorization: Bearer web\r\n\r\n");
  EXPECT_THAT(client.response().status, HasSubstr("401"));
}

// A body whose end cannot be found is not read, and nothing behind it counts as a request.
TEST_F(HttpSessionTest, OtherCodingsEndTheConnection) {
  const Running server(options());
  const auto answered = [&](const std::string& version, const std::string& headers) {
    Client client(server, Protocol::kHttp);
    client.send(
        "POST /v1/ids/orders HTTP/" + version + "\r\nHost: localhost\r\n" + headers +
        "\r\n\r\n5\r\nhello\r\n0\r\n\r\nPOST /v1/ids/orders HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const std::string all = client.rest();
    EXPECT_EQ(all.find("HTTP/1.1 ", 1), std::string::npos) << headers << all;
    EXPECT_THAT(all, HasSubstr("\r\nConnection: close\r\n")) << headers;
    return all.substr(9, 3);
  };
  const std::string coding = "Transfer-Encoding: ";
  EXPECT_EQ(answered("1.0", coding + "chunked"), "501");
  EXPECT_EQ(answered("1.0", "Connection: keep-alive\r\n" + coding + "chunked"), "501");
  for (const std::string& other :
       {std::string("gzip"), std::string("gzip, chunked"), std::string("chunked, chunked"),
        std::string("chunked, gzip"), std::string("identity"), "\r\n" + coding + "chunked",
        "gzip\r\n" + coding + "chunked", std::string("gzip\r\nContent-Length: 5")})
    EXPECT_EQ(answered("1.1", coding + other), "501") << other;
  for (const std::string& unclear :
       {"chunked\r\n" + coding + "chunked", std::string("chunked\r\nContent-Length: 5")})
    EXPECT_EQ(answered("1.1", coding + unclear), "400") << unclear;
  Client client(server);
  EXPECT_EQ(client.ask("INCR orders"), ":1") << "nothing was taken";
}

TEST_F(HttpSessionTest, TheHeaderOfAChunkIsBounded) {
  const Running server(options());
  const std::string begin =
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: "
      "chunked\r\n\r\n";
  const auto status_of = [&](const std::string& chunks) {
    Client client(server, Protocol::kHttp);
    client.send(begin + chunks);
    return client.rest().substr(9, 3);
  };
  const std::string much(16'000, 'b');
  const std::string too_much(16'400, 'b');
  const std::string end = "0\r\n\r\n";
  EXPECT_EQ(status_of("5;a=" + much + "\r\nhello\r\n5\r\nhello\r\n" + end), "200");
  EXPECT_EQ(status_of("5\r\nhello\r\n0\r\nTrailer: " + much + "\r\n\r\n"), "200");
  EXPECT_EQ(status_of("8000\r\n" + std::string(0x8000, 'x') + "\r\n" + end), "200");
  EXPECT_EQ(status_of("5;a=" + too_much + "\r\nhello\r\n" + end), "431");
  EXPECT_EQ(status_of(std::string(16'400, '0') + "5\r\nhello\r\n" + end), "431");
  EXPECT_EQ(status_of("5\r\nhello\r\n0;a=" + too_much + "\r\n\r\n"), "431");
  EXPECT_EQ(status_of("5\r\nhello\r\n0\r\nTrailer: " + too_much + "\r\n\r\n"), "431");
}

TEST_F(HttpSessionTest, AHeaderThatDecidesIsThereOnce) {
  const Running server(options());
  for (const std::string header :
       {"Host: localhost", "Origin: http://localhost", "Authorization: Bearer web"}) {
    Client client(server, Protocol::kHttp);
    client.send("POST /v1/ids/orders HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n" + header +
                "\r\n\r\n");
    EXPECT_THAT(client.response().status, HasSubstr("400")) << header;
  }
  EXPECT_EQ(store_->advances().size(), 0U);
}

TEST_F(HttpSessionTest, ATargetMayNameTheHost) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  EXPECT_EQ(client.http("POST http://localhost:7380/v1/ids/orders?count=2").body, "1\n2\n");
  EXPECT_EQ(client.http("GET http://127.0.0.1/healthz").body, "ok\n");
  EXPECT_THAT(client.http("GET http://evil.example/healthz").status, HasSubstr("421"))
      << "it counts, whatever the Host header says";
  EXPECT_THAT(client.http("GET http:///healthz").status, HasSubstr("400"));
}

// The client has had some of what it asked for.
TEST_F(HttpSessionTest, AStreamThatFailsMidwayWasAppliedInPart) {
  EXPECT_TRUE(create_sequence(*store_, {.name = "short", .last = 100'000}));
  const Running server(options());
  Client client(server, Protocol::kHttp);
  client.send(
      "POST /v1/ids/short?count=150000 HTTP/1.1\r\nHost: localhost\r\n"
      "Accept: application/x-ndjson\r\n\r\n");
  const std::string all = client.rest();
  EXPECT_THAT(all, AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr(R"("code":"OUT_OF_RANGE")"),
                         HasSubstr(R"("may_have_been_applied":true)")));
}

TEST_F(HttpSessionTest, ATimePastTheLastOneIsAWrongRequest) {
  const Running server(options());
  Client client(server, Protocol::kHttp);
  EXPECT_THAT(client.http("GET /v1/bounds?format=objectid&at=2200-01-01").status, HasSubstr("400"));
}

// ---- paths

TEST_F(HttpSessionTest, ASourceMayHaveTheNameOfAStore) {
  EXPECT_TRUE(create_sequence(*store_, {.name = "eu"}));
  ServerOptions two = options();
  const auto eu = std::make_shared<GatedStore>();
  EXPECT_TRUE(create_sequence(*eu, {.name = "orders"}));
  EXPECT_TRUE(create_sequence(*eu, {.name = "raise"}));
  two.stores.push_back({.name = "eu", .store = eu});
  two.stores.back().mint.store_options.deadline = kNever;
  const Running server(std::move(two));
  Client client(server, Protocol::kHttp);
  const auto next_of = [&](const std::string& path) {
    const std::string body = client.http("POST " + path, "", R"({"past":9})").body;
    return body.substr(0, body.find(','));
  };
  EXPECT_EQ(next_of("/v1/sources/eu/raise"), R"({"next":"10")");
  EXPECT_EQ(client.http("POST /v1/ids/eu").body, "10\n");
  EXPECT_EQ(next_of("/v1/sources/eu/orders/raise"), R"({"next":"10")");
  EXPECT_EQ(client.http("POST /v1/ids/eu/orders").body, "10\n");
  EXPECT_EQ(next_of("/v1/sources/eu%2Fraise/raise"), R"({"next":"10")");
  EXPECT_THAT(client.http("GET /v1/sources/eu/raise").status, HasSubstr("405"));
}

// Which stores there are is told nobody without a token.
TEST_F(HttpSessionTest, PathsOfStoresThatAreNotThereAreNoOthers) {
  ServerOptions two = options();
  two.stores.push_back({.name = "eu", .store = std::make_shared<GatedStore>()});
  two.tokens = {token("web", "next orders")};
  const Running server(std::move(two));
  Client client(server, Protocol::kHttp);
  for (const std::string path : {"POST /v1/ids/NAME/orders", "GET /v1/sources/NAME/orders",
                                 "POST /v1/sources/NAME/orders/raise",
                                 "GET /v1/pools/NAME/orders/workers", "GET /v1/ids/NAME/orders"}) {
    const auto ask = [&](std::string name) {
      const std::string request = std::string(path).replace(path.find("NAME"), 4, name);
      return client.http(request).status;
    };
    EXPECT_EQ(ask("eu"), ask("us")) << path;
  }
}

TEST_F(HttpSessionTest, AListComesInParts) {
  for (const std::string name : {"a", "b", "c"})
    EXPECT_TRUE(create_sequence(*store_, {.name = name}));
  const Running server(options());
  Client client(server, Protocol::kHttp);
  const auto names = [&](const std::string& parameters) {
    const auto json = nlohmann::json::parse(client.http("GET /v1/sources" + parameters).body);
    std::string all;
    for (const auto& source : json["sources"]) all += source["name"].get<std::string>() + " ";
    return all + "next=" + json.value("next", "");
  };
  EXPECT_EQ(names(""), "a b c orders next=");
  EXPECT_EQ(names("?limit=2"), "a b next=b");
  EXPECT_EQ(names("?limit=2&after=b"), "c orders next=");
  EXPECT_EQ(names("?after=orders"), "next=");
  for (const std::string wrong : {"?limit=0", "?limit=10001", "?limit=x", "?before=a"})
    EXPECT_THAT(client.http("GET /v1/sources" + wrong).status, HasSubstr("400")) << wrong;
}

// ---- while others change what a call looks at

TEST_F(HttpSessionTest, ATokenThatIsGoneBeforeItsTurnChangesNothing) {
  ServerOptions secured = options();
  secured.tokens = {token("web", "all orders")};
  Running server(std::move(secured));
  std::vector<std::unique_ptr<Client>> clients;
  const auto ask = [&](const std::string& request, const std::string& body) {
    clients.push_back(std::make_unique<Client>(server, Protocol::kHttp));
    clients.back()->send(request + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer web\r\n" +
                         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  // As many as look at the store at a time; the first of them stands in it.
  std::promise<void> reached;
  std::promise<void> changed;
  store_->meanwhile(1, [&](auto&) {
    reached.set_value();
    changed.get_future().wait();
  });
  ask("GET /v1/sources/orders", "");
  reached.get_future().wait();
  for (std::size_t i = 1; i < Loop::kMostOfLane; ++i) ask("GET /v1/sources/orders", "");
  ask("POST /v1/sources/orders/raise", R"({"past":1000})");
  Client other(server);
  while (!other.ask("PING").starts_with("-NOAUTH")) {
  }
  EXPECT_TRUE(server.change({}, {token("other", "all *")}));
  changed.set_value();
  for (const auto& client : clients) static_cast<void>(client->line());
  EXPECT_EQ(store_->counters()->peek("orders")->next, 1);
}

}  // namespace
}  // namespace idmint::server
