// Sequences over several stores: their stores, and the acts on all of them. Stripe k of K lives in
// store k, as a counter of its own, with the definition beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "idmint/definition.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/store.h"

namespace idmint {

// The stores of one sequence. Each is opened and verified when it is first needed, and again at the
// next call if that failed.
class MultiStores final {
 public:
  // A store that was verified, and the definition that it has.
  struct Member {
    Member(Store* its_store, SequenceDefinition its_definition)
        : store(its_store), definition(std::move(its_definition)) {}
    Store* store;
    SequenceDefinition definition;
  };

  // `own` has the definition, and must outlive it.
  MultiStores(Store& own, SequenceDefinition definition, MultiStoreOptions options);
  MultiStores(const MultiStores&) = delete;
  MultiStores& operator=(const MultiStores&) = delete;

  // Checks that `own` is the store that its definition names, and finds out which stripes the URLs
  // of the options have that name no known place (not with MultiStoreOptions::over_others). Call it
  // first, once.
  // - kFailedPrecondition: `own` is another store, or such a URL is that of none of the stores.
  // - Errors of opening such a URL.
  [[nodiscard]] Result<void> identify(SteadyTime until);

  // The store of stripe k. One thread at a time for each k, after identify(). REQUIRES: k < size().
  // - kFailedPrecondition: no store is there, or another one, or its definition differs.
  // - Errors of opening it.
  [[nodiscard]] Result<const Member*> at(std::size_t k, SteadyTime until);

  // Calls work(k, until) for each stripe, side by side: whether its store answered. Once one has,
  // the others have half of the time that there was, or a moment if they seem down
  // (MultiStoreOptions::seems_down), and are given up then (base/side_by_side.h). As long as none
  // has, all are waited for: they may be restarting.
  void on_all(SteadyTime until, const std::function<bool(std::size_t k)>& work) const;

  // Whether at(k) failed because the store does not open under its settings. The others can go on
  // without it, as without one that is down: it hands out nothing.
  [[nodiscard]] bool refuses(std::size_t k) const noexcept { return slots_[k].refused; }

  // MultiStoreOptions::store_changed. One thread at a time for each k.
  void tell(std::size_t k, const Error* why) const {
    if (options_.store_changed) options_.store_changed(url(k), why);
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] std::size_t own() const noexcept { return own_; }
  // The URL of the store of stripe k, for messages.
  [[nodiscard]] std::string url(std::size_t k) const;
  [[nodiscard]] const SequenceDefinition& definition() const noexcept { return definition_; }

 private:
  struct Slot {
    std::string url;                   // as it is opened; may have a password
    std::shared_ptr<Store> opened{};   // null: not yet, or `own`
    std::unique_ptr<Member> member{};  // null: not verified yet
    bool refused = false;              // see refuses()
  };

  [[nodiscard]] Result<std::shared_ptr<Store>> open(const std::string& url, SteadyTime until) const;
  [[nodiscard]] Result<std::shared_ptr<Store>> open_stripe(std::size_t k, SteadyTime until);
  [[nodiscard]] Result<void> verify(std::size_t k, Store& store, SteadyTime until);
  [[nodiscard]] Error other_store(std::size_t k, const Store& store) const;

  Store& store_;
  const SequenceDefinition definition_;
  const MultiStoreOptions options_;
  const std::size_t own_;
  std::vector<Slot> slots_;
  std::vector<std::string> elsewhere_;  // URLs of the options that name no place of the definition
};

// Whether the error is about a wrong configuration or a damaged store, and not about one that does
// not answer: to go on without the store would hide it.
[[nodiscard]] bool must_be_mended(Code code) noexcept;

// Whether a store that fails so may answer a later call although nobody mends anything.
[[nodiscard]] bool may_come_back(Code code) noexcept;

// The time of each of `parts` attempts that may follow one after the other.
[[nodiscard]] SteadyTime share_of(SteadyTime until, std::size_t parts);

// raise_sequence() past a value, in each store that answers. REQUIRES: definition.is_multi_store(),
// here and below.
[[nodiscard]] Result<Raised> raise_stripes(Store& store, const SequenceDefinition& definition,
                                           std::int64_t past, RaiseMode mode, SteadyTime until,
                                           const MultiStoreOptions& multi_store);

// The status of the whole sequence: that of the stripe of `own`, with those of all stripes.
[[nodiscard]] SequenceStatus joined(const SequenceDefinition& own,
                                    std::span<const Result<SequenceStatus>> stripes);

// The status with that of all stripes, if it is of a sequence over several stores.
[[nodiscard]] Result<SequenceStatus> with_stripes(Store& store, Result<SequenceStatus> own,
                                                  SteadyTime until,
                                                  const MultiStoreOptions& multi_store);

}  // namespace idmint
