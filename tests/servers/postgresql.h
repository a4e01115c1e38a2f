// Real PostgreSQL servers for tests: on free ports of the loopback, in folders that go with them,
// and ended with the program that started them, however that ends. PostgreSQL refuses to run as
// root: where the tests do, the servers run as the user postgres.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace idmint::servers {

class PostgresqlServer {
 public:
  // Started, and answering, with these lines in its postgresql.conf. Aborts if that is impossible.
  explicit PostgresqlServer(const std::vector<std::string>& settings = {});
  // A standby that streams from its primary, under the name "standby".
  struct StandbyOf {
    const PostgresqlServer& primary;
  };
  explicit PostgresqlServer(StandbyOf of);
  ~PostgresqlServer();
  PostgresqlServer(const PostgresqlServer&) = delete;
  PostgresqlServer& operator=(const PostgresqlServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  // ".../DATABASE?OPTIONS", for the superuser.
  [[nodiscard]] std::string url(const std::string& path,
                                const std::string& user = "postgres") const;
  // The URL of a database, which is made if it is not there.
  std::string database(const std::string& name) const;

  // The first value that the last of the statements returns, as text; otherwise "ERROR: ..." where
  // one failed.
  [[nodiscard]] std::string ask(const std::string& sql,
                                const std::string& database = "postgres") const;
  // As ask(); aborts where one failed.
  std::string run(const std::string& sql, const std::string& database = "postgres") const;
  // Puts a dump of one database into another.
  void restore(const std::string& from, const std::string& to) const;
  // Sets it for the whole server, and returns when new connections have it.
  void set(const std::string& setting, const std::string& value) const;
  // The lines of pg_hba.conf, from now on.
  void let_in(const std::string& lines) const;

  [[nodiscard]] bool running() const { return pid_ > 0; }
  // To all its processes. SIGSTOP: and waits until they stand still.
  void signal(int number) const;
  void kill();     // -9 to all its processes, and waits until they are gone, if they are not yet
  void restart();  // REQUIRES: !running(); on the same port, with the same files

  // For a standby: it takes no more from its primary; it has all that its primary has now; it
  // becomes a primary.
  void cut_off() const;
  void catch_up(const PostgresqlServer& primary) const;
  void promote() const;

 private:
  void start_anywhere();
  [[nodiscard]] bool start();  // false: it has ended
  [[nodiscard]] bool stop() const;
  [[nodiscard]] std::vector<pid_t> processes() const;
  [[nodiscard]] std::string data() const { return folder_.path("data"); }

  fakes::TempFolder folder_;
  int port_ = 0;
  pid_t pid_ = 0;
};

// PgBouncer before a server, for as long as it is there.
class PgBouncer {
 public:
  // `mode`: "session", "transaction" or "statement"; `settings`: more lines of its section.
  PgBouncer(const PostgresqlServer& server, const std::string& mode,
            const std::vector<std::string>& settings = {});
  ~PgBouncer();
  PgBouncer(const PgBouncer&) = delete;
  PgBouncer& operator=(const PgBouncer&) = delete;

  [[nodiscard]] std::string url(const std::string& database) const;

 private:
  fakes::TempFolder folder_;
  int port_ = 0;
  pid_t pid_ = 0;
};

// One for all tests of a program, started when first asked for.
PostgresqlServer& postgresql_server();

// As PostgresqlServer::ask(), of any server. The first by one connection, which stays open as long
// as the function is there.
using Asking = std::function<std::string(const std::string& sql)>;
[[nodiscard]] Asking connected_postgresql(const std::string& url);
[[nodiscard]] std::string ask_postgresql(const std::string& url, const std::string& sql);

}  // namespace idmint::servers
