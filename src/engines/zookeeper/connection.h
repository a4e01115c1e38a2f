// One session at a server of a ZooKeeper ensemble: what is asked, answered within a deadline, and
// what a failure says of what was done.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/zookeeper/address.h"
#include "engines/zookeeper/driver.h"
#include "idmint/clock.h"
#include "store/failure.h"

namespace idmint::stores::zookeeper {

// The Failure::reason of a step that makes a node in a folder that is not there.
inline constexpr std::string_view kNoFolder = "folder";

// A node as it was read.
struct Node {
  std::string value{};
  std::int32_t version = 0;   // how often it was changed since it was made
  std::int64_t created = 0;   // the transaction that made it
  std::int64_t made_at = 0;   // when, in ms since 1970 by the server's clock
  std::int64_t changed = 0;   // the transaction that changed it last
  std::int32_t children = 0;  // how many
};

// One write of a step.
struct Write {
  enum class Kind : std::uint8_t {
    kCheck,   // changes nothing
    kCreate,  // the node is not there, and its folder is
    kSet,     // from Address::renewed_at on the node is made anew in the same transaction
    kRemove,  // nothing is below it
  };
  Kind kind = Kind::kCheck;
  std::string path{};
  std::string value{};
  std::int32_t version = 0;  // which the node must have; of a kCreate unused

  // An estimate of the bytes in a request.
  [[nodiscard]] std::size_t size() const { return path.size() + value.size() + 100; }
};
[[nodiscard]] Write check(std::string path, std::int32_t version);
[[nodiscard]] Write create(std::string path, std::string value);
[[nodiscard]] Write set(std::string path, std::string value, std::int32_t version);
[[nodiscard]] Write remove(std::string path, std::int32_t version);

// Writes that are all done in one transaction, or none.
using Step = std::vector<Write>;

// What came of a step.
struct Done {
  enum class Fate : std::uint8_t {
    kDone,
    kRefused,  // nothing was done: the condition of a write did not hold
    kNotDone,  // nothing was done: see `failure`
    kPerhaps,  // it may have been done, or be done later: see `failure`
  };
  Fate fate = Fate::kPerhaps;
  std::size_t at = 0;            // kRefused: which write
  std::int64_t transaction = 0;  // kDone: that of its kSet writes; 0: it has none
  std::optional<Failure> failure{};
};

// What is sent together, and done in this order.
struct Request {
  std::vector<std::string> folders{};  // made where they are not there, each after the one above
  bool sync = false;                   // what follows sees all that was done before
  std::vector<Step> steps{};
  std::vector<std::string> reads{};
  std::vector<std::string> lists{};  // folders whose children are asked for
};
struct Answer {
  std::vector<Done> steps{};
  std::vector<std::optional<Node>> nodes{};                      // nothing: it is not there
  std::vector<std::optional<std::vector<std::string>>> lists{};  // of names; likewise
};

// The connections of a store that are being closed, each by a thread of its own: a server that
// stands still keeps libzookeeper from that for seconds. Any thread may call any method at any
// time.
class Closings {
 public:
  void begin();
  void end();
  // Until all have ended, or that time.
  void wait(SteadyTime until);

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable none_;
  std::size_t open_ = 0;
};

// Used by one thread at a time. The connection is made once only: what was learned of the ensemble
// at its other end is true as long as it lasts.
class Connection {
 public:
  // `server`: one of address.servers. Looking a host name up takes as long as the resolver takes;
  // all else ends by `until`. `closings`: is told when it is closed, which the destructor does not
  // wait for.
  static std::expected<std::unique_ptr<Connection>, Failure> open(
      const Address& address, const std::string& server, SteadyTime until,
      std::shared_ptr<Closings> closings);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The failure is that of a folder, a read or a list. What came of each step stands in `steps`,
  // also if there is a failure.
  std::expected<Answer, Failure> ask(const Request& request, SteadyTime until,
                                     std::vector<Done>* steps = nullptr);

  // False: it is closed, or has not answered in time.
  [[nodiscard]] bool is_usable() const;
  // What is asked from now on has no answer after that time.
  void answer_by(SteadyTime by) noexcept { answer_by_ = by; }
  // It is not to be used any more.
  void give_up() noexcept { given_up_ = true; }
  // Whether the kSet makes the node anew, and the version of the node after it.
  [[nodiscard]] bool renews(const Write& write) const {
    return write.kind == Write::Kind::kSet && write.version >= address_.renewed_at;
  }
  [[nodiscard]] std::int32_t version_after(const Write& write) const {
    return renews(write) ? 0 : write.version + 1;
  }
  // Another one for each connection of this process.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 private:
  struct State;
  class Batch;
  struct Slot;

  Connection(const Address& address, std::shared_ptr<Closings> closings);
  static Done fate_of(const Step& step, const Slot& slot);
  std::expected<void, Failure> connect(const std::string& server, SteadyTime until);
  std::expected<void, Failure> log_in(SteadyTime until);

  const Address& address_;
  const std::shared_ptr<Closings> closings_;
  std::shared_ptr<State> state_;
  zhandle_t* handle_ = nullptr;
  const std::uint64_t number_;
  SteadyTime answer_by_ = SteadyTime::max();
  bool given_up_ = false;
};

}  // namespace idmint::stores::zookeeper
