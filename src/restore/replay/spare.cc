#include "restore/replay/spare.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/shell.h"
#include "restore/output_file.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = "idmint-restore.json";
constexpr const char* kLog = "mongod.log";
constexpr auto kLeftStarts = std::chrono::minutes{2};
constexpr int kRestOfSpare = 200;  // milliseconds

std::unexpected<Error> cannot(const std::string& what, const std::string& path, int error) {
  const Code code = error == ENOSPC || error == EDQUOT    ? Code::kResourceExhausted
                    : error == EACCES || error == EPERM   ? Code::kPermissionDenied
                    : error == ENOENT || error == ENOTDIR ? Code::kNotFound
                                                          : Code::kUnavailable;
  return std::unexpected(
      Error{code, "cannot " + what + " " + path + ": " + std::generic_category().message(error)});
}

// A symbolic link with a slash after it is taken for what it leads to.
std::string without_slashes(const std::string& folder) {
  const std::size_t last = folder.find_last_not_of('/');
  return last == std::string::npos ? folder : folder.substr(0, last + 1);
}

// On disk before it returns, whole or not at all.
Result<void> write_marker(const std::string& folder, const SpareFolder& state) {
  nlohmann::json json = {{"made_by", "idmint-restore"}, {"port", state.port}};
  if (state.recovered) json["recovered"] = print_timestamp(*state.recovered);
  const std::string text = json.dump() + "\n";
  const std::string path = folder + "/" + kMarker;
  const std::string part = path + ".part";
  if (::unlink(part.c_str()) != 0 && errno != ENOENT) return cannot("write", part, errno);
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return cannot("write", part, errno);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (!written) return cannot("write", part, error);
  if (::rename(part.c_str(), path.c_str()) != 0) return cannot("write", path, errno);
  return sync_folder(folder);
}

bool is_link(const std::string& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored);
}

// Makes the folder of a spare, or takes the one that is there, so that only this user can read it
// or put anything into it. kFailedPrecondition: it is a symbolic link, or another user's.
Result<void> make_own_folder(const std::string& folder) {
  std::error_code failed;
  if (const fs::path parent = fs::path(folder).parent_path(); !parent.empty()) {
    fs::create_directories(parent, failed);
    if (failed) return cannot("make", parent, failed.value());
  }
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return cannot("make", folder, errno);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return cannot("use", folder, errno);
  struct stat facts{};
  const bool known = ::fstat(fd, &facts) == 0;
  const bool ours = known && facts.st_uid == ::geteuid();
  const bool closed = ours && ::fchmod(fd, S_IRWXU) == 0;
  const int error = errno;
  ::close(fd);
  if (known && !ours)
    return std::unexpected(
        Error{Code::kFailedPrecondition, shell_word(folder) +
                                             " belongs to another user, who could change what is "
                                             "restored: give --spare a folder that is not there "
                                             "yet"});
  if (!closed) return cannot("close to others", folder, error);
  return {};
}

// 0: none.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool found = fd >= 0 && ::bind(fd, any, size) == 0 && ::getsockname(fd, any, &size) == 0;
  if (fd >= 0) ::close(fd);
  return found ? ntohs(address.sin_port) : 0;
}

// Whether anybody listens there; on loopback that is known at once.
bool is_open(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool open =
      fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) ::close(fd);
  return open;
}

// By a mongod, which locks that file while it runs.
bool is_locked(const std::string& folder) {
  const int fd = ::open((folder + "/mongod.lock").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

std::unexpected<Error> in_use(const std::string& folder) {
  return std::unexpected(Error{Code::kFailedPrecondition,
                               "a mongod runs on " + shell_word(folder) +
                                   ": end it, or give another folder; of a member's, a copy"});
}

// Runs a program without any of our files and in a session of its own, and waits for it. Its exit
// status, or nothing where it was not started. `output`: where its standard output goes.
std::optional<int> run_program(const std::vector<std::string>& words, int output = -1) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&actions, output < 0 ? 0 : output, 1);
  posix_spawn_file_actions_adddup2(&actions, 0, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::nullopt;
  int status = 0;
  pid_t waited = 0;
  do {
    waited = ::waitpid(child, &status, 0);
  } while (waited < 0 && errno == EINTR);
  if (waited != child) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Why it ended, as its log has it from `from` on: its last error.
std::string logged_reason(const std::string& folder, std::streamoff from) {
  std::ifstream log(folder + "/" + kLog);
  log.seekg(from);
  std::string reason;
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object() || (entry.value("s", "") != "E" && entry.value("s", "") != "F"))
      continue;
    const std::string message = entry.value("msg", "");
    if (!reason.empty() && message.find("xit") != std::string::npos) continue;
    reason = message;
    if (!entry.contains("attr") || !entry["attr"].is_object()) continue;
    for (const char* const key : {"error", "message", "reason"}) {
      const auto found = entry["attr"].find(key);
      if (found == entry["attr"].end()) continue;
      reason += ": " + (found->is_string() ? found->get<std::string>() : found->dump());
      break;
    }
  }
  return reason.empty() ? "see " + folder + "/" + kLog : reason;
}

// On a folder that is there.
Result<Spare> start_on(const std::string& folder, const std::string& program,
                       const std::vector<std::string>& arguments, SpareFolder state,
                       const TakeProgress& progress) {
  std::error_code failed;
  const fs::path absolute = fs::canonical(folder, failed);
  if (failed) return cannot("use", folder, failed.value());
  Spare spare{.folder = absolute, .program = program, .port = state.port};
  if (state.port != 0 && arguments.empty() && is_running(spare.folder, spare.port)) {
    spare.ran_before = true;
    return spare;
  }

  Spare left{.folder = spare.folder, .program = program, .port = state.port};
  const auto until = std::chrono::steady_clock::now() + kLeftStarts;
  std::string reason;
  for (int attempt = 0; attempt < 5;) {  // others may take the port before it does
    if (attempt != 0 || spare.port == 0) spare.port = free_port();
    if (spare.port == 0) return cannot("get", "a free port of 127.0.0.1", errno);
    state.port = spare.port;
    if (Result<void> marked = write_marker(spare.folder, state); !marked)
      return std::unexpected(std::move(marked.error()));
    const std::string log = spare.folder + "/" + kLog;
    if (is_link(log))
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   shell_word(log) +
                                       " is a symbolic link, which mongod would write through: "
                                       "remove it"});
    const std::uintmax_t before = fs::file_size(log, failed);
    std::vector<std::string> words = {program,
                                      "--fork",
                                      "--dbpath",
                                      spare.folder,
                                      "--logpath",
                                      log,
                                      "--logappend",
                                      "--port",
                                      std::to_string(spare.port),
                                      "--bind_ip",
                                      "127.0.0.1",
                                      "--nounixsocket",
                                      "--setParameter",
                                      "ttlMonitorEnabled=false",
                                      "--setParameter",
                                      "diagnosticDataCollectionEnabled=false"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const std::optional<int> status = run_program(words);
    if (status == 0) return spare;
    if (!status) return cannot("run", program, ENOEXEC);
    reason = logged_reason(spare.folder, failed ? 0 : static_cast<std::streamoff>(before));
    if (reason.find("DBPathInUse") != std::string::npos && left.port != 0 &&
        std::chrono::steady_clock::now() < until) {
      if (Result<void> told = progress ? progress(0) : Result<void>{}; !told)
        return std::unexpected(std::move(told.error()));
      // By a server that a run began to start before it was killed, and that answers at last.
      ::poll(nullptr, 0, kRestOfSpare);
      if (!is_running(left.folder, left.port)) continue;
      if (arguments.empty()) {
        state.port = left.port;
        if (Result<void> marked = write_marker(left.folder, state); !marked)
          return std::unexpected(std::move(marked.error()));
        return left;
      }
      if (Result<void> ended = stop_spare(left); !ended)
        return std::unexpected(std::move(ended.error()));
      continue;
    }
    if (reason.find("ddress already in use") == std::string::npos) break;
    ++attempt;
  }
  return std::unexpected(
      Error{Code::kFailedPrecondition, "mongod does not start on " + spare.folder + ": " + reason});
}

Result<Timestamp> last_entry(const Spare& spare) {
  Result<Server> server = Server::connect(spare.uri());
  if (!server) return std::unexpected(server.error());
  const Bson find =
      Bson("find", "oplog.rs", "sort", Bson("$natural", -1), "limit", 1, "singleBatch", true);
  const Result<Bson> found = server->command("local", find.get());
  if (!found) return std::unexpected(found.error());
  bson_iter_t at;
  bson_iter_t ts;
  Timestamp last;
  if (found->view().find("cursor", &at) && bson_iter_recurse(&at, &at) &&
      bson_iter_find_descendant(&at, "firstBatch.0.ts", &ts) && BSON_ITER_HOLDS_TIMESTAMP(&ts))
    bson_iter_timestamp(&ts, &last.seconds, &last.ordinal);
  if (last == Timestamp{})
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 spare.folder + " has no oplog: it is no copy of the data folder "
                                                "of a member of a replica set"});
  return last;
}

}  // namespace

Result<SpareFolder> look_at(const std::string& given) {
  const std::string folder = without_slashes(given);
  std::error_code failed;
  if (is_link(folder))
    return std::unexpected(
        Error{Code::kFailedPrecondition,
              shell_word(folder) + " is a symbolic link: give the folder that it leads to"});
  if (!fs::exists(folder, failed)) return SpareFolder{.fresh = true};
  if (!fs::is_directory(folder, failed))
    return std::unexpected(Error{Code::kAlreadyExists, shell_word(folder) + " is no folder"});
  std::ifstream marker(fs::path(folder) / kMarker);
  if (!marker) {
    // But for what a run that was killed had begun to write.
    const std::string part = std::string(kMarker) + ".part";
    const fs::directory_iterator files(folder, failed);
    if (failed) return cannot("read", folder, failed.value());
    if (is_locked(folder)) return in_use(folder);
    return SpareFolder{.fresh = std::ranges::all_of(files, [&](const auto& file) {
                         return file.path().filename() == part;
                       })};
  }
  const auto json = nlohmann::json::parse(marker, nullptr, false);
  if (!json.is_object() || json.value("made_by", nlohmann::json()) != "idmint-restore")
    return std::unexpected(
        Error{Code::kDataLoss, folder + "/" + kMarker + " is damaged: begin with another folder"});
  SpareFolder state{.ours = true};
  if (json.contains("port") && json["port"].is_number_unsigned()) state.port = json["port"];
  if (json.contains("recovered") && json["recovered"].is_string()) {
    const Result<Timestamp> recovered = parse_timestamp(json["recovered"].get<std::string>());
    if (!recovered) return std::unexpected(Error{Code::kDataLoss, recovered.error().message});
    state.recovered = *recovered;
  }
  return state;
}

Result<std::string> find_mongod(const std::string& program) {
  const auto runs = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  if (!program.empty()) {
    if (runs(program)) return program;
    return std::unexpected(
        Error{Code::kNotFound, "--mongod " + shell_word(program) + " is no program"});
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path found = fs::path(folder.empty() ? "." : folder) / "mongod";
    if (runs(found)) return found;
  }
  return std::unexpected(Error{Code::kNotFound,
                               "there is no mongod on the PATH: give --mongod PATH, of the version "
                               "that the backup is of, or --target URI of a server that runs"});
}

bool is_running(const std::string& folder, int port) {
  if (!is_open(port)) return false;
  Result<Server> server =
      Server::connect(Spare{.folder = folder, .program = {}, .port = port}.uri() +
                      "&serverSelectionTimeoutMS=2000");
  if (!server) return false;
  const Bson command = Bson("getCmdLineOpts", 1);
  const Result<Bson> options = server->command("admin", command.get());
  bson_iter_t at;
  bson_iter_t path;
  if (!options || !options->view().find("parsed", &at) || !bson_iter_recurse(&at, &at) ||
      !bson_iter_find_descendant(&at, "storage.dbPath", &path))
    return false;
  std::error_code ignored;
  return fs::equivalent(std::string(as_text(path)), folder, ignored);
}

Result<std::string> version_of(const std::string& program) {
  const std::unexpected<Error> none(
      Error{Code::kFailedPrecondition,
            shell_word(program) + " --version does not answer as a mongod does: give another"});
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return cannot("run", program, errno);
  const std::optional<int> status = run_program({program, "--version"}, ends[1]);
  ::close(ends[1]);
  std::array<char, 4096> text{};  // a pipe holds more, so that it could end
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  if (status != 0 || size <= 0) return none;
  const std::string_view said(text.data(), static_cast<std::size_t>(size));
  constexpr std::string_view before = "db version v";
  const std::size_t begin = said.find(before);
  if (begin == std::string_view::npos) return none;
  const std::string_view rest = said.substr(begin + before.size());
  return std::string(rest.substr(0, rest.find_first_not_of("0123456789.")));
}

Result<Spare> start_spare(const std::string& folder, const std::string& program,
                          const TakeProgress& progress) {
  const Result<SpareFolder> state = look_at(folder);
  if (!state) return std::unexpected(state.error());
  if (!state->fresh && !state->ours)
    return std::unexpected(
        Error{Code::kAlreadyExists,
              shell_word(folder) + " is not empty: give --spare a folder that is not there yet"});
  // A copy of a member's data folder, which a run recovered, may be of that member's user.
  if (!state->recovered) {
    if (Result<void> made = make_own_folder(without_slashes(folder)); !made)
      return std::unexpected(std::move(made.error()));
  }
  return start_on(folder, program, {}, *state, progress);
}

Result<void> stop_spare(const Spare& spare) {
  const std::optional<int> status =
      run_program({spare.program, "--shutdown", "--dbpath", spare.folder});
  if (status == 0) return {};
  return std::unexpected(Error{Code::kUnavailable, "the spare mongod on " + spare.folder +
                                                       " did not end: " + how_to_stop(spare)});
}

std::string how_to_stop(const Spare& spare) {
  return shell_word(spare.program) + " --shutdown --dbpath " + shell_word(spare.folder);
}

Result<RecoveredCopy> start_copy(const std::string& folder, const std::string& program,
                                 const TakeProgress& progress) {
  Result<SpareFolder> state = look_at(folder);
  if (!state) return std::unexpected(state.error());
  std::error_code ignored;
  if (state->fresh || !fs::exists(fs::path(folder) / "WiredTiger", ignored))
    return std::unexpected(Error{Code::kNotFound, shell_word(folder) +
                                                      " is no data folder of a mongod: give the "
                                                      "copy of a member's whole --dbpath"});
  if (!state->recovered) {
    if (state->ours && state->port != 0) {
      // Of a run that was killed: the server that recovers may still be there.
      const Spare left{
          .folder = fs::canonical(folder, ignored), .program = program, .port = state->port};
      if (is_running(left.folder, left.port)) {
        if (Result<void> ended = stop_spare(left); !ended)
          return std::unexpected(std::move(ended.error()));
      }
    }
    const Result<Spare> recovering =
        start_on(folder, program,
                 {"--setParameter", "recoverFromOplogAsStandalone=true", "--setParameter",
                  "takeUnstableCheckpointOnShutdown=true"},
                 *state, progress);
    if (!recovering) return std::unexpected(recovering.error());
    const Result<Timestamp> last = last_entry(*recovering);
    if (Result<void> ended = stop_spare(*recovering); !ended)
      return std::unexpected(std::move(ended.error()));
    if (!last) return std::unexpected(last.error());
    state->port = recovering->port;
    state->recovered = *last;
    if (Result<void> marked = write_marker(recovering->folder, *state); !marked)
      return std::unexpected(std::move(marked.error()));
  }
  Result<Spare> spare = start_on(folder, program, {}, *state, progress);
  if (!spare) return std::unexpected(spare.error());
  return RecoveredCopy{.spare = std::move(*spare), .last = state->recovered.value_or(Timestamp{})};
}

}  // namespace idmint::restore
