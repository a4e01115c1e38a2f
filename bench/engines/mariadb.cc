#include "tests/servers/mariadb.h"

#include <mariadb/mysql.h>
#include <mariadb/mysqld_error.h>

#include <memory>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "load.h"

namespace idmint::bench {
namespace {

// A connection and the statement that is prepared on it.
struct MariadbSession {
  explicit MariadbSession(int port) : connection(mysql_init(nullptr)) {
    const unsigned protocol = MYSQL_PROTOCOL_TCP;
    mysql_options(connection, MYSQL_OPT_PROTOCOL, &protocol);
    if (mysql_real_connect(connection, "127.0.0.1", "root", "", "recipe",
                           static_cast<unsigned>(port), nullptr, 0) == nullptr)
      fail(mysql_error(connection));
    statement = mysql_stmt_init(connection);
  }
  ~MariadbSession() {
    mysql_stmt_close(statement);
    mysql_close(connection);
  }
  MariadbSession(const MariadbSession&) = delete;
  MariadbSession& operator=(const MariadbSession&) = delete;

  MYSQL* connection;
  MYSQL_STMT* statement = nullptr;
};

// One prepared statement for each id, which a client learns with the answer. InnoDB ends one of two
// that wait for each other (a deadlock), and the program asks again.
EngineRecipe mariadb_recipe(const std::string& name, const std::string& sql, int port) {
  EngineRecipe recipe{.name = name, .trips = "1"};
  recipe.caller = [sql, port, refused = recipe.refused] {
    const auto session = std::make_shared<MariadbSession>(port);
    if (mysql_stmt_prepare(session->statement, sql.data(), sql.size()) != 0)
      fail(mysql_stmt_error(session->statement));
    return [session, refused] {
      while (mysql_stmt_execute(session->statement) != 0) {
        if (mysql_stmt_errno(session->statement) != ER_LOCK_DEADLOCK)
          fail(mysql_stmt_error(session->statement));
        ++*refused;
      }
      if (mysql_stmt_insert_id(session->statement) == 0) fail("MariaDB returned no id");
    };
  };
  return recipe;
}

}  // namespace

Engine mariadb_engine() {
  const auto server = std::make_shared<servers::MariadbServer>(
      std::vector<std::string>{"--max-connections=" + std::to_string(kMostCallers + 20)});
  server->run("CREATE DATABASE recipe");
  server->run(
      "CREATE TABLE Tickets64 (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
      "  stub CHAR(1) NOT NULL DEFAULT '' UNIQUE) ENGINE = InnoDB;"
      "CREATE TABLE counters (name VARCHAR(64) PRIMARY KEY, value BIGINT NOT NULL)"
      "  ENGINE = InnoDB;"
      "INSERT INTO counters VALUES ('orders', 0)",
      "recipe");
  const int port = server->port();
  EngineRecipe replace =
      mariadb_recipe("REPLACE INTO", "REPLACE INTO Tickets64 (stub) VALUES ('a')", port);
  replace.most_callers = 64;  // of 256, some have no id after 20 s, for all the deadlocks
  return {
      .name = "MariaDB " + server->run("SELECT SUBSTRING_INDEX(VERSION(), '-', 1)"),
      .durability = "innodb_flush_log_at_trx_commit " +
                    server->run("SELECT @@innodb_flush_log_at_trx_commit") + ", binary log " +
                    (server->run("SELECT @@log_bin") == "0" ? "off" : "on"),
      .url = server->database("ids"),
      .recipes = {replace, mariadb_recipe("one UPDATE",
                                          "UPDATE counters SET value = LAST_INSERT_ID(value + 1)"
                                          " WHERE name = 'orders'",
                                          port)},
      .host = "127.0.0.1:" + std::to_string(port),
      .server = server};
}

}  // namespace idmint::bench
