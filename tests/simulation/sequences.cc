#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "idmint/sequence.h"
#include "tests/fakes/manual_executor.h"
#include "tests/simulation/history.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/store.h"

namespace idmint::simulation {
namespace {

const std::string kName = "numbers";

// The act of an operator in a history.
enum class Act : std::uint8_t { kNothing, kRaise, kAlter, kRetire, kMove, kGoBack };

class SequenceWorld {
 public:
  explicit SequenceWorld(History& its_history)
      : history(its_history),
        strategy(kStrategies[history.choose(kStrategies.size())]),
        multi_store(strategy == Strategy::kInterleaved && history.choose(3) == 2),
        act(static_cast<Act>(history.choose(6))) {}

  void take(Process& me);
  void operate(Process& me);
  // When all others have ended and the network is quiet.
  void take_the_next(Process& me);

  History& history;
  Place a{"simulated://a/ids"};
  Place b{"simulated://b/ids"};
  const Strategy strategy;
  const bool multi_store;
  const Act act;

 private:
  static constexpr std::array kStrategies = {Strategy::kCounter, Strategy::kCached,
                                             Strategy::kStriped, Strategy::kInterleaved,
                                             Strategy::kRandom,  Strategy::kPermuted};
  struct Handles {
    explicit Handles(SequenceWorld& world, Process& me, bool disturbed = true)
        : a(std::make_shared<SimulatedStore>(me, world.a, disturbed)),
          b(std::make_shared<SimulatedStore>(me, world.b, disturbed)),
          multi_store{
              .open = [this](const std::string& url, SteadyTime) -> Result<std::shared_ptr<Store>> {
                return std::static_pointer_cast<Store>(url == b->url() ? b : a);
              }} {}
    std::shared_ptr<SimulatedStore> a;
    std::shared_ptr<SimulatedStore> b;
    MultiStoreOptions multi_store;
  };

  [[nodiscard]] SequenceDefinition definition(std::uint32_t variant) const;
  Result<Changed> create(Process& me, Handles& stores);
  void opened(Process& me, const SequenceDefinition& there);
  void values(Process& me, std::span<const std::int64_t> values, std::int64_t before,
              std::size_t begun);
  void raise(Process& me, Handles& stores);

  std::optional<SequenceDefinition> there_{};
  std::map<std::int64_t, int> given_;  // the value, and the process
  std::int64_t largest_ = 0;           // of those that were returned
  std::int64_t raised_past_ = 0;
  std::size_t raised_at_ = 0;
  bool gone_back_ = false;
  std::set<int> told_{};  // processes that have an error which says so
};

SequenceDefinition SequenceWorld::definition(std::uint32_t variant) const {
  SequenceDefinition made{.name = kName, .strategy = strategy, .last = variant == 0 ? 400 : 300};
  if (strategy == Strategy::kStriped || strategy == Strategy::kInterleaved) made.stripes = 3;
  if (strategy == Strategy::kCached) made.step = 4;
  if (strategy == Strategy::kPermuted) made.key = std::string(32, variant == 0 ? '7' : '8');
  return made;
}

Result<Changed> SequenceWorld::create(Process& me, Handles& stores) {
  const SequenceDefinition wanted = definition(me.decide(2));
  if (multi_store) {
    const std::array<Store*, 2> both = {stores.a.get(), stores.b.get()};
    return create_sequence(both, wanted);
  }
  return create_sequence(*stores.a, wanted, {}, me.entropy());
}

// A process that opens the sequence finds the definition that the others found.
void SequenceWorld::opened(Process& me, const SequenceDefinition& there) {
  if (!there_) there_ = there;
  SequenceDefinition as_known = there;
  as_known.last = there_->last;  // it may be moved up
  as_known.move = there_->move;
  as_known.stripe = there_->stripe;
  if (as_known != *there_ && !gone_back_)
    history.fail(me.name() + " opens another definition than was opened before");
}

void SequenceWorld::values(Process& me, std::span<const std::int64_t> values, std::int64_t before,
                           std::size_t begun) {
  for (const std::int64_t value : values) {
    if (history.is_traced()) history.note(&me, "gets " + std::to_string(value));
    const auto [at, fresh] = given_.try_emplace(value, me.number());
    // If nobody knows that the store went back, others may be given values that this process had.
    // It notices a repeat of its own, and says so: then an operator has to act. It remembers only
    // the latest claims of random values.
    if (!fresh && (!gone_back_ || (at->second == me.number() && strategy != Strategy::kRandom &&
                                   !told_.contains(me.number()))))
      return history.fail(std::to_string(value) + " twice: from process " +
                          std::to_string(at->second) + " and from " + me.name());
    at->second = me.number();
    if (strategy == Strategy::kCounter && !gone_back_) {
      if (value <= before)
        return history.fail(std::to_string(value) + " in a call that began after " +
                            std::to_string(before) + " was returned");
      if (begun >= raised_at_ && value <= raised_past_)
        return history.fail(std::to_string(value) + " in a call that began after a raise past " +
                            std::to_string(raised_past_));
    }
    largest_ = std::max(largest_, value);
  }
}

void SequenceWorld::take(Process& me) {
  Handles stores(*this, me);
  fakes::ManualExecutor executor;
  SimulatedStore* from = stores.a.get();
  for (int lives = 0; lives < 6 && me.is_alive(); ++lives) {
    if (me.decide(3) == 1) static_cast<void>(create(me, stores));
    const auto sequence =
        Sequence::open(*from, kName, {.executor = &executor, .multi_store = stores.multi_store},
                       me.clock(), me.entropy());
    if (!sequence) {
      history.note(&me, "cannot open: " + sequence.error().message());
      if (sequence.error().code == Code::kNotFound) static_cast<void>(create(me, stores));
      if (sequence.error().code == Code::kFailedPrecondition) from = stores.b.get();
      continue;
    }
    if (me.is_alive()) opened(me, (*sequence)->definition());
    for (bool goes_on = true; goes_on && me.is_alive();) {
      std::array<std::int64_t, 4> out{};
      const std::int64_t before = largest_;
      const std::size_t begun = history.moment;
      switch (me.decide(8)) {
        case 0:
          goes_on = false;
          break;
        case 1:
          executor.run_one();
          break;
        case 2:
          if (std::span some(out.data(), 1); (*sequence)->try_next(some) && me.is_alive())
            values(me, some, before, begun);
          break;
        default: {
          const std::span some(out.data(), 1 + me.decide(out.size()));
          const Result<void> filled = (*sequence)->next(some);
          ++history.moment;
          if (filled && me.is_alive()) values(me, some, before, begun);
          if (!filled) {
            if (filled.error().code == Code::kDataLoss) told_.insert(me.number());
            history.note(&me, "no value: " + filled.error().message());
            goes_on = filled.error().code == Code::kUnavailable && me.decide(2) == 1;
            if (filled.error().code == Code::kFailedPrecondition) from = stores.b.get();
          }
        }
      }
    }
  }
  executor.run_all();
  if (!me.is_alive() && !history.is_over() && history.choose(2) == 1)
    history.start(me.name() + "+", [this](Process& next) { take(next); });
}

void SequenceWorld::raise(Process& me, Handles& stores) {
  const std::int64_t past = largest_ + history.choose(8);
  if (past < 1) return;
  const Result<Raised> raised = raise_sequence(*stores.a, kName, past, RaiseMode::kCarryOut,
                                               SteadyTime::max(), stores.multi_store);
  if (!raised || !me.is_alive()) return;
  raised_past_ = std::max(raised_past_, past);
  raised_at_ = ++history.moment;
}

void SequenceWorld::operate(Process& me) {
  Handles stores(*this, me);
  std::optional<stores::memory::Tables> backup;
  int done = 0;
  for (int turn = 0; turn < 60 && me.is_alive() && !history.is_last() && done < 4; ++turn) {
    history.step();
    if (act == Act::kNothing) return;
    if (!history.happens(6)) continue;
    ++done;
    switch (act) {
      case Act::kRaise:
        raise(me, stores);
        break;
      case Act::kAlter:
        static_cast<void>(
            alter_sequence(*stores.a, kName, 400 + 50 * history.choose(4), stores.multi_store));
        break;
      case Act::kRetire:
        if (done == 4) static_cast<void>(retire_sequence(*stores.a, kName, stores.multi_store));
        break;
      case Act::kMove:
        static_cast<void>(move_sequence(*stores.a, *stores.b, kName));
        break;
      case Act::kGoBack:
        if (backup) {
          history.note(&me, "the store goes back");
          gone_back_ = true;
          a.tables = *backup;
          return;
        }
        // A permuted sequence that is made again, with another key, is not noticed.
        if (strategy != Strategy::kPermuted || there_) backup = a.tables;
        break;
      default:
        return;
    }
  }
  if (!me.is_alive() && !history.is_over() && act != Act::kGoBack)
    history.start(me.name() + "+", [this](Process& next) { operate(next); });
}

void SequenceWorld::take_the_next(Process& me) {
  if (act == Act::kMove) {  // an interrupted move is completed
    Handles stores(*this, me, false);
    static_cast<void>(move_sequence(*stores.a, *stores.b, kName));
  }
  Handles stores(*this, me, false);
  for (SimulatedStore* from : {stores.a.get(), stores.b.get()}) {
    fakes::ManualExecutor executor;
    const auto sequence =
        Sequence::open(*from, kName, {.executor = &executor, .multi_store = stores.multi_store},
                       me.clock(), me.entropy());
    if (!sequence) continue;
    std::array<std::int64_t, 3> out{};
    const std::int64_t before = largest_;
    if ((*sequence)->next(out)) values(me, out, before, ++history.moment);
  }
}

}  // namespace

void play_sequences(History& history) {
  SequenceWorld world(history);
  const std::uint32_t takers = 2 + history.choose(2);
  for (std::uint32_t i = 0; i < takers; ++i)
    history.start("p" + std::to_string(i), [&](Process& me) { world.take(me); });
  history.start("operator", [&](Process& me) { world.operate(me); });
  history.run();
  if (history.is_over()) return;
  history.start("the next", [&](Process& me) { world.take_the_next(me); });
  history.run();
}

}  // namespace idmint::simulation
