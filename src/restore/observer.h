// How long work is watched, and stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "idmint/result.h"

namespace idmint::restore {

// Called every so often with how much is done, in the unit that the work names. An error stops the
// work, which returns it. May be empty.
using TakeProgress = std::function<Result<void>(std::uint64_t done)>;

// The steps of a restore that take long, and their units.
enum class RestoreStep : std::uint8_t {
  kCheckBase,     // bytes
  kCheckOplog,    // bytes
  kLoad,          // bytes of documents
  kReplaySlice,   // entries
  kBuildIndexes,  // collections
  kReplayOplog,   // bytes
  kStartServer,   // of the spare; nothing is counted
};

// Watches a restore. The thread that restores calls it.
class Observer {
 public:
  virtual ~Observer() = default;
  // A step begins, and the one before it is over. No total: it is not known.
  virtual void begin(RestoreStep step, std::optional<std::uint64_t> total) = 0;
  // So much of the step is done. An error stops the restore, which returns it; the same call goes
  // on where it was.
  [[nodiscard]] virtual Result<void> advance(std::uint64_t done) = 0;

  // Somebody wants the restore to end: calls that a server does not answer are broken off then. Any
  // thread may ask.
  [[nodiscard]] virtual bool stopped() const { return false; }

  // begin(), and what the step is to tell.
  [[nodiscard]] TakeProgress of(RestoreStep step, std::optional<std::uint64_t> total = {}) {
    begin(step, total);
    return [this](std::uint64_t done) { return advance(done); };
  }
};

}  // namespace idmint::restore
