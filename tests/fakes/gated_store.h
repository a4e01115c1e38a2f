// A store in memory whose advances and inserts wait at a gate, and whose calls fail as a test tells
// them to.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/definition.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint::fakes {

class GatedStore final : public Store, public CounterStore, public Catalog, public UniqueIndex {
 public:
  GatedStore() = default;
  // One of several.
  GatedStore(const Uuid& id, std::string url) : id_(id), url_(std::move(url)) {}

  struct Advance {
    std::int64_t count;
    Take take;
    friend bool operator==(const Advance&, const Advance&) = default;
  };
  // The failure of a call; `applied`: the store changes all the same.
  struct Fault {
    Error error;
    bool applied = false;
  };

  // From now on an advance or an insert waits, when it has begun, until open_gate(); or one, with
  // let_one_pass().
  void shut_gate() {
    set([this] { shut_ = true; });
  }
  void open_gate() {
    set([this] { shut_ = false; });
  }
  void let_one_pass() {
    set([this] { ++passes_; });
  }
  // Returns when `n` advances in all have begun.
  void wait_for_advances(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return advances_.size() >= n; });
  }

  // Returns when `n` inserts in all have begun.
  void wait_for_inserts(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return inserts_.size() >= n; });
  }

  // The next advance, insert or define.
  void fail_next(Fault fault) {
    set([&] { faults_.push_back(std::move(fault)); });
  }
  // The n-th call of any kind, counted from 1 and from now on; of those that are told apart by
  // nothing but their number, this finds every place where a program can be cut off.
  void fail_call(std::size_t n, Fault fault) {
    set([&] {
      fail_at_ = calls_ + n;
      fault_at_ = std::move(fault);
    });
  }
  // Before the n-th call, counted as above: what another process writes into the catalog.
  using Definitions = std::map<std::string, Definition, std::less<>>;
  void meanwhile(std::size_t n, std::function<void(Definitions&)> change) {
    set([&] {
      change_at_ = calls_ + n;
      change_ = std::move(change);
    });
  }
  // Before the n-th call, counted as above: what another process does, to this store too.
  void before(std::size_t n, std::function<void()> act) {
    set([&] {
      act_at_ = calls_ + n;
      act_ = std::move(act);
    });
  }
  // It may hold less than it handed out (Store::doubt()).
  void be_doubted(std::optional<Error> doubt) {
    set([&] { doubt_ = std::move(doubt); });
  }
  // It was settled so often.
  void be_settled(std::int64_t count) { settled_ = count; }
  // Likewise, which this handle finds out by read_settle_count() only.
  void be_settled_unread(std::int64_t count) { unread_ = count; }
  // Every advance of this counter, until it is mended (nullopt).
  void fail_counter(const std::string& counter, const std::optional<Error>& error) {
    set([&] {
      if (error) {
        broken_.insert_or_assign(counter, *error);
      } else {
        broken_.erase(counter);
      }
    });
  }
  // Looking at its clock fails so, until it is back (nullopt): as a probe of readiness does.
  void be_away(std::optional<Error> error) {
    set([&] { away_ = std::move(error); });
  }
  // How many calls there were.
  [[nodiscard]] std::size_t calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  // As restoring an old backup does.
  void set_next(const std::string& counter, std::int64_t next) {
    set([&] { counters_.at(counter).next = next; });
  }
  void lose(const std::string& counter) {
    set([&] { counters_.erase(counter); });
  }
  void put(const Definition& definition) {
    set([&] { defined_[name(definition)] = definition; });
  }
  // This counter is in a record of other programs, as one that `create --adopt` made.
  void adopt(const std::string& counter) {
    set([&] { adopted_.insert(counter); });
  }
  void put_claims(const std::string& space, std::set<std::int64_t> claims) {
    set([&] { spaces_[space].claims = std::move(claims); });
  }
  void lose_claims(const std::string& space) {
    set([&] { spaces_.erase(space); });
  }
  void offer_nothing() { offers_ = false; }

  [[nodiscard]] std::vector<Advance> advances() const {
    const std::lock_guard lock(mutex_);
    return advances_;
  }
  // The counters of the advances.
  [[nodiscard]] std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  // When each advance or insert was to answer.
  [[nodiscard]] std::vector<SteadyTime> deadlines() const {
    const std::lock_guard lock(mutex_);
    return deadlines_;
  }
  // By when the latest listing of the definitions was to answer.
  [[nodiscard]] std::optional<SteadyTime> listed_until() const {
    const std::lock_guard lock(mutex_);
    return listed_until_;
  }
  // The keys of each insert.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> inserts() const {
    const std::lock_guard lock(mutex_);
    return inserts_;
  }
  [[nodiscard]] std::size_t most_in_flight() const {
    const std::lock_guard lock(mutex_);
    return most_in_flight_;
  }

  // Store
  [[nodiscard]] const Uuid& id() const noexcept override { return id_; }
  [[nodiscard]] std::string_view url() const noexcept override { return url_; }
  [[nodiscard]] CounterStore* counters() noexcept override { return offers_ ? this : nullptr; }
  [[nodiscard]] Catalog* catalog() noexcept override { return offers_ ? this : nullptr; }
  [[nodiscard]] UniqueIndex* unique_index() noexcept override { return offers_ ? this : nullptr; }
  [[nodiscard]] LeaseTable* leases() noexcept override { return nullptr; }

  [[nodiscard]] std::int64_t settle_count() const noexcept override { return settled_; }
  [[nodiscard]] Result<std::int64_t> read_settle_count(SteadyTime /*until*/) override {
    return settled_ = std::max(settled_.load(), unread_.load());
  }
  [[nodiscard]] std::optional<Error> doubt(SteadyTime /*until*/) override {
    const std::lock_guard lock(mutex_);
    return doubt_;
  }
  [[nodiscard]] Result<std::optional<Instant>> time(SteadyTime /*until*/) override {
    const std::lock_guard lock(mutex_);
    if (away_) return std::unexpected(*away_);
    return std::nullopt;
  }

  // CounterStore
  Result<std::vector<CounterState>> do_create(std::span<const NewCounter> counters) override {
    const std::lock_guard lock(mutex_);
    using States = std::vector<CounterState>;
    return call<States>([&]() -> Result<States> {
      States all;
      for (const auto& [name, bounds, adopted, stripe, make] : counters) {
        const auto at = counters_.try_emplace(name, name, bounds, bounds.first, false).first;
        if (adopted_.contains(name)) {
          return std::unexpected(Error{Code::kAlreadyExists, "exists in another record"});
        }
        if (at->second.bounds != bounds) {
          return std::unexpected(Error{Code::kAlreadyExists, "exists with other bounds"});
        }
        all.push_back(at->second);
      }
      return all;
    });
  }

  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime until) override {
    std::unique_lock lock(mutex_);
    deadlines_.push_back(until);
    advances_.push_back({count, take});
    asked_.emplace_back(counter);
    pass_gate(lock);
    return call<Range>(next_fault(), [&]() -> Result<Range> {
      if (const auto broken = broken_.find(counter); broken != broken_.end()) {
        return std::unexpected(broken->second);
      }
      const auto at = counters_.find(counter);
      if (at == counters_.end()) return std::unexpected(no_such("counter"));
      CounterState& state = at->second;
      if (state.closed) return std::unexpected(closed());
      const std::int64_t left = state.left();
      if (left == 0 || (take == Take::kAll && left < count)) {
        return std::unexpected(Error{Code::kOutOfRange, "fewer are left"});
      }
      const Range range{state.next, state.bounds.stride, std::min(left, count)};
      state.next += range.count * range.stride;
      return range;
    });
  }

  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                             std::int64_t floor, SteadyTime /*until*/) override {
    return on_each<std::int64_t>(counters, [&](CounterState& state) {
      return state.next = std::max(state.next, state.bounds.at_or_above(floor));
    });
  }

  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                               std::int64_t last) override {
    return on_each<CounterBounds>(counters, [&](CounterState& state) {
      state.bounds.last = std::max(state.bounds.last, last);
      return state.bounds;
    });
  }

  Result<void> do_close(std::span<const std::string> counters) override {
    const auto closed =
        on_each<bool>(counters, [](CounterState& state) { return state.closed = true; });
    if (!closed) return std::unexpected(closed.error());
    return {};
  }

  Result<CounterState> do_peek(std::string_view counter, SteadyTime /*until*/) override {
    const std::lock_guard lock(mutex_);
    return call<CounterState>([&]() -> Result<CounterState> {
      const auto at = counters_.find(counter);
      if (at == counters_.end()) return std::unexpected(no_such("counter"));
      return at->second;
    });
  }

  Result<std::vector<CounterState>> do_list(std::string_view prefix,
                                            SteadyTime /*until*/) override {
    const std::lock_guard lock(mutex_);
    return call<std::vector<CounterState>>([&] {
      std::vector<CounterState> all;
      for (const auto& [name, state] : counters_) {
        if (name.starts_with(prefix)) all.push_back(state);
      }
      return all;
    });
  }

  // Catalog
  Result<Defined> do_define(const Definition& definition) override {
    const std::lock_guard lock(mutex_);
    return call<Defined>(next_fault(), [&]() -> Result<Defined> {
      const auto [at, made] = defined_.try_emplace(name(definition), definition);
      return Defined{at->second, made};
    });
  }

  Result<Defined> do_replace(const Definition& old, const Definition& updated) override {
    const std::lock_guard lock(mutex_);
    return call<Defined>([&]() -> Result<Defined> {
      const auto at = defined_.find(name(old));
      if (at == defined_.end()) return std::unexpected(no_such("definition"));
      const bool made = at->second == old;
      if (made) at->second = updated;
      return Defined{at->second, made};
    });
  }
  Result<Definition> do_find(std::string_view name, SteadyTime /*until*/) override {
    const std::lock_guard lock(mutex_);
    return call<Definition>([&]() -> Result<Definition> {
      const auto at = defined_.find(name);
      if (at == defined_.end()) return std::unexpected(no_such("definition"));
      return at->second;
    });
  }

  Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t /*most*/,
                                                  SteadyTime until) override {
    const std::lock_guard lock(mutex_);
    listed_until_ = until;
    return call<std::vector<CatalogEntry>>([&] {
      std::vector<CatalogEntry> all;
      for (const auto& [name, definition] : defined_)
        if (name > after) all.push_back({name, definition});
      return all;
    });
  }

  // UniqueIndex
  Result<void> do_create_space(std::string_view space) override {
    const std::lock_guard lock(mutex_);
    return call<void>([&]() -> Result<void> {
      spaces_.try_emplace(std::string(space));
      return {};
    });
  }
  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime until) override {
    std::unique_lock lock(mutex_);
    deadlines_.push_back(until);
    inserts_.emplace_back(keys.begin(), keys.end());
    pass_gate(lock);
    return call<std::vector<bool>>(next_fault(), [&]() -> Result<std::vector<bool>> {
      const auto at = spaces_.find(space);
      if (at == spaces_.end()) return std::unexpected(no_such("space"));
      if (at->second.closed) return std::unexpected(closed());
      std::vector<bool> ours;
      for (const std::int64_t key : keys) ours.push_back(at->second.claims.insert(key).second);
      return ours;
    });
  }
  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime /*until*/) override {
    const std::lock_guard lock(mutex_);
    return call<std::int64_t>([&]() -> Result<std::int64_t> {
      const auto at = spaces_.find(space);
      if (at == spaces_.end()) return std::unexpected(no_such("space"));
      return static_cast<std::int64_t>(at->second.claims.size());
    });
  }

  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    const std::lock_guard lock(mutex_);
    return call<bool>([&]() -> Result<bool> {
      const auto at = spaces_.find(space);
      if (at == spaces_.end()) return std::unexpected(no_such("space"));
      return at->second.claims.contains(key);
    });
  }

  Result<void> do_close_space(std::string_view space) override {
    const std::lock_guard lock(mutex_);
    return call<void>([&]() -> Result<void> {
      const auto at = spaces_.find(space);
      if (at == spaces_.end()) return std::unexpected(no_such("space"));
      at->second.closed = true;
      return {};
    });
  }

 private:
  struct Space {
    std::set<std::int64_t> claims;
    bool closed = false;
  };

  static Error no_such(const std::string& what) { return {Code::kNotFound, "no such " + what}; }
  static Error closed() { return {Code::kFailedPrecondition, "closed"}; }

  void pass_gate(std::unique_lock<std::recursive_mutex>& lock) {
    most_in_flight_ = std::max(most_in_flight_, ++in_flight_);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !shut_ || passes_ > 0; });
    if (shut_) --passes_;
    --in_flight_;
  }

  std::optional<Fault> next_fault() {
    if (faults_.empty()) return std::nullopt;
    Fault fault = std::move(faults_.front());
    faults_.pop_front();
    return fault;
  }

  // Applies the change unless a fault says otherwise.
  template <class T, class Change>
  Result<T> call(std::optional<Fault> fault, const Change& change) {
    if (calls_ + 1 == act_at_) {
      act_at_ = 0;
      const std::function<void()> act = std::move(act_);
      mutex_.unlock();  // another process does it, and may wait for other stores
      act();
      mutex_.lock();
    }
    if (++calls_ == fail_at_) fault = fault_at_;
    if (calls_ == change_at_) change_(defined_);
    if (fault && !fault->applied) return std::unexpected(fault->error);
    cut_off_ = fault.has_value();
    Result<T> result = change();
    if (fault) return std::unexpected(fault->error);
    return result;
  }
  template <class T, class Change>
  Result<T> call(const Change& change) {
    return call<T>(std::nullopt, change);
  }

  // One call for all of them; a fault that is applied comes when half of them are changed.
  template <class T, class Change>
  Result<std::vector<T>> on_each(std::span<const std::string> counters, const Change& change) {
    const std::lock_guard lock(mutex_);
    return call<std::vector<T>>([&]() -> Result<std::vector<T>> {
      std::vector<T> changed;
      for (const std::string& counter :
           cut_off_ ? counters.first((counters.size() + 1) / 2) : counters) {
        if (const auto at = counters_.find(counter); at != counters_.end())
          changed.push_back(change(at->second));
      }
      if (changed.size() != counters.size()) return std::unexpected(no_such("counter"));
      return changed;
    });
  }

  void set(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  const Uuid id_{};
  std::atomic<std::int64_t> settled_{0};
  std::atomic<std::int64_t> unread_{0};
  const std::string url_ = "gated:";
  bool offers_ = true;
  bool cut_off_ = false;                // the call under way, by a fault
  mutable std::recursive_mutex mutex_;  // what is done meanwhile may call the store
  std::condition_variable_any changed_;
  bool shut_ = false;
  int passes_ = 0;
  std::size_t in_flight_ = 0;
  std::size_t most_in_flight_ = 0;
  std::vector<Advance> advances_;
  std::vector<std::string> asked_;
  std::vector<SteadyTime> deadlines_;
  std::optional<SteadyTime> listed_until_;
  std::map<std::string, Error, std::less<>> broken_;
  std::vector<std::vector<std::int64_t>> inserts_;
  std::deque<Fault> faults_;
  std::size_t calls_ = 0;
  std::size_t fail_at_ = 0;
  Fault fault_at_;
  std::optional<Error> away_;
  std::optional<Error> doubt_;
  std::size_t act_at_ = 0;
  std::function<void()> act_;
  std::size_t change_at_ = 0;
  std::function<void(Definitions&)> change_;
  std::map<std::string, CounterState, std::less<>> counters_;
  std::set<std::string, std::less<>> adopted_;
  Definitions defined_;
  std::map<std::string, Space, std::less<>> spaces_;
};

}  // namespace idmint::fakes
