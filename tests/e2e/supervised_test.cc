// idmintd as a service manager starts it: with sockets that are open already, told by variables of
// the environment, and heard over NOTIFY_SOCKET.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/fakes/service_manager.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::e2e {
namespace {

using fakes::NotifySocket;
using fakes::StreamClient;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kGet = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

// idmintd, with these sockets as descriptors 3 and so on. It closes them here.
class Service {
 public:
  Service(const std::vector<std::string>& options, const std::vector<int>& sockets,
          const std::string& names, const std::string& notify) {
    pid_ = ::fork();
    if (pid_ == 0) {
      std::vector<int> apart;
      for (const int socket : sockets) apart.push_back(::fcntl(socket, F_DUPFD_CLOEXEC, 100));
      int to = 3;
      for (const int socket : apart) ::dup2(socket, to++);  // which stays open in exec
      const std::string self = std::to_string(::getpid());
      ::setenv("LISTEN_PID", self.c_str(), 1);
      ::setenv("LISTEN_FDS", std::to_string(sockets.size()).c_str(), 1);
      ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
      ::setenv("NOTIFY_SOCKET", notify.c_str(), 1);
      ::setenv("WATCHDOG_PID", self.c_str(), 1);
      ::setenv("WATCHDOG_USEC", "20000", 1);
      std::vector<const char*> words{"idmintd"};
      for (const std::string& option : options) words.push_back(option.c_str());
      words.push_back(nullptr);
      ::execv(IDMINTD_BINARY, const_cast<char* const*>(words.data()));  // as execv() has it
      ::_exit(127);
    }
    for (const int socket : sockets) ::close(socket);
  }
  ~Service() {
    if (pid_ <= 0) return;  // kill() takes 0 for the whole group
    ::kill(pid_, SIGKILL);
    exit_status();
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }
  // Waits for its end. -1: a signal ended it, or this was asked before.
  int exit_status() {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, 0) != pid_) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
};

TEST(Supervised, AnswersOnSocketsThatCameWithItAndTellsHowItGoes) {
  const fakes::TempFolder folder;
  const NotifySocket heard(folder.path("notify"));
  const std::string path = folder.path("redis");
  const std::string settings = folder.path("idmintd.toml");
  std::ofstream(settings) << "store = \"sqlite:" << folder.path("ids.db") << "\"\n";
  const int redis = fakes::listening_unix(path);
  const int http = fakes::listening_tcp(INADDR_LOOPBACK);
  // These wait in the backlog until it runs.
  const StreamClient early_redis(redis);
  const StreamClient early_http(http);
  early_redis.send("PING\r\n");
  early_http.send(kGet);

  testing::internal::CaptureStderr();  // of the service, too
  Service service({"--config", settings}, {redis, http}, "redis:http", heard.name());
  EXPECT_EQ(early_redis.line(), "+PONG");
  EXPECT_EQ(early_http.line(), "HTTP/1.1 200 OK");
  // The default addresses are not served beside them.
  const std::string ready = heard.next_news();
  EXPECT_THAT(ready, StartsWith("READY=1\nSTATUS=serving on unix:" + path + ", 127.0.0.1:"));
  EXPECT_THAT(ready, testing::Not(HasSubstr("7379")));
  EXPECT_EQ(StreamClient(path).ask("PING\r\n"), "+PONG");
  EXPECT_EQ(heard.next(), "WATCHDOG=1");

  service.send(SIGHUP);
  EXPECT_THAT(heard.next_news(), StartsWith("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_EQ(heard.next_news(), ready);
  std::ofstream(settings) << "stor = 1\n";
  service.send(SIGHUP);
  EXPECT_THAT(heard.next_news(), StartsWith("RELOADING=1\n"));
  EXPECT_EQ(heard.next_news(), ready + "; the settings have a fault, and stay as they were");
  std::ofstream(settings) << "drain_seconds = 3\nalso = [\"memory:\"]\n[stores]\neu = "
                             "\"memory:\"\n[log]\nlevel = \"info\"\n";
  service.send(SIGHUP);
  EXPECT_THAT(heard.next_news(), StartsWith("RELOADING=1\n"));
  EXPECT_EQ(heard.next_news(), ready);

  service.send(SIGTERM);
  EXPECT_THAT(heard.next_news(), StartsWith("STOPPING=1\n"));
  EXPECT_EQ(service.exit_status(), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ContainsRegex("error settings_refused message=\".*idmintd.toml: line 1: there "
                                  "is no key .*; the settings stay as they were\"\n"));
  EXPECT_THAT(said,
              HasSubstr("warning restart_needed keys=\"store, [stores], also, drain_seconds\" "
                        "message=\"these settings have changed, and stay as they were until "
                        "idmintd is started again\"\n"));
  // The path belongs to the service manager.
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
}

TEST(Supervised, SocketsStandBesideAddressesThatAreGiven) {
  const fakes::TempFolder folder;
  const NotifySocket heard(folder.path("notify"));
  const std::string given = folder.path("given");
  const std::string came = folder.path("came");
  Service service({"--store", "memory:", "--redis", "unix:" + given}, {fakes::listening_unix(came)},
                  "redis", heard.name());
  EXPECT_EQ(heard.next_news(), "READY=1\nSTATUS=serving on unix:" + given + ", unix:" + came);
  EXPECT_EQ(StreamClient(given).ask("PING\r\n"), "+PONG");
  EXPECT_EQ(StreamClient(came).ask("PING\r\n"), "+PONG");
}

TEST(Supervised, ACheckFailsWithAStoreThatDoesNotAnswer) {
  const fakes::TempFolder folder;
  const NotifySocket heard(folder.path("notify"));
  const auto status_of = [&](const std::string& name) {
    const std::string path = folder.path(name);
    return Service({"--store", "sqlite:" + path, "--check"},
                   {fakes::listening_unix(path + ".socket")}, "redis", heard.name())
        .exit_status();
  };
  EXPECT_EQ(status_of("none.db"), 0) << "it may be made later";
  std::ofstream(folder.path("text.db")) << std::string(4096, 'x');
  EXPECT_EQ(status_of("text.db"), 10);
}

TEST(Supervised, ASocketOfAnotherNameEndsItAtOnce) {
  const fakes::TempFolder folder;
  const NotifySocket heard(folder.path("notify"));
  Service service({"--store", "memory:"}, {fakes::listening_unix(folder.path("socket"))}, "metrics",
                  heard.name());
  EXPECT_EQ(service.exit_status(), 2);
}

}  // namespace
}  // namespace idmint::e2e
