#include "restore/replay/spare.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/figures.h"
#include "base/shell.h"
#include "restore/oplog/fields.h"
#include "restore/output_file.h"
#include "restore/replay/process.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = "idmint-restore.json";
constexpr const char* kLog = "mongod.log";
// Seconds between two checkpoints; mongod's own are 60. After a kill it first does again what it
// wrote since the last one, which takes about as long as writing it.
constexpr const char* kSyncDelay = "8";
constexpr auto kLeftStarts = std::chrono::minutes{2};
constexpr int kRestOfSpare = 200;  // milliseconds
// The time that the system takes to remove a killed process.
constexpr auto kKilled = std::chrono::seconds{10};

std::unexpected<Error> cannot(const std::string& what, const std::string& path, int error) {
  const Code code = error == ENOSPC || error == EDQUOT    ? Code::kResourceExhausted
                    : error == EACCES || error == EPERM   ? Code::kPermissionDenied
                    : error == ENOENT || error == ENOTDIR ? Code::kNotFound
                                                          : Code::kUnavailable;
  return fail(code, "cannot " + what + " " + path + ": " + std::generic_category().message(error));
}

// With a trailing slash, a symbolic link would be followed.
std::string without_slashes(const std::string& folder) {
  const std::size_t last = folder.find_last_not_of('/');
  return last == std::string::npos ? folder : folder.substr(0, last + 1);
}

// Atomic and durable.
Result<void> write_marker(const std::string& folder, const SpareFolder& state) {
  nlohmann::json json = {{"made_by", "idmint-restore"}, {"port", state.port}};
  if (state.recovered) json["recovered"] = print_timestamp(*state.recovered);
  if (!state.arguments.empty()) json["arguments"] = state.arguments;
  if (!state.checked_base.empty()) json["checked_base"] = state.checked_base;
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

// Creates the folder of a spare, or takes over an existing one, so that only this user can read it
// or write into it. kFailedPrecondition: it is a symbolic link, or another user's.
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
    return fail(Code::kFailedPrecondition, shell_word(folder) +
                                               " belongs to another user, who could change what is "
                                               "restored: give --spare a folder that is not there "
                                               "yet");
  if (!closed) return cannot("close to others", folder, error);
  return {};
}

// A free port; 0: none.
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

// Whether a server listens on the port. On loopback the answer is immediate.
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

std::unexpected<Error> in_use(const std::string& folder) {
  return fail(Code::kFailedPrecondition,
              "a mongod runs on " + shell_word(folder) +
                  ": end it, or give another folder; of a member's, a copy");
}

// A summary of the log from `from` on.
struct Logged {
  std::string error{};  // the last error, except one about its own end; empty: none
  std::string last{};   // the last message of any kind
  bool full = false;    // its disk is full
};

std::string message_of(const nlohmann::json& entry) {
  std::string message = entry.value("msg", "");
  const auto attributes = entry.find("attr");
  if (attributes == entry.end() || !attributes->is_object()) return message;
  for (const char* const key : {"error", "message", "reason"}) {
    const auto found = attributes->find(key);
    if (found == attributes->end()) continue;
    return message + ": " + (found->is_string() ? found->get<std::string>() : found->dump());
  }
  return message;
}

Logged read_log(const std::string& folder, std::streamoff from) {
  std::ifstream log(folder + "/" + kLog);
  log.seekg(from);
  Logged logged;
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object()) continue;
    if (entry.value("msg", "") == "***** SERVER RESTARTED *****") logged = {};
    logged.full = logged.full || line.contains("No space left on device") ||
                  line.contains("Disk quota exceeded");
    const std::string message = message_of(entry);
    if (!message.empty()) logged.last = message;
    const std::string severity = entry.value("s", "");
    const bool ends = message.contains("xit") && !logged.error.empty();
    if ((severity == "E" || severity == "F") && !ends) logged.error = message;
  }
  return logged;
}

// The reason why it did not start, or ended.
std::string reason_of(const Logged& logged, const std::string& folder) {
  if (logged.full) return "No space left on device";
  if (!logged.error.empty()) return logged.error;
  return "see " + folder + "/" + kLog +
         (logged.last.empty() ? "" : ", which ends with: " + logged.last);
}

// The process that holds the lock; 0: none, or unknown.
pid_t owner_of(const std::string& folder) {
  std::ifstream lock(folder + "/mongod.lock");
  pid_t pid = 0;
  return lock >> pid && pid > 0 && is_locked(folder) ? pid : 0;
}

// Whether the process is that mongod, and not another one with the same id.
bool is_mongod_on(pid_t pid, const std::string& folder) {
  const std::vector<std::string> words = pid > 0 ? words_of(pid) : std::vector<std::string>{};
  return !words.empty() && (fs::path(words.front()).filename() == "mongod" ||
                            std::ranges::find(words, folder) != words.end());
}

// Waits until `is_so` returns true, or until a killed process is certainly gone.
void wait_as_for_killed(const std::function<bool()>& is_so) {
  const auto until = std::chrono::steady_clock::now() + kKilled;
  [[maybe_unused]] const Result<void> waited =
      wait_until([&] { return is_so() || std::chrono::steady_clock::now() > until; },
                 [] { return Result<void>{}; });
}

// Waits for a process that is ending: the kernel removes its command line first, its connections
// and the lock later.
void let_it_end(const std::string& folder) {
  wait_as_for_killed([&] { return !is_locked(folder) || is_mongod_on(owner_of(folder), folder); });
}

// Kills a mongod that does not start, or that nobody waits for. Its writes are in its journal.
void end_by_force(const std::string& folder) {
  const pid_t pid = owner_of(folder);
  if (!is_mongod_on(pid, folder)) return;
  for (const int signal : {SIGTERM, SIGKILL}) {
    ::kill(pid, signal);
    wait_as_for_killed([&] { return !is_locked(folder); });
    if (!is_locked(folder)) return;
  }
}

// Watches a start: the user may want to end, or the log may stop growing.
class WhileItStarts {
 public:
  WhileItStarts(std::string folder, const TakeProgress& progress, const SpareLimits& limits)
      : folder_(std::move(folder)), progress_(progress), limits_(limits) {}

  Result<void> operator()() {
    if (Result<void> told = progress_ ? progress_(0) : Result<void>{}; !told) return told;
    std::error_code ignored;
    const std::uintmax_t size = fs::file_size(folder_ + "/" + kLog, ignored);
    const auto now = std::chrono::steady_clock::now();
    if (size != size_) {
      size_ = size;
      since_ = now;
    }
    if (now - since_ < limits_.silence) return {};
    return fail(Code::kUnavailable, "mongod on " + shell_word(folder_) +
                                        " does not come up, and has logged nothing for " +
                                        print_duration(now - since_) + ": " +
                                        reason_of(read_log(folder_, 0), folder_));
  }

 private:
  const std::string folder_;
  const TakeProgress& progress_;
  const SpareLimits limits_;
  std::uintmax_t size_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

// Starts a mongod on an existing folder.
Result<Spare> start_on(const std::string& folder, const std::string& program,
                       const std::vector<std::string>& arguments, SpareFolder state,
                       const TakeProgress& progress, const SpareLimits& limits) {
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
  for (int attempt = 0; attempt < 5;) {  // another process may take the port first
    if (attempt != 0 || spare.port == 0) spare.port = free_port();
    if (spare.port == 0) return cannot("get", "a free port of 127.0.0.1", errno);
    state.port = spare.port;
    if (Result<void> marked = write_marker(spare.folder, state); !marked) return error_in(marked);
    const std::string log = spare.folder + "/" + kLog;
    if (is_link(log))
      return fail(Code::kFailedPrecondition,
                  shell_word(log) +
                      " is a symbolic link, which mongod would write through: "
                      "remove it");
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
    const bool own_delay = std::ranges::any_of(
        state.arguments, [](const std::string& word) { return word.contains("syncdelay"); });
    if (!own_delay) words.insert(words.end(), {"--syncdelay", kSyncDelay});
    words.insert(words.end(), state.arguments.begin(), state.arguments.end());
    words.insert(words.end(), arguments.begin(), arguments.end());
    WhileItStarts waiting(spare.folder, progress, limits);
    const Result<int> status = run_and_wait(words, std::ref(waiting));
    if (!status) {
      end_by_force(spare.folder);
      return error_in(status);
    }
    if (*status == 0) return spare;
    const Logged logged = read_log(spare.folder, failed ? 0 : static_cast<std::streamoff>(before));
    reason = reason_of(logged, spare.folder);
    if (logged.full)
      return fail(Code::kResourceExhausted, "mongod does not start on " + shell_word(spare.folder) +
                                                ": " + reason +
                                                ": make room there, and the same command goes on");
    if (reason.find("DBPathInUse") != std::string::npos && left.port != 0 &&
        std::chrono::steady_clock::now() < until) {
      if (Result<void> told = progress ? progress(0) : Result<void>{}; !told) return error_in(told);
      // A killed run began to start this server, and it answers now.
      ::poll(nullptr, 0, kRestOfSpare);
      if (!is_running(left.folder, left.port)) continue;
      if (arguments.empty()) {
        state.port = left.port;
        if (Result<void> marked = write_marker(left.folder, state); !marked)
          return error_in(marked);
        return left;
      }
      if (Result<void> ended = stop_spare(left, progress, limits); !ended) return error_in(ended);
      continue;
    }
    if (reason.find("ddress already in use") == std::string::npos) break;
    ++attempt;
  }
  return fail(Code::kFailedPrecondition,
              "mongod does not start on " + spare.folder + ": " + reason);
}

Result<Timestamp> last_entry(const Spare& spare) {
  Result<Server> server = Server::connect(spare.uri());
  if (!server) return error_in(server);
  const Bson find =
      Bson("find", "oplog.rs", "sort", Bson("$natural", -1), "limit", 1, "singleBatch", true);
  const Result<Bson> found = server->command("local", find);
  if (!found) return error_in(found);
  const Timestamp last = timestamp_in(found->view().first_found(), "ts").value_or(Timestamp{});
  if (last == Timestamp{})
    return fail(Code::kFailedPrecondition, spare.folder +
                                               " has no oplog: it is no copy of the data folder "
                                               "of a member of a replica set");
  return last;
}

}  // namespace

bool is_locked(const std::string& folder) {
  const int fd = ::open((folder + "/mongod.lock").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

Result<SpareFolder> look_at(const std::string& given) {
  const std::string folder = without_slashes(given);
  std::error_code failed;
  if (is_link(folder))
    return fail(Code::kFailedPrecondition,
                shell_word(folder) + " is a symbolic link: give the folder that it leads to");
  if (!fs::exists(folder, failed)) return SpareFolder{.fresh = true};
  if (!fs::is_directory(folder, failed))
    return fail(Code::kAlreadyExists, shell_word(folder) + " is no folder");
  std::ifstream marker(fs::path(folder) / kMarker);
  if (!marker) {
    // Ignores the unfinished marker of a killed run.
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
    return fail(Code::kDataLoss, folder + "/" + kMarker + " is damaged: begin with another folder");
  SpareFolder state{.ours = true};
  if (json.contains("port") && json["port"].is_number_unsigned()) state.port = json["port"];
  if (json.contains("recovered") && json["recovered"].is_string()) {
    const Result<Timestamp> recovered = parse_timestamp(json["recovered"].get<std::string>());
    if (!recovered) return fail(Code::kDataLoss, recovered.error().message());
    state.recovered = *recovered;
  }
  for (const auto& each : json.value("arguments", nlohmann::json::array()))
    if (each.is_string()) state.arguments.push_back(each);
  if (json.contains("checked_base") && json["checked_base"].is_string())
    state.checked_base = json["checked_base"];
  return state;
}

Result<std::string> find_mongod(const std::string& program) {
  const auto runs = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  if (!program.empty()) {
    if (runs(program)) return program;
    return fail(Code::kNotFound, "--mongod " + shell_word(program) + " is no program");
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path found = fs::path(folder.empty() ? "." : folder) / "mongod";
    if (runs(found)) return found;
  }
  return fail(Code::kNotFound,
              "there is no mongod on the PATH: give --mongod PATH, of the version "
              "that the backup is of, or --target URI of a server that runs");
}

std::optional<std::string> data_folder(Server& server) {
  const Result<Bson> options = server.command("admin", Bson("getCmdLineOpts", 1));
  if (!options) return std::nullopt;
  const Document storage = options->view().document("parsed").document("storage");
  if (!storage.has("dbPath")) return std::nullopt;
  return text_of(storage, "dbPath");
}

bool is_running(const std::string& folder, int port) {
  if (!is_open(port)) return false;
  Result<Server> server =
      Server::connect(Spare{.folder = folder, .program = {}, .port = port}.uri() +
                      "&serverSelectionTimeoutMS=2000");
  if (!server) return false;
  const std::optional<std::string> there = data_folder(*server);
  std::error_code ignored;
  return there && fs::equivalent(*there, folder, ignored);
}

Result<std::string> version_of(const std::string& program, const SpareLimits& limits) {
  const std::unexpected<Error> none(
      Error{Code::kFailedPrecondition,
            shell_word(program) + " --version does not answer as a mongod does: give another"});
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return cannot("run", program, errno);
  const auto until = std::chrono::steady_clock::now() + limits.silence;
  const Result<int> status = run_and_wait(
      {program, "--version"},
      [&]() -> Result<void> {
        if (std::chrono::steady_clock::now() < until) return {};
        return fail(Code::kUnavailable, shell_word(program) + " --version does not end");
      },
      ends[1]);
  ::close(ends[1]);
  std::array<char, 4096> text{};  // a pipe holds more, so the program could end
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  if (!status && status.error().code == Code::kUnavailable) return error_in(status);
  if (!status || *status != 0 || size <= 0) return none;
  const std::string_view said(text.data(), static_cast<std::size_t>(size));
  constexpr std::string_view before = "db version v";
  const std::size_t begin = said.find(before);
  if (begin == std::string_view::npos) return none;
  const std::string_view rest = said.substr(begin + before.size());
  return std::string(rest.substr(0, rest.find_first_not_of("0123456789.")));
}

namespace {

// A data folder has to be opened as it was made.
Result<void> take_arguments(const std::string& folder, const Mongod& mongod, SpareFolder& state) {
  if (mongod.arguments.empty() || mongod.arguments == state.arguments) return {};
  if (state.ours && state.port != 0) {
    std::string words;
    for (const std::string& each : state.arguments) words += " " + shell_word(each);
    return fail(Code::kFailedPrecondition,
                shell_word(folder) + " was begun with " +
                    (words.empty() ? "no further arguments" : "the arguments" + words) +
                    " of mongod: leave --mongod-argument out, or give another folder");
  }
  state.arguments = mongod.arguments;
  return {};
}

}  // namespace

Result<Spare> start_spare(const std::string& folder, const Mongod& mongod,
                          const TakeProgress& progress, const SpareLimits& limits) {
  Result<SpareFolder> state = look_at(folder);
  if (!state) return error_in(state);
  if (!state->fresh && !state->ours)
    return fail(Code::kAlreadyExists,
                shell_word(folder) + " is not empty: give --spare a folder that is not there yet");
  // A recovered copy of a member's data folder may belong to that member's user.
  if (!state->recovered)
    if (Result<void> made = make_own_folder(without_slashes(folder)); !made) return error_in(made);
  if (Result<void> taken = take_arguments(folder, mongod, *state); !taken) return error_in(taken);
  return start_on(folder, mongod.program, {}, *state, progress, limits);
}

Result<void> note_checked_base(const Spare& spare, const std::string& stamp) {
  Result<SpareFolder> state = look_at(spare.folder);
  if (!state) return error_in(state);
  if (state->checked_base == stamp) return {};
  state->checked_base = stamp;
  return write_marker(spare.folder, *state);
}

Result<void> stop_spare(const Spare& spare, const TakeProgress& progress,
                        const SpareLimits& limits) {
  let_it_end(spare.folder);
  const pid_t pid = owner_of(spare.folder);
  if (!is_locked(spare.folder)) return {};
  if (!is_mongod_on(pid, spare.folder))
    return fail(Code::kUnavailable, "cannot find the process of the mongod on " +
                                        shell_word(spare.folder) + ": " + how_to_stop(spare));
  ::kill(pid, SIGTERM);
  const auto begin = std::chrono::steady_clock::now();
  auto until = begin + limits.end;
  bool hurried = false;
  Result<void> ended = wait_until(
      [&] { return !is_locked(spare.folder); },
      [&]() -> Result<void> {
        const auto now = std::chrono::steady_clock::now();
        if (!hurried && progress && !progress(0)) {  // the user wants to end
          hurried = true;
          until = std::min(until, now + limits.hurried_end);
        }
        if (now < until) return {};
        return fail(
            Code::kUnavailable,
            "the mongod on " + shell_word(spare.folder) + ", process " + std::to_string(pid) +
                ", was told to end " + print_duration(now - begin) +
                " ago and is still at it: " + reason_of(read_log(spare.folder, 0), spare.folder) +
                "; wait until it has ended. If it never does, kill -9 " + std::to_string(pid) +
                ": its journal has what it wrote");
      });
  if (!ended) return ended;
  // It has released its files; its port is released last.
  wait_as_for_killed([&] { return !runs(pid); });
  return {};
}

Result<void> remove_spare(const std::string& folder) {
  const pid_t pid = owner_of(folder);
  if (is_mongod_on(pid, folder)) {
    ::kill(pid, SIGKILL);
    wait_as_for_killed([&] { return !is_locked(folder) && !runs(pid); });
  }
  if (is_locked(folder))
    return fail(Code::kUnavailable, "the mongod on " + shell_word(folder) +
                                        (pid > 0 ? ", process " + std::to_string(pid) + "," : "") +
                                        " does not end: end it, and remove the folder");
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return {};
}

Result<Spare> start_temporary_spare(const Mongod& mongod, const TakeProgress& progress,
                                    const SpareLimits& limits) {
  std::error_code failed;
  const fs::path place = fs::temp_directory_path(failed);
  std::string folder = (place / "idmint-restore-XXXXXX").string();
  if (failed) return fail(Code::kNotFound, "there is no temporary folder: set TMPDIR");
  if (::mkdtemp(folder.data()) == nullptr) {
    Error error = cannot("make a folder for a mongod in", place, errno).error();
    add_outcome(error, "set TMPDIR to another place");
    return std::unexpected(std::move(error));
  }
  Result<Spare> spare = start_spare(folder, mongod, progress, limits);
  if (spare) return spare;
  if (spare.error().code == Code::kResourceExhausted)
    spare.error() = {Code::kResourceExhausted,
                     "there is no room in " + shell_word(place.string()) +
                         " to start a mongod on " + shell_word(folder) +
                         ": make room there, or set TMPDIR to a folder with more"};
  // Its log, which the error may name, goes with it.
  add_outcome(spare.error(), "that was a temporary folder, which is removed");
  if (Result<void> removed = remove_spare(folder); !removed)
    add_outcome(spare.error(), "and " + removed.error().message());
  return spare;
}

std::string why_not_started(const std::string& folder, std::uintmax_t from) {
  return reason_of(read_log(folder, static_cast<std::streamoff>(from)), folder);
}

std::optional<Error> why_it_ended(const Spare& spare) {
  let_it_end(spare.folder);
  if (is_locked(spare.folder)) return std::nullopt;
  const Logged logged = read_log(spare.folder, 0);
  return Error{logged.full ? Code::kResourceExhausted : Code::kUnavailable,
               "the mongod on " + shell_word(spare.folder) +
                   " has ended: " + reason_of(logged, spare.folder) +
                   (logged.full ? ": make room there, and the same command goes on"
                                : "; the same command goes on")};
}

std::string how_to_stop(const Spare& spare) {
  return shell_word(spare.program) + " --shutdown --dbpath " + shell_word(spare.folder);
}

Result<RecoveredCopy> start_copy(const std::string& folder, const Mongod& mongod,
                                 const TakeProgress& progress, const SpareLimits& limits) {
  Result<SpareFolder> state = look_at(folder);
  if (!state) return error_in(state);
  std::error_code ignored;
  if (state->fresh || !fs::exists(fs::path(folder) / "WiredTiger", ignored))
    return fail(Code::kNotFound, shell_word(folder) +
                                     " is no data folder of a mongod: give the "
                                     "copy of a member's whole --dbpath");
  if (Result<void> taken = take_arguments(folder, mongod, *state); !taken) return error_in(taken);
  if (!state->recovered) {
    if (state->ours && state->port != 0) {
      // A killed run may have left the recovering server.
      const Spare left{
          .folder = fs::canonical(folder, ignored), .program = mongod.program, .port = state->port};
      if (is_running(left.folder, left.port))
        if (Result<void> ended = stop_spare(left, progress, limits); !ended) return error_in(ended);
    }
    const Result<Spare> recovering =
        start_on(folder, mongod.program,
                 {"--setParameter", "recoverFromOplogAsStandalone=true", "--setParameter",
                  "takeUnstableCheckpointOnShutdown=true"},
                 *state, progress, limits);
    if (!recovering) return error_in(recovering);
    const Result<Timestamp> last = last_entry(*recovering);
    if (Result<void> ended = stop_spare(*recovering, progress, limits); !ended)
      return error_in(ended);
    if (!last) return error_in(last);
    state->port = recovering->port;
    state->recovered = *last;
    if (Result<void> marked = write_marker(recovering->folder, *state); !marked)
      return error_in(marked);
  }
  Result<Spare> spare = start_on(folder, mongod.program, {}, *state, progress, limits);
  if (!spare) return error_in(spare);
  return RecoveredCopy{.spare = std::move(*spare), .last = state->recovered.value_or(Timestamp{})};
}

}  // namespace idmint::restore
