#include "tests/servers/postgresql.h"

#include <libpq-fe.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "load.h"

namespace idmint::bench {
namespace {

using PgResult = std::unique_ptr<PGresult, decltype(&PQclear)>;

void expect_status(PGconn* connection, const PgResult& result, ExecStatusType wanted) {
  if (PQresultStatus(result.get()) != wanted) fail(PQerrorMessage(connection));
}

// One UPDATE ... RETURNING for each id, prepared, and a transaction by itself.
std::function<void()> postgresql_caller(const std::string& url) {
  const std::shared_ptr<PGconn> connection(PQconnectdb(url.c_str()), PQfinish);
  if (PQstatus(connection.get()) != CONNECTION_OK) fail(PQerrorMessage(connection.get()));
  const PgResult prepared(
      PQprepare(connection.get(), "take",
                "UPDATE counters SET value = value + 1 WHERE name = $1 RETURNING value", 1,
                nullptr),
      PQclear);
  expect_status(connection.get(), prepared, PGRES_COMMAND_OK);
  return [connection] {
    const std::array<const char*, 1> name = {"orders"};
    const PgResult result(
        PQexecPrepared(connection.get(), "take", 1, name.data(), nullptr, nullptr, 0), PQclear);
    expect_status(connection.get(), result, PGRES_TUPLES_OK);
    if (PQntuples(result.get()) != 1) fail("PostgreSQL returned no id");
  };
}

}  // namespace

Engine postgresql_engine() {
  const auto server = std::make_shared<servers::PostgresqlServer>(
      std::vector<std::string>{"max_connections = " + std::to_string(kMostCallers + 20)});
  const std::string url = server->database("recipe");
  server->run(
      "CREATE TABLE counters (name text PRIMARY KEY, value bigint NOT NULL);"
      "INSERT INTO counters VALUES ('orders', 0)",
      "recipe");
  return {.name = "PostgreSQL " + server->run("SELECT split_part(version(), ' ', 2)"),
          .durability = "fsync " + server->run("SHOW fsync") + ", synchronous_commit " +
                        server->run("SHOW synchronous_commit"),
          .url = server->database("ids"),
          .recipes = {{.name = "UPDATE ... RETURNING",
                       .trips = "1",
                       .caller = [url] { return postgresql_caller(url); }}},
          .host = "127.0.0.1:" + std::to_string(server->port()),
          .server = server};
}

}  // namespace idmint::bench
