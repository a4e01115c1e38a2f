// The observer of long work, which it shows and stops.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "idmint/result.h"

namespace idmint::restore {

// Called now and then with the amount of work done, in the unit that the work documents. An error
// stops the work, which returns it. May be empty.
using TakeProgress = std::function<Result<void>(std::uint64_t done)>;

// Watches a restore, a fence, a promotion, a new set, a dump of the oplog or a kept folder. One
// thread at a time calls it, apart from stopped(). By default it lets everything go on.
class Observer {
 public:
  virtual ~Observer() = default;

  // A step begins; the one before it has ended. `what` is the unit that is counted ("MB of the
  // oplog"), or the step itself if nothing is counted ("starting the server"). It is valid during
  // the call. nullopt: the total is unknown.
  virtual void begin(std::string_view what, std::optional<std::uint64_t> total);
  // The amount of the step that is done; nullopt: the work waits, or counts nothing. An error stops
  // the work, which returns it; the same call continues from there.
  [[nodiscard]] virtual Result<void> advance(std::optional<std::uint64_t> done);
  // The next change, such as "block shop.orders", or the command that makes it by hand. An error
  // stops the work before it.
  [[nodiscard]] virtual Result<void> about_to(std::string_view change);
  // Tells a person something now, in a sentence, or a command that is left to do by hand.
  virtual void notice(std::string_view what);
  // Whether the work should end. If so, calls that a server does not answer are aborted. Any thread
  // may call it.
  [[nodiscard]] virtual bool stopped() const { return false; }

  // Calls begin(); returns the function that reports the step's progress.
  [[nodiscard]] TakeProgress of(std::string_view what, std::optional<std::uint64_t> total = {}) {
    begin(what, total);
    return [this](std::uint64_t done) { return advance(done); };
  }
  // The same for a step that is shown in MB and reported in bytes.
  [[nodiscard]] TakeProgress of_bytes(std::string_view what,
                                      std::optional<std::uint64_t> total = {}) {
    constexpr int mb = 20;
    begin(what, total ? std::optional(*total >> mb) : std::nullopt);
    return [this](std::uint64_t done) { return advance(done >> mb); };
  }
  // For work that counts nothing.
  [[nodiscard]] TakeProgress waits() {
    return [this](std::uint64_t) { return advance(std::nullopt); };
  }
};

inline void Observer::begin(std::string_view, std::optional<std::uint64_t>) {}
inline Result<void> Observer::advance(std::optional<std::uint64_t>) { return {}; }
inline Result<void> Observer::about_to(std::string_view) { return {}; }
inline void Observer::notice(std::string_view) {}

}  // namespace idmint::restore
