// idmintd: the daemon.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/url.h"
#include "idmint/mint.h"
#include "idmint/store.h"
#include "server/server.h"
#include "terminal/advice.h"
#include "terminal/credentials.h"
#include "terminal/output.h"
#include "terminal/process.h"

namespace idmint::server {
namespace {

constexpr const char* kFooter =
    R"(Without options it serves what the command idmint serves from: all formats, and
the sequences and pools of the default store, to programs on this machine.

Any client of Redis is a client:
  $ idmint create orders
  $ redis-cli -p 7379 INCR orders
  $ redis-cli -p 7379 ID.NEXT uuid7
and so is any client of HTTP:
  $ curl -X POST http://localhost:7380/v1/ids/orders
  $ curl -X POST http://localhost:7380/v1/ids/uuid7?count=3

SIGTERM, SIGINT and SIGHUP end it: calls that were taken are answered first.
)";

int serve(std::span<const char* const> words) {
  CLI::App app(
      "idmintd serves globally unique ids, never the same one twice, over the protocol of "
      "Redis and over HTTP.",
      "idmintd");
  app.footer(kFooter);
  ServerOptions options{.version = IDMINT_VERSION};
  std::string store;
  std::vector<std::string> redis;
  std::vector<std::string> http;
  app.add_option("--store", store,
                 "The URL of the store: sqlite:PATH, mongodb://HOST,.../DB, env:NAME, file:PATH; "
                 "or IDMINT_STORE (the "
                 "default store of idmint)")
      ->type_name("URL");
  app.add_option("--redis", redis,
                 "Where to listen for clients of Redis: ADDRESS:PORT or unix:PATH; again for more "
                 "(127.0.0.1:7379)")
      ->type_name("ADDRESS")
      ->allow_extra_args(false);
  app.add_option("--http", http,
                 "Where to listen for HTTP: ADDRESS:PORT or unix:PATH; again for more "
                 "(127.0.0.1:7380)")
      ->type_name("ADDRESS")
      ->allow_extra_args(false);
  app.set_version_flag("--version", "idmintd " IDMINT_VERSION);
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail_with({Code::kInvalidArgument, std::string(error.what()) + ": see idmintd --help"},
                     false);
  }
  if (store.empty()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    if (const char* const given = std::getenv("IDMINT_STORE")) store = given;
  }
  if (!store.empty()) {
    Result<std::string> url = url_given("--store", store);
    if (!url) return fail_with(url.error(), false);
    store = *std::move(url);
    // What no store can be is told now. One that does not answer yet, or is made later, is opened
    // when it is asked for.
    const Result<std::unique_ptr<Store>> there = Store::open(store, {.create = false});
    if (!there && (there.error().code == Code::kInvalidArgument ||
                   there.error().code == Code::kUnimplemented))
      return fail_with(there.error(), false);
    if (!there)
      report_notice("no sequences yet: " + worded(there.error(), redacted(store)).message, false);
  }
  options.mint.store = store;
  if (redis.empty() && http.empty()) {
    redis.emplace_back("127.0.0.1:7379");
    http.emplace_back("127.0.0.1:7380");
  }
  std::vector<std::string_view> protocols(redis.size(), "the Redis protocol");
  protocols.resize(redis.size() + http.size(), "HTTP");
  for (std::string& at : redis) options.listen.push_back({Protocol::kRedis, std::move(at)});
  for (std::string& at : http) options.listen.push_back({Protocol::kHttp, std::move(at)});
  Result<std::unique_ptr<Server>> server = Server::open(std::move(options));
  if (!server) return fail_with(server.error(), false);
  for (std::size_t i = 0; i < protocols.size(); ++i) {
    std::cerr << "idmintd: serving " << protocols[i] << " on " << (*server)->addresses()[i] << '\n';
  }
  (*server)->stop_at({SIGTERM, SIGINT, SIGHUP},
                     [](int) { std::cerr << "idmintd: answers what it has taken, and ends\n"; });
  (*server)->run();
  return 0;
}

}  // namespace
}  // namespace idmint::server

int main(int argc, char** argv) { return idmint::run_program(argc, argv, idmint::server::serve); }
