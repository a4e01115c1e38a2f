#include "tests/servers/mongo.h"

#include <fcntl.h>
#include <mongoc/mongoc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/servers/loopback.h"
#include "tests/servers/program.h"

namespace idmint::servers {

const std::string& mongod_program() {
  static const std::string path = line_of(IDMINT_SCRIPTS "/mongod");
  return path;
}

std::string mongo_command(const std::string& url, const std::string& database,
                          const std::string& json) {
  mongoc_init();
  mongoc_log_set_handler(nullptr, nullptr);
  bson_error_t error{};
  mongoc_client_t* const client = mongoc_client_new(url.c_str());
  if (client == nullptr) give_up("cannot use " + url);
  bson_t* const command = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(json.data()),
                                             static_cast<ssize_t>(json.size()), &error);
  if (command == nullptr) give_up(json + ": " + error.message);
  bson_t reply;
  const bool ok = mongoc_client_command_with_opts(client, database.c_str(), command, nullptr,
                                                  nullptr, &reply, &error);
  char* const text = bson_as_relaxed_extended_json(&reply, nullptr);
  std::string answer = text;
  if (!ok && answer == "{ }")
    answer = std::string("{ \"ok\" : 0, \"errmsg\" : \"") + error.message + "\" }";
  bson_free(text);
  bson_destroy(&reply);
  bson_destroy(command);
  mongoc_client_destroy(client);
  return answer;
}

MongoServer::MongoServer(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
  // Another program may take the port before the server does.
  for (int attempt = 0; attempt < 5; ++attempt) {
    port_ = unused_port();
    if (start()) return;
  }
  give_up("mongod does not start:\n" +
          (std::ostringstream() << std::ifstream(folder_.path("log")).rdbuf()).str());
}

MongoServer::~MongoServer() {
  if (running()) kill();
}

bool MongoServer::start() {
  std::vector<std::string> words = {mongod_program(),
                                    "--dbpath",
                                    folder_.path(""),
                                    "--logpath",
                                    folder_.path("log"),
                                    "--logappend",
                                    "--port",
                                    std::to_string(port_),
                                    "--bind_ip",
                                    "127.0.0.1",
                                    "--nounixsocket",
                                    "--wiredTigerCacheSizeGB",
                                    "1",
                                    "--setParameter",
                                    "enableTestCommands=1",
                                    "--setParameter",
                                    "diagnosticDataCollectionEnabled=false"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) give_up("cannot fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const int null = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(null, fd);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  const bool up = wait_for(
      [&] {
        if (::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
        return pid_ == 0 ||
               mongo_command(url("?serverSelectionTimeoutMS=1000"), "admin", R"({"ping":1})")
                       .find(R"("ok" : 1.0)") != std::string::npos;
      },
      std::chrono::minutes{3});
  if (up && running()) return true;
  if (running()) kill();
  return false;
}

void MongoServer::signal(int number) const {
  if (!running() || ::kill(pid_, number) != 0) give_up("no such server");
  if (number == SIGSTOP && ::waitpid(pid_, nullptr, WUNTRACED) != pid_) give_up("it does not stop");
}

void MongoServer::kill() {
  signal(SIGKILL);
  if (::waitpid(pid_, nullptr, 0) != pid_) give_up("cannot wait for mongod");
  pid_ = 0;
}

void MongoServer::restart(std::vector<std::string> arguments) {
  arguments_ = std::move(arguments);
  restart();
}

void MongoServer::restart() {
  if (!start()) give_up("mongod does not start again");
}

MongoSet::MongoSet(MongoSetOptions options) {
  // Heartbeats are so frequent, and errors so soon, that no member takes the death of one for that
  // of another; a reader turns away from a frozen member soon, not a minute later; checkpoints are
  // so frequent that a killed member has little to do again, twice where it rolls back, before a
  // majority has it.
  std::vector<std::string> arguments = {"--replSet",      "set",
                                        "--oplogSize",    "64",
                                        "--syncdelay",    "3",
                                        "--setParameter", "oplogNetworkTimeoutBufferSeconds=1",
                                        "--setParameter", "oplogInitialFindMaxSeconds=2"};
  if (options.users) {
    const std::string key = folder_.path("key");
    std::ofstream(key) << "akeyofthemembers";
    ::chmod(key.c_str(), 0600);
    arguments.insert(arguments.end(), {"--keyFile", key});
  }
  std::string members;
  for (int i = 0; i < options.members; ++i) {
    members_.push_back(std::make_unique<MongoServer>(arguments));
    if (options.relays) relays_.push_back(std::make_unique<Relay>(members_.back()->port()));
    members += (i == 0 ? "" : ",") + (R"({"_id":)" + std::to_string(i) + R"(,"host":")" +
                                      host(members_.size() - 1) + R"("})");
  }
  const auto works = [](const std::string& reply) {
    return reply.find(R"("ok" : 1.0)") != std::string::npos;
  };
  const std::string first = members_[0]->url("?directConnection=true");
  const std::string reply = mongo_command(
      first, "admin",
      R"({"replSetInitiate":{"_id":"set","settings":{"electionTimeoutMillis":)" +
          std::to_string(options.election_timeout.count()) +
          R"(,"heartbeatIntervalMillis":250,"chainingAllowed":)" +
          (options.chaining ? "true" : "false") + R"(},"members":[)" + members + "]}}");
  if (!works(reply)) give_up(reply);
  // At once, and not after that time: as soon as the others have heard of the set.
  wait_for(
      [&] {
        const std::string hello = mongo_command(first, "admin", R"({"hello":1})");
        if (hello.find(R"("isWritablePrimary" : true)") != std::string::npos) return true;
        mongo_command(first, "admin", R"({"replSetStepUp":1})");
        return false;
      },
      std::chrono::minutes{1});
  // The primary may change meanwhile.
  if (options.users) {
    const auto has_user = [&] {
      const std::string made = mongo_command(direct(primary()), "admin",
                                             R"({"createUser":"root","pwd":"r","roles":["root"]})");
      return works(made) || made.find("requires authentication") != std::string::npos;
    };
    if (!wait_for(has_user, std::chrono::minutes{1})) give_up("the set gets no user");
    user_ = "root:r@";
  }
  // All members acknowledge it, so that the first one that is killed is not the majority.
  const std::string change = R"({"insert":"probe","documents":[{}],"writeConcern":{"w":)" +
                             std::to_string(options.members) + "}}";
  if (!wait_for([&] { return works(mongo_command(direct(primary()), "probe", change)); },
                std::chrono::minutes{3}))
    give_up("the set does not come together");
}

std::string MongoSet::hosts() const {
  std::string all;
  for (std::size_t i = 0; i < members_.size(); ++i) all += (all.empty() ? "" : ",") + host(i);
  return all;
}

// An election takes a second or two, where the members get a processor; where others have them for
// so long that heartbeats are late, the members elect again and again.
std::size_t MongoSet::primary() {
  std::size_t found = members_.size();
  std::vector<std::string> told(members_.size(), "not running");
  wait_for(
      [&] {
        for (std::size_t i = 0; i < members_.size() && found == members_.size(); ++i) {
          if (!members_[i]->running()) continue;
          told[i] = mongo_command(
              members_[i]->url(
                  "?directConnection=true&serverSelectionTimeoutMS=3000&socketTimeoutMS=3000"),
              "admin", R"({"hello":1})");
          if (told[i].find(R"("isWritablePrimary" : true)") != std::string::npos) found = i;
        }
        return found != members_.size();
      },
      std::chrono::minutes{3});
  if (found < members_.size()) return found;
  std::string all;
  for (const std::string& each : told) all += "\n" + each;
  give_up("the set has no primary; its members said last:" + all);
}

MongoSet& mongo_set() {
  static MongoSet set({.election_timeout = std::chrono::seconds{5}, .chaining = false});
  return set;
}

MongoServer& mongo_standalone() {
  static MongoServer server;
  return server;
}

}  // namespace idmint::servers
