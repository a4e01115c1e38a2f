// Real MariaDB servers for tests: on free ports of the loopback, in folders that go with them, and
// ended with the program that started them, however that ends. If root runs the tests, the servers
// run as the user mysql, or as nobody.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace idmint::servers {

class MariadbServer {
 public:
  // Started, and answering, with these options of mariadbd. Aborts if that is impossible.
  explicit MariadbServer(const std::vector<std::string>& options = {});
  ~MariadbServer();
  MariadbServer(const MariadbServer&) = delete;
  MariadbServer& operator=(const MariadbServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url(const std::string& database,
                                const std::string& user = "root") const;
  // The URL of a database, which is made if it is not there.
  std::string database(const std::string& name) const;

  // The first value that the last of the statements returns, as text; otherwise "ERROR: ..." where
  // one failed.
  [[nodiscard]] std::string ask(const std::string& sql, const std::string& database = "") const;
  // As ask(), by one connection, which stays open as long as the function is there.
  using Asking = std::function<std::string(const std::string& sql)>;
  [[nodiscard]] Asking connected(const std::string& database) const;
  // As ask(); aborts where one failed.
  std::string run(const std::string& sql, const std::string& database = "") const;

  [[nodiscard]] bool running() const { return pid_ > 0; }
  // SIGSTOP: and waits until it stands still.
  void signal(int number) const;
  void kill();  // -9, and waits until it is gone
  // REQUIRES: !running(). On the same port, with the same files and options; `further`: options
  // besides, of this start alone.
  void restart(const std::vector<std::string>& further = {});

  // Makes it a replica of another, which has the option --log-bin; has all that its primary has
  // now; stops replicating for good, as what promotes it does.
  void follow(const MariadbServer& primary) const;
  void catch_up(const MariadbServer& primary) const;
  void cut_off() const;

 private:
  void start_anywhere();
  [[nodiscard]] bool start(const std::vector<std::string>& further = {});  // false: it has ended
  [[nodiscard]] std::string data() const { return folder_.path("data"); }
  // The usual folder may belong to another user.
  [[nodiscard]] std::string tmpdir() const { return "--tmpdir=" + folder_.folder().string(); }

  fakes::TempFolder folder_;
  std::vector<std::string> options_;
  int port_ = 0;
  pid_t pid_ = 0;
};

// One for all tests of a program, started when first asked for.
MariadbServer& mariadb_server();

}  // namespace idmint::servers
