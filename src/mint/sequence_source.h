// The source of a sequence, which follows it when it is moved to another store.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounded_mutex.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/source.h"
#include "idmint/store.h"

namespace idmint {

// A sequence and its store.
struct PlacedSequence {
  std::shared_ptr<Store> store{};  // outlives the sequence
  std::unique_ptr<Sequence> sequence{};
};

// A definition and the store that it was found in.
struct PlacedDefinition {
  std::shared_ptr<Store> store{};
  Result<Definition> found{};
};

// The stores to which sequences may have been moved, opened when they are needed. Threads may share
// it.
class OtherStores final {
 public:
  // Opens a store by its URL.
  using Opener =
      std::function<Result<std::unique_ptr<Store>>(const std::string& url, SteadyTime until)>;
  OtherStores(std::vector<std::string> urls, Opener opener);

  [[nodiscard]] bool empty() const noexcept { return others_.empty(); }
  // Goes from store to store, as far as the sequence was moved and its stores are known here. The
  // definition that is returned says where to if that is none of them. Errors are in `found`: those
  // of opening a store that may be the one, if no other is.
  [[nodiscard]] PlacedDefinition follow(PlacedDefinition from, SteadyTime until);

 private:
  struct Other {
    std::string url;
    std::shared_ptr<Store> store;  // null until it was opened
  };
  // Null: none of them has this id.
  [[nodiscard]] Result<std::shared_ptr<Store>> with_id(const Move& move, SteadyTime until);

  const Opener opener_;
  BoundedMutex mutex_;
  std::vector<Other> others_;  // guarded by mutex_; their number and URLs stay
};

// Opens the sequence where it is now.
using Reopen = std::function<Result<PlacedSequence>(SteadyTime until)>;

// The source of an open sequence. With `reopen`, a call that finds the sequence moved opens it
// again and asks there; one that comes during the move tries again until its deadline. Both share
// the deadline of that call, `deadline` from its first failure on. sequence() is the one that was
// opened last.
[[nodiscard]] std::unique_ptr<Source> make_sequence_source(PlacedSequence first, Reopen reopen,
                                                           std::chrono::milliseconds deadline,
                                                           Clock& clock);

}  // namespace idmint
