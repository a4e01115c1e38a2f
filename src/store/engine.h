// Engine: what a kind of store implements. The rules are written over it, once (protocol/).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/uuid.h"
#include "ids/lease_table.h"
#include "store/counter_store.h"

namespace idmint::stores {

enum class Purpose : std::uint8_t {
  kRead,
  kHandOut,  // refused while the store is in doubt, in the statement that would change it
  kOperate,  // raise, alter, retire, release: allowed in a store in doubt
};

// One opened store. Any thread may call any method at any time.
class Engine {
 public:
  // The URL as opened, without passwords.
  [[nodiscard]] virtual std::string_view shown_url() const noexcept = 0;
  [[nodiscard]] virtual Entropy& entropy() const noexcept = 0;
  // The deadline of a call that begins now: that of the store, or `by` if that is earlier.
  // - kFailedPrecondition: the handle was inherited through fork().
  // - kPermissionDenied: it was opened for reading, and the purpose is another.
  [[nodiscard]] virtual Result<SteadyTime> enter(Purpose purpose, SteadyTime by) = 0;
  // The doubt because of which nothing is handed out. A call that handed nothing out asks for it,
  // so that its error is the doubt and not what the store shows meanwhile.
  [[nodiscard]] virtual Result<void> expect_trust(SteadyTime until) = 0;
  // Waits before another attempt.
  virtual void pause(std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }

 protected:
  ~Engine() = default;
};

// By name. A counter that is not there is missing.
using CounterStates = std::map<std::string, CounterState, std::less<>>;

// The least state of a counter afterwards: each field becomes a maximum, so that a lift neither
// starves nor depends on what was read.
struct CounterLift {
  // At or above this, as CounterBounds::at_or_above() says of the bounds after the lift.
  std::optional<std::int64_t> next{};
  std::int64_t last = 0;  // as far as its stride allows (largest_last())
  bool closed = false;
};

// The state once it is lifted.
constexpr void lift_to(const CounterLift& lift, CounterState& state) {
  CounterBounds& bounds = state.bounds;
  if (lift.last <= largest_last(bounds.stride)) bounds.last = std::max(bounds.last, lift.last);
  if (lift.next) state.next = std::max(state.next, bounds.at_or_above(*lift.next));
  state.closed = state.closed || lift.closed;
}

// The records of counters. Errors, besides those of each method, are those of CounterStore.
// `doing`: for messages, such as "take values from".
class CounterRows {
 public:
  // Makes those that are missing, and returns each as it is then, but for the next value of an
  // adopted one. REQUIRES: names once each.
  // - kAlreadyExists: one of them is in another record, or none, than it is to be adopted from.
  [[nodiscard]] virtual Result<CounterStates> make_counters(std::span<const NewCounter> counters,
                                                            SteadyTime until,
                                                            std::string_view doing) = 0;
  // Takes the next `most` values, or as many as are left if these are at least `least`, in one
  // atomic step that is durable before it returns. Nothing: none was taken, as the counter is not
  // there, is closed or has too few left, or the store is in doubt; or as a reading has to show
  // first that it is adopted.
  [[nodiscard]] virtual Result<std::optional<Range>> advance(std::string_view counter,
                                                             std::int64_t most, std::int64_t least,
                                                             SteadyTime until,
                                                             std::string_view doing) = 0;
  // Lifts each, closed or not, in one atomic step for each, and returns the bounds of each as they
  // are then, and the next value if that was to be lifted. All changes are durable before it
  // returns.
  [[nodiscard]] virtual Result<CounterStates> lift(std::span<const std::string> counters,
                                                   const CounterLift& lift, SteadyTime until,
                                                   std::string_view doing) = 0;
  [[nodiscard]] virtual Result<CounterStates> read_counters(std::span<const std::string> counters,
                                                            SteadyTime until) = 0;
  // The counters whose names begin so, sorted by name.
  [[nodiscard]] virtual Result<std::vector<CounterState>> list_counters(std::string_view prefix,
                                                                        SteadyTime until) = 0;

  // As in CounterStore. Null and nothing to do: it adopts no records.
  [[nodiscard]] virtual const Adoption* adoption() const noexcept { return nullptr; }
  [[nodiscard]] virtual Result<std::string> find_record(const SequenceDefinition& definition) {
    return definition.adopted;
  }
  [[nodiscard]] virtual Result<void> can_extend(std::span<const std::string> /*counters*/,
                                                std::int64_t /*last*/, SteadyTime /*until*/) {
    return {};
  }

 protected:
  ~CounterRows() = default;
};

// The outcome of a change that depends on what is there.
enum class Swapped : std::uint8_t {
  kYes,
  kNo,       // another row is there; nothing was changed
  kPerhaps,  // likewise, but an attempt whose answer was lost may have been applied before
};

// A definition as it is stored.
struct DefinitionRow {
  std::string name{};
  std::string json{};
};

// The definitions. No row is ever removed. Errors, besides those of each method, are those of
// Catalog. `doing`: for messages, such as "write a definition into".
class DefinitionRows {
 public:
  // Inserts the row unless its name has one, in one atomic step that is durable before it returns.
  // Not kYes: a reading has to show whether the name has one, or the store is in doubt.
  [[nodiscard]] virtual Result<Swapped> insert_definition(const DefinitionRow& row,
                                                          SteadyTime until,
                                                          std::string_view doing) = 0;
  // Gives the name the text `json` if it has that of `row`, likewise in one step.
  [[nodiscard]] virtual Result<Swapped> swap_definition(const DefinitionRow& row,
                                                        const std::string& json, SteadyTime until,
                                                        std::string_view doing) = 0;
  // The text. Nothing: the name has none.
  [[nodiscard]] virtual Result<std::optional<std::string>> read_definition(std::string_view name,
                                                                           SteadyTime until) = 0;
  // The definitions whose names come after `after`, sorted by name: `most` of them, or fewer if
  // there are no more. A store that cannot read a part returns all.
  [[nodiscard]] virtual Result<std::vector<DefinitionRow>> list_definitions(std::string_view after,
                                                                            std::size_t most,
                                                                            SteadyTime until) = 0;
  // The definition in a text. Errors of definition_from_json().
  [[nodiscard]] virtual Result<Definition> parse(std::string_view json) const {
    return definition_from_json(json);
  }

 protected:
  ~DefinitionRows() = default;
};

// The row of a worker id.
struct WorkerRow {
  // held_for: what was left by the store's clock when the row was read.
  LeaseState state{};
  // The nonce of the latest extension, perhaps that of an earlier owner; nil: there was none.
  Uuid nonce{};

  friend bool operator==(const WorkerRow&, const WorkerRow&) = default;
};

struct WorkerSwap {
  // As it was read, or as it was left by the latest swap of its owner. Compared: token, generation,
  // minted_until, taken_from and nonce, each by value. A version of the row would not do: a
  // restored store uses versions again.
  WorkerRow from{};
  // The row after the swap. held_for counts from the store's clock at the swap. The holder is
  // written where the token changes, and stays otherwise.
  WorkerRow to{};
};

// A choice of rows for an acquire.
struct FreeWorkers {
  Uuid token{};
  bool may_own = false;      // the token may own a row already
  std::int64_t limit = 0;    // of minted_until
  std::uint64_t start = 0;   // random; modulo the size of the pool it is the first worker id
  std::int64_t workers = 0;  // the size of the pool, if the caller knows it; 0: it does not
  std::size_t most = 0;      // rows
};

// The rows of the worker ids in pools. No row is ever removed. Errors, besides those of each
// method, are those of LeaseTable. `doing`: for messages, such as "lease a worker id from".
class WorkerRows {
 public:
  // Makes the rows of the worker ids 0 to workers - 1 that are missing, as WorkerRow{} with their
  // number, and then the pool. Returns the size of the pool that is there, which may be another
  // one's.
  [[nodiscard]] virtual Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers,
                                                       SteadyTime until,
                                                       std::string_view doing) = 0;
  // kNotFound: no such pool, or no such worker id in it.
  [[nodiscard]] virtual Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                                      SteadyTime until) = 0;
  // Sorted by worker id. kNotFound: no such pool.
  [[nodiscard]] virtual Result<std::vector<WorkerRow>> read_workers(std::string_view pool,
                                                                    SteadyTime until) = 0;
  // The row that the token owns, alone; always found if it may own one. If it owns none: rows
  // without an owner, or whose owner's time is over, with a minted_until of at most the limit. With
  // `start` 0 those with the smallest ones, of all or, in a pool of more than kLeastRead, of that
  // many; otherwise any, from a random worker id on. If there is none either, the one with the
  // smallest minted_until of all that are free. Nothing: each has an owner. kNotFound: no such
  // pool.
  [[nodiscard]] virtual Result<std::vector<WorkerRow>> find_free(std::string_view pool,
                                                                 const FreeWorkers& wanted,
                                                                 SteadyTime until) = 0;
  // Swaps each row that is as it is expected to be, in one atomic step for each. All changes are
  // durable before it returns. Says of each what came of it, in their order.
  // - kUnavailable: also where the clock in `terms` differs from that of the store by more than its
  //   max_skew. Compared in the same step. Null, or a store without a clock: no comparison.
  // REQUIRES: at most kMostSwaps, each of another worker id; the purpose is not kRead.
  [[nodiscard]] virtual Result<std::vector<Swapped>> swap_workers(
      std::string_view pool, std::span<const WorkerSwap> swaps, Purpose purpose,
      const LeaseTerms* terms, SteadyTime until, std::string_view doing) = 0;
  static constexpr std::size_t kMostSwaps = 10'000;
  static constexpr std::size_t kLeastRead = 64;

 protected:
  ~WorkerRows() = default;
};

}  // namespace idmint::stores
