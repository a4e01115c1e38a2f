#include "tests/servers/redis.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "engines/redis/reply.h"
#include "tests/servers/loopback.h"
#include "tests/servers/program.h"

namespace idmint::servers {
namespace {

using stores::redis::Reply;
using stores::redis::ReplyReader;

// How long a server may take for anything.
constexpr std::chrono::minutes kLongest{2};

// As many as the tests of a program use.
constexpr std::string_view kDatabases = "1000";

std::string text_of(const Reply& reply) {
  if (reply.is_error()) return "ERROR: " + reply.text;
  std::string text = reply.text;
  for (const Reply& item : reply.items)
    text += (&item == reply.items.data() ? "" : " ") + text_of(item);
  return text;
}

// The last of the replies.
std::string exchange(int port, const std::vector<std::vector<std::string>>& commands) {
  std::string request;
  for (const auto& words : commands)
    stores::redis::append_command(&request,
                                  std::vector<std::string_view>(words.begin(), words.end()));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  std::string answer = "ERROR: no answer";
  ReplyReader reader;
  std::size_t missing = commands.size();
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    while (missing > 0) {
      if (reader.read() == ReplyReader::State::kReply) {
        answer = text_of(reader.reply());
        --missing;
        continue;
      }
      std::array<char, 65'536> block{};
      const ssize_t got = ::recv(fd, block.data(), block.size(), 0);
      if (got <= 0) break;
      reader.add({block.data(), static_cast<std::size_t>(got)});
    }
  }
  ::close(fd);
  return missing == 0 ? answer : "ERROR: no answer";
}

}  // namespace

RedisServer::RedisServer(const std::vector<std::string>& settings) : settings_(settings) {
  start_anywhere();
}

RedisServer::RedisServer(ReplicaOf of)
    : settings_({"replicaof 127.0.0.1 " + std::to_string(of.primary.port())}) {
  start_anywhere();
  catch_up(of.primary);
  // The file has everything that the server was given once it was written anew.
  const bool written = wait_for(
      [&] {
        return info("persistence", "aof_rewrite_in_progress") == "0" &&
               info("persistence", "aof_rewrite_scheduled") == "0" &&
               info("persistence", "aof_base_size") != "0";
      },
      kLongest);
  if (!written) give_up("the replica does not write its file");
}

RedisServer::~RedisServer() {
  if (running()) kill();
}

std::string RedisServer::url(int database, const std::string& user) const {
  return "redis://" + user + (user.empty() ? "" : "@") + "127.0.0.1:" + std::to_string(port_) +
         "/" + std::to_string(database);
}

std::string RedisServer::database(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const int next = static_cast<int>(numbers_.size()) + 1;
  return url(numbers_.try_emplace(name, next).first->second);
}

std::string RedisServer::ask(const std::vector<std::string>& words, int database) const {
  if (database == 0) return exchange(port_, {words});
  return exchange(port_, {{"SELECT", std::to_string(database)}, words});
}

std::string RedisServer::run(const std::vector<std::string>& words, int database) const {
  std::string answer = ask(words, database);
  if (answer.starts_with("ERROR")) give_up(words.front() + ": " + answer);
  return answer;
}

void RedisServer::set(const std::string& setting, const std::string& value) const {
  run({"CONFIG", "SET", setting, value});
}

std::string RedisServer::info(const std::string& section, const std::string& name) const {
  const std::string all = "\n" + run({"INFO", section});
  const std::size_t at = all.find("\n" + name + ":");
  if (at == std::string::npos) give_up("INFO has no " + name);
  const std::size_t begin = at + name.size() + 2;
  return all.substr(begin, all.find('\r', begin) - begin);
}

// Another program may take the port before the server does.
void RedisServer::start_anywhere() {
  if (::mkdir(data().c_str(), 0700) != 0) give_up("cannot make " + data());
  for (int attempt = 0; attempt < 5; ++attempt) {
    port_ = unused_port();
    if (start()) return;
  }
  give_up("it does not start:\n" + contents(folder_.path("redis.log")));
}

bool RedisServer::start(const std::vector<std::string>& further) {
  const char* const own = std::getenv("REDIS_SERVER");
  const std::string program = own != nullptr ? own : path_of_program("redis-server");
  const std::string file = folder_.path("redis.conf");
  {
    std::ofstream out(file);
    out << "bind 127.0.0.1\nport " << port_ << "\ndir " << data() << "\nlogfile "
        << folder_.path("redis.log") << "\ndatabases " << kDatabases
        << "\nsave \"\"\nappendonly yes\nappendfsync always\nrepl-diskless-sync-delay 0\n";
    for (const auto& lines : {settings_, further})
      for (const std::string& line : lines) out << line << '\n';
  }
  pid_ = spawn({program, file}, nullptr, folder_.path("redis.log"));
  // Another server may answer at this port; one with a password or an ACL refuses.
  const bool up = wait_for(
      [&] {
        if (::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
        return pid_ == 0 || (ask({"CONFIG", "GET", "dir"}) == "dir " + data() &&
                             !ask({"DBSIZE"}).starts_with("ERROR: LOADING"));
      },
      kLongest);
  if (!up) give_up("it does not answer:\n" + contents(folder_.path("redis.log")));
  return running();
}

void RedisServer::signal(int number) const {
  if (!running()) give_up("no such server");
  ::kill(pid_, number);
  if (number == SIGSTOP && ::waitpid(pid_, nullptr, WUNTRACED) != pid_) give_up("it does not stop");
}

void RedisServer::kill() {
  if (!running()) give_up("no such server");
  ::kill(pid_, SIGKILL);
  if (::waitpid(pid_, nullptr, 0) != pid_) give_up("cannot wait for redis-server");
  pid_ = 0;
}

void RedisServer::restart(const std::vector<std::string>& further) {
  if (!start(further)) give_up("it does not start again:\n" + contents(folder_.path("redis.log")));
}

void RedisServer::catch_up(const RedisServer& primary) const {
  const auto offset = [](const RedisServer& of) {
    return std::stoll(of.info("replication", "master_repl_offset"));
  };
  const bool done = wait_for(
      [&] {
        return info("replication", "role") == "slave" &&
               info("replication", "master_link_status") == "up" &&
               offset(*this) >= offset(primary);
      },
      kLongest);
  if (!done) give_up("the replica does not catch up");
}

void RedisServer::cut_off() const {
  const int nobody = bound_socket();
  run({"REPLICAOF", "127.0.0.1", std::to_string(port_of(nobody))});
  ::close(nobody);
}

void RedisServer::promote() {
  run({"REPLICAOF", "NO", "ONE"});
  settings_.clear();
  if (info("replication", "role") != "master") give_up("the replica is not promoted");
}

RedisServer& redis_server() {
  static RedisServer server;
  return server;
}

}  // namespace idmint::servers
