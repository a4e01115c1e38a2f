#include "tests/servers/postgresql.h"

#include <libpq-fe.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>

#include "tests/servers/loopback.h"
#include "tests/servers/program.h"

namespace idmint::servers {
namespace {

// How long a server may take for anything.
constexpr std::chrono::minutes kLongest{2};

const std::string& programs() {
  static const std::string folder = line_of(IDMINT_SCRIPTS "/postgresql");
  return folder;
}

// The user that the servers run as; null: the user that runs the tests.
const passwd* owner() {
  static const passwd* const user = user_of_servers("postgres");
  return user;
}

// One of its programs, with what follows it.
std::vector<std::string> program(const std::string& name, std::vector<std::string> words) {
  words.insert(words.begin(), programs() + "/" + name);
  return words;
}

// 'Z': ended, and nobody has asked how; 0: gone.
char state_of(pid_t pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t at = stat.rfind(')');
  return at == std::string::npos || at + 2 >= stat.size() ? '\0' : stat[at + 2];
}

}  // namespace

Asking connected_postgresql(const std::string& url) {
  const std::shared_ptr<PGconn> connection(PQconnectdb(url.c_str()), PQfinish);
  return [connection](const std::string& sql) -> std::string {
    if (PQstatus(connection.get()) != CONNECTION_OK)
      return std::string("ERROR: ") + PQerrorMessage(connection.get());
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(
        PQexec(connection.get(), sql.c_str()), PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_COMMAND_OK) return "";
    if (status != PGRES_TUPLES_OK)
      return std::string("ERROR: ") + PQresultErrorMessage(result.get());
    return PQntuples(result.get()) == 0 ? "" : PQgetvalue(result.get(), 0, 0);
  };
}

std::string ask_postgresql(const std::string& url, const std::string& sql) {
  return connected_postgresql(url)(sql);
}

PostgresqlServer::PostgresqlServer(const std::vector<std::string>& settings) {
  hand_over(folder_.folder(), owner());
  run_program(program("initdb", {"--pgdata", data(), "--auth", "trust", "--username", "postgres",
                                 "--encoding", "UTF8", "--locale", "C", "--no-sync"}),
              owner(), folder_.path("initdb.log"));
  append(data() + "/postgresql.conf",
         {"shared_buffers = '16MB'", "max_wal_size = '256MB'", "log_min_messages = warning",
          "wal_keep_size = '64MB'", "wal_retrieve_retry_interval = '100ms'",
          "client_min_messages = warning"});
  // One sync, and not one for each file, when it starts after a kill.
  if (std::stoi(contents(data() + "/PG_VERSION")) >= 14)
    append(data() + "/postgresql.conf", {"recovery_init_sync_method = syncfs"});
  append(data() + "/postgresql.conf", settings);
  start_anywhere();
}

PostgresqlServer::PostgresqlServer(StandbyOf of) {
  hand_over(folder_.folder(), owner());
  run_program(
      program("pg_basebackup", {"--pgdata", data(), "--wal-method", "stream", "--checkpoint",
                                "fast", "--write-recovery-conf", "--no-sync", "--dbname",
                                "host=127.0.0.1 user=postgres application_name=standby port=" +
                                    std::to_string(of.primary.port())}),
      owner(), folder_.path("pg_basebackup.log"));
  start_anywhere();
}

PostgresqlServer::~PostgresqlServer() {
  if (running()) kill();
}

std::string PostgresqlServer::url(const std::string& path, const std::string& user) const {
  return "postgresql://" + user + "@127.0.0.1:" + std::to_string(port_) + "/" + path;
}

std::string PostgresqlServer::database(const std::string& name) const {
  if (ask("SELECT 1 FROM pg_database WHERE datname = '" + name + "'") != "1")
    run("CREATE DATABASE \"" + name + "\"");
  return url(name);
}

std::string PostgresqlServer::ask(const std::string& sql, const std::string& database) const {
  return ask_postgresql(url(database), sql);
}

std::string PostgresqlServer::run(const std::string& sql, const std::string& database) const {
  std::string answer = ask(sql, database);
  if (answer.starts_with("ERROR")) give_up(sql + ": " + answer);
  return answer;
}

void PostgresqlServer::restore(const std::string& from, const std::string& to) const {
  const std::string dump = folder_.path("dump.sql");
  const std::string log = folder_.path("dump.log");
  run_program(program("pg_dump", {"--dbname", url(from), "--file", dump}), owner(), log);
  run_program(program("psql", {"--dbname", url(to), "--quiet", "--no-psqlrc", "--set",
                               "ON_ERROR_STOP=1", "--file", dump}),
              owner(), log);
}

void PostgresqlServer::set(const std::string& setting, const std::string& value) const {
  run("ALTER SYSTEM SET " + setting + " = '" + value + "'");
  run("SELECT pg_reload_conf()");
  if (!wait_for([&] { return ask("SELECT current_setting('" + setting + "')") == value; },
                kLongest))
    give_up("the server does not set " + setting);
}

void PostgresqlServer::let_in(const std::string& lines) const {
  {
    std::ofstream file(data() + "/pg_hba.conf");
    file << "local all all trust\nhost all postgres 127.0.0.1/32 trust\n"
         << "host replication postgres 127.0.0.1/32 trust\n"
         << lines << '\n';
  }
  const std::string before = run("SELECT pg_conf_load_time()");
  run("SELECT pg_reload_conf()");
  if (!wait_for([&] { return run("SELECT pg_conf_load_time()") != before; }, kLongest))
    give_up("the server does not read pg_hba.conf");
}

// Another program may take the port before the server does.
void PostgresqlServer::start_anywhere() {
  for (int attempt = 0; attempt < 5; ++attempt) {
    port_ = unused_port();
    if (start()) return;
  }
  give_up("it does not start:\n" + contents(folder_.path("postgres.log")));
}

bool PostgresqlServer::start() {
  pid_ =
      spawn(program("postgres", {"-D", data(), "-p", std::to_string(port_), "-c",
                                 "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}),
            owner(), folder_.path("postgres.log"));
  // Another server may answer at this port.
  const bool up = wait_for(
      [&] {
        if (::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
        return pid_ == 0 || ask("SHOW data_directory") == data();
      },
      kLongest);
  if (!up) give_up("it does not answer:\n" + contents(folder_.path("postgres.log")));
  return running();
}

std::vector<pid_t> PostgresqlServer::processes() const {
  std::vector<pid_t> all = {pid_};
  const std::string pid = std::to_string(pid_);
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child = 0; children >> child;) all.push_back(child);
  return all;
}

// The first that stops starts no others meanwhile. False: it has ended by itself.
bool PostgresqlServer::stop() const {
  if (!running()) give_up("no such server");
  int status = 0;
  ::kill(pid_, SIGSTOP);
  if (::waitpid(pid_, &status, WUNTRACED) != pid_) give_up("it does not stop");
  if (!WIFSTOPPED(status)) return false;
  const std::vector<pid_t> all = processes();
  for (const pid_t pid : all) ::kill(pid, SIGSTOP);
  const auto stands = [](pid_t pid) { return state_of(pid) != 'R' && state_of(pid) != 'S'; };
  for (const pid_t pid : all)
    if (!wait_for([&] { return stands(pid); }, kLongest)) give_up("it does not stop");
  return true;
}

// The first goes on last.
void PostgresqlServer::signal(int number) const {
  if (number == SIGSTOP) {
    if (!stop()) give_up("it has ended");
    return;
  }
  if (!running()) give_up("no such server");
  const std::vector<pid_t> all = processes();
  for (auto pid = all.rbegin(); pid != all.rend(); ++pid) ::kill(*pid, number);
}

void PostgresqlServer::kill() {
  if (!stop()) {
    pid_ = 0;
    return;
  }
  const std::vector<pid_t> all = processes();
  for (const pid_t pid : all) ::kill(pid, SIGKILL);
  if (::waitpid(pid_, nullptr, 0) != pid_) give_up("cannot wait for postgres");
  for (const pid_t pid : all)
    if (!wait_for([&] { return state_of(pid) == '\0' || state_of(pid) == 'Z'; }, kLongest))
      give_up("one of its processes does not end");
  pid_ = 0;
}

void PostgresqlServer::restart() {
  if (!start()) give_up("it does not start again:\n" + contents(folder_.path("postgres.log")));
}

void PostgresqlServer::cut_off() const {
  set("primary_conninfo", "");
  if (!wait_for([&] { return ask("SELECT count(*) FROM pg_stat_wal_receiver") == "0"; }, kLongest))
    give_up("the standby does not let go of its primary");
}

void PostgresqlServer::catch_up(const PostgresqlServer& primary) const {
  const std::string position = primary.run("SELECT pg_current_wal_insert_lsn()");
  if (!wait_for(
          [&] {
            return ask("SELECT pg_last_wal_replay_lsn() >= '" + position + "'::pg_lsn") == "t";
          },
          kLongest))
    give_up("the standby does not catch up");
}

void PostgresqlServer::promote() const {
  run("SELECT pg_promote(true, 100)");
  if (!wait_for([&] { return ask("SELECT pg_is_in_recovery()") == "f"; }, kLongest))
    give_up("the standby is not promoted");
}

PgBouncer::PgBouncer(const PostgresqlServer& server, const std::string& mode,
                     const std::vector<std::string>& settings) {
  hand_over(folder_.folder(), owner());
  for (int attempt = 0; pid_ == 0 && attempt < 5; ++attempt) {
    port_ = unused_port();
    const std::string file = folder_.path("pgbouncer.ini");
    {
      std::ofstream(folder_.path("users")) << "\"postgres\" \"\"\n";
      std::ofstream out(file);
      out << "[databases]\n* = host=127.0.0.1 port=" << server.port()
          << "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " << port_
          << "\nunix_socket_dir =\nauth_type = trust\nauth_file = " << folder_.path("users")
          << "\npool_mode = " << mode << '\n';
      for (const std::string& line : settings) out << line << '\n';
    }
    pid_ = spawn({path_of_program("pgbouncer"), file}, owner(), folder_.path("pgbouncer.log"));
    const bool up = wait_for(
        [&] {
          if (::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
          return pid_ == 0 || ask_postgresql(url("postgres"), "SELECT 1") == "1";
        },
        kLongest);
    if (!up) break;
  }
  if (pid_ == 0 || ask_postgresql(url("postgres"), "SELECT 1") != "1")
    give_up("pgbouncer does not answer:\n" + contents(folder_.path("pgbouncer.log")));
}

PgBouncer::~PgBouncer() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string PgBouncer::url(const std::string& database) const {
  return "postgresql://postgres@127.0.0.1:" + std::to_string(port_) + "/" + database;
}

PostgresqlServer& postgresql_server() {
  static PostgresqlServer server;
  return server;
}

}  // namespace idmint::servers
