// kill -9 of the server of a store, again and again, while eight processes take values and claims:
// the history of the counter is linearizable, nothing acknowledged is lost, and nothing was taken
// by a call that said it took nothing. IDMINT_KILL_ROUNDS sets the number of rounds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "idmint/store.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/e2e/counter_history.h"
#include "tests/e2e/noted_call.h"
#include "tests/fakes/temp_folder.h"
#if defined(IDMINT_KILL_ETCD)
#include "tests/servers/etcd.h"
#elif defined(IDMINT_KILL_MARIADB)
#include "tests/servers/mariadb.h"
#elif defined(IDMINT_KILL_POSTGRESQL)
#include "tests/servers/postgresql.h"
#elif defined(IDMINT_KILL_REDIS)
#include "tests/servers/redis.h"
#elif defined(IDMINT_KILL_ZOOKEEPER)
#include "tests/servers/zookeeper.h"
#endif

namespace idmint::e2e {
namespace {

// The server, with a store in its database "ids". is_idle(): nothing that a client sent is being
// done any more. claims(): how many its tables have, as text.
#ifndef IDMINT_KILL_MEMBERS
#define IDMINT_KILL_MEMBERS 1
#endif
#if defined(IDMINT_KILL_ETCD)
struct KilledServer : servers::EtcdCluster {
  KilledServer() : EtcdCluster(IDMINT_KILL_MEMBERS) {}
  [[nodiscard]] std::string database(const std::string& name) const { return url(name); }
  void kill() {
    for (std::size_t i = 0; i < IDMINT_KILL_MEMBERS; ++i)
      if (is_hit(i)) EtcdCluster::kill(i);
  }
  void restart() {
    for (std::size_t i = 0; i < IDMINT_KILL_MEMBERS; ++i)
      if (is_hit(i)) EtcdCluster::restart(i);
    ++round_;
  }
  [[nodiscard]] bool is_idle() const {
    wait_until_ready();
    for (std::size_t i = 0; i < IDMINT_KILL_MEMBERS; ++i)
      if (!metrics(i).contains("\netcd_server_proposals_pending 0\n")) return false;
    return true;
  }
  [[nodiscard]] std::string claims() const { return count("ids/claim/s/"); }

 private:
  // Whether this round kills the member: each in turn, then all at once.
  [[nodiscard]] bool is_hit(std::size_t member) const {
    const std::size_t turn = round_ % (IDMINT_KILL_MEMBERS + 1);
    return turn == member || turn == IDMINT_KILL_MEMBERS;
  }

  std::size_t round_ = 0;
};
#elif defined(IDMINT_KILL_MARIADB)
struct KilledServer : servers::MariadbServer {
  KilledServer() : MariadbServer({"--log-bin", "--sync-binlog=1"}) {}
  [[nodiscard]] bool is_idle() const {
    return ask("SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'ids'") == "0";
  }
  [[nodiscard]] std::string claims() const {
    return run("SELECT COUNT(*) FROM idmint_claims", "ids");
  }
};
#elif defined(IDMINT_KILL_POSTGRESQL)
struct KilledServer : servers::PostgresqlServer {
  [[nodiscard]] bool is_idle() const {
    return ask("SELECT count(*) FROM pg_stat_activity WHERE datname = 'ids'") == "0";
  }
  [[nodiscard]] std::string claims() const {
    return run("SELECT count(*) FROM idmint.claims", "ids");
  }
};
#elif defined(IDMINT_KILL_REDIS)
struct KilledServer : servers::RedisServer {
  [[nodiscard]] bool is_idle() const { return !run({"CLIENT", "LIST"}).contains("name=idmint"); }
  [[nodiscard]] std::string claims() const { return run({"SCARD", "{idmint}:claims:s"}, 1); }
};
#elif defined(IDMINT_KILL_ZOOKEEPER)
struct KilledServer : servers::ZookeeperEnsemble {
  KilledServer() : ZookeeperEnsemble(IDMINT_KILL_MEMBERS) {}
  [[nodiscard]] std::string database(const std::string& name) const { return url(name); }
  void kill() {
    for (std::size_t i = 0; i < IDMINT_KILL_MEMBERS; ++i)
      if (is_hit(i)) ZookeeperEnsemble::kill(i);
  }
  void restart() {
    for (std::size_t i = 0; i < IDMINT_KILL_MEMBERS; ++i)
      if (is_hit(i)) ZookeeperEnsemble::restart(i);
    wait_until_written();
    ++round_;
  }
  [[nodiscard]] bool is_idle() const {
    wait_until_ready();
    for (std::size_t i = 0; i < IDMINT_KILL_MEMBERS; ++i)
      if (!says(i).contains("Outstanding: 0\n")) return false;
    return true;
  }
  [[nodiscard]] std::string claims() const {
    const servers::ZookeeperClient client(host(0));
    std::size_t all = 0;
    for (const std::string& shard : client.children("/ids/claim"))
      for (const std::string& part : client.children("/ids/claim/" + shard + "/s"))
        all += client.children("/ids/claim/" + shard + "/s/" + part).size();
    return std::to_string(all);
  }

 private:
  // Whether this round kills the member: each in turn, then all at once.
  [[nodiscard]] bool is_hit(std::size_t member) const {
    const std::size_t turn = round_ % (IDMINT_KILL_MEMBERS + 1);
    return turn == member || turn == IDMINT_KILL_MEMBERS;
  }

  std::size_t round_ = 0;
};
#endif

constexpr int kProcesses = 8;
// Before each kill, and after the restart, so many notes must be there, or nothing is tried.
constexpr std::uintmax_t kEnoughNotes = 200;
constexpr std::uintmax_t kEnoughClaims = 20;
// Longer than a restart, and shorter, so that outcomes are unknown.
constexpr std::array kDeadlines = {std::chrono::milliseconds{20'000},
                                   std::chrono::milliseconds{100}};

// The most that one call takes.
constexpr std::int64_t kMostValues = 4;

// Each note is one write(2), which a kill cannot undo.
template <class T>
void write_whole(int fd, const T& note) {
  if (::write(fd, &note, sizeof note) != sizeof note) ::_exit(1);
}

// Claims of the numbers after those claimed, which all processes want at once.
void claim(UniqueIndex& claims, int fd) {
  const auto claimed = claims.claimed("s");
  if (!claimed) return;
  std::array<std::int64_t, 4> keys{};
  std::iota(keys.begin(), keys.end(), *claimed);
  const auto ours = claims.insert("s", keys);
  for (std::size_t i = 0; ours && i < keys.size(); ++i)
    if ((*ours)[i]) write_whole(fd, keys.at(i));
}

// Until it is killed; ends by itself only when something is wrong. Each store is opened anew now
// and then, so that kills meet that too.
[[noreturn]] void take_until_killed(const std::string& url, const std::string& log, int number) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  const int claim_fd = ::open((log + ".claims").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  if (fd < 0 || claim_fd < 0) ::_exit(1);
  for (;;) {
    const auto deadline = kDeadlines.at(static_cast<std::size_t>(number) % kDeadlines.size());
    const auto store = Store::open(url, {.deadline = deadline});
    if (!store) {
      if (store.error().code == Code::kUnavailable) continue;
      std::fprintf(stderr, "%s\n", store.error().message().c_str());
      ::_exit(1);
    }
    for (std::int64_t i = 0; i < 256; ++i) {
      const Note note = noted_take(*(*store)->counters(), "c", 1 + i % kMostValues, number);
      write_whole(fd, note);
      if (note.outcome == Outcome::kWrong) ::_exit(1);
      if (i % 4 == 3) claim(*(*store)->unique_index(), claim_fd);
    }
  }
}

template <class T>
std::vector<T> read_notes(const std::string& log) {
  std::ifstream file(log, std::ios::binary);
  std::vector<T> notes;
  for (T note{}; file.read(reinterpret_cast<char*>(&note), sizeof note);) notes.push_back(note);
  return notes;
}

bool wait_until(const std::function<bool()>& condition) {
  using Clock = std::chrono::steady_clock;
  for (const auto until = Clock::now() + std::chrono::minutes{2}; Clock::now() < until;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return false;
}

TEST(StoreKill, OfTheServerUnderEightProcessesRepeatsAndLosesNothing) {
  const char* const wanted = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 20;
  ASSERT_GT(rounds, 0);
  KilledServer server;
  const std::string url = server.database("ids");
  const fakes::TempFolder folder;
  const auto log_of = [&](int process) { return folder.path("log" + std::to_string(process)); };
  std::array<pid_t, kProcesses> processes{};
  {
    const auto store = Store::open(url, {.deadline = std::chrono::minutes{1}});
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE((*store)->counters()->create("c", {1, kLargestValue}));
    ASSERT_TRUE((*store)->unique_index()->create_space("s"));
  }
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) take_until_killed(url, log_of(i), i);
    ASSERT_GT(child, 0);
    processes.at(static_cast<std::size_t>(i)) = child;
  }
  const auto noted = [&](const std::string& of, std::size_t each) {
    std::uintmax_t bytes = 0;
    for (int i = 0; i < kProcesses; ++i) {
      std::error_code none;
      const auto size = std::filesystem::file_size(log_of(i) + of, none);
      if (!none) bytes += size;
    }
    return bytes / each;
  };
  const auto wait_for_more = [&] {
    const std::uintmax_t notes = noted("", sizeof(Note)) + kEnoughNotes;
    const std::uintmax_t claims = noted(".claims", sizeof(std::int64_t)) + kEnoughClaims;
    return wait_until([&] {
      return noted("", sizeof(Note)) >= notes && noted(".claims", sizeof(std::int64_t)) >= claims;
    });
  };
  for (int round = 0; round < rounds; ++round) {
    EXPECT_TRUE(wait_for_more()) << "nobody goes on in round " << round;
    server.kill();
    server.restart();
  }
  EXPECT_TRUE(wait_for_more()) << "nobody goes on after the last kill";
  for (const pid_t child : processes) ::kill(child, SIGKILL);
  for (const pid_t child : processes) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "a process failed";
  }
  // Their last requests are over.
  ASSERT_TRUE(wait_until([&] { return server.is_idle(); }));

  std::vector<Note> notes;
  for (int i = 0; i < kProcesses; ++i) {
    const std::vector<Note> its = read_notes<Note>(log_of(i));
    std::ranges::copy(its, std::back_inserter(notes));
    // The call that it may have been killed in.
    const std::int64_t then = its.empty() ? 0 : its.back().answered;
    notes.push_back({.invoked = then,
                     .answered = then,
                     .longest = 0,
                     .first = 0,
                     .count = kMostValues,
                     .outcome = Outcome::kUnknown,
                     .caller = i});
  }
  const auto store = Store::open(url, {.deadline = std::chrono::minutes{1}});
  ASSERT_TRUE(store) << store.error().message();
  notes.push_back(noted_take(*(*store)->counters(), "c", 1, kProcesses));
  ASSERT_EQ(notes.back().outcome, Outcome::kTaken);
  const Verdict verdict = judge(notes, 1);
  for (const std::string& wrong : verdict.wrong) ADD_FAILURE() << wrong;

  std::vector<std::int64_t> claims;
  for (int i = 0; i < kProcesses; ++i)
    std::ranges::copy(read_notes<std::int64_t>(log_of(i) + ".claims"), std::back_inserter(claims));
  std::ranges::sort(claims);
  EXPECT_EQ(std::ranges::adjacent_find(claims), claims.end()) << "claimed twice";
  const auto claimed = (*store)->unique_index()->claimed("s");
  ASSERT_TRUE(claimed) << claimed.error().message();
  EXPECT_EQ(server.claims(), std::to_string(*claimed));
  for (std::size_t at = 0; at < claims.size(); at += UniqueIndex::kMaxKeys) {
    const auto some = std::span(claims).subspan(
        at, std::min(claims.size() - at, std::size_t{UniqueIndex::kMaxKeys}));
    const auto again = (*store)->unique_index()->insert("s", some);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(std::ranges::count(*again, true), 0) << "a claim that was acknowledged was lost";
  }
  std::printf(
      "%d kills, %d calls with %lld values, %d refused, %d of unknown fate with %lld values, of "
      "which %lld are missing, %zu claims\n",
      rounds, verdict.taken, static_cast<long long>(verdict.values), verdict.refused,
      verdict.unknowns, static_cast<long long>(verdict.unknown),
      static_cast<long long>(verdict.missing), claims.size());
}

}  // namespace
}  // namespace idmint::e2e
