// The source of a sequence, which follows it when it is moved to another store.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/source.h"
#include "idmint/store.h"
#include "mint/formats.h"

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

// The stores besides the usual one: of sequences over several, and those to which sequences may
// have been moved. Each is opened when it is first needed, and once. Threads may share it; a store
// that does not answer keeps only those waiting that ask for it.
class OtherStores final {
 public:
  // Opens a store by its URL.
  using Opener =
      std::function<Result<std::shared_ptr<Store>>(const std::string& url, SteadyTime until)>;
  // `moved_to`: the URLs of stores to which sequences may have been moved.
  OtherStores(std::vector<std::string> moved_to, Opener opener)
      : moved_to_(std::move(moved_to)), opener_(std::move(opener)) {}

  // The store at the URL. Threads that open one at the same time share the first.
  [[nodiscard]] Result<std::shared_ptr<Store>> at(const std::string& url, SteadyTime until);

  // Whether follow() can go anywhere.
  [[nodiscard]] bool can_follow() const noexcept { return !moved_to_.empty(); }
  // Goes from store to store, as far as the sequence was moved and its stores are known here. The
  // definition that is returned says where to if that is none of them. Errors are in `found`: those
  // of opening a store that may be the one, if no other is.
  [[nodiscard]] PlacedDefinition follow(PlacedDefinition from, SteadyTime until);

 private:
  // The one to which the sequence was moved. Null: none of them has its id.
  [[nodiscard]] Result<std::shared_ptr<Store>> with_id(const Move& move, SteadyTime until);

  const std::vector<std::string> moved_to_;
  const Opener opener_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Store>> opened_;  // by URL; guarded by mutex_
};

// Opens the sequence where it is now.
using Reopen = std::function<Result<PlacedSequence>(SteadyTime until)>;

// The source of an open sequence. With `reopen`, a call that finds the sequence moved opens it
// again and asks there; one that comes during the move tries again until its deadline. Both share
// the deadline of that call, StoreOptions::deadline from its first failure on. sequence() is the
// one that was opened last.
[[nodiscard]] std::unique_ptr<Source> make_sequence_source(PlacedSequence first, Reopen reopen,
                                                           const MadeWith& mint);

}  // namespace idmint
