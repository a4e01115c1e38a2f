// Observers: they watch long work, and stop it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "idmint/result.h"

namespace idmint::restore {

// Called now and then with the amount of work done, in the unit that the work documents. An error
// stops the work, which returns it. May be empty.
using TakeProgress = std::function<Result<void>(std::uint64_t done)>;

// The long steps of a restore, and their units.
enum class RestoreStep : std::uint8_t {
  kCheckBase,     // bytes
  kCheckOplog,    // bytes
  kLoad,          // bytes of documents
  kReplaySlice,   // entries
  kBuildIndexes,  // collections
  kReplayOplog,   // bytes
  kStartServer,   // of the spare; counts nothing
};

// Watches a restore. The restoring thread calls it.
class Observer {
 public:
  virtual ~Observer() = default;
  // A step begins; the one before it has ended. nullopt: the total is unknown.
  virtual void begin(RestoreStep step, std::optional<std::uint64_t> total) = 0;
  // The amount of the step that is done. An error stops the restore, which returns it; the same
  // call continues from there.
  [[nodiscard]] virtual Result<void> advance(std::uint64_t done) = 0;

  // Whether the restore should end. If so, calls that a server does not answer are aborted. Any
  // thread may call it.
  [[nodiscard]] virtual bool stopped() const { return false; }

  // Calls begin(); returns the function that reports the step's progress.
  [[nodiscard]] TakeProgress of(RestoreStep step, std::optional<std::uint64_t> total = {}) {
    begin(step, total);
    return [this](std::uint64_t done) { return advance(done); };
  }
};

}  // namespace idmint::restore
