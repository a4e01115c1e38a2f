// Real MongoDB servers for tests: on free ports of the loopback, in folders that go with them,
// small, and ended with the program that started them, however that ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"
#include "tests/servers/relay.h"

namespace idmint::servers {

// A mongod, from scripts/mongod.
class MongoServer {
 public:
  // Started, and answering, with further arguments of mongod. Aborts if that is impossible.
  explicit MongoServer(std::vector<std::string> arguments = {});
  ~MongoServer();
  MongoServer(const MongoServer&) = delete;
  MongoServer& operator=(const MongoServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  // ".../DATABASE?OPTIONS"
  [[nodiscard]] std::string url(const std::string& path) const {
    return "mongodb://" + host() + "/" + path;
  }

  [[nodiscard]] std::string folder() const { return folder_.path(""); }  // of its data

  [[nodiscard]] bool running() const { return pid_ > 0; }
  void signal(int number) const;  // SIGSTOP: and waits until it stands still
  void kill();                    // -9, and waits until it is gone
  void restart();                 // REQUIRES: !running(); on the same port, with the same files
  void restart(std::vector<std::string> arguments);  // instead of those it had

 private:
  bool start();
  void await();

  fakes::TempFolder folder_;
  std::vector<std::string> arguments_;
  int port_ = 0;
  pid_t pid_ = 0;
};

struct MongoSetOptions {
  bool relays = false;  // before each member, for the clients and for the other members
  // With a user "root", password "r", and no access for others.
  bool users = false;
  int members = 3;
  // When they have not heard of the primary for so long, they elect another. Short where tests end
  // primaries; long where they need one that stays, on a machine that stands still for a while too.
  std::chrono::milliseconds election_timeout{1000};
  // Whether one may follow another that is not the primary. If that one stops, it takes most of the
  // time above to find that out.
  bool chaining = true;
};

// Several of them.
class MongoSet {
 public:
  // Started, with a primary.
  explicit MongoSet(MongoSetOptions options = {});

  [[nodiscard]] std::string hosts() const;
  [[nodiscard]] std::string url(const std::string& database) const {
    return "mongodb://" + user_ + hosts() + "/" + database + "?replicaSet=set" +
           (user_.empty() ? "" : "&authSource=admin");
  }
  // The URL of one member, in any state, past its relay.
  [[nodiscard]] std::string direct(std::size_t i) const {
    return "mongodb://" + user_ + members_[i]->host() + "/?directConnection=true&authSource=admin";
  }
  [[nodiscard]] MongoServer& member(std::size_t i) { return *members_[i]; }
  // REQUIRES: options.relays.
  [[nodiscard]] Relay& relay(std::size_t i) { return *relays_[i]; }
  // Waits until there is one and says which. Aborts after three minutes.
  std::size_t primary();

 private:
  [[nodiscard]] std::string host(std::size_t i) const {
    return relays_.empty() ? members_[i]->host() : relays_[i]->host();
  }

  fakes::TempFolder folder_;
  std::string user_{};  // "USER:PASSWORD@"
  std::vector<std::unique_ptr<Relay>> relays_;
  std::vector<std::unique_ptr<MongoServer>> members_;
};

// One of each for all tests of a program, started when first asked for. The set keeps its primary,
// as the others take 5 s to elect another.
MongoSet& mongo_set();
MongoServer& mongo_standalone();

// The path that scripts/mongod prints.
const std::string& mongod_program();

// The reply of the server at `url` to a command, both in extended JSON. An error is a reply too.
std::string mongo_command(const std::string& url, const std::string& database,
                          const std::string& json);

}  // namespace idmint::servers
