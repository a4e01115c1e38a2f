#include "tests/servers/mariadb.h"

#include <mariadb/mysql.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "tests/servers/loopback.h"
#include "tests/servers/program.h"

namespace idmint::servers {
namespace {

// How long a server may take for anything.
constexpr std::chrono::minutes kLongest{2};

// The user that the servers run as; null: the user that runs the tests.
const passwd* owner() {
  static const passwd* const user = user_of_servers("mysql");
  return user;
}

const std::string& program() {
  static const std::string path = path_of_program("mariadbd");
  return path;
}

// The begin of the paths of the server's own SQL: those of $MARIADB_SHARE, which is the folder of
// version 11 or later, or else of Debian's package.
std::string share() {
  const char* const given = std::getenv("MARIADB_SHARE");
  return given != nullptr ? std::string(given) + "/mariadb_" : "/usr/share/mysql/mysql_";
}

}  // namespace

// As mariadb-install-db does, which needs programs of the client's packages.
MariadbServer::MariadbServer(const std::vector<std::string>& options) : options_(options) {
  hand_over(folder_.folder(), owner());
  ::mkdir(data().c_str(), 0700);
  hand_over(data(), owner());
  {
    std::ofstream file(folder_.path("install.sql"));
    file << "create database mysql;\nuse mysql;\nset @auth_root_socket = NULL;\n";
    for (const char* const part : {"system_tables.sql", "system_tables_data.sql"})
      file << contents(share() + part);
  }
  std::ofstream(folder_.path("start.sql"))
      << "SET sql_log_bin = 0;\nCREATE USER IF NOT EXISTS root@'127.0.0.1';\n"
         "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n";
  run_program({program(), "--no-defaults", "--bootstrap", "--datadir=" + data(), tmpdir(),
               "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=16M"},
              owner(), folder_.path("install.log"), folder_.path("install.sql"));
  start_anywhere();
}

MariadbServer::~MariadbServer() {
  if (running()) kill();
}

std::string MariadbServer::url(const std::string& database, const std::string& user) const {
  return "mysql://" + user + "@127.0.0.1:" + std::to_string(port_) + "/" + database;
}

std::string MariadbServer::database(const std::string& name) const {
  run("CREATE DATABASE IF NOT EXISTS `" + name + "`");
  return url(name);
}

MariadbServer::Asking MariadbServer::connected(const std::string& database) const {
  const std::shared_ptr<MYSQL> connection(mysql_init(nullptr), mysql_close);
  const unsigned protocol = MYSQL_PROTOCOL_TCP;
  mysql_options(connection.get(), MYSQL_OPT_PROTOCOL, &protocol);
  const auto failed = [connection] {
    return std::string("ERROR: ") + mysql_error(connection.get());
  };
  if (mysql_real_connect(connection.get(), "127.0.0.1", "root", "",
                         database.empty() ? nullptr : database.c_str(),
                         static_cast<unsigned>(port_), nullptr, CLIENT_MULTI_STATEMENTS) == nullptr)
    return [why = failed()](const std::string&) { return why; };
  return [connection, failed](const std::string& sql) {
    if (mysql_real_query(connection.get(), sql.data(), sql.size()) != 0) return failed();
    std::string first;
    for (int more = 0; more == 0; more = mysql_next_result(connection.get())) {
      first.clear();
      const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> result(
          mysql_store_result(connection.get()), mysql_free_result);
      if (result == nullptr) continue;
      if (const MYSQL_ROW row = mysql_fetch_row(result.get()); row != nullptr && row[0] != nullptr)
        first = row[0];
    }
    return mysql_errno(connection.get()) != 0 ? failed() : first;
  };
}

std::string MariadbServer::ask(const std::string& sql, const std::string& database) const {
  return connected(database)(sql);
}

std::string MariadbServer::run(const std::string& sql, const std::string& database) const {
  std::string answer = ask(sql, database);
  if (answer.starts_with("ERROR")) give_up(sql + ": " + answer);
  return answer;
}

// Another program may take the port before the server does.
void MariadbServer::start_anywhere() {
  for (int attempt = 0; attempt < 5; ++attempt) {
    port_ = unused_port();
    if (start()) return;
  }
  give_up("it does not start:\n" + contents(folder_.path("mariadbd.log")));
}

bool MariadbServer::start(const std::vector<std::string>& further) {
  std::vector<std::string> words = {program(),
                                    "--no-defaults",
                                    "--datadir=" + data(),
                                    tmpdir(),
                                    "--port=" + std::to_string(port_),
                                    "--bind-address=127.0.0.1",
                                    "--socket=" + folder_.path("socket"),
                                    "--skip-name-resolve",
                                    "--init-file=" + folder_.path("start.sql"),
                                    "--innodb-buffer-pool-size=16M",
                                    "--lc-messages=en_US"};
  words.insert(words.end(), options_.begin(), options_.end());
  words.insert(words.end(), further.begin(), further.end());
  pid_ = spawn(words, owner(), folder_.path("mariadbd.log"));
  // Another server may answer at this port.
  const bool up = wait_for(
      [&] {
        if (::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
        return pid_ == 0 || ask("SELECT @@datadir") == data() + "/";
      },
      kLongest);
  if (!up) give_up("it does not answer:\n" + contents(folder_.path("mariadbd.log")));
  return running();
}

void MariadbServer::signal(int number) const {
  if (!running()) give_up("no such server");
  ::kill(pid_, number);
  if (number == SIGSTOP && ::waitpid(pid_, nullptr, WUNTRACED) != pid_) give_up("it does not stop");
}

void MariadbServer::kill() {
  ::kill(pid_, SIGKILL);
  if (::waitpid(pid_, nullptr, 0) != pid_) give_up("cannot wait for mariadbd");
  pid_ = 0;
}

void MariadbServer::restart(const std::vector<std::string>& further) {
  if (!start(further))
    give_up("it does not start again:\n" + contents(folder_.path("mariadbd.log")));
}

void MariadbServer::follow(const MariadbServer& primary) const {
  run("CHANGE MASTER TO master_host = '127.0.0.1', master_user = 'root', master_port = " +
      std::to_string(primary.port()) + ", master_use_gtid = slave_pos; START SLAVE");
}

void MariadbServer::catch_up(const MariadbServer& primary) const {
  const std::string position = primary.run("SELECT @@gtid_binlog_pos");
  if (run("SELECT MASTER_GTID_WAIT('" + position + "', 100)") != "0")
    give_up("the replica does not catch up");
}

void MariadbServer::cut_off() const { run("STOP SLAVE; RESET SLAVE ALL"); }

MariadbServer& mariadb_server() {
  static MariadbServer server;
  return server;
}

}  // namespace idmint::servers
