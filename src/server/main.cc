// idmintd: the daemon.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "idmint/mint.h"
#include "server/server.h"
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

SIGTERM and SIGINT end it: calls that were taken are answered first.
)";

int serve(std::span<const char* const> words) {
  CLI::App app(
      "idmintd serves globally unique ids, never the same one twice, over the protocol of "
      "Redis.",
      "idmintd");
  app.footer(kFooter);
  ServerOptions options{.version = IDMINT_VERSION};
  std::string store;
  std::vector<std::string> redis;
  app.add_option("--store", store,
                 "The URL of the store: sqlite:PATH, mongodb://HOST,.../DB; or IDMINT_STORE (the "
                 "default store of idmint)")
      ->type_name("URL");
  app.add_option("--redis", redis,
                 "Where to listen for clients of Redis: ADDRESS:PORT or unix:PATH; again for more "
                 "(127.0.0.1:7379)")
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
  options.mint.store = store;
  if (redis.empty()) redis.emplace_back("127.0.0.1:7379");
  for (std::string& at : redis) options.listen.push_back({Protocol::kRedis, std::move(at)});
  Result<std::unique_ptr<Server>> server = Server::open(std::move(options));
  if (!server) return fail_with(server.error(), false);
  for (const std::string& address : (*server)->addresses())
    std::cerr << "idmintd: serving the Redis protocol on " << address << '\n';
  (*server)->stop_at({SIGTERM, SIGINT},
                     [](int) { std::cerr << "idmintd: answers what it has taken, and ends\n"; });
  (*server)->run();
  return 0;
}

}  // namespace
}  // namespace idmint::server

int main(int argc, char** argv) { return idmint::run_program(argc, argv, idmint::server::serve); }
