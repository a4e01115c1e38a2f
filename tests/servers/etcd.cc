#include "tests/servers/etcd.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "tests/servers/loopback.h"
#include "tests/servers/program.h"

namespace idmint::servers {
namespace {

// How long a server may take for anything.
constexpr std::chrono::minutes kLongest{2};

// The response to a request, with its headers; empty: there is none.
std::string post(int port, const std::string& path, const std::string& body) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const timeval longest{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  std::string response;
  const std::string request = "POST " + path +
                              " HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\nGrpc-Metadata-hasleader: true\r\n\r\n" + body;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    std::array<char, 4096> block{};
    for (ssize_t got = 0; (got = ::recv(fd, block.data(), block.size(), 0)) > 0;)
      response.append(block.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  return response;
}

}  // namespace

EtcdCluster::EtcdCluster(std::size_t members, std::vector<std::string> words)
    : words_(std::move(words)), members_(members) {
  // Another program may take a port before a member does.
  for (int attempt = 0; attempt < 5; ++attempt) {
    for (Member& member : members_) {
      member.client_port = unused_port();
      member.tls_port = unused_port();
      member.peer_port = unused_port();
      member.data = folder_.path("data" + std::to_string(folders_++));
    }
    if (start_all()) return;
  }
  give_up("etcd does not start:\n" + contents(folder_.path("etcd.log")));
}

EtcdCluster::~EtcdCluster() {
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].pid != 0) kill(i);
}

std::string EtcdCluster::name(const Member& member) const {
  return "m" + std::to_string(member.peer_port);
}

std::string EtcdCluster::initial_cluster() const {
  std::string all;
  for (const Member& member : members_)
    all += (all.empty() ? "" : ",") + name(member) +
           "=http://127.0.0.1:" + std::to_string(member.peer_port);
  return all;
}

void EtcdCluster::start(Member& member, const std::vector<std::string>& further) {
  const std::string client = "http://127.0.0.1:" + std::to_string(member.client_port);
  const bool tls = std::ranges::find(words_, "--cert-file") != words_.end();
  const std::string listened =
      tls ? client + ",https://127.0.0.1:" + std::to_string(member.tls_port) : client;
  const std::string peer = "http://127.0.0.1:" + std::to_string(member.peer_port);
  std::vector<std::string> words = {"etcd",
                                    "--name",
                                    name(member),
                                    "--data-dir",
                                    member.data,
                                    "--listen-client-urls",
                                    listened,
                                    "--advertise-client-urls",
                                    client,
                                    "--listen-peer-urls",
                                    peer,
                                    "--initial-advertise-peer-urls",
                                    peer,
                                    "--initial-cluster",
                                    initial_cluster(),
                                    "--initial-cluster-state",
                                    member.joins ? "existing" : "new",
                                    "--heartbeat-interval",
                                    "50",
                                    "--election-timeout",
                                    "500",
                                    "--log-level",
                                    "error"};
  words.insert(words.end(), words_.begin(), words_.end());
  words.insert(words.end(), further.begin(), further.end());
  member.pid = spawn(std::move(words), nullptr, folder_.path("etcd.log"));
}

bool EtcdCluster::answers(const Member& member) const {
  return post(member.client_port, "/v3/kv/range", R"({"key":"YQ=="})").contains("cluster_id");
}

bool EtcdCluster::start_all() {
  for (Member& member : members_) start(member);
  bool ended = false;
  const auto look = [&] {
    for (Member& member : members_)
      if (member.pid != 0 && ::waitpid(member.pid, nullptr, WNOHANG) == member.pid) {
        member.pid = 0;
        ended = true;
      }
    return ended || std::ranges::all_of(members_, [&](auto& each) { return answers(each); });
  };
  if (!wait_for(look, kLongest))
    give_up("etcd does not answer:\n" + contents(folder_.path("etcd.log")));
  for (std::size_t i = 0; ended && i < members_.size(); ++i)
    if (members_[i].pid != 0) kill(i);
  return !ended;
}

std::string EtcdCluster::host(std::size_t member) const {
  return "127.0.0.1:" + std::to_string(port(member));
}

std::string EtcdCluster::url(const std::string& prefix, const std::string& user) const {
  std::string url = "etcd://" + user + (user.empty() ? "" : "@");
  for (std::size_t i = 0; i < members_.size(); ++i) url += (i == 0 ? "" : ",") + host(i);
  return url + "/" + prefix;
}

std::string EtcdCluster::tls_url(const std::string& prefix, const std::string& options) const {
  return "etcd://localhost:" + std::to_string(members_.front().tls_port) + "/" + prefix +
         "?tls=on" + options;
}

namespace {

// Whether it succeeds, and what it prints.
std::pair<bool, std::string> run_shell(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) give_up("cannot run " + command);
  std::string output;
  std::array<char, 4096> block{};
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    output.append(block.data(), got);
  return {::pclose(pipe) == 0, output};
}

}  // namespace

bool EtcdCluster::can(const std::string& words) const {
  return run_shell("ETCDCTL_API=3 etcdctl --endpoints " + host(0) + " " + words +
                   " >/dev/null 2>&1")
      .first;
}

std::string EtcdCluster::ctl(const std::string& words) const {
  auto [done, output] =
      run_shell("ETCDCTL_API=3 etcdctl --endpoints " + host(0) + " " + words + " 2>&1");
  if (!done) give_up("etcdctl " + words + ": " + output);
  return output;
}

std::string EtcdCluster::count(const std::string& prefix) const {
  const std::string said = ctl("get --prefix --limit 1 --write-out fields " + prefix);
  constexpr std::string_view kCount = "\"Count\" : ";
  const std::size_t at = said.find(kCount);
  if (at == std::string::npos) give_up("etcdctl does not count: " + said);
  const std::size_t begin = at + kCount.size();
  return said.substr(begin, said.find('\n', begin) - begin);
}

std::string EtcdCluster::metrics(std::size_t member) const {
  return post(port(member), "/metrics", "");
}

void EtcdCluster::signal(std::size_t member, int number) const {
  const pid_t pid = members_[member].pid;
  if (pid == 0) give_up("no such member");
  ::kill(pid, number);
  if (number == SIGSTOP && ::waitpid(pid, nullptr, WUNTRACED) != pid) give_up("it does not stop");
}

void EtcdCluster::kill(std::size_t member) {
  signal(member, SIGKILL);
  if (::waitpid(members_[member].pid, nullptr, 0) != members_[member].pid)
    give_up("cannot wait for etcd");
  members_[member].pid = 0;
}

void EtcdCluster::restart(std::size_t member, const std::vector<std::string>& words) {
  start(members_[member], words);
}

void EtcdCluster::wait_until_ready() const {
  for (const Member& member : members_)
    if (member.pid != 0 && !wait_for([&] { return answers(member); }, kLongest))
      give_up("etcd does not answer:\n" + contents(folder_.path("etcd.log")));
}

std::string EtcdCluster::save() const {
  std::string path;
  for (int number = 0; path.empty() || std::filesystem::exists(path); ++number)
    path = folder_.path("snapshot" + std::to_string(number));
  ctl("snapshot save " + path);
  return path;
}

void EtcdCluster::restore(const std::string& snapshot, const std::string& token) {
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].pid != 0) kill(i);
  for (Member& member : members_) {
    member.data = folder_.path("data" + std::to_string(folders_++));
    ctl("snapshot restore " + snapshot + " --data-dir " + member.data + " --name " + name(member) +
        " --initial-cluster " + initial_cluster() + " --initial-cluster-token " + token +
        " --initial-advertise-peer-urls http://127.0.0.1:" + std::to_string(member.peer_port));
  }
  if (!start_all()) give_up("etcd does not start again:\n" + contents(folder_.path("etcd.log")));
}

std::size_t EtcdCluster::add_learner() {
  Member learner{.client_port = unused_port(),
                 .peer_port = unused_port(),
                 .data = folder_.path("data" + std::to_string(folders_++)),
                 .joins = true};
  ctl("member add " + name(learner) +
      " --learner --peer-urls http://127.0.0.1:" + std::to_string(learner.peer_port));
  members_.push_back(learner);
  start(members_.back());
  // It answers nothing else.
  const auto is_up = [&] {
    return post(learner.client_port, "/v3/maintenance/status", "{}").contains("isLearner");
  };
  if (!wait_for(is_up, kLongest)) give_up("the learner does not start");
  return members_.size() - 1;
}

EtcdCluster& etcd_cluster() {
  static EtcdCluster cluster;
  return cluster;
}

}  // namespace idmint::servers
