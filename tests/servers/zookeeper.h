// Real ensembles of ZooKeeper for tests: on free ports of the loopback, in folders that go with
// them, and ended with the program that started them, however that ends. Their classes are those of
// Debian's package, or those in $ZOOKEEPER_CLASSPATH.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace idmint::servers {

class ZookeeperEnsemble {
 public:
  // Started, and answering. Aborts if that is impossible.
  explicit ZookeeperEnsemble(std::size_t members = 1);
  ~ZookeeperEnsemble();
  ZookeeperEnsemble(const ZookeeperEnsemble&) = delete;
  ZookeeperEnsemble& operator=(const ZookeeperEnsemble&) = delete;

  [[nodiscard]] std::string host(std::size_t member) const;  // "127.0.0.1:PORT"
  // That of a store, on all members; `user`: "name:password".
  [[nodiscard]] std::string url(const std::string& path = "ids",
                                const std::string& user = "") const;

  void signal(std::size_t member, int number) const;
  void kill(std::size_t member);  // -9, and waits until it is gone
  // REQUIRES: it was killed. Does not wait until it answers.
  void restart(std::size_t member);
  void wait_until_ready() const;  // until each member that runs serves clients
  // Until each member has in its files what any of them shows now. ZooKeeper 3.8 takes a member
  // that came back for one in step before that (ZOOKEEPER-4785), and loses what was acknowledged if
  // others are killed in between. REQUIRES: all run, and a client writes.
  void wait_until_written() const;
  // What it answers to "srvr"; empty: it serves no clients.
  [[nodiscard]] std::string says(std::size_t member) const;
  [[nodiscard]] bool leads(std::size_t member) const;

  // The data of all members as they are when they are killed now; they run again afterwards. And
  // every member begins anew with such data.
  [[nodiscard]] std::string save();
  void restore(const std::string& saved);

 private:
  struct Member {
    int client_port = 0;
    int peer_port = 0;
    int election_port = 0;
    std::string data{};
    pid_t pid = 0;
  };

  [[nodiscard]] bool start_all();
  void start(Member& member);
  void kill_all();
  [[nodiscard]] std::string log() const;
  [[nodiscard]] bool answers(const Member& member) const;
  fakes::TempFolder folder_;
  std::vector<Member> members_;
  int saved_ = 0;
};

// A client that knows nothing of idmint, at one server. `user`: "name:password", or empty. Aborts
// if the server does not do what is asked.
class ZookeeperClient {
 public:
  explicit ZookeeperClient(const std::string& host, const std::string& user = "");
  ~ZookeeperClient();
  ZookeeperClient(const ZookeeperClient&) = delete;
  ZookeeperClient& operator=(const ZookeeperClient&) = delete;

  [[nodiscard]] std::string get(const std::string& path) const;
  [[nodiscard]] std::int32_t version(const std::string& path) const;
  void set(const std::string& path, const std::string& value) const;
  void create(const std::string& path, const std::string& value) const;
  [[nodiscard]] std::vector<std::string> children(const std::string& path) const;  // sorted names
  void remove(const std::string& path) const;  // with all that is below it
  // All that is below a node, below another one.
  void copy(const std::string& from, const std::string& to) const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// One of one member for all tests of a program, started when first asked for.
ZookeeperEnsemble& zookeeper_ensemble();

}  // namespace idmint::servers
