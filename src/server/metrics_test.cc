// /metrics of a server in this process, after known calls.
#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <functional>
#include <latch>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/mint.h"
#include "idmint/sequence.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/running_server.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using fakes::GatedStore;
using fakes::TempFolder;
using testing::AllOf;
using testing::Contains;
using testing::Ge;
using testing::Gt;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

// A page, by series: `idmint_calls_total{protocol="redis",verb="next"}`.
class Series {
 public:
  explicit Series(std::string page) : page_(std::move(page)) {
    for (std::size_t begin = 0; begin < page_.size();) {
      const std::size_t end = page_.find('\n', begin);
      const std::string line = page_.substr(begin, end - begin);
      begin = end + 1;
      if (line.starts_with('#')) continue;
      const std::size_t blank = line.rfind(' ');
      const std::string number = line.substr(blank + 1);
      double value = std::numeric_limits<double>::infinity();
      if (number != "+Inf") std::from_chars(number.data(), number.data() + number.size(), value);
      EXPECT_TRUE(values_.try_emplace(line.substr(0, blank), value).second) << line << ": twice";
    }
  }

  // -1, which nothing here is: there is no such series.
  [[nodiscard]] double operator[](const std::string& series) const {
    const auto found = values_.find(series);
    return found != values_.end() ? found->second : -1;
  }
  [[nodiscard]] double of(const std::string& family, const std::string& source) const {
    return (*this)["idmint_" + family + "{source=\"" + source + "\"}"];
  }
  [[nodiscard]] double calls(const std::string& protocol, const std::string& verb) const {
    return (*this)["idmint_calls_total" + labels(protocol, verb) + "}"];
  }
  // `part` of the histogram of waits: "count", "sum" or "bucket".
  [[nodiscard]] double waits(const std::string& protocol, const std::string& verb,
                             const std::string& what, const std::string& le = "") const {
    return (*this)["idmint_call_wait_seconds_" + what + labels(protocol, verb) +
                   (le.empty() ? "" : ",le=\"" + le + "\"") + "}"];
  }
  [[nodiscard]] double errors(const std::string& code) const {
    return (*this)["idmint_errors_total{code=\"" + code + "\"}"];
  }
  [[nodiscard]] const std::map<std::string, double>& all() const { return values_; }
  [[nodiscard]] const std::string& page() const { return page_; }

 private:
  static std::string labels(const std::string& protocol, const std::string& verb) {
    return "{protocol=\"" + protocol + "\",verb=\"" + verb + "\"";
  }

  std::string page_;
  std::map<std::string, double> values_;
};

Series scrape(Client& http, const std::string& headers = "") {
  const Client::Response response = http.http("GET /metrics", headers);
  EXPECT_EQ(response.status, "HTTP/1.1 200 OK") << response.body;
  EXPECT_THAT(response.headers, Contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
  return Series(response.body);
}

class MetricsTest : public testing::Test {
 protected:
  MetricsTest() {
    create({.name = "orders"});
    create({.name = "few", .first = 5, .last = 7});
    create({.name = "held", .strategy = Strategy::kCached, .step = 100});
    Mint mint(MintOptions{.store = url("ids")});
    EXPECT_TRUE(mint.create(PoolDefinition{.name = "web", .workers = 4}));
    create({.name = "invoices"}, "eu");
  }

  void create(const SequenceDefinition& definition, const std::string& file = "ids") {
    Mint mint(MintOptions{.store = url(file)});
    const auto made = mint.create(definition);
    ASSERT_TRUE(made) << made.error().message();
  }
  [[nodiscard]] std::string url(const std::string& file) const {
    return "sqlite:" + folder_.path(file + ".db");
  }
  [[nodiscard]] ServerOptions options() const {
    ServerOptions options;
    options.stores.push_back({.mint = {.store = url("ids")}});
    options.stores.push_back({.name = "eu", .mint = {.store = url("eu")}});
    for (ServedStore& store : options.stores) store.mint.store_options.deadline = kNever;
    options.drain = kNever;
    options.scrape_patience = kNever;
    return options;
  }

  TempFolder folder_;
};

TEST_F(MetricsTest, CountsFollowTheCalls) {
  const Running server(options());
  Client redis(server);
  Client http(server, Protocol::kHttp);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(redis.ask("INCR orders"), ":" + std::to_string(i));
  EXPECT_EQ(redis.ask("INCRBY orders 10"), ":13");
  redis.send("ID.NEXT orders COUNT 2\r\n");
  redis.lines(5);
  redis.ask_text("ID.NEXT uuid7");
  EXPECT_EQ(redis.ask_text("GET orders"), "15");
  EXPECT_EQ(redis.ask("PING"), "+PONG");
  redis.ask("NO.SUCH");
  redis.ask("INCR missing");
  redis.ask("ID.RANGE few 4");
  EXPECT_EQ(http.http("POST /v1/ids/orders?count=4").body, "16\n17\n18\n19\n");
  EXPECT_EQ(http.http("POST /v1/ids/eu%2Finvoices").body, "1\n");
  http.http("POST /v1/ids/uuid7?count=2000");  // in chunks
  http.http("POST /v1/ids/missing");
  http.http("GET /v1/formats");
  http.http("GET /v1/nothing");
  http.http("POST /v1/sources/few/raise", "", R"({"past": 5})");

  const Series series = scrape(http);
  EXPECT_EQ(series.calls("redis", "next"), 8);
  EXPECT_EQ(series.calls("redis", "peek"), 1);
  EXPECT_EQ(series.calls("redis", "raise"), 0);
  EXPECT_EQ(series.calls("redis", "other"), 2);
  EXPECT_EQ(series.calls("http", "next"), 4);
  EXPECT_EQ(series.calls("http", "raise"), 1);
  EXPECT_EQ(series.calls("http", "other"), 2);
  EXPECT_EQ(series.calls("http", "metrics"), 1) << "this one";
  EXPECT_EQ(series.of("source_calls_total", "orders"), 6);
  EXPECT_EQ(series.of("source_ids_total", "orders"), 3 + 10 + 2 + 4);
  EXPECT_EQ(series.of("source_errors_total", "orders"), 0);
  EXPECT_EQ(series.of("source_calls_total", "eu/invoices"), 1);
  EXPECT_EQ(series.of("source_calls_total", "uuid7"), 2) << "chunks are one call";
  EXPECT_EQ(series.of("source_ids_total", "uuid7"), 2001);
  EXPECT_EQ(series.of("source_store_rounds_total", "uuid7"), -1);
  EXPECT_EQ(series.of("source_calls_total", "few"), 0);
  EXPECT_EQ(series.of("source_errors_total", "few"), 1);
  EXPECT_EQ(series.of("source_calls_total", "missing"), -1);
  EXPECT_EQ(series.errors("NOT_FOUND"), 3) << "missing twice, and a path";
  EXPECT_EQ(series.errors("OUT_OF_RANGE"), 1);
  EXPECT_EQ(series.errors("INVALID_ARGUMENT"), 1) << "NO.SUCH";
  EXPECT_EQ(series.errors("UNAVAILABLE"), 0);
  EXPECT_EQ(series["idmint_connections"], 2);
  EXPECT_EQ(series["idmint_connections_total"], 2);
  EXPECT_EQ(series["idmint_connections_refused_total"], 0);
  EXPECT_EQ(series["idmint_connections_cut_total"], 0);
  EXPECT_EQ(series["idmint_waiting_calls"], 0);
  EXPECT_EQ(series["idmint_build_info{version=\"test\"}"], 1);
  EXPECT_GT(series["process_resident_memory_bytes"], 1e6);
}

TEST_F(MetricsTest, AHistogramAgreesWithItself) {
  const Running server(options());
  Client redis(server);
  Client http(server, Protocol::kHttp);
  std::string pipeline;
  constexpr int count = 300;
  for (int i = 0; i < count; ++i) pipeline += "INCR orders\r\n";
  redis.send(pipeline + "GET orders\r\nID.NEXT uuid7\r\nID.NEXT web\r\nINCR missing\r\n");
  redis.lines(count + 2 + 2 + 2 + 1);
  http.http("POST /v1/ids/orders?count=200000");  // in four steps
  http.http("POST /v1/ids/uuid7");
  http.http("GET /v1/sources");

  const Series series = scrape(http);
  // uuid7 waits to be opened, and so does what is missing.
  EXPECT_EQ(series.waits("redis", "next", "count"), count + 3);
  EXPECT_EQ(series.waits("redis", "peek", "count"), 1);
  EXPECT_EQ(series.waits("redis", "other", "count"), -1) << "none has waited";
  EXPECT_EQ(series.waits("http", "next", "count"), 1) << "a stream is one call";
  EXPECT_EQ(series.waits("http", "peek", "count"), 1);
  for (const auto& [protocol, verb] :
       {std::pair("redis", "next"), std::pair("redis", "peek"), std::pair("http", "next")}) {
    double before = 0;
    double least = 0;  // of the sum
    double bound_before = 0;
    double most = 0;
    for (std::size_t i = 0; i < Histogram::kBounds; ++i) {
      const double bound = std::chrono::duration<double>(Histogram::bound(i)).count();
      std::array<char, 32> digits;
      const std::string le(digits.data(),
                           std::to_chars(digits.data(), digits.data() + digits.size(), bound).ptr);
      const double up_to = series.waits(protocol, verb, "bucket", le);
      ASSERT_GE(up_to, before) << le;
      least += (up_to - before) * bound_before;
      most += (up_to - before) * bound;
      before = up_to;
      bound_before = bound;
    }
    const double all = series.waits(protocol, verb, "bucket", "+Inf");
    EXPECT_EQ(all, series.waits(protocol, verb, "count"));
    EXPECT_GE(series.waits(protocol, verb, "sum"), least + (all - before) * bound_before);
    if (all == before) {
      EXPECT_LE(series.waits(protocol, verb, "sum"), most);
    }
  }
}

TEST(Histogram, ABoundBelongsToItsBucket) {
  using std::chrono::nanoseconds;
  const auto bucket_of = [](nanoseconds duration) {
    Histogram histogram;
    histogram.add(duration);
    return std::ranges::find(histogram.buckets(), 1U) - histogram.buckets().begin();
  };
  EXPECT_EQ(bucket_of(nanoseconds{-1}), 0);
  EXPECT_EQ(bucket_of(nanoseconds{0}), 0);
  for (std::size_t i = 0; i < Histogram::kBounds; ++i) {
    EXPECT_EQ(bucket_of(Histogram::bound(i)), static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(bucket_of(Histogram::bound(i) + nanoseconds{1}), static_cast<std::ptrdiff_t>(i) + 1);
  }
  EXPECT_EQ(bucket_of(std::chrono::hours{1}), std::ptrdiff_t{Histogram::kBounds});
}

TEST_F(MetricsTest, TellsHowManyCallsShareARoundTrip) {
  const auto store = std::make_shared<GatedStore>();
  ASSERT_TRUE(create_sequence(*store, {.name = "orders"}));
  ServerOptions with = options();
  with.stores = {{.store = store}};
  const Running server(std::move(with));
  Client redis(server);
  Client http(server, Protocol::kHttp);
  ASSERT_EQ(redis.ask("INCR orders"), ":1");
  store->shut_gate();
  redis.send("INCR orders\r\n");
  store->wait_for_advances(2);
  constexpr int more = 50;
  for (int i = 0; i < more; ++i) redis.send("INCR orders\r\n");
  redis.send("PING\r\n");
  // They are taken before the gate opens: /metrics counts them.
  double read = 0;
  while (read < 2 + more) read = scrape(http).calls("redis", "next");
  store->open_gate();
  EXPECT_EQ(redis.lines(more + 2).back(), "+PONG");
  const Series series = scrape(http);
  EXPECT_EQ(series.of("source_store_calls_total", "orders"), 2 + more);
  EXPECT_EQ(series.of("source_store_rounds_total", "orders"), 3);
  EXPECT_EQ(series.of("source_wasted_values_total", "orders"), 0);
}

TEST_F(MetricsTest, ValuesInMemoryBecomeWasteAndNoCountFalls) {
  const Running server(options());
  Client redis(server);
  Client http(server, Protocol::kHttp);
  ASSERT_EQ(redis.ask("INCR held"), ":1");
  const Series before = scrape(http);
  const double held = before.of("source_held_values", "held");
  EXPECT_GE(held, 99);
  EXPECT_EQ(before.of("source_wasted_values_total", "held"), 0);
  const double rounds = before.of("source_store_rounds_total", "held");
  EXPECT_GE(rounds, 1);
  // Opened anew, so that what was held is lost. The sequence is closed elsewhere.
  ASSERT_THAT(
      http.http("POST /v1/sources/held/extend", "", R"({"max": 9223372036854775806})").status,
      HasSubstr("200"));
  while (true) {
    const Series now = scrape(http);
    ASSERT_GE(now.of("source_store_rounds_total", "held"), rounds);
    ASSERT_GE(now.of("source_store_calls_total", "held"), 1);
    const double waste = now.of("source_wasted_values_total", "held");
    if (waste == 0) continue;
    EXPECT_EQ(waste, held);
    EXPECT_EQ(now.of("source_held_values", "held"), 0);
    break;
  }
  EXPECT_EQ(scrape(http).of("source_calls_total", "held"), 1);
}

TEST_F(MetricsTest, TellsWhatTheStoresHold) {
  const Running server(options());
  Client redis(server);
  Client http(server, Protocol::kHttp);
  redis.ask("INCR few");
  const double began = scrape(http)["process_start_time_seconds"];
  redis.ask_text("ID.NEXT web");
  EXPECT_THAT(scrape(http).page(), Not(HasSubstr("idmint_pool_lease_ahead_seconds{")))
      << "it has a lease for one id only";
  // More than a millisecond has, so that a lease is kept.
  EXPECT_THAT(http.http("POST /v1/ids/web?count=10000").status, HasSubstr("200"));
  const Series series = scrape(http);
  EXPECT_EQ(series["idmint_store_up{store=\"(default)\"}"], 1);
  EXPECT_EQ(series["idmint_store_up{store=\"eu\"}"], 1);
  EXPECT_GE(series["idmint_store_looked_at_seconds{store=\"eu\"}"], began);
  EXPECT_GT(series["idmint_store_look_seconds{store=\"eu\"}"], 0);
  EXPECT_EQ(series["idmint_store_damaged_sources{store=\"eu\"}"], 0);
  EXPECT_EQ(series["idmint_store_clock_offset_seconds{store=\"eu\"}"], -1) << "SQLite has no clock";
  EXPECT_EQ(series.of("sequence_next_value", "few"), 6);
  EXPECT_EQ(series.of("sequence_left_values", "few"), 2);
  EXPECT_EQ(series.of("sequence_left_values", "web"), -1);
  EXPECT_EQ(series.of("pool_workers", "web"), 4);
  EXPECT_EQ(series.of("pool_free_workers", "web"), 3);
  EXPECT_EQ(series.of("sequence_next_value", "eu/invoices"), 1);
  std::size_t leases = 0;
  for (const auto& [name, value] : series.all()) {
    if (!name.starts_with("idmint_pool_lease_ahead_seconds{source=\"web\",worker=\"")) continue;
    ++leases;
    EXPECT_THAT(value, AllOf(Gt(-60), Le(16))) << "a window, and the time that the test takes";
  }
  EXPECT_EQ(leases, 1U);
}

TEST_F(MetricsTest, WhoIsNotAllowedLearnsNoName) {
  ServerOptions with = options();
  const auto token = [](const std::string& name, const std::vector<std::string>& rights) {
    TokenSettings settings{.name = name, .hash = hash_of(name)};
    for (const std::string& right : rights) settings.allow.push_back(*scope_of(right));
    return settings;
  };
  with.tokens = {token("watch", {"metrics", "peek orders*"}),
                 token("europe", {"metrics", "next eu/*"}), token("all", {"all *"}),
                 token("web", {"next *"}), token("only", {"metrics"})};
  const Running server(std::move(with));
  Client http(server, Protocol::kHttp);
  const auto as = [](const std::string& name) { return "Authorization: Bearer " + name + "\r\n"; };
  for (const std::string source : {"orders", "few", "held", "web", "uuid7", "eu%2Finvoices"})
    ASSERT_THAT(http.http("POST /v1/ids/" + source, as("all")).status, HasSubstr("200")) << source;

  EXPECT_THAT(http.http("GET /metrics").status, HasSubstr("401"));
  const Client::Response refused = http.http("GET /metrics", as("web"));
  EXPECT_THAT(refused.status, HasSubstr("403"));
  EXPECT_THAT(refused.body, HasSubstr("does not allow metrics\""));

  const std::vector<std::string> names{"\"orders\"", "\"few\"", "\"held\"",       "\"web\"",
                                       "\"uuid7\"",  "\"eu\"",  "\"eu/invoices\""};
  const auto seen_by = [&](const std::string& name) {
    const std::string page = scrape(http, as(name)).page();
    std::vector<std::string> seen;
    for (const std::string& each : names) {
      if (page.find(each) != std::string::npos) seen.push_back(each);
    }
    return seen;
  };
  EXPECT_THAT(seen_by("watch"), testing::ElementsAre("\"orders\""));
  EXPECT_THAT(seen_by("europe"), testing::ElementsAre("\"eu\"", "\"eu/invoices\""));
  EXPECT_THAT(seen_by("only"), testing::IsEmpty());
  EXPECT_EQ(seen_by("all"), names);
  EXPECT_EQ(scrape(http, as("only"))["idmint_store_up{store=\"(default)\"}"], -1);
  EXPECT_EQ(scrape(http, as("watch"))["idmint_store_up{store=\"(default)\"}"], 1);
  EXPECT_EQ(scrape(http, as("watch")).of("sequence_next_value", "orders"), 2);
  EXPECT_EQ(scrape(http, as("europe")).of("sequence_next_value", "eu/invoices"), -1)
      << "it may not look";
  EXPECT_GE(scrape(http, as("only")).errors("PERMISSION_DENIED"), 1);
}

TEST_F(MetricsTest, AStoreThatDoesNotAnswerHoldsNobodyUp) {
  const auto store = std::make_shared<GatedStore>();
  ASSERT_TRUE(create_sequence(*store, {.name = "orders"}));
  std::latch away(1);
  store->meanwhile(1, [&](const auto& /*definitions*/) { away.wait(); });
  ServerOptions with = options();
  with.stores = {{.store = store}, with.stores[1]};
  with.scrape_patience = std::chrono::milliseconds{0};
  const Running server(std::move(with));
  Client http(server, Protocol::kHttp);
  for (int i = 0; i < 3; ++i) {
    const Series series = scrape(http);
    EXPECT_EQ(series["idmint_store_up{store=\"(default)\"}"], 0);
    EXPECT_EQ(series["idmint_store_looked_at_seconds{store=\"(default)\"}"], -1);
    EXPECT_EQ(series.of("sequence_left_values", "orders"), -1);
  }
  EXPECT_EQ(http.http("POST /v1/ids/uuid7").status, "HTTP/1.1 200 OK");
  while (scrape(http)["idmint_store_looked_at_seconds{store=\"eu\"}"] < 0) {
  }
  away.count_down();
  while (scrape(http)["idmint_store_looked_at_seconds{store=\"(default)\"}"] < 0) {
  }
  EXPECT_GT(scrape(http).of("sequence_left_values", "orders"), 0);
}

TEST_F(MetricsTest, AStoreThatFailsIsNotUpAndKeepsWhatWasKnown) {
  const auto store = std::make_shared<GatedStore>();
  ASSERT_TRUE(create_sequence(*store, {.name = "orders", .last = 9}));
  ServerOptions with = options();
  with.stores = {{.store = store}};
  const Running server(std::move(with));
  Client http(server, Protocol::kHttp);
  EXPECT_EQ(scrape(http)["idmint_store_up{store=\"(default)\"}"], 1);
  store->fail_call(1, {.error = {Code::kUnavailable, "away"}});
  const Series series = scrape(http);
  EXPECT_EQ(series["idmint_store_up{store=\"(default)\"}"], 0);
  EXPECT_EQ(series.of("sequence_left_values", "orders"), 9);
  EXPECT_EQ(scrape(http)["idmint_store_up{store=\"(default)\"}"], 1);
}

TEST_F(MetricsTest, ManySourcesAreCountedTogether) {
  Result<std::unique_ptr<Store>> opened = Store::open("memory:");
  ASSERT_TRUE(opened);
  const std::shared_ptr<Store> store = *std::move(opened);
  constexpr std::size_t all = Sources::kMostCounted + 3;
  static_assert(Sources::kMostCounted == StoreProbe::kMostSources);
  std::string pipeline;
  for (std::size_t i = 0; i < all; ++i) {
    const std::string name = "s" + std::to_string(i);
    ASSERT_TRUE(create_sequence(*store, {.name = name}));
    pipeline += "INCRBY " + name + " 2\r\n";
  }
  ServerOptions with = options();
  with.stores = {{.store = store}};
  const Running server(std::move(with));
  Client redis(server);
  Client http(server, Protocol::kHttp);
  redis.send(pipeline);
  redis.lines(all);
  const Series series = scrape(http);
  std::size_t used = 0;
  std::size_t listed = 0;
  for (const auto& [name, value] : series.all()) {
    if (name.starts_with("idmint_source_ids_total{")) ++used;
    if (name.starts_with("idmint_sequence_left_values{")) ++listed;
  }
  EXPECT_EQ(used, Sources::kMostCounted + 1);
  EXPECT_EQ(series.of("source_ids_total", "s0"), 2);
  EXPECT_EQ(series.of("source_ids_total", "(others)"), 6);
  EXPECT_EQ(series.of("source_store_rounds_total", "(others)"), 3);
  EXPECT_EQ(listed, StoreProbe::kMostSources);
  EXPECT_EQ(series["idmint_store_unlisted_sources{store=\"(default)\"}"], 3);
}

TEST_F(MetricsTest, HeadAndOtherMethodsAreAnsweredAsOnOtherRoutes) {
  const Running server(options());
  Client http(server, Protocol::kHttp);
  EXPECT_EQ(http.http("HEAD /metrics").status, "HTTP/1.1 200 OK");
  EXPECT_THAT(http.http("POST /metrics").status, HasSubstr("405"));
  EXPECT_THAT(scrape(http).page(), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace idmint::server
