// The protocol of a service manager, in this process. tests/e2e/supervised_test.cc has the daemon
// itself.
#include "server/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/service_manager.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using fakes::NotifySocket;
using fakes::StreamClient;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;
using testing::StartsWith;

constexpr const char* kVariables[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                      "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES"};
constexpr const char* kGet = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

using Variables = std::vector<std::pair<const char*, std::string>>;

Result<Supervisor> supervisor_of(const Variables& variables) {
  for (const char* const name : kVariables) ::unsetenv(name);
  for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
  Result<Supervisor> supervisor = Supervisor::from_environment();
  for (const char* const name : kVariables) EXPECT_EQ(std::getenv(name), nullptr) << name;
  return supervisor;
}

std::string own_pid() { return std::to_string(::getpid()); }

// Takes the lowest free descriptors, so that in_child() has its own above those that pass_on()
// uses.
class LowDescriptors {
 public:
  LowDescriptors() {
    for (int taken = 0; taken < 8;) {
      taken = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
      if (taken < 0) std::abort();
      taken_.push_back(taken);
    }
  }
  ~LowDescriptors() {
    for (const int descriptor : taken_) ::close(descriptor);
  }
  LowDescriptors(const LowDescriptors&) = delete;
  LowDescriptors& operator=(const LowDescriptors&) = delete;

 private:
  std::vector<int> taken_;
};

// Moves the descriptors to 3 and those after it.
void pass_on(const std::vector<int>& descriptors) {
  std::vector<int> apart;
  for (const int descriptor : descriptors) apart.push_back(::fcntl(descriptor, F_DUPFD, 100));
  int to = 3;
  for (const int descriptor : apart) ::dup2(descriptor, to++);
}

// A server in a thread of its own.
class Served {
 public:
  explicit Served(std::vector<Listen> listen, const Supervisor* supervisor = nullptr) {
    Result<std::unique_ptr<Server>> opened = Server::open({.listen = std::move(listen)});
    EXPECT_TRUE(opened) << opened.error().message();
    server_ = *std::move(opened);
    if (supervisor != nullptr) supervisor->attend(*server_);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Served() {
    server_->stop();
    thread_.join();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  Server* operator->() { return server_.get(); }

 private:
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

TEST(Supervisor, WithoutOneNothingHappens) {
  const Result<Supervisor> nobody = supervisor_of({});
  ASSERT_TRUE(nobody) << nobody.error().message();
  EXPECT_THAT(nobody->sockets(), IsEmpty());
  EXPECT_EQ(nobody->alive_every(), std::nullopt);
  testing::internal::CaptureStderr();
  nobody->notify_ready("serving");
  nobody->notify_reloading();
  nobody->notify_stopping(std::chrono::seconds{1});
  nobody->notify_alive();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Supervisor, HearsThatTheServerAnswersAndThatItsLoopTurns) {
  const fakes::TempFolder folder;
  const NotifySocket heard(folder.path("notify"));
  const Result<Supervisor> supervisor = supervisor_of(
      {{"NOTIFY_SOCKET", heard.name()}, {"WATCHDOG_USEC", "20000"}, {"WATCHDOG_PID", own_pid()}});
  ASSERT_TRUE(supervisor) << supervisor.error().message();
  EXPECT_EQ(supervisor->alive_every(), std::chrono::milliseconds{10});
  const std::string path = folder.path("redis");
  const Served server({{Protocol::kRedis, "unix:" + path}}, &*supervisor);
  EXPECT_EQ(heard.next_news(), "READY=1\nSTATUS=serving on unix:" + path);
  EXPECT_EQ(StreamClient(path).ask("PING\r\n"), "+PONG");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(heard.next(), "WATCHDOG=1");
}

TEST(Supervisor, WhatIsDoneAgainAndAgainIsDoneByTheLoop) {
  Result<std::unique_ptr<Server>> server = Server::open({});
  ASSERT_TRUE(server) << server.error().message();
  int turns = 0;
  std::thread::id at;
  (*server)->every(std::chrono::milliseconds{1}, [&] {
    at = std::this_thread::get_id();
    if (++turns == 3) (*server)->stop();
  });
  (*server)->run();
  EXPECT_GE(turns, 3);
  EXPECT_EQ(at, std::this_thread::get_id());
}

TEST(Supervisor, HearsOfAReloadAndOfTheEnd) {
  const fakes::TempFolder folder;
  const NotifySocket heard(folder.path("notify"));
  const Result<Supervisor> supervisor = supervisor_of({{"NOTIFY_SOCKET", heard.name()}});
  ASSERT_TRUE(supervisor) << supervisor.error().message();
  const auto monotonic = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const std::int64_t before = monotonic();
  supervisor->notify_reloading();
  const std::string reloading = heard.next();
  EXPECT_THAT(reloading, MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=[^\n]+"));
  const std::int64_t told = std::stoll(reloading.substr(reloading.find("USEC=") + 5));
  EXPECT_GE(told, before);
  EXPECT_LE(told, monotonic());
  supervisor->notify_ready("one\ntwo");  // no line of its own
  EXPECT_EQ(heard.next(), "READY=1\nSTATUS=one\\u000atwo");
  supervisor->notify_stopping(std::chrono::seconds{20});
  EXPECT_THAT(heard.next(), StartsWith("STOPPING=1\nEXTEND_TIMEOUT_USEC=20000000\nSTATUS="));
}

TEST(Supervisor, MayListenAtAnAbstractName) {
  const NotifySocket heard("@idmint-supervisor-test-" + own_pid());
  const Result<Supervisor> supervisor = supervisor_of({{"NOTIFY_SOCKET", heard.name()}});
  ASSERT_TRUE(supervisor) << supervisor.error().message();
  supervisor->notify_alive();
  EXPECT_EQ(heard.next(), "WATCHDOG=1");
}

TEST(Supervisor, ThatDoesNotReadHoldsNobody) {
  const fakes::TempFolder folder;
  const NotifySocket heard(folder.path("notify"));
  const Result<Supervisor> supervisor = supervisor_of({{"NOTIFY_SOCKET", heard.name()}});
  ASSERT_TRUE(supervisor) << supervisor.error().message();
  // Far more than the queue of a datagram socket holds.
  for (int i = 0; i < 100'000; ++i) supervisor->notify_alive();
  EXPECT_EQ(heard.next(), "WATCHDOG=1");
}

TEST(Supervisor, ThatIsGoneIsReported) {
  const fakes::TempFolder folder;
  const Result<Supervisor> supervisor = supervisor_of({{"NOTIFY_SOCKET", folder.path("nobody")}});
  ASSERT_TRUE(supervisor) << supervisor.error().message();
  testing::internal::CaptureStderr();
  supervisor->notify_alive();
  supervisor->notify_ready("serving");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("\"READY=1\": No such file or directory"));
  EXPECT_THAT(said, testing::Not(HasSubstr("WATCHDOG")));
}

TEST(Supervisor, OfAnotherProcessGivesNothing) {
  const std::string other = std::to_string(::getppid());
  const Result<Supervisor> supervisor = supervisor_of({{"NOTIFY_SOCKET", "@nobody"},
                                                       {"WATCHDOG_USEC", "20000"},
                                                       {"WATCHDOG_PID", other},
                                                       {"LISTEN_PID", other},
                                                       {"LISTEN_FDS", "1"},
                                                       {"LISTEN_FDNAMES", "redis"}});
  ASSERT_TRUE(supervisor) << supervisor.error().message();
  EXPECT_EQ(supervisor->alive_every(), std::nullopt);
  EXPECT_THAT(supervisor->sockets(), IsEmpty());
}

TEST(Supervisor, AWatchdogNeedsAnEar) {
  const Result<Supervisor> supervisor = supervisor_of({{"WATCHDOG_USEC", "20000"}});
  ASSERT_TRUE(supervisor) << supervisor.error().message();
  EXPECT_EQ(supervisor->alive_every(), std::nullopt);
}

TEST(Supervisor, VariablesThatNobodyCanUnderstandAreRefused) {
  const std::vector<Variables> wrong = {
      {{"NOTIFY_SOCKET", "relative"}},
      {{"NOTIFY_SOCKET", "@"}},
      {{"NOTIFY_SOCKET", "/" + std::string(107, 'a')}},
      {{"NOTIFY_SOCKET", "@name"}, {"WATCHDOG_USEC", "soon"}},
      {{"NOTIFY_SOCKET", "@name"}, {"WATCHDOG_USEC", "0"}},
      {{"NOTIFY_SOCKET", "@name"}, {"WATCHDOG_USEC", "20000"}, {"WATCHDOG_PID", "me"}},
      {{"LISTEN_PID", "me"}},
      {{"LISTEN_FDS", "-1"}},
      {{"LISTEN_FDS", "2"}, {"LISTEN_FDNAMES", "redis"}},
      {{"LISTEN_FDS", "1"}, {"LISTEN_FDNAMES", "idmintd.socket"}},
      {{"LISTEN_FDS", "1"}},
  };
  for (const Variables& variables : wrong) {
    EXPECT_EQ(fakes::code_of(supervisor_of(variables)), Code::kInvalidArgument)
        << variables.back().first << "=" << variables.back().second;
  }
  const Result<Supervisor> named = supervisor_of({{"LISTEN_FDS", "1"}, {"LISTEN_FDNAMES", "web"}});
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message(), HasSubstr("redis, http, redis-tls or http-tls"));
}

TEST(Supervisor, SocketsThatCannotBeServedAreRefused) {
  const Variables one = {{"LISTEN_FDS", "1"}, {"LISTEN_FDNAMES", "redis"}};
  const LowDescriptors low;
  fakes::in_child([&] {
    ::close(3);
    EXPECT_THAT(supervisor_of(one).error().message(), HasSubstr("is not there"));
    pass_on({::socket(AF_UNIX, SOCK_DGRAM, 0)});
    EXPECT_THAT(supervisor_of(one).error().message(), HasSubstr("ListenStream="));
    pass_on({::socket(AF_UNIX, SOCK_STREAM, 0)});
    EXPECT_THAT(supervisor_of(one).error().message(), HasSubstr("Accept=no"));
  });
}

TEST(Supervisor, GivesSocketsWithTheProtocolOfTheirNames) {
  const fakes::TempFolder folder;
  const LowDescriptors low;
  fakes::in_child([&] {
    pass_on({fakes::listening_tcp(INADDR_LOOPBACK), fakes::listening_unix(folder.path("socket")),
             fakes::listening_tcp(INADDR_LOOPBACK), fakes::listening_tcp(INADDR_LOOPBACK)});
    const Result<Supervisor> supervisor =
        supervisor_of({{"LISTEN_PID", own_pid()},
                       {"LISTEN_FDS", "4"},
                       {"LISTEN_FDNAMES", "http:redis:redis-tls:http-tls"}});
    ASSERT_TRUE(supervisor) << supervisor.error().message();
    const std::vector<Listen>& sockets = supervisor->sockets();
    ASSERT_THAT(sockets, SizeIs(4));
    const std::array protocols = {Protocol::kHttp, Protocol::kRedis, Protocol::kRedis,
                                  Protocol::kHttp};
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      EXPECT_EQ(sockets[i].protocol, protocols.at(i));
      EXPECT_EQ(sockets[i].tls, i >= 2);
      EXPECT_EQ(sockets[i].descriptor, 3 + static_cast<int>(i));
    }
    // A program that the daemon starts does not get them.
    for (const int descriptor : {3, 4, 5, 6})
      EXPECT_EQ(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  });
}

// ---- sockets that are open already

TEST(OpenSockets, RequestsThatCameBeforeTheServerAreAnswered) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("redis");
  const int redis = fakes::listening_unix(path);
  const int http = fakes::listening_tcp(INADDR_LOOPBACK);
  const StreamClient early_redis(redis);
  const StreamClient early_http(http);
  early_redis.send("PING\r\n");
  early_http.send(kGet);
  {
    Served server({{.protocol = Protocol::kRedis, .at = {}, .descriptor = redis},
                   {.protocol = Protocol::kHttp, .at = {}, .descriptor = http}});
    EXPECT_EQ(early_redis.line(), "+PONG");
    EXPECT_EQ(early_http.line(), "HTTP/1.1 200 OK");
    EXPECT_EQ(server->addresses().front(), "unix:" + path);
    EXPECT_THAT(server->addresses().back(), MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
  }
  // The path is that of whoever made the socket.
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
}

TEST(OpenSockets, AnAbstractNameIsShown) {
  const std::string name = "@idmint-socket-test-" + own_pid();
  Served server(
      {{.protocol = Protocol::kRedis, .at = {}, .descriptor = fakes::listening_unix(name)}});
  EXPECT_EQ(server->addresses().front(), "unix:" + name);
  EXPECT_EQ(StreamClient(name).ask("PING\r\n"), "+PONG");
}

TEST(OpenSockets, OnesThatOthersReachNeedTokens) {
  ServerOptions options;
  options.listen = {
      {.protocol = Protocol::kRedis, .at = {}, .descriptor = fakes::listening_tcp(INADDR_ANY)}};
  options.tokens = {{.name = "web", .hash = hash_of(new_token())}};
  const auto server = Server::open(std::move(options));
  ASSERT_TRUE(server) << server.error().message();
  EXPECT_THAT((*server)->addresses().front(), MatchesRegex("0\\.0\\.0\\.0:[0-9]+"));
  // A reload cannot open it to everybody either.
  EXPECT_EQ(fakes::code_of((*server)->change({})), Code::kInvalidArgument);
}

TEST(OpenSockets, OnesThatOthersReachAreRefusedAndAllAreClosed) {
  const int open = fakes::listening_tcp(INADDR_ANY);
  const int later = fakes::listening_tcp(INADDR_LOOPBACK);
  const auto server =
      Server::open({.listen = {{.protocol = Protocol::kRedis, .at = {}, .descriptor = open},
                               {.protocol = Protocol::kHttp, .at = {}, .descriptor = later}}});
  EXPECT_EQ(fakes::code_of(server), Code::kInvalidArgument);
  EXPECT_EQ(::fcntl(open, F_GETFD), -1);
  EXPECT_EQ(::fcntl(later, F_GETFD), -1);
}

TEST(OpenSockets, WhatIsNoneIsRefused) {
  EXPECT_EQ(fakes::code_of(Server::open(
                {.listen = {{.protocol = Protocol::kRedis, .at = {}, .descriptor = 100'000}}})),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace idmint::server
