// Breaks off calls to servers that answer nothing.
//
// A call of the driver waits for its answer until its socket times out, and that must be long: an
// index is built for hours. So a thread asks each member now and then whether it is there (ping),
// over connections of its own. Where one has not answered for too long, the process's connections
// to it are shut down, and whoever waits for an answer on them gets an error of the network.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mongo/driver.h"

namespace idmint::restore {

struct WatchOptions {
  // How long a member may answer nothing.
  std::chrono::milliseconds silence{60'000};
  // Somebody wants to end: asked several times a second, by the thread of the watch. What still
  // waits for an answer a few seconds later is broken off as well. Empty: nobody does.
  std::function<bool()> stopped{};
};

struct MongocClientDeleter {
  void operator()(mongoc_client_t* client) const { mongoc_client_destroy(client); }
};
using MongocClient = std::unique_ptr<mongoc_client_t, MongocClientDeleter>;

// Of the members that a URI names and those that they tell of. Connections by a Unix socket are not
// shut down.
class ServerWatch {
 public:
  // `client` is for the watch alone; what it asks must time out within a few seconds. `hosts` are
  // those of the URI, as "HOST:PORT".
  ServerWatch(MongocClient client, const std::vector<std::string>& hosts, WatchOptions options);
  // Waits until a question that is under way is answered or has timed out.
  ~ServerWatch();
  ServerWatch(const ServerWatch&) = delete;
  ServerWatch& operator=(const ServerWatch&) = delete;

  // Why calls were broken off, in words; empty: none was, or as somebody wanted to end. Any thread
  // may ask.
  [[nodiscard]] std::string reason() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Heard {
    Time last{};     // that it answered, or was first known
    int missed = 0;  // questions since
  };

  void work();
  void ask_all();
  void give_up_on_silent();
  void shut_all();

  const MongocClient client_;
  const WatchOptions options_;
  std::map<std::string, Heard, std::less<>> heard_;  // by "HOST:PORT"; of the thread alone
  mutable std::mutex mutex_;                         // guards what follows
  std::condition_variable changed_;
  bool over_ = false;
  std::string reason_;
  std::thread thread_;
};

}  // namespace idmint::restore
