// Authentication over both protocols, with and without TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/mint.h"
#include "server/connection.h"
#include "tests/fakes/certificate.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/service_manager.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using fakes::Certificate;
using fakes::code_of;
using fakes::TempFolder;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A client that trusts one certificate, and may have one of its own.
class TlsClient final : public Client {
 public:
  TlsClient(std::uint16_t port, const Certificate& trusted, const Certificate* own = nullptr,
            int version = TLS1_3_VERSION)
      : Client(port),
        context_(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free),
        stream_(nullptr, &::SSL_free) {
    ::SSL_CTX_set_max_proto_version(context_.get(), version);
    ::SSL_CTX_set_min_proto_version(context_.get(), version);
    // So that a version which is too old is refused by the server, not by this side.
    ::SSL_CTX_set_security_level(context_.get(), 0);
    ::SSL_CTX_load_verify_locations(context_.get(), trusted.certificate().c_str(), nullptr);
    ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    if (own != nullptr) {
      ::SSL_CTX_use_certificate_chain_file(context_.get(), own->certificate().c_str());
      ::SSL_CTX_use_PrivateKey_file(context_.get(), own->key().c_str(), SSL_FILETYPE_PEM);
    }
    stream_.reset(::SSL_new(context_.get()));
    ::SSL_set_fd(stream_.get(), socket());
    connected_ = ::SSL_connect(stream_.get()) == 1;
  }
  [[nodiscard]] bool is_connected() const { return connected_; }

 private:
  ssize_t write_some(std::string_view text) override {
    return ::SSL_write(stream_.get(), text.data(), static_cast<int>(text.size()));
  }
  ssize_t read_some(std::span<char> block) override {
    return ::SSL_read(stream_.get(), block.data(), static_cast<int>(block.size()));
  }

  std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&::SSL_free)> stream_;
  bool connected_ = false;
};

class EntryTest : public testing::Test {
 protected:
  EntryTest() {
    ::signal(SIGPIPE, SIG_IGN);  // as main() does: OpenSSL writes to sockets that are gone
    create("orders");
    create("customers");
  }
  void create(const std::string& name) {
    Mint mint(MintOptions{.store = url()});
    ASSERT_TRUE(mint.create(SequenceDefinition{.name = name}));
  }
  [[nodiscard]] std::string url() const { return "sqlite:" + folder_.path("ids.db"); }
  [[nodiscard]] ServerOptions options() const {
    ServerOptions options;
    options.stores.push_back({.mint = {.store = url()}});
    options.stores.push_back({.name = "eu", .mint = {.store = "sqlite:" + folder_.path("eu.db")}});
    options.drain = kNever;
    return options;
  }
  static TokenSettings token(const std::string& name, const std::vector<std::string>& allow) {
    TokenSettings token{.name = name, .hash = hash_of(name)};
    for (const std::string& text : allow) token.allow.push_back(scope_of(text).value());
    return token;
  }
  [[nodiscard]] ServerOptions with_tokens() const {
    ServerOptions with = options();
    with.tokens = {token("web", {"next orders", "next uuid7", "next,peek,create eu/*"}),
                   token("admin", {"all *"})};
    return with;
  }

  TempFolder folder_;
};

// ---- tokens

TEST_F(EntryTest, RedisAnswersNobodyBeforeItsToken) {
  const Running server(with_tokens());
  Client client(server);
  for (const std::string command : {"PING", "INCR orders", "KEYS *", "ID.LIST", "INFO", "MULTI",
                                    "COMMAND", "SET orders 1", "NO.SUCH"})
    EXPECT_THAT(client.ask(command), StartsWith("-NOAUTH")) << command;
  EXPECT_THAT(client.ask("HELLO 3"), StartsWith("-NOAUTH"));
  EXPECT_THAT(client.ask("AUTH other"), StartsWith("-WRONGPASS"));
  EXPECT_THAT(client.ask("INCR orders"), StartsWith("-NOAUTH"));
  EXPECT_EQ(client.ask("AUTH web"), "+OK");
  EXPECT_EQ(client.ask("INCR orders"), ":1");
  EXPECT_EQ(client.ask("RESET"), "+RESET");
  EXPECT_THAT(client.ask("INCR orders"), StartsWith("-NOAUTH"));
  EXPECT_EQ(client.ask("HELLO 3 AUTH any web SETNAME mine"), "%7");
  Client other(server);
  EXPECT_EQ(other.ask("AUTH any web"), "+OK");
  EXPECT_EQ(other.ask("INCR orders"), ":2");
}

TEST_F(EntryTest, RedisDoesWhatTheTokenAllowsAndNoMore) {
  const Running server(with_tokens());
  Client client(server);
  ASSERT_EQ(client.ask("AUTH web"), "+OK");
  const std::string refused = client.ask("INCR customers");
  EXPECT_THAT(refused, StartsWith("-NOPERM"));
  std::string of_none = client.ask("INCR no_such_1");
  of_none.replace(of_none.find("no_such_1"), 9, "customers");
  EXPECT_EQ(of_none, refused) << "whether there is such a source is not told";
  for (const std::string command :
       {"GET orders", "ID.PEEK orders", "ID.RAISE orders 10", "EXISTS orders", "TYPE customers",
        "MGET orders customers", "ID.RANGE customers 3", "ID.NEXT uuid4"})
    EXPECT_THAT(client.ask(command), StartsWith("-NOPERM")) << command;
  EXPECT_EQ(client.ask("KEYS *"), "*2");
  EXPECT_THAT(client.lines(4), ElementsAre("$6", "orders", "$5", "uuid7"));
  EXPECT_EQ(client.ask("DBSIZE"), ":2");
  EXPECT_EQ(client.ask("ID.LIST"), "*0") << "it may not look at orders";
}

TEST_F(EntryTest, WhatATransactionMayNotDoEndsIt) {
  const Running server(with_tokens());
  Client client(server);
  ASSERT_EQ(client.ask("AUTH web"), "+OK");
  EXPECT_EQ(client.ask("MULTI"), "+OK");
  EXPECT_EQ(client.ask("INCR orders"), "+QUEUED");
  EXPECT_THAT(client.ask("INCR customers"), StartsWith("-NOPERM"));
  EXPECT_THAT(client.ask("EXEC"), StartsWith("-EXECABORT"));
  EXPECT_EQ(client.ask("INCR orders"), ":1") << "nothing of it was done";
}

TEST_F(EntryTest, HttpLooksAtTheAuthorizationOfEachRequest) {
  const Running server(with_tokens());
  Client client(server, Protocol::kHttp);
  const auto without = client.http("POST /v1/ids/orders");
  EXPECT_THAT(without.status, HasSubstr("401"));
  EXPECT_THAT(without.headers, Contains("WWW-Authenticate: Bearer"));
  const std::string web = "Authorization: Bearer web\r\n";
  EXPECT_EQ(client.http("POST /v1/ids/orders", web).body, "1\n");
  EXPECT_THAT(client.http("POST /v1/ids/orders").status, HasSubstr("401"));
  EXPECT_THAT(client.http("POST /v1/ids/orders", "Authorization: Basic web\r\n").status,
              HasSubstr("401"));
  EXPECT_EQ(client.http("POST /v1/ids/orders", "authorization: bearer web\r\n").body, "2\n");
  for (const std::string request :
       {"POST /v1/ids/customers", "POST /v1/ids/no_such_1", "GET /v1/sources/orders",
        "POST /v1/sources/orders/raise", "GET /v1/pools/orders/workers"})
    EXPECT_THAT(client.http(request, web).status, HasSubstr("403")) << request;
  const auto created = client.http("POST /v1/sources", web, R"({"name":"mine"})");
  EXPECT_THAT(created.status, HasSubstr("403"));
  EXPECT_EQ(client.http("GET /v1/sources", web).body, "{\"sources\":[]}\n") << "it may not look";
  EXPECT_THAT(client.http("POST /v1/sources", web, R"({"name":"eu/orders"})").status,
              HasSubstr("201"));
  EXPECT_THAT(client.http("GET /v1/sources", web).body,
              AllOf(HasSubstr("eu/orders"), Not(HasSubstr("customers"))));
  EXPECT_THAT(client.http("GET /healthz").status, HasSubstr("200"));
  EXPECT_THAT(client.http("GET /readyz").status, HasSubstr("200"));
}

TEST_F(EntryTest, ATokenHasItsLimitsOverBothProtocols) {
  ServerOptions limited = options();
  limited.tokens = {token("web", {"next *"})};
  limited.tokens[0].ids_per_day = 10;
  limited.tokens[0].largest_count = 8;
  const Running server(std::move(limited));
  Client redis(server);
  Client http(server, Protocol::kHttp);
  ASSERT_EQ(redis.ask("AUTH web"), "+OK");
  EXPECT_THAT(redis.ask("ID.RANGE orders 9"),
              StartsWith("-ERR the token web may ask for at most 8"));
  EXPECT_EQ(redis.ask("INCRBY orders 7"), ":7");
  const std::string web = "Authorization: Bearer web\r\n";
  const auto refused = http.http("POST /v1/ids/uuid7?count=4", web);
  EXPECT_THAT(refused.status, HasSubstr("429"));
  EXPECT_THAT(refused.headers, Contains(StartsWith("Retry-After: 86")));
  EXPECT_EQ(http.http("POST /v1/ids/orders?count=3", web).body, "8\n9\n10\n");
  EXPECT_THAT(redis.ask("INCR orders"), StartsWith("-RESOURCEEXHAUSTED"));
  EXPECT_THAT(redis.ask("ID.NEXT uuid7"), StartsWith("-RESOURCEEXHAUSTED"));
}

// Each wrong token costs its sender more time than the one before, and nobody else any.
TEST_F(EntryTest, WhoGuessesTokensIsHeardThreeTimes) {
  const Running server(with_tokens());
  constexpr auto pause = Connection::kPauseOfGuess;
  std::string pipeline;
  for (int i = 0; i < 1000; ++i) pipeline += "AUTH guess" + std::to_string(i) + "\r\n";
  const auto begun = std::chrono::steady_clock::now();
  Client redis(server);
  redis.send(pipeline);
  Client web(server, Protocol::kHttp);
  for (int i = 0; i < 5; ++i)
    web.send("POST /v1/ids/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer no\r\n\r\n");
  Client known(server);
  EXPECT_EQ(known.ask("AUTH web"), "+OK");
  EXPECT_EQ(known.ask("INCR orders"), ":1");
  EXPECT_THAT(redis.line(), StartsWith("-WRONGPASS"));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, pause);
  EXPECT_THAT(redis.lines(2), Each(StartsWith("-WRONGPASS")));
  EXPECT_EQ(redis.line(), "(closed)");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 7 * pause);
  for (int i = 1; i <= 3; ++i) {
    const Client::Response refused = web.response();
    EXPECT_THAT(refused.status, HasSubstr("401"));
    EXPECT_EQ(std::ranges::count(refused.headers, "Connection: close"), i == 3 ? 1 : 0);
  }
  EXPECT_EQ(web.line(), "(closed)");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 7 * pause);
  Client unsure(server);
  EXPECT_THAT(unsure.ask("HELLO 3 AUTH any other"), StartsWith("-WRONGPASS"));
  EXPECT_EQ(unsure.ask("AUTH web"), "+OK");
  EXPECT_EQ(unsure.ask("INCR orders"), ":2");
  Client asking(server, Protocol::kHttp);  // without a token nothing is guessed
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(asking.http("POST /v1/ids/orders").status, HasSubstr("401"));
}

TEST_F(EntryTest, GuessedTokensAreOneLineASecondInTheLog) {
  testing::internal::CaptureStderr();
  const std::int64_t guesses = 60;
  const auto begun = std::chrono::steady_clock::now();
  {
    Log log(LogSettings{});
    ServerOptions secured = with_tokens();
    secured.log = &log;
    Running server(std::move(secured));
    for (std::int64_t i = 0; i < guesses; ++i) {
      Client client(server);
      client.send("AUTH other\r\nPING\r\n");
      if (i % 2 == 0) {
        EXPECT_THAT(client.line(), StartsWith("-WRONGPASS"));
      }
    }
    Client last(server);
    EXPECT_THAT(last.ask("AUTH other"), StartsWith("-WRONGPASS"));
    server.stop();
    log.flush();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const std::string said = testing::internal::GetCapturedStderr();
  std::int64_t lines = 0;
  std::int64_t counted = 0;
  constexpr std::string_view event = "unknown_token count=";
  for (std::size_t at = 0; (at = said.find(event, at)) != std::string::npos; at += event.size()) {
    ++lines;
    counted += std::stol(said.substr(at + event.size()));
  }
  EXPECT_THAT(said, HasSubstr(" peer=127.0.0.1:"));
  EXPECT_LE(static_cast<double>(lines), 2 + took.count());
  EXPECT_GE(counted, guesses / 2 + 1);
  EXPECT_LE(counted, guesses + 1);
}

TEST_F(EntryTest, ATokenCreatesNoMoreThanItsQuota) {
  ServerOptions limited = options();
  limited.tokens = {token("web", {"create,peek *"}), token("small", {"create *"}),
                    token("admin", {"all *"})};
  limited.tokens[1].max_stripes = 100;
  limited.most_created = {.sources = 3, .stripes = 1000};
  const Running server(std::move(limited));
  Client http(server, Protocol::kHttp);
  const auto create = [&](const std::string& who, const std::string& body) {
    return http.http("POST /v1/sources", "Authorization: Bearer " + who + "\r\n", body);
  };
  const std::string largest = R"("strategy":"striped","stripes":600})";
  EXPECT_THAT(create("web", R"({"name":"a",)" + largest).status, HasSubstr("201"));
  for (int i = 0; i < 2; ++i) {
    const auto refused = create("web", R"({"name":"b",)" + largest);
    EXPECT_THAT(refused.status, HasSubstr("429"));
    EXPECT_THAT(refused.body,
                AllOf(HasSubstr("the token web may create at most 1000 stripes and worker ids"),
                      HasSubstr("has created 600"), HasSubstr("RESOURCE_EXHAUSTED")));
    EXPECT_THAT(refused.headers, Not(Contains(StartsWith("Retry-After"))));
  }
  EXPECT_THAT(
      create("web", R"({"name":"p","kind":"pool","workers":500,"layout":"41t16w6s"})").status,
      HasSubstr("429"));
  EXPECT_THAT(create("web", R"({"name":"orders"})").status, HasSubstr("201")) << "it was there";
  EXPECT_THAT(create("web", R"({"name":"orders","start":5})").status, HasSubstr("409"));
  EXPECT_THAT(create("web", R"({"name":"a",)" + largest).status, HasSubstr("201")) << "once more";
  EXPECT_THAT(create("web", R"({"name":"eu/a"})").status, HasSubstr("201"));
  EXPECT_THAT(create("web", R"({"name":"c"})").status, HasSubstr("201"));
  EXPECT_THAT(create("web", R"({"name":"d"})").body,
              AllOf(HasSubstr("at most 3 sources (max_sources), and has created 3")));
  EXPECT_THAT(create("web", R"({"name":"orders"})").status, HasSubstr("201"))
      << "what is there needs no quota";
  EXPECT_THAT(create("web", R"({"name":"orders","start":5})").status, HasSubstr("409"));
  EXPECT_THAT(http.http("GET /v1/sources/d", "Authorization: Bearer   web\r\n").status,
              HasSubstr("404"));
  EXPECT_THAT(create("small", R"({"name":"e","kind":"pool"})").body, HasSubstr("at most 100 "));
  EXPECT_THAT(create("small", R"({"name":"e","strategy":"interleaved","stripes":100})").status,
              HasSubstr("201"));
  EXPECT_THAT(create("admin", R"({"name":"f"})").status, HasSubstr("201"));
}

TEST_F(EntryTest, WithoutTokensAllShareOneQuota) {
  ServerOptions limited = options();
  limited.most_created.stripes = 100;
  const Running server(std::move(limited));
  Client one(server, Protocol::kHttp);
  Client other(server, Protocol::kHttp);
  const std::string path = "POST /v1/sources";
  EXPECT_THAT(one.http(path, "", R"({"name":"a","strategy":"interleaved","stripes":100})").status,
              HasSubstr("201"));
  EXPECT_THAT(other.http(path, "", R"({"name":"b"})").body,
              HasSubstr("callers without a token may create at most 100 stripes"));
}

TEST_F(EntryTest, TokensThatChangeAreAskedForAnew) {
  Running server(with_tokens());
  Client client(server);
  ASSERT_EQ(client.ask("AUTH web"), "+OK");
  ASSERT_EQ(client.ask("INCR orders"), ":1");
  EXPECT_EQ(code_of(server.change({}, {})), Code::kFailedPrecondition) << "open to everybody";
  EXPECT_THAT(client.ask("INCR customers"), StartsWith("-NOPERM"));
  ASSERT_TRUE(server.change({}, {token("new", {"next *"})}));
  EXPECT_THAT(client.ask("INCR orders"), StartsWith("-NOAUTH"));
  EXPECT_EQ(client.ask("AUTH new"), "+OK");
  EXPECT_EQ(client.ask("INCR orders"), ":2");
}

// A stream takes as long as its client reads.
TEST_F(EntryTest, ATokenThatIsGoneGetsNoMoreOfAStream) {
  Running server(with_tokens());
  Client client(server, Protocol::kHttp);
  client.send(
      "POST /v1/ids/orders?count=500000000 HTTP/1.1\r\nHost: localhost\r\n"
      "Authorization: Bearer web\r\n\r\n");
  EXPECT_THAT(client.line(), HasSubstr("200"));
  ASSERT_TRUE(server.change({}, {token("new", {"next *"})}));
  EXPECT_THAT(client.rest(), Not(testing::EndsWith("0\r\n\r\n"))) << "cut off, not ended";
}

// ---- several stores

TEST_F(EntryTest, TheSourcesOfANamedStoreHaveItsName) {
  const Running server(options());
  Client http(server, Protocol::kHttp);
  Client redis(server);
  const auto created = http.http("POST /v1/sources", "", R"({"name":"eu/orders","start":100})");
  EXPECT_THAT(created.status, HasSubstr("201"));
  EXPECT_THAT(created.headers, Contains("Location: /v1/sources/eu%2Forders"));
  EXPECT_THAT(created.body, HasSubstr(R"("name":"eu/orders")"));
  EXPECT_EQ(redis.ask("INCR eu/orders"), ":100");
  EXPECT_EQ(redis.ask("INCR orders"), ":1");
  EXPECT_EQ(http.http("POST /v1/ids/eu/orders").body, "101\n");
  EXPECT_EQ(http.http("POST /v1/ids/eu%2Forders").body, "102\n");
  EXPECT_THAT(http.http("POST /v1/sources/eu/orders/raise", "", R"({"past":199})").body,
              HasSubstr(R"("next":"200")"));
  EXPECT_THAT(http.http("GET /v1/sources/eu/orders").body, HasSubstr(R"("next":"200")"));
  EXPECT_EQ(redis.ask_text("GET eu/orders"), "199");
  EXPECT_THAT(redis.ask("INCR us/orders"), StartsWith("-NOTFOUND"));
  EXPECT_THAT(redis.ask("INCR eu/customers"), StartsWith("-NOTFOUND"));
  EXPECT_THAT(http.http("GET /v1/sources").body,
              AllOf(HasSubstr(R"("eu/orders")"), HasSubstr(R"("customers")")));
}

// ---- TLS

class TlsTest : public EntryTest {
 protected:
  TlsTest() : server_(folder_, "server"), other_(folder_, "other") {}
  [[nodiscard]] ServerOptions with_tls() const {
    ServerOptions with = options();
    with.listen = {{Protocol::kRedis, "tls:127.0.0.1:0"}, {Protocol::kHttp, "tls:127.0.0.1:0"}};
    with.tls = {.certificate = server_.certificate(), .key = server_.key()};
    return with;
  }
  const Certificate server_;
  const Certificate other_;
};

TEST_F(TlsTest, EncryptsBothProtocols) {
  const Running server(with_tls());
  TlsClient redis(server.port(0), server_);
  ASSERT_TRUE(redis.is_connected());
  EXPECT_EQ(redis.ask("INCR orders"), ":1");
  TlsClient http(server.port(1), server_, nullptr, TLS1_2_VERSION);
  ASSERT_TRUE(http.is_connected());
  EXPECT_EQ(http.http("POST /v1/ids/orders").body, "2\n");
  // As many bytes as no buffer on the way has.
  const std::string all = http.http("POST /v1/ids/orders?count=500000").body;
  EXPECT_EQ(std::ranges::count(all, '\n'), 500'000);
  EXPECT_TRUE(all.ends_with("500002\n"));
}

TEST_F(TlsTest, EncryptsSocketsThatWereOpenBefore) {
  ServerOptions with = with_tls();
  with.listen = {{.descriptor = fakes::listening_tcp(INADDR_LOOPBACK), .tls = true}};
  const Running server(std::move(with));
  TlsClient redis(server.port(0), server_);
  ASSERT_TRUE(redis.is_connected());
  EXPECT_EQ(redis.ask("INCR orders"), ":1");
  ServerOptions without = options();
  without.listen = {{.descriptor = fakes::listening_tcp(INADDR_LOOPBACK), .tls = true}};
  EXPECT_FALSE(Server::open(std::move(without))) << "there is no certificate";
}

TEST_F(TlsTest, APipelineLongerThanARecordIsAnsweredWhole) {
  const Running server(with_tls());
  TlsClient client(server.port(0), server_);
  constexpr int calls = 20'000;
  std::string commands;
  for (int i = 0; i < calls; ++i) commands += "INCR orders\r\n";
  client.send(commands);
  for (int i = 1; i <= calls; ++i) ASSERT_EQ(client.line(), ":" + std::to_string(i));
}

TEST_F(TlsTest, OlderVersionsAndPlainTextAreNotAnswered) {
  const Running server(with_tls());
  EXPECT_FALSE(TlsClient(server.port(0), server_, nullptr, TLS1_1_VERSION).is_connected());
  Client plain(server.port(0));
  plain.send("INCR orders\r\n");
  EXPECT_THAT(plain.rest(), Not(HasSubstr(":1")));
  TlsClient after(server.port(0), server_);
  EXPECT_EQ(after.ask("INCR orders"), ":1");
}

TEST_F(TlsTest, ClientsNeedACertificateWhereOneIsAskedFor) {
  ServerOptions mutual = with_tls();
  mutual.tls.client_ca = other_.certificate();
  const Running server(std::move(mutual));
  TlsClient with(server.port(0), server_, &other_);
  EXPECT_EQ(with.ask("INCR orders"), ":1");
  TlsClient without(server.port(0), server_);
  without.send("INCR orders\r\n");  // in TLS 1.3 the client learns of it after its handshake
  EXPECT_EQ(without.rest(), "");
  TlsClient wrong(server.port(0), server_, &server_);
  wrong.send("INCR orders\r\n");
  EXPECT_EQ(wrong.rest(), "");
  EXPECT_EQ(with.ask("INCR orders"), ":2");
}

TEST_F(TlsTest, ANewCertificateIsForNewConnections) {
  Running server(with_tls());
  TlsClient before(server.port(0), server_);
  ASSERT_EQ(before.ask("INCR orders"), ":1");
  EXPECT_EQ(code_of(server.change({.certificate = folder_.path("none"), .key = other_.key()}, {})),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of(server.change({.certificate = other_.certificate(), .key = server_.key()}, {})),
            Code::kInvalidArgument);
  EXPECT_TRUE(TlsClient(server.port(0), server_).is_connected()) << "all stays as it was";
  ASSERT_TRUE(server.change({.certificate = other_.certificate(), .key = other_.key()}, {}));
  EXPECT_FALSE(TlsClient(server.port(0), server_).is_connected());
  TlsClient after(server.port(0), other_);
  EXPECT_EQ(after.ask("INCR orders"), ":2");
  EXPECT_EQ(before.ask("INCR orders"), ":3");
}

// ---- addresses

TEST(Listening, BeyondThisMachineNeedsToKnowWhoComes) {
  const TlsSettings tls{.certificate = "c", .key = "k"};
  const TlsSettings mutual{.certificate = "c", .key = "k", .client_ca = "ca"};
  const auto code = [](const std::string& at, const TlsSettings& with, bool tokens) {
    return code_of(validate({Protocol::kRedis, at}, with, tokens));
  };
  EXPECT_EQ(code("0.0.0.0:1", {}, false), Code::kInvalidArgument);
  EXPECT_EQ(code("0.0.0.0:1", mutual, false), Code::kInvalidArgument) << "no TLS there";
  EXPECT_EQ(code("tls:0.0.0.0:1", tls, false), Code::kInvalidArgument);
  EXPECT_EQ(code("tls:0.0.0.0:1", mutual, false), Code{0});
  EXPECT_EQ(code("0.0.0.0:1", {}, true), Code{0});
  EXPECT_EQ(code("tls:127.0.0.1:1", {}, true), Code::kInvalidArgument) << "no certificate";
  EXPECT_EQ(code("tls:127.0.0.1:1", tls, false), Code{0});
  EXPECT_EQ(code("tls:unix:x", tls, false), Code::kInvalidArgument);
}

TEST(Listening, NeedsOpenFilesForItsConnections) {
  fakes::in_child([] {
    const rlimit few{.rlim_cur = 20, .rlim_max = 20};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto opened = Server::open({.listen = {{Protocol::kRedis, "127.0.0.1:0"}}});
    ASSERT_EQ(code_of(opened), Code::kFailedPrecondition);
    EXPECT_THAT(opened.error().message(), HasSubstr("ulimit -n"));
  });
}

TEST_F(EntryTest, AServerThatOthersReachKeepsItsTokens) {
  ServerOptions open = with_tokens();
  open.listen = {{Protocol::kRedis, "0.0.0.0:0"}};
  Running server(std::move(open));
  EXPECT_EQ(code_of(server.change({}, {})), Code::kInvalidArgument);
  Client client(server.port(0));
  EXPECT_THAT(client.ask("INCR orders"), StartsWith("-NOAUTH"));
}

}  // namespace
}  // namespace idmint::server
