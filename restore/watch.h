// Aborts calls to servers that have stopped answering.
//
// The socket timeout of the driver must be long, because an index build takes hours. So a thread
// pings each member now and then, over connections of its own. If a member has not answered for too
// long, the watch shuts down the process's connections to it, and the calls that wait on them fail
// with a network error.
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
  // The longest that a member may leave pings unanswered.
  std::chrono::milliseconds silence{60'000};
  // Whether somebody wants to end. The thread of the watch calls it several times a second. Calls
  // that are still unanswered a few seconds after it returned true are aborted. Empty: never.
  std::function<bool()> stopped{};
};

// Deletes an object of the driver by one of its functions.
template <class T, auto& kDestroy>
struct MongocDeleter {
  void operator()(T* object) const { kDestroy(object); }
};
using MongocClient =
    std::unique_ptr<mongoc_client_t, MongocDeleter<mongoc_client_t, mongoc_client_destroy>>;
using Preference = std::unique_ptr<mongoc_read_prefs_t,
                                   MongocDeleter<mongoc_read_prefs_t, mongoc_read_prefs_destroy>>;

// Watches the members in a URI and those that they report. Connections through Unix sockets are not
// shut down.
class ServerWatch {
 public:
  // `client` is for the watch alone; its timeouts must be a few seconds at most. `hosts` are those
  // of the URI, each as "HOST:PORT".
  ServerWatch(MongocClient client, const std::vector<std::string>& hosts, WatchOptions options);
  // Waits until the ping under way is answered or times out.
  ~ServerWatch();
  ServerWatch(const ServerWatch&) = delete;
  ServerWatch& operator=(const ServerWatch&) = delete;

  // Why calls were aborted, in words. Empty: none was aborted, or only because `stopped` was true.
  // Any thread may call it.
  [[nodiscard]] std::string reason() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Pings {
    Time last{};     // the last answer, or when the member became known
    int missed = 0;  // pings since
  };

  void work();
  void ask_all();
  void give_up_on_silent();
  void shut_all();

  const MongocClient client_;
  const WatchOptions options_;
  std::map<std::string, Pings, std::less<>> heard_;  // by "HOST:PORT"; only the thread uses it
  mutable std::mutex mutex_;                         // guards the members below
  std::condition_variable changed_;
  bool over_ = false;
  std::string reason_;
  std::thread thread_;
};

}  // namespace idmint::restore
