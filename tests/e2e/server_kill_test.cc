// kill -9 of one of two daemons that serve one store, again and again, under load: what the clients
// were answered is the history of one counter. The store is an SQLite file or, with
// IDMINT_SERVER_KILL_MONGODB, a MongoDB replica set. IDMINT_KILL_ROUNDS sets the number of rounds.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "tests/e2e/counter_history.h"
#include "tests/e2e/daemon.h"
#ifdef IDMINT_SERVER_KILL_MONGODB
#include "tests/servers/mongo.h"
#else
#include "tests/fakes/temp_folder.h"
#endif

namespace idmint::e2e {
namespace {

constexpr int kClients = 8;
constexpr std::int64_t kLoad = 400;  // answers between two kills
constexpr std::int64_t kLongest = 60'000'000'000;

std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
}

// One connection.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = kLongest / 1'000'000'000, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    open_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] bool is_open() const { return open_; }

  // Asks for `count` values.
  Note take(std::int64_t count, int caller) {
    Note note{.invoked = now(),
              .answered = 0,
              .longest = kLongest,
              .first = 0,
              .count = count,
              .outcome = Outcome::kUnknown,
              .caller = caller};
    const std::string request = "INCRBY orders " + std::to_string(count) + "\r\n";
    const bool sent =
        ::send(socket_, request.data(), request.size(), MSG_NOSIGNAL) == std::ssize(request);
    const std::optional<std::string> line = sent ? read_line() : std::nullopt;
    note.answered = now();
    if (!line) {
      open_ = false;
    } else if (line->starts_with(':')) {
      note.outcome = Outcome::kTaken;
      note.first = std::stoll(line->substr(1)) - count + 1;
    } else if (line->starts_with("-UNAVAILABLE ") || line->starts_with("-RESOURCEEXHAUSTED ")) {
      note.outcome = Outcome::kRefused;
    } else if (!line->starts_with("-UNKNOWN ") && !line->starts_with("-DEADLINEEXCEEDED ")) {
      ADD_FAILURE() << *line;
      note.outcome = Outcome::kWrong;
    }
    return note;
  }

 private:
  std::optional<std::string> read_line() {
    std::string line;
    char c = '\0';
    while (::recv(socket_, &c, 1, 0) == 1) {
      if (c == '\n') return line;
      if (c != '\r') line += c;
    }
    return std::nullopt;
  }

  int socket_;
  bool open_ = false;
};

TEST(ServerKill, TwoDaemonsOnOneStoreAreOneCounter) {
  const char* const wanted = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 10;
  ASSERT_GT(rounds, 0);
#ifdef IDMINT_SERVER_KILL_MONGODB
  const std::string url = servers::mongo_set().url("ids");
#else
  const fakes::TempFolder folder;
  const std::string url = "sqlite:" + folder.path("ids.db");
#endif
  {
    const auto store = Store::open(url);
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(create_sequence(**store, {.name = "orders"}));
  }
  std::array<std::optional<Daemon>, 2> daemons;
  std::array<std::atomic<int>, 2> ports{};
  for (std::size_t i = 0; i < daemons.size(); ++i) ports[i] = daemons[i].emplace(url).port();

  std::atomic<bool> ended{false};
  std::atomic<std::int64_t> answers{0};
  std::mutex mutex;
  std::vector<Note> notes;  // guarded by mutex
  std::vector<std::thread> clients;
  for (int caller = 0; caller < kClients; ++caller) {
    clients.emplace_back([&, caller] {
      std::vector<Note> mine;
      while (!ended) {
        const int port = ports[static_cast<std::size_t>(caller % 2)];
        if (port == 0) {  // a new one is starting
          std::this_thread::yield();
          continue;
        }
        Client client(port);
        for (std::int64_t i = 0; client.is_open() && !ended; ++i) {
          mine.push_back(client.take(1 + i % 5, caller));
          if (mine.back().outcome == Outcome::kTaken) ++answers;
        }
      }
      const std::lock_guard lock(mutex);
      notes.insert(notes.end(), mine.begin(), mine.end());
    });
  }
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t before = answers;
    while (answers < before + kLoad) std::this_thread::yield();
    const auto victim = static_cast<std::size_t>(round % 2);
    ports[victim] = 0;
    daemons[victim]->end(SIGKILL);
    ports[victim] = daemons[victim].emplace(url).port();
  }
  ended = true;
  for (std::thread& client : clients) client.join();

  Client last(ports[0]);
  notes.push_back(last.take(1, kClients));
  ASSERT_EQ(notes.back().outcome, Outcome::kTaken);
  const Verdict verdict = judge(notes, 1);
  for (const std::string& wrong : verdict.wrong) ADD_FAILURE() << wrong;
  EXPECT_GE(verdict.taken, rounds * kLoad);
  for (std::optional<Daemon>& daemon : daemons) {
    const int status = daemon->end(SIGTERM);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace
}  // namespace idmint::e2e
