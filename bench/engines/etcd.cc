#include "tests/servers/etcd.h"

#include <curl/curl.h>
#include <openssl/evp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "engines/engine.h"
#include "load.h"

namespace idmint::bench {
namespace {

using nlohmann::json;

// The gateway has keys and values in base64.
std::string in_base64(std::string_view text) {
  std::string encoded((text.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  encoded.resize(static_cast<std::size_t>(size));
  return encoded;
}

// With zero bytes at the end, up to a multiple of three.
std::string from_base64(std::string_view encoded) {
  std::string text(encoded.size() / 4 * 3 + 1, '\0');
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(encoded.data()),
                      static_cast<int>(encoded.size())) < 0)
    fail("etcd answers what is not base64");
  return text;
}

// A connection to the gateway of a member, which stays open between requests.
class Gateway {
 public:
  explicit Gateway(const std::string& host)
      : host_("http://" + host),
        headers_(curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all),
        curl_(curl_easy_init(), curl_easy_cleanup) {
    curl_easy_setopt(curl_.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl_.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(curl_.get(), CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl_.get(), CURLOPT_WRITEDATA, &answer_);
  }
  ~Gateway() = default;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  json ask(const std::string& path, const std::string& body) {
    answer_.clear();
    curl_easy_setopt(curl_.get(), CURLOPT_URL, (host_ + path).c_str());
    curl_easy_setopt(curl_.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(curl_.get(), CURLOPT_POSTFIELDS, body.c_str());
    const CURLcode done = curl_easy_perform(curl_.get());
    if (done != CURLE_OK) fail(std::string("etcd: ") + curl_easy_strerror(done));
    json answer = json::parse(answer_, nullptr, false);
    if (!answer.contains("header")) fail("etcd: " + answer_);
    return answer;
  }

 private:
  static std::size_t take(const char* from, std::size_t size, std::size_t count, void* answer) {
    static_cast<std::string*>(answer)->append(from, size * count);
    return size * count;
  }

  std::string host_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
  std::string answer_;
};

// The counter as it was at a revision, which is that of its latest change.
struct EtcdEntry {
  long long value = 0;
  std::string revision{};
};

EtcdEntry entry_of(const json& range) {
  const json& entry = range.at("kvs").at(0);
  return {std::stoll(from_base64(entry.at("value").get<std::string>())),
          entry.at("mod_revision").get<std::string>()};
}

class EtcdCounter {
 public:
  explicit EtcdCounter(const std::string& host) : gateway_(host) {}

  EtcdEntry get() { return entry_of(gateway_.ask("/v3/kv/range", R"({"key":")" + key_ + R"("})")); }
  void put(long long value) { gateway_.ask("/v3/kv/put", put_of(value)); }

  // Sets the next value, if the counter is still as it was. Otherwise nothing is changed. Returns
  // whether it did, and what is there afterwards.
  std::pair<bool, EtcdEntry> swap(const EtcdEntry& was) {
    const json answer = gateway_.ask(
        "/v3/kv/txn", R"({"compare":[{"key":")" + key_ + R"(","target":"MOD","mod_revision":")" +
                          was.revision + R"("}],"success":[{"request_put":)" +
                          put_of(was.value + 1) + R"(}],"failure":[{"request_range":{"key":")" +
                          key_ + R"("}}]})");
    if (answer.value("succeeded", false))
      return {true, {was.value + 1, answer.at("header").at("revision").get<std::string>()}};
    return {false, entry_of(answer.at("responses").at(0).at("response_range"))};
  }

 private:
  [[nodiscard]] std::string put_of(long long value) const {
    return R"({"key":")" + key_ + R"(","value":")" + in_base64(std::to_string(value)) + R"("})";
  }

  Gateway gateway_;
  std::string key_ = in_base64("orders");
};

// Reads the counter and swaps it; what a lost swap says is there now saves another read.
std::function<void()> etcd_caller(const std::string& host, EngineRecipe::Refused refused) {
  return [counter = std::make_shared<EtcdCounter>(host), refused = std::move(refused)] {
    auto [done, there] = counter->swap(counter->get());
    while (!done) {
      ++*refused;
      std::tie(done, there) = counter->swap(there);
    }
  };
}

// The same, and it begins with what it wrote last.
std::function<void()> etcd_remembering_caller(const std::string& host,
                                              EngineRecipe::Refused refused) {
  const auto counter = std::make_shared<EtcdCounter>(host);
  return [counter, there = counter->get(), refused = std::move(refused)]() mutable {
    bool done = false;
    while (std::tie(done, there) = counter->swap(there), !done) ++*refused;
  };
}

// The version of etcd, from the text at /metrics.
std::string version_in(std::string_view metrics) {
  constexpr std::string_view kBefore = "etcd_server_version{server_version=\"";
  const std::size_t at = metrics.find(kBefore);
  if (at == std::string_view::npos) return "";
  metrics.remove_prefix(at + kBefore.size());
  return std::string(metrics.substr(0, metrics.find('"')));
}

}  // namespace

EngineRecipe etcd_recipe(const std::string& host) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  EngineRecipe recipe{.name = "compare-and-swap", .trips = "2, and 1 for each lost swap"};
  recipe.caller = [host, refused = recipe.refused] { return etcd_caller(host, refused); };
  return recipe;
}

Engine etcd_engine() {
  const auto server = std::make_shared<servers::EtcdCluster>();
  const std::string host = server->host(0);
  const EngineRecipe recipe = etcd_recipe(host);
  EtcdCounter(host).put(0);
  EngineRecipe remembering{
      .name = "compare-and-swap that remembers", .trips = "1", .most_callers = 1};
  remembering.caller = [host, refused = remembering.refused] {
    return etcd_remembering_caller(host, refused);
  };
  return {.name = "etcd " + version_in(server->metrics(0)),
          .durability = "one member, which syncs its log before it answers",
          .url = server->url("ids"),
          .recipes = {recipe, remembering},
          .host = host,
          .server = server};
}

}  // namespace idmint::bench
