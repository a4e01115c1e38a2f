// Real clusters of etcd for tests: on free ports of the loopback, in folders that go with them, and
// ended with the program that started them, however that ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace idmint::servers {

class EtcdCluster {
 public:
  // Started, and answering. `words`: further options of each member. With "--cert-file" among them,
  // the members listen for TLS too. Aborts if that is impossible.
  explicit EtcdCluster(std::size_t members = 1, std::vector<std::string> words = {});
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  [[nodiscard]] std::string host(std::size_t member) const;  // "127.0.0.1:PORT"
  [[nodiscard]] int port(std::size_t member) const { return members_[member].client_port; }
  // The URL of a store, on all members; `user`: "name:password".
  [[nodiscard]] std::string url(const std::string& prefix = "ids",
                                const std::string& user = "") const;

  // The URL of a store on the first member, over TLS; `options`: those of the URL.
  [[nodiscard]] std::string tls_url(const std::string& prefix, const std::string& options) const;

  // The output of etcdctl; aborts if etcdctl fails.
  std::string ctl(const std::string& words) const;
  // Whether etcdctl does it.
  [[nodiscard]] bool can(const std::string& words) const;

  // How many keys begin with the prefix, as text.
  [[nodiscard]] std::string count(const std::string& prefix) const;
  // The text at /metrics of a member.
  [[nodiscard]] std::string metrics(std::size_t member) const;

  void signal(std::size_t member, int number) const;
  void kill(std::size_t member);  // -9, and waits until it is gone
  // REQUIRES: it was killed. Does not wait until it answers. `words`: further options.
  void restart(std::size_t member, const std::vector<std::string>& words = {});
  void wait_until_ready() const;  // until each member that runs answers with a leader

  // A snapshot of what the cluster holds now; and every member begins anew with it. `token`:
  // another one gives the cluster another id.
  [[nodiscard]] std::string save() const;
  void restore(const std::string& snapshot, const std::string& token = "etcd-cluster");

  // One more member, which does not vote; returns its number.
  std::size_t add_learner();

 private:
  struct Member {
    int client_port = 0;
    int tls_port = 0;
    int peer_port = 0;
    std::string data{};
    pid_t pid = 0;
    bool joins = false;  // a cluster that is there
  };

  [[nodiscard]] bool start_all();
  void start(Member& member, const std::vector<std::string>& words = {});
  [[nodiscard]] bool answers(const Member& member) const;
  [[nodiscard]] std::string name(const Member& member) const;
  [[nodiscard]] std::string initial_cluster() const;

  const std::vector<std::string> words_;
  fakes::TempFolder folder_;
  std::vector<Member> members_;
  int folders_ = 0;  // of data, so far
};

// One of one member for all tests of a program, started when first asked for.
EtcdCluster& etcd_cluster();

}  // namespace idmint::servers
