// Real Redis servers for tests: on free ports of the loopback, in folders that go with them, and
// ended with the program that started them, however that ends.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace idmint::servers {

class RedisServer {
 public:
  // Started, and answering, with settings under which it keeps what it is told, and then these,
  // each "NAME VALUE". Aborts if that is impossible.
  explicit RedisServer(const std::vector<std::string>& settings = {});
  // A replica of it.
  struct ReplicaOf {
    const RedisServer& primary;
  };
  explicit RedisServer(ReplicaOf of);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  // "redis://[USER[:PASSWORD]@]127.0.0.1:PORT/DATABASE".
  [[nodiscard]] std::string url(int database = 0, const std::string& user = "") const;

  // The URL of a database that no other name has.
  std::string database(const std::string& name) const;

  // The answer of the server; the items of an array with a blank between them; "ERROR: ..." if it
  // refuses or does not answer. The words are sent as they are, by the default user, in a
  // connection of their own.
  [[nodiscard]] std::string ask(const std::vector<std::string>& words, int database = 0) const;
  // As ask(); aborts where it refused.
  std::string run(const std::vector<std::string>& words, int database = 0) const;
  void set(const std::string& setting, const std::string& value) const;
  // A value of INFO.
  [[nodiscard]] std::string info(const std::string& section, const std::string& name) const;

  [[nodiscard]] bool running() const { return pid_ > 0; }
  void signal(int number) const;  // SIGSTOP: and waits until it stands still
  void kill();                    // -9, and waits until it is gone
  // REQUIRES: !running(). On the same port, with the same files; `further`: settings besides, of
  // this start alone.
  void restart(const std::vector<std::string>& further = {});

  // For a replica: it has all that its primary has now; it takes no more from it; it becomes a
  // primary.
  void catch_up(const RedisServer& primary) const;
  void cut_off() const;
  void promote();

 private:
  void start_anywhere();
  [[nodiscard]] bool start(const std::vector<std::string>& further = {});  // false: it has ended
  [[nodiscard]] std::string data() const { return folder_.path("data"); }

  fakes::TempFolder folder_;
  std::vector<std::string> settings_;
  int port_ = 0;
  pid_t pid_ = 0;
  mutable std::mutex mutex_;  // guards numbers_
  mutable std::map<std::string, int> numbers_;
};

// One for all tests of a program, started when first asked for.
RedisServer& redis_server();

}  // namespace idmint::servers
