#include "tests/servers/zookeeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "tests/servers/loopback.h"
#include "tests/servers/program.h"

#define THREADED  // the functions of the library that wait
#include <zookeeper/zookeeper.h>

namespace idmint::servers {
namespace {

namespace fs = std::filesystem;

// How long a server may take for anything.
constexpr std::chrono::minutes kLongest{2};

std::string classpath() {
  const char* const given = std::getenv("ZOOKEEPER_CLASSPATH");
  std::string path = given != nullptr ? given : "/usr/share/java/zookeeper.jar";
  if (given == nullptr && !fs::exists(path))
    give_up("ZooKeeper is not installed: run scripts/setup test");
  return path;
}

}  // namespace

ZookeeperEnsemble::ZookeeperEnsemble(std::size_t members) : members_(members) {
  // Another program may take a port before a member does.
  for (int attempt = 0; attempt < 5; ++attempt) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[i];
      member.client_port = unused_port();
      member.peer_port = unused_port();
      member.election_port = unused_port();
      member.data = folder_.path("data" + std::to_string(attempt) + "-" + std::to_string(i));
      fs::create_directory(member.data);
      append(member.data + "/myid", {std::to_string(i + 1)});
    }
    if (start_all()) return;
  }
  give_up("ZooKeeper does not start:\n" + log());
}

ZookeeperEnsemble::~ZookeeperEnsemble() { kill_all(); }

std::string ZookeeperEnsemble::log() const { return contents(folder_.path("zookeeper.log")); }

void ZookeeperEnsemble::start(Member& member) {
  const std::string settings = member.data + ".cfg";
  fs::remove(settings);
  std::vector<std::string> lines = {"tickTime=200",
                                    "initLimit=50",
                                    "syncLimit=10",
                                    "maxSessionTimeout=40000",
                                    "dataDir=" + member.data,
                                    "clientPort=" + std::to_string(member.client_port),
                                    "clientPortAddress=127.0.0.1",
                                    "maxClientCnxns=0",
                                    "forceSync=yes",
                                    "admin.enableServer=false",
                                    "4lw.commands.whitelist=srvr"};
  for (std::size_t i = 0; members_.size() > 1 && i < members_.size(); ++i)
    lines.push_back("server." + std::to_string(i + 1) +
                    "=127.0.0.1:" + std::to_string(members_[i].peer_port) + ":" +
                    std::to_string(members_[i].election_port));
  append(settings, lines);
  member.pid = spawn({"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                      "-Dzookeeper.jmx.log4j.disable=true", "-cp", classpath(),
                      "org.apache.zookeeper.server.quorum.QuorumPeerMain", settings},
                     nullptr, folder_.path("zookeeper.log"));
}

// The zxid of the last transaction in the newest log, or of a later snapshot; see FileTxnLog.java.
// A log has a header of 16 bytes, then for each transaction a checksum of 8, a length of 4, so many
// bytes of which those from the 12th on are its zxid, and a 'B'. All numbers are big-endian; zeros
// follow, 64 MB with them.
static std::int64_t last_written(const std::string& folder) {
  std::int64_t last = 0;
  std::int64_t newest = -1;
  std::string path;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    const std::int64_t zxid = std::strtoll(name.substr(name.find('.') + 1).c_str(), nullptr, 16);
    if (name.starts_with("snapshot.")) last = std::max(last, zxid);
    if (name.starts_with("log.") && zxid > newest) {
      newest = zxid;
      path = entry.path();
    }
  }
  const auto size = path.empty() ? 0 : static_cast<std::size_t>(fs::file_size(path, none));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (fd >= 0) ::close(fd);
  if (mapped == MAP_FAILED) return last;
  const std::string_view log(static_cast<const char*>(mapped), size);
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::int64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8 | static_cast<unsigned char>(log[at + i]);
    return value;
  };
  for (std::size_t at = 16; at + 32 <= size;) {
    const auto end = at + 12 + static_cast<std::size_t>(number(at + 8, 4));
    if (end < at + 32 || end >= size || log[end] != 'B') break;
    last = std::max(last, number(at + 24, 8));
    at = end + 1;
  }
  ::munmap(mapped, size);
  return last;
}

std::string ZookeeperEnsemble::says(std::size_t index) const {
  const Member& member = members_[index];
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(member.client_port);
  const timeval longest{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  std::string response;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, "srvr", 4, MSG_NOSIGNAL) == 4) {
    std::array<char, 4096> block{};
    for (ssize_t got = 0; (got = ::recv(fd, block.data(), block.size(), 0)) > 0;)
      response.append(block.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  return response.contains("Mode: ") ? response : std::string();
}

bool ZookeeperEnsemble::answers(const Member& member) const {
  return !says(static_cast<std::size_t>(&member - members_.data())).empty();
}

bool ZookeeperEnsemble::leads(std::size_t member) const {
  const std::string said = says(member);
  return said.contains("Mode: leader") || said.contains("Mode: standalone");
}

bool ZookeeperEnsemble::start_all() {
  for (Member& member : members_) start(member);
  bool ended = false;
  const auto look = [&] {
    for (Member& member : members_)
      if (member.pid != 0 && ::waitpid(member.pid, nullptr, WNOHANG) == member.pid) {
        member.pid = 0;
        ended = true;
      }
    return ended ||
           std::ranges::all_of(members_, [&](const Member& each) { return answers(each); });
  };
  if (!wait_for(look, kLongest)) give_up("ZooKeeper does not answer:\n" + log());
  if (ended) kill_all();
  return !ended;
}

std::string ZookeeperEnsemble::host(std::size_t member) const {
  return "127.0.0.1:" + std::to_string(members_[member].client_port);
}

std::string ZookeeperEnsemble::url(const std::string& path, const std::string& user) const {
  std::string url = "zookeeper://" + user + (user.empty() ? "" : "@");
  for (std::size_t i = 0; i < members_.size(); ++i) url += (i == 0 ? "" : ",") + host(i);
  return url + "/" + path;
}

void ZookeeperEnsemble::signal(std::size_t member, int number) const {
  const pid_t pid = members_[member].pid;
  if (pid == 0) give_up("no such member");
  ::kill(pid, number);
  if (number == SIGSTOP && ::waitpid(pid, nullptr, WUNTRACED) != pid) give_up("it does not stop");
}

void ZookeeperEnsemble::kill(std::size_t member) {
  signal(member, SIGKILL);
  if (::waitpid(members_[member].pid, nullptr, 0) != members_[member].pid)
    give_up("cannot wait for ZooKeeper");
  members_[member].pid = 0;
}

void ZookeeperEnsemble::kill_all() {
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].pid != 0) kill(i);
}

void ZookeeperEnsemble::restart(std::size_t member) { start(members_[member]); }

void ZookeeperEnsemble::wait_until_ready() const {
  for (const Member& member : members_)
    if (member.pid != 0 && !wait_for([&] { return answers(member); }, kLongest))
      give_up("ZooKeeper does not answer:\n" + log());
}

void ZookeeperEnsemble::wait_until_written() const {
  wait_until_ready();
  std::int64_t shown = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::string said = says(i);
    const std::size_t at = said.find("Zxid: 0x");
    if (at != std::string::npos)
      shown = std::max<std::int64_t>(shown, std::strtoll(said.c_str() + at + 6, nullptr, 16));
  }
  for (const Member& member : members_)
    if (!wait_for([&] { return last_written(member.data + "/version-2") >= shown; }, kLongest))
      give_up("a member of ZooKeeper does not write what others have:\n" + log());
}

std::string ZookeeperEnsemble::save() {
  kill_all();
  std::string saved = folder_.path("saved" + std::to_string(saved_++));
  for (std::size_t i = 0; i < members_.size(); ++i)
    fs::copy(members_[i].data, saved + "-" + std::to_string(i), fs::copy_options::recursive);
  if (!start_all()) give_up("ZooKeeper does not start again:\n" + log());
  return saved;
}

void ZookeeperEnsemble::restore(const std::string& saved) {
  kill_all();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    fs::remove_all(members_[i].data);
    fs::copy(saved + "-" + std::to_string(i), members_[i].data, fs::copy_options::recursive);
  }
  if (!start_all()) give_up("ZooKeeper does not start again:\n" + log());
}

// ---- a plain client

struct ZookeeperClient::Handle {
  zhandle_t* handle = nullptr;
  const ACL_vector* acl = &ZOO_OPEN_ACL_UNSAFE;
};

namespace {

void expect_done(int code, const std::string& what) {
  if (code != ZOK) give_up("ZooKeeper: " + what + ": " + zerror(code));
}

}  // namespace

ZookeeperClient::ZookeeperClient(const std::string& host, const std::string& user)
    : handle_(std::make_unique<Handle>()) {
  handle_->handle = zookeeper_init2(
      host.c_str(), [](zhandle_t*, int, int, const char*, void*) {}, 30'000, nullptr, nullptr, 0,
      [](const char*) {});
  if (handle_->handle == nullptr ||
      !wait_for([&] { return zoo_state(handle_->handle) == ZOO_CONNECTED_STATE; }, kLongest))
    give_up("ZooKeeper does not answer a client");
  if (user.empty()) return;
  handle_->acl = &ZOO_CREATOR_ALL_ACL;
  expect_done(zoo_add_auth(handle_->handle, "digest", user.data(), static_cast<int>(user.size()),
                           nullptr, nullptr),
              "add_auth");
}

ZookeeperClient::~ZookeeperClient() { zookeeper_close(handle_->handle); }

std::string ZookeeperClient::get(const std::string& path) const {
  std::string value(1 << 20, '\0');
  int size = static_cast<int>(value.size());
  expect_done(zoo_get(handle_->handle, path.c_str(), 0, value.data(), &size, nullptr),
              "get " + path);
  value.resize(static_cast<std::size_t>(std::max(size, 0)));
  return value;
}

std::int32_t ZookeeperClient::version(const std::string& path) const {
  ::Stat stat{};
  expect_done(zoo_exists(handle_->handle, path.c_str(), 0, &stat), "stat " + path);
  return stat.version;
}

void ZookeeperClient::set(const std::string& path, const std::string& value) const {
  expect_done(
      zoo_set(handle_->handle, path.c_str(), value.data(), static_cast<int>(value.size()), -1),
      "set " + path);
}

void ZookeeperClient::create(const std::string& path, const std::string& value) const {
  expect_done(zoo_create(handle_->handle, path.c_str(), value.data(),
                         static_cast<int>(value.size()), handle_->acl, 0, nullptr, 0),
              "create " + path);
}

std::vector<std::string> ZookeeperClient::children(const std::string& path) const {
  String_vector names{};
  expect_done(zoo_get_children(handle_->handle, path.c_str(), 0, &names), "ls " + path);
  std::vector<std::string> all(names.data, names.data + names.count);
  deallocate_String_vector(&names);
  std::ranges::sort(all);
  return all;
}

void ZookeeperClient::remove(const std::string& path) const {
  for (const std::string& child : children(path)) remove(path + "/" + child);
  expect_done(zoo_delete(handle_->handle, path.c_str(), -1), "delete " + path);
}

void ZookeeperClient::copy(const std::string& from, const std::string& to) const {
  create(to, get(from));
  for (const std::string& child : children(from)) copy(from + "/" + child, to + "/" + child);
}

ZookeeperEnsemble& zookeeper_ensemble() {
  static ZookeeperEnsemble ensemble;
  return ensemble;
}

}  // namespace idmint::servers
