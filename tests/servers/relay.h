// A relay on the loopback between the clients of a MongoDB server and the server, which delays,
// cuts, drops and repeats what it is told to while it runs. It knows only the length of a message
// and the text in it, so it takes no TLS and no compression.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace idmint::servers {

// The owners of the connections: the other members of the set (kMembers), or all others (kClients).
enum class Whose : std::uint8_t { kAll, kClients, kMembers };

// Its functions may be called by any thread. One thread of its own does all the work.
class Relay {
 public:
  struct Counts {
    std::int64_t requests = 0;  // clients' messages that were sent on
    int cut = 0;                // connections
    int refused = 0;
    int dropped = 0;
    int repeated = 0;
    int held = 0;
    int late = 0;  // answers to requests that were let go
  };

  // To a port of the loopback, at which something listens, or will.
  explicit Relay(int target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }

  // Delays all bytes that arrive from now on, in their order, each way and for every client.
  void delay(std::chrono::microseconds each_way);
  // Closes the connections; what is under way is lost.
  void cut(Whose whose = Whose::kAll);
  // Closes what is opened until the next call; none: no more.
  void refuse(std::optional<Whose> whose);
  // For the next `count` requests of clients with `text` in them: the server gets them, and the
  // connection is closed when it answers; or it gets them twice, and its second answer is sent
  // back.
  void drop_replies(int count, std::string text = "txnNumber");
  void repeat_requests(int count, std::string text = "txnNumber");
  // The server does not get them: the connection is closed; or it gets them when they are let go,
  // even if the client has closed the connection by then.
  void drop_requests(int count, std::string text = "txnNumber");
  void hold_requests(int count, std::string text = "txnNumber");
  void let_go();

  [[nodiscard]] Counts counts();

 private:
  using Time = std::chrono::steady_clock::time_point;
  using Id = std::uint64_t;  // of an end of a link; never used again

  // One of two sockets: what is read from it goes to the other.
  struct End {
    int fd = -1;
    Id other = 0;
    bool client = false;  // or the server's
    bool first = true;    // nothing was read
    bool member = false;
    bool drop = false;   // of the server's: its next message is not sent on, but all closed
    int skip = 0;        // of the server's: so many of its messages are not sent on
    bool late = false;   // of the server's: its next message answers what was held
    std::string held{};  // until it is let go
    std::string in{};    // less than a message
    std::deque<std::pair<Time, std::string>> later{};  // to be written here
    std::string out{};                                 // to be written here now
    std::size_t written = 0;                           // of that
    bool waits_to_write = false;
  };
  struct Fault {
    int count = 0;
    std::string text{};
    bool strikes(std::string_view message);
  };

  void work();
  void accept_all();
  void read(Id id);
  void message(Id id, std::string text);
  void write(End& end, Id id);
  void send_due();
  void close(Id id);
  void add(Id id, End end);
  void set_timer();

  const int target_;
  int port_ = 0;
  int listener_ = -1;
  int epoll_ = -1;
  int wake_ = -1;
  int timer_ = -1;

  std::mutex mutex_;  // guards what follows
  bool ending_ = false;
  Id latest_ = 0;
  std::map<Id, End> ends_;
  std::priority_queue<std::pair<Time, Id>, std::vector<std::pair<Time, Id>>, std::greater<>> due_;
  std::chrono::microseconds delay_{};
  std::optional<Whose> refused_;
  Fault drop_;
  Fault repeat_;
  Fault lose_;
  Fault hold_;
  Counts counts_;

  std::thread thread_;
};

}  // namespace idmint::servers
