// How long a whole restore takes, from the start of the program to its end: a base of 500,000
// documents of 200 bytes with one index, and an oplog of 200,000 entries, of which 40 % insert,
// 40 % update and 20 % delete. `idmint-restore run` starts its own mongod for it; mongorestore,
// whose path is an argument, gets an empty one that runs. They take turns. Then the continuing of a
// run that was killed at 90 % of its load or replay, alone and with its mongod: the time until it
// is where it was.
//
//     restore_bench [MONGORESTORE]           the program of mongo-tools; without it only ours
//     restore_bench kill DOCUMENTS BYTES     kills in the load of a base, and in the replay
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/restore_work.h"
#include "restore/backup/writer.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 3;
constexpr auto kMoment = std::chrono::milliseconds{5};

constexpr std::int32_t kEntries = 200'000;

struct Size {
  std::int32_t documents = 500'000;
  int bytes = 200;
};

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The entries of one collection, numbered by their timestamps.
class Entries {
 public:
  Bson next(const char* op, const Bson& o, const Bson& o2) {
    Bson entry = Bson("op", op, "ns", *op == 'n' ? "" : "bench.c0");
    if (*op != 'n') entry.add_binary("ui", BSON_SUBTYPE_UUID, std::string(16, '\0'));
    entry.append("o", o);
    if (o2) entry.append("o2", o2);
    entry.append("ts", BsonTimestamp{1'800'000'000, ++ordinal_}, "t", std::int64_t{1}, "v",
                 std::int64_t{2}, "wall", std::chrono::milliseconds(1'800'000'000'000));
    return entry;
  }

 private:
  std::uint32_t ordinal_ = 0;
};

void write_inputs(const std::string& base, const std::string& oplog, Size size) {
  const CollectionFacts facts = collection_of_bench(0, 1);
  const auto writer = need(write_backup({.path = base, .server_version = "6.0.5"}, {&facts, 1}));
  need(writer->begin(0));
  for (std::int32_t id = 0; id < size.documents; ++id) {
    const Bson document = document_of(id, size.bytes, 1);
    put(*writer, 0, document.view());
  }
  need(writer->end(0));
  Entries entries;
  const Bson last = entries.next("n", Bson("msg", "periodic noop"), Bson::none());
  need(writer->begin(BackupWriter::kOplog));
  put(*writer, BackupWriter::kOplog, last.view());
  need(writer->end(BackupWriter::kOplog));
  const Timestamp at{.seconds = 1'800'000'000, .ordinal = 1};
  need(writer->finish({.first = at, .last = at, .entries = 1}));

  std::ofstream file(oplog, std::ios::binary);
  const auto put = [&](const Bson& entry) {
    file.write(reinterpret_cast<const char*>(bson_get_data(entry.get())), entry.get()->len);
  };
  put(last);
  std::mt19937 random(1);
  std::vector<std::int32_t> known(static_cast<std::size_t>(size.documents));
  std::iota(known.begin(), known.end(), 0);
  for (std::int32_t i = 0; i < kEntries; ++i) {
    const auto pick = random() % 10;
    if (pick < 4) {
      known.push_back(size.documents + i);
      put(entries.next("i", document_of(known.back(), size.bytes, 1), Bson::none()));
      continue;
    }
    std::swap(known[random() % known.size()], known.back());
    const Bson id = Bson("_id", known.back());
    if (pick < 8) {
      const auto k = static_cast<std::int32_t>(random() % 1000);
      put(entries.next("u", Bson("$v", 2, "diff", Bson("u", Bson("k", k))), id));
    } else {
      known.pop_back();
      put(entries.next("d", id, Bson::none()));
    }
  }
}

pid_t start(std::vector<std::string> words, const std::string& output) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  if (::posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) {
    std::perror(arguments[0]);
    std::exit(1);
  }
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// Waits until it has ended well. Its processor time in seconds, and the most memory in MB.
std::pair<double, double> end(pid_t pid, const std::string& output) {
  int status = 0;
  rusage used{};
  ::wait4(pid, &status, 0, &used);
  if (status != 0) {
    std::ostringstream text;
    text << std::ifstream(output).rdbuf();
    std::fprintf(stderr, "%s", text.str().c_str());
    std::exit(1);
  }
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return {seconds(used.ru_utime) + seconds(used.ru_stime),
          static_cast<double>(used.ru_maxrss) / 1024};
}

// The folder of a spare, whose mongod is killed at the end.
class Place {
 public:
  ~Place() { kill_server(); }
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  [[nodiscard]] std::string path() const { return folder_.path("spare"); }
  [[nodiscard]] std::vector<std::string> words() const {
    return {"--spare", path(), "--mongod", servers::mongod_program()};
  }
  // nullopt: it does not answer yet.
  [[nodiscard]] std::optional<Server> try_connect() const {
    std::ifstream marker(path() + "/idmint-restore.json");
    std::string text;
    std::getline(marker, text);
    const std::size_t at = text.find("\"port\":");
    if (at == std::string::npos) return std::nullopt;
    Result<Server> server =
        Server::connect("mongodb://127.0.0.1:" + std::to_string(std::stoi(text.substr(at + 7))) +
                        "/?directConnection=true&serverSelectionTimeoutMS=50");
    return server ? std::optional(*std::move(server)) : std::nullopt;
  }
  void kill_server() const {
    std::ifstream lock(path() + "/mongod.lock");
    pid_t pid = 0;
    if (!(lock >> pid) || pid <= 0) return;
    ::kill(pid, SIGKILL);
    while (::kill(pid, 0) == 0) std::this_thread::sleep_for(kMoment);
  }

 private:
  fakes::TempFolder folder_;
};

struct Run : Cost {
  double megabytes = 0;  // of the program, at most
};

class Restores {
 public:
  explicit Restores(Size size) : size_(size) { write_inputs(base(), oplog(), size); }

  Run ours() {
    const Place place;
    Run run;
    const auto begin = Clock::now();
    const pid_t pid = start_ours(place);
    std::tie(run.ours, run.megabytes) = end(pid, output());
    run.seconds = since(begin);
    std::optional<Server> server = place.try_connect();
    if (server) run.servers = cpu_of(*server);
    return run;
  }

  // The base has an oplog.bson of its own, with one entry that changes nothing; mongorestore takes
  // one file only.
  Run theirs(const std::string& program) {
    const std::string slice = base() + "/oplog.bson";
    std::filesystem::rename(slice, folder_.path("slice"));
    Run run;
    {
      servers::MongoServer target;
      Server server = need(Server::connect(target.url("")));
      double program_cpu = 0;
      static_cast<Cost&>(run) = cost_of(server, [&] {
        std::tie(program_cpu, run.megabytes) =
            end(start({program, "--quiet", "--host", target.host(), "--oplogReplay", "--oplogFile",
                       oplog(), "--dir", base()},
                      output()),
                output());
      });
      run.ours = program_cpu;
    }
    std::filesystem::rename(folder_.path("slice"), slice);
    return run;
  }

  // How far a restore has come, as a number that grows.
  using Reached = std::function<std::int64_t(Server&)>;

  // Kills a restore that has reached `at`. Returns the seconds from the start of the next one until
  // it is beyond what the first had reached.
  double continued(const Reached& reached, std::int64_t at, bool with_server) {
    const Place place;
    pid_t pid = start_ours(place);
    std::int64_t was = await(place, pid, reached, at);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    if (with_server) {
      place.kill_server();
    } else if (std::optional<Server> server = place.try_connect()) {
      // It may still be at work on what the killed run has sent.
      for (std::int64_t before = -1; before != was; was = reached(*server)) {
        before = was;
        std::this_thread::sleep_for(100 * kMoment);
      }
    }
    const auto begin = Clock::now();
    pid = start_ours(place);
    await(place, pid, reached, was + 1);
    const double seconds = since(begin);
    end(pid, output());
    return seconds;
  }

  std::int64_t loaded(Server& server) const {
    const Bson find = Bson("find", "c0", "sort", Bson("_id", -1), "limit", 1);
    return greatest(server, "bench", find, "_id");
  }
  // The ordinal of the newest marker.
  std::int64_t replayed(Server& server) const {
    const Bson find = Bson("find", "progress", "filter",
                           Bson("_id", Bson("$gte", "replay:oplog:0", "$lt", "replay:oplog:9")),
                           "sort", Bson("ts", -1), "limit", 1);
    return greatest(server, "idmint_restore", find, "ts");
  }

 private:
  [[nodiscard]] std::string base() const { return folder_.path("base"); }
  [[nodiscard]] std::string oplog() const { return folder_.path("oplog.bson"); }
  [[nodiscard]] std::string output() const { return folder_.path("output"); }

  pid_t start_ours(const Place& place) const {
    std::vector<std::string> words = {
        IDMINT_RESTORE_BINARY, "run", "--base", base(), "--oplog", oplog(), "--all", "--yes"};
    for (std::string& word : place.words()) words.push_back(std::move(word));
    return start(std::move(words), output());
  }

  static std::int64_t greatest(Server& server, const char* database, const Bson& find,
                               const char* field) {
    std::int64_t value = -1;
    const Result<Bson> found = server.command(database, find);
    if (!found) return value;
    found->view().each_found([&](const Document& document) {
      bson_iter_t at;
      if (!document.find(field, &at)) return;
      std::uint32_t seconds = 0;
      std::uint32_t ordinal = 0;
      if (BSON_ITER_HOLDS_TIMESTAMP(&at)) bson_iter_timestamp(&at, &seconds, &ordinal);
      value = seconds != 0 ? ordinal : as_integer(at).value_or(-1);
    });
    return value;
  }

  std::int64_t await(const Place& place, pid_t pid, const Reached& reached, std::int64_t at) const {
    std::optional<Server> server;
    while (true) {
      siginfo_t facts{};
      ::waitid(P_PID, static_cast<id_t>(pid), &facts, WEXITED | WNOHANG | WNOWAIT);
      if (facts.si_pid != 0) {
        std::fprintf(stderr, "it has ended before it was there\n");
        std::exit(1);
      }
      if (!server) server = place.try_connect();
      if (const std::int64_t is = server ? reached(*server) : -1; is >= at) return is;
      std::this_thread::sleep_for(kMoment);
    }
  }

  const Size size_;
  fakes::TempFolder folder_;
};

Run show(const char* what, std::vector<Run> runs) {
  std::ranges::sort(runs, {}, &Run::seconds);
  const Run& median = runs[runs.size() / 2];
  std::printf(
      "%-15s %5.2f s (%.2f to %.2f); processor: the program %.2f s, mongod %.2f s; %.0f MB; load "
      "%s\n",
      what, median.seconds, runs.front().seconds, runs.back().seconds, median.ours, median.servers,
      median.megabytes, load_average().c_str());
  std::fflush(stdout);
  return median;
}

void measure(const std::string& mongorestore) {
  Restores restores({});
  std::vector<Run> ours;
  std::vector<Run> theirs;
  for (int round = 0; round < kRuns; ++round) {
    ours.push_back(restores.ours());
    if (!mongorestore.empty()) theirs.push_back(restores.theirs(mongorestore));
  }
  const Run our = show("idmint-restore", ours);
  if (mongorestore.empty()) return;
  const Run their = show("mongorestore", theirs);
  std::printf("%.1f x as fast; %.1f x less processor time\n", their.seconds / our.seconds,
              (their.ours + their.servers) / (our.ours + our.servers));
}

void kill_at_90_percent(Size size) {
  Restores restores(size);
  show("not killed", {restores.ours()});
  const auto loaded = [&](Server& server) { return restores.loaded(server); };
  const auto replayed = [&](Server& server) { return restores.replayed(server); };
  for (const bool with_server : {false, true}) {
    const char* const what = with_server ? "it and its mongod" : "it alone";
    std::printf("killed %s, at 90 %% of the load: where it was after %.2f s\n", what,
                restores.continued(loaded, size.documents / 10LL * 9, with_server));
    std::printf("killed %s, at 90 %% of the replay: where it was after %.2f s; load %s\n", what,
                restores.continued(replayed, kEntries / 10 * 9, with_server),
                load_average().c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace idmint::restore

int main(int argc, char** argv) {
  using idmint::restore::kill_at_90_percent;
  using idmint::restore::measure;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "kill") {
    kill_at_90_percent({.documents = std::stoi(words[1]), .bytes = std::stoi(words[2])});
  } else {
    measure(words.empty() ? std::string() : words[0]);
  }
}
