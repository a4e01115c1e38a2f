#include "server/store_probe.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "idmint/worker_pool.h"
#include "mint/sequence_facts.h"
#include "sequences/held_for.h"

namespace idmint::server {

namespace {

// The least time that one look has for the sequences of a store.
constexpr std::chrono::milliseconds kLeastPatience{1000};

// The instant at which a range of id-time ends that reaches up to this unit.
Instant bound_of(const SnowflakeLayout& layout, std::int64_t units) {
  return time_of(layout, units).value_or(Instant::max());
}

}  // namespace

// ---- Exhaustion

void Exhaustion::note(SteadyTime now, std::int64_t left) {
  constexpr std::chrono::minutes apart{5};
  if (!samples_.empty() && left > samples_.back().left) samples_.clear();
  const std::size_t size = samples_.size();
  if (size >= 2 && now - samples_[size - 2].at < apart) samples_.pop_back();
  samples_.push_back({now, left});
  while (samples_.size() > 2 && now - samples_[1].at >= kLongest) samples_.pop_front();
}

std::optional<double> Exhaustion::seconds() const {
  if (samples_.empty()) return std::nullopt;
  const Sample& latest = samples_.back();
  if (latest.left == 0) return 0.0;
  const std::chrono::duration<double> passed = latest.at - samples_.front().at;
  if (passed < kLeast) return std::nullopt;
  const std::int64_t taken = samples_.front().left - latest.left;
  if (taken == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(latest.left) / static_cast<double>(taken) * passed.count();
}

// ---- StoreProbe

// The result of one probe.
struct StoreProbe::Found {
  std::chrono::nanoseconds took{};
  Instant at{};
  SteadyTime steadily_at{};
  bool doubt = false;
  std::optional<std::chrono::nanoseconds> clock_offset{};
  std::vector<ProbedSource> sources{};
  std::size_t left_out = 0;
  std::size_t damaged = 0;
};

StoreProbe::StoreProbe(Loop& loop, const Sources& sources, std::chrono::milliseconds patience,
                       Clock& clock)
    : loop_(loop), sources_(sources), patience_(patience), clock_(clock) {
  for (const Sources::NamedMint& each : sources.mints()) {
    stores_.push_back({.name = std::string(each.store)});
    states_.emplace_back();
  }
}

void StoreProbe::look(MoveOnlyFunction<void()> then) {
  const std::uint64_t number = ++last_number_;
  const auto [entry, added] = waiting_.emplace(
      number, Waiting{std::move(then), boost::asio::steady_timer(loop_.context())});
  entry->second.timer.expires_after(patience_);
  entry->second.timer.async_wait([this, number](const boost::system::error_code& stopped) {
    if (stopped) return;
    const SteadyTime late = std::chrono::steady_clock::now() - patience_;
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      if (states_[i].asked && *states_[i].asked <= late) stores_[i].up = false;
    }
    answer(number);
  });
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    if (states_[i].asked) continue;
    states_[i].asked = std::chrono::steady_clock::now();
    due_.push_back(i);
  }
  start_due();
}

void StoreProbe::start_due() {
  while (under_way_ < kMostAtOnce && !due_.empty()) {
    const std::size_t store = due_.front();
    due_.pop_front();
    ++under_way_;
    start(store);
  }
}

void StoreProbe::start(std::size_t store) {
  const std::vector<Sources::NamedMint> mints = sources_.mints();
  const std::string& name = stores_[store].name;
  std::string before = name.empty() ? "" : name + "/";
  loop_.elsewhere(
      loop_.due(),
      // A sequence over several stores waits for those that are down: what is left of the patience
      // is for this store.
      [&mint = mints[store].mint, before = std::move(before), pools = sources_.open_pools(name),
       &clock = clock_, patience = std::max(patience_ * 3 / 4, kLeastPatience)](SteadyTime until) {
        return look_at(mint, before, pools, clock,
                       std::min(until, std::chrono::steady_clock::now() + patience));
      },
      [this, store](Result<Found> found) { finish(store, std::move(found)); });
}

Result<StoreProbe::Found> StoreProbe::look_at(Mint& mint, const std::string& before,
                                              const std::vector<std::string>& open_pools,
                                              Clock& clock, SteadyTime until) {
  Found found{.at = clock.now(), .steadily_at = std::chrono::steady_clock::now()};
  const Result<std::vector<SequenceStatus>> all = mint.list(until);
  if (!all) return std::unexpected(all.error());
  found.took = std::chrono::steady_clock::now() - found.steadily_at;
  for (const SequenceStatus& status : *all) {
    if (is_retired(status.definition)) continue;
    if (found.sources.size() == kMostSources) {
      ++found.left_out;
      continue;
    }
    if (state_name(status) == "damaged") {
      ++found.damaged;
      continue;
    }
    ProbedSource& source = found.sources.emplace_back();
    const std::string& name = idmint::name(status.definition);
    source.name = before + name;
    source.next = status.next;
    source.left = status.left;
    const auto* const pool = std::get_if<PoolDefinition>(&status.definition);
    if (pool == nullptr) continue;
    source.is_pool = true;
    source.workers = pool->workers;
    if (std::ranges::find(open_pools, name) == open_pools.end()) continue;
    const Result<std::vector<LeaseState>> workers = mint.list_workers(name);
    if (!workers) return std::unexpected(workers.error());
    const std::string us = this_process();
    for (const LeaseState& state : *workers) {
      // The first lease is of one unit, for a call or two, and is not renewed: one that minted
      // little is not about to fail.
      const std::int64_t from = state.taken_from.value_or(0);
      if (is_owned(state) && state.holder == us && state.minted_until - from > 1)
        source.leases.push_back({state.worker, bound_of(pool->layout, state.minted_until)});
    }
  }
  const Result<std::shared_ptr<Store>> store = mint.store();
  if (!store) return found;  // the default one, in which nothing was created yet
  found.doubt = (*store)->doubt().has_value();
  const Instant asked = clock.now();
  const Result<std::optional<Instant>> time = (*store)->time();
  if (!time) return std::unexpected(time.error());
  // The store looked at its clock between two looks at ours.
  if (const std::optional<Instant> its = *time)
    found.clock_offset = *its - (asked + (clock.now() - asked) / 2);
  return found;
}

void StoreProbe::finish(std::size_t store, Result<Found> found) {
  ProbedStore& to = stores_[store];
  State& state = states_[store];
  state.asked.reset();
  --under_way_;
  to.up = found.has_value() && !found->doubt;
  if (found) {
    std::map<std::string, Exhaustion> exhaustion;
    for (ProbedSource& source : found->sources) {
      if (source.is_pool) continue;
      auto known = state.exhaustion.extract(source.name);
      Exhaustion& of_source = exhaustion[source.name];
      if (!known.empty()) of_source = std::move(known.mapped());
      of_source.note(found->steadily_at, source.left);
      if (const std::optional<double> seconds = of_source.seconds())
        source.exhausts_at =
            std::chrono::duration<double>(found->at.time_since_epoch()).count() + *seconds;
    }
    state.exhaustion = std::move(exhaustion);
    to.looked_at = found->at;
    to.took = found->took;
    to.clock_offset = found->clock_offset;
    to.sources = std::move(found->sources);
    to.left_out = found->left_out;
    to.damaged = found->damaged;
  }
  start_due();
  if (under_way_ != 0) return;
  for (auto& [number, waiting] : std::exchange(waiting_, {})) waiting.then();
}

void StoreProbe::answer(std::uint64_t number) {
  // Those that were answered meanwhile are gone.
  if (auto waiting = waiting_.extract(number); !waiting.empty()) waiting.mapped().then();
}

}  // namespace idmint::server
