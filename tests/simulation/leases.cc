#include <algorithm>
#include <any>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ids/clock_sequence.h"
#include "ids/last_issued.h"
#include "ids/lease_table.h"
#include "ids/worker_lease.h"
#include "store/protocol/lease_rules.h"
#include "tests/simulation/history.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/store.h"

namespace idmint::simulation {
namespace {

using std::chrono::milliseconds;
using stores::WorkerRow;
using stores::WorkerSwap;

constexpr std::string_view kPool = "workers";
constexpr std::uint32_t kCapacity = 2;  // ids of one tick

// An event that may happen to the store or to a process in a history, beside faults.
enum class Event : std::uint8_t {
  kNone,
  kCopy,      // a process is copied, as a virtual machine is from a snapshot
  kRestored,  // the store goes back to a backup and is fenced
  kWentBack,  // the store goes back to a backup, and nobody knows
  kFailOver,  // the store forgets what it did not acknowledge
  kRaised,    // an operator raises the pool, and releases what he reads
};

// The facts known of one process from outside.
struct Holder {
  std::optional<WorkerRow> acknowledged{};  // by its latest acquire or extend
  // For each worker id the end of what it may mint.
  std::map<std::int64_t, std::int64_t> ends{};
  std::map<Uuid, std::int64_t> extensions{};  // those that it sent, by their nonces: to which bound
  bool shown = false;                         // it has read what rules its lease out
  Process* process = nullptr;
};

class LeaseWorld {
 public:
  explicit LeaseWorld(History& its_history)
      : history(its_history), event(static_cast<Event>(history.choose(6))) {}

  void generate(Process& me);
  void operate(Process& me);

  History& history;
  Place place{"simulated://ids"};
  const Event event;

 private:
  void watch(Process& me, SimulatedStore& store);
  void refused(Process& me, const Error& why);
  void mint(Process& me, ClockSequence& sequence, std::optional<Stamp>& last);
  void minted(Process& me, std::int64_t worker, std::int64_t tick, std::uint32_t count);
  void copy_one(Process& me);
  void restore(Process& me, const stores::memory::Tables& backup);

  std::map<int, Holder> holders_;  // by the number of the process
  using IdOfPool = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;
  std::map<IdOfPool, std::vector<int>> ids_;  // who minted it
  // The original, the copy, and what both may mint.
  struct Copied {
    int original = -1;
    int copy = -1;
    std::map<std::int64_t, std::int64_t> ends{};
  };
  std::optional<Copied> copied_{};
  bool gone_back_ = false;
};

void raise(std::int64_t& bound, std::int64_t to) { bound = std::max(bound, to); }

// The rule of docs/design/005-leases.md, written once more: what no store shows that knew the
// lease.
bool rules_out(const LeaseState& row, const LeaseState& lease) {
  const bool same_epoch = row.generation / stores::kEpoch == lease.generation / stores::kEpoch;
  return row.minted_until < lease.minted_until ||
         (same_epoch && row.generation < lease.generation) ||
         (row.generation == lease.generation && row.token != Uuid{} && row.token != lease.token) ||
         (row.generation != lease.generation && row.taken_from < lease.minted_until);
}

void LeaseWorld::watch(Process& me, SimulatedStore& store) {
  Holder& holder = holders_[me.number()];
  store.on_swap = [this, &me, &holder](const WorkerSwap& swap) {
    if (swap.to.nonce == swap.from.nonce) return;
    holder.extensions[swap.to.nonce] = swap.to.state.minted_until;
    // A copy that was made while an extension was pending has its nonce, and both are granted it.
    if (copied_ && (me.number() == copied_->original || me.number() == copied_->copy)) {
      const auto& others =
          holders_[me.number() == copied_->copy ? copied_->original : copied_->copy].extensions;
      if (const auto both = others.find(swap.to.nonce); both != others.end())
        raise(copied_->ends[swap.to.state.worker], both->second);
    }
  };
  store.on_swapped = [&holder](const WorkerSwap& swap) {
    if (swap.to.state.token == Uuid{}) return;
    raise(holder.ends[swap.to.state.worker], swap.to.state.minted_until);
    holder.acknowledged = swap.to;
  };
  store.on_row = [&holder](const WorkerRow& row) {
    if (const auto& lease = holder.acknowledged;
        lease && lease->state.worker == row.state.worker && rules_out(row.state, lease->state))
      holder.shown = true;
  };
}

void LeaseWorld::minted(Process& me, std::int64_t worker, std::int64_t tick, std::uint32_t count) {
  const std::string what =
      "id " + std::to_string(worker) + "/" + std::to_string(tick) + "/" + std::to_string(count);
  if (history.is_traced()) history.note(&me, "mints " + what);
  if (holders_[me.number()].shown)
    return history.fail(me.name() + " mints " + what +
                        " after the store showed less than it had "
                        "acknowledged");
  std::vector<int>& minters = ids_[{worker, tick, count}];
  for (const int other : minters) {
    const bool of_copies = copied_ && other != me.number() &&
                           (other == copied_->original || other == copied_->copy) &&
                           (me.number() == copied_->original || me.number() == copied_->copy);
    const auto shared =
        of_copies ? copied_->ends.find(worker) : std::map<std::int64_t, std::int64_t>::iterator{};
    if (of_copies && shared != copied_->ends.end() && tick < shared->second) continue;
    // If nobody knows that the store went back, others may be granted leases that this process had;
    // but it notices those that it was granted itself.
    if (gone_back_ && other != me.number()) continue;
    return history.fail(what + " twice: from process " + std::to_string(other) + " and from " +
                        me.name());
  }
  minters.push_back(me.number());
}

// No store that knew a lease shows what rules it out.
void LeaseWorld::refused(Process& me, const Error& why) {
  if (history.is_traced() && !me.is_replayed()) history.note(&me, "refused: " + why.message());
  if (why.code == Code::kDataLoss && me.is_alive() &&
      (event == Event::kNone || event == Event::kFailOver || event == Event::kRestored))
    history.fail(me.name() + " takes the store for one that went back: " + why.message());
}

void LeaseWorld::mint(Process& me, ClockSequence& sequence, std::optional<Stamp>& last) {
  const Result<Stamp> stamp = sequence.next(1 + me.decide(3));
  if (!stamp) return refused(me, stamp.error());
  if (last &&
      std::pair(stamp->tick, stamp->count) <= std::pair(last->tick, last->count + last->size - 1))
    history.fail(me.name() + " mints out of order");
  last = *stamp;
  // A copy did not mint what its original did before.
  if (me.is_replayed() || !me.is_alive()) return;
  for (std::uint32_t i = 0; i < stamp->size; ++i)
    minted(me, static_cast<std::int64_t>(stamp->high), stamp->tick, stamp->count + i);
}

void LeaseWorld::generate(Process& me) {
  if (event == Event::kCopy) me.record();
  SimulatedStore store(me, place);
  watch(me, store);
  holders_[me.number()].process = &me;
  if (event == Event::kWentBack) store.leases()->remember_in(StoreIssued::of(store.name_on_host()));
  const std::chrono::nanoseconds unit = milliseconds{1};
  const std::chrono::nanoseconds run_ahead = milliseconds{10} * me.decide(2);
  for (int lives = 0; lives < 3 && me.is_alive(); ++lives) {
    holders_[me.number()].acknowledged.reset();
    holders_[me.number()].shown = false;
    Result<std::unique_ptr<WorkerLease>> lease = WorkerLease::acquire(
        *store.leases(),
        {.pool = std::string(kPool),
         .holder = me.name(),
         .epoch = Instant{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}},
         .unit = unit,
         .max_tick = 1 << 30,
         .max_worker = 7,
         .first_window = 1 + me.decide(4),
         .window = 6,
         .max_drift = 60,
         .held = milliseconds{6},
         .max_skew = milliseconds{50},
         .deadline = std::chrono::seconds{20},
         .names = &me.entropy()},
        me.clock(), me.entropy(), SteadyTime::max());
    if (!lease) {
      refused(me, lease.error());
      continue;
    }
    ClockSequence sequence(
        {.epoch = Instant{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}},
         .unit = unit,
         .capacity = kCapacity,
         .max_tick = 1 << 30,
         .max_drift = milliseconds{60},
         .max_run_ahead = run_ahead},
        me.clock(), [&] { return TickSeed{.high = (*lease)->worker()}; }, lease->get());
    std::optional<Stamp> last;
    bool goes_on = sequence.start((*lease)->from()).has_value();
    while (goes_on && me.is_alive()) {
      switch (me.decide(8)) {
        case 0:
          goes_on = false;
          break;
        case 1:
          if (Result<void> renewed = (*lease)->renew(); !renewed) {
            refused(me, renewed.error());
            if (renewed.error().code == Code::kDataLoss) sequence.revoke(renewed.error());
          }
          break;
        default:
          mint(me, sequence, last);
      }
    }
    // Ended, it reads its row to release it, and mints nothing afterwards.
    holders_[me.number()].acknowledged.reset();
  }
  holders_[me.number()].process = nullptr;
  if (!me.is_alive() && !history.is_over() && history.choose(2) == 1)
    history.start(me.name() + "+", [this](Process& next) { generate(next); });
}

// All that a process is, at this moment, once more.
void LeaseWorld::copy_one(Process& me) {
  for (auto& [number, holder] : holders_) {
    if (holder.process == nullptr || !holder.process->is_alive() || holder.process->is_replayed() ||
        history.choose(2) == 0)
      continue;
    history.note(&me, "copies " + holder.process->name());
    copied_ = {.original = number, .ends = holder.ends};
    history.start("copy of " + holder.process->name(),
                  [this, inputs = holder.process->inputs()](Process& copy) {
                    copied_->copy = copy.number();
                    copy.replay(inputs);
                    generate(copy);
                  });
    return;
  }
}

void LeaseWorld::restore(Process& me, const stores::memory::Tables& backup) {
  SimulatedStore store(me, place, false);
  std::int64_t floor = 0;
  for (const LeaseState& row : store.leases()->workers(kPool).value())
    floor = std::max(floor, row.minted_until);
  place.tables = backup;
  if (event == Event::kWentBack) {
    history.note(&me, "the store goes back");
    gone_back_ = true;
    return;
  }
  history.note(&me, "the store goes back, and is fenced");
  if (const Result<void> fenced = store.leases()->raise_floor(kPool, floor); !fenced)
    history.fail("the fence fails: " + fenced.error().message());
}

void LeaseWorld::operate(Process& me) {
  SimulatedStore store(me, place);
  std::optional<stores::memory::Tables> backup;
  for (int turn = 0; turn < 200 && me.is_alive() && !history.is_last(); ++turn) {
    // Faults that end others do not end this one: it is no process of idmint.
    history.step();
    switch (event) {
      case Event::kCopy:
        if (history.happens(6)) return copy_one(me);
        break;
      case Event::kRestored:
      case Event::kWentBack:
        if (!history.happens(6)) break;
        if (backup) return restore(me, *backup);
        history.note(&me, "a backup");
        backup = place.tables;
        break;
      case Event::kFailOver:
        if (!history.happens(6)) break;
        history.note(&me, "a fail-over");
        place.tables = *place.durable;
        break;
      case Event::kRaised:
        if (!history.happens(4)) break;
        if (history.happens(3)) {
          static_cast<void>(store.leases()->raise_floor(kPool, history.choose(40)));
          return;
        }
        if (const auto rows = store.leases()->workers(kPool); rows) {
          const LeaseState& row = (*rows)[history.choose(static_cast<std::uint32_t>(rows->size()))];
          if (row.token != Uuid{})
            static_cast<void>(
                store.leases()->release(kPool, row.worker, row.token, row.generation));
        }
        break;
      case Event::kNone:
        return;
    }
  }
}

}  // namespace

void play_leases(History& history) {
  LeaseWorld world(history);
  const std::uint32_t generators = 2 + history.choose(3);
  const std::uint32_t workers = 1 + history.choose(3);
  history.start("operator", [&](Process& me) {
    SimulatedStore store(me, world.place, false);
    if (!store.leases()->create_pool(kPool, workers)) history.fail("no pool");
    if (world.event == Event::kFailOver) world.place.durable = world.place.tables;
    for (std::uint32_t i = 0; i < generators; ++i)
      history.start("g" + std::to_string(i), [&](Process& its) { world.generate(its); });
    world.operate(me);
  });
  history.run();
}

}  // namespace idmint::simulation
