#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/bounded_mutex.h"
#include "base/errors.h"
#include "base/fork_wiped.h"
#include "engines/etcd/tables.h"
#include "store/backend.h"

namespace idmint::stores::etcd {
namespace {

// A counter as it was at one revision, which is that of its latest change.
struct Seen {
  CounterState state;
  std::int64_t changed;
  std::string text;  // the value of the key
};

class Counters final : public CounterStore {
 public:
  explicit Counters(Database& database) : database_(database) {}
  ~Counters() {
    // A child of fork() may have them half changed, by a thread of its parent.
    if (owner_) return;
    [[maybe_unused]] const AllTurns* const left_alone = turns_.release();
  }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

 private:
  // Calls of this process on one counter take turns, as of those that come at once only one could
  // succeed. `guess` is what the counter was at the end of the latest one: with it, the next one
  // needs no reading. It is only a guess: the transaction names the revision that it belongs to,
  // and its value, as a restored snapshot gives revisions again.
  struct Turns {
    BoundedMutex mutex;  // guards guess
    std::optional<Seen> guess;
  };
  struct AllTurns {
    std::mutex mutex;  // guards by_counter
    std::map<std::string, std::shared_ptr<Turns>, std::less<>> by_counter;
  };
  // One of many counters, while it is changed.
  struct Task {
    const std::string* name;
    std::optional<Seen> there{};
    bool known = false;  // `there` was read; nothing: it does not exist
    bool done = false;
  };

  Result<void> do_create(std::span<const NewCounter> counters) override {
    constexpr std::string_view kDoing = "make counters in";
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    // Of those with one name, the first is made, and the others are compared with it.
    std::map<std::string_view, const NewCounter*> named;
    for (const NewCounter& counter : counters) {
      const NewCounter& first = *named.try_emplace(counter.name, &counter).first->second;
      if (first.bounds != counter.bounds)
        return std::unexpected(other_bounds({first.name, first.bounds}, counter.bounds));
    }
    bool applied = false;
    for (auto at = named.begin(); at != named.end();) {
      Transaction making;
      std::vector<const NewCounter*> some;
      for (; at != named.end() && some.size() < kMostOperations; ++at) {
        const NewCounter& counter = *at->second;
        const std::string key = database_.keys().counter(counter.name);
        making.then.push_back(nested(
            {.compares = {is_as_changed(key, 0)},
             .then = {put(
                 key, text_of(CounterState{counter.name, counter.bounds, counter.bounds.first}))},
             .otherwise = {get(key)}}));
        some.push_back(&counter);
      }
      const Result<Answer> made =
          database_.change(Kind::kHandOut, std::move(making), *until, kDoing);
      if (!made) return std::unexpected(applied ? after_a_write(made.error()) : made.error());
      applied = true;
      for (std::size_t i = 0; i < some.size(); ++i) {
        const Found& found = made->found[i];
        if (found.succeeded) continue;
        if (found.entries.empty())
          return database_.damaged("counter " + shown(some[i]->name) +
                                   " went away while it was made");
        const Result<Seen> there = parse(some[i]->name, found.entries.front());
        if (!there) return std::unexpected(there.error());
        if (there->state.bounds != some[i]->bounds)
          return std::unexpected(other_bounds(there->state, some[i]->bounds));
      }
    }
    return {};
  }

  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime by) override {
    constexpr std::string_view kDoing = "take values from";
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const std::shared_ptr<Turns> turns = turns_of(counter);
    if (!turns->mutex.try_lock_until(*until))
      return std::unexpected(Error{.code = Code::kUnavailable,
                                   .what = "could not take values from " + database_.url() +
                                           ": other calls of this process hold counter " +
                                           shown(counter),
                                   .outcome = std::string(kNothingChanged)});
    const std::unique_lock turn(turns->mutex, std::adopt_lock);
    const std::string key = database_.keys().counter(counter);
    const std::int64_t least = take == Take::kAll ? count : 1;
    std::optional<Seen> there = std::exchange(turns->guess, std::nullopt);
    bool guessed = there.has_value();
    bool sent = false;  // an attempt may have been applied: its values are nobody's
    const auto failed = [&sent](Error error) {
      return std::unexpected(sent ? after_a_write(std::move(error)) : std::move(error));
    };
    for (int attempt = 0;; ++attempt) {
      if (!there || (guessed && !has(there->state, least))) {
        guessed = false;
        auto found = read(counter, *until);
        if (!found) return failed(std::move(found.error()));
        there = *std::move(found);
      }
      if (!there || !has(there->state, least)) {
        if (Result<void> trusted = database_.expect_trust(*until); !trusted)
          return failed(std::move(trusted.error()));
        return failed(there ? refused_advance(there->state, count)
                            : no_counter(counter, database_.url()));
      }
      CounterState after = there->state;
      const Range range{after.next, after.bounds.stride, std::min(count, after.left())};
      after.next += range.count * range.stride;
      const Result<Answer> answer = database_.change(
          Kind::kHandOut,
          {.compares = {is_as_changed(key, there->changed), has_value(key, there->text)},
           .then = {put(key, text_of(after))},
           .otherwise = {get(key)}},
          *until, kDoing);
      if (!answer) return failed(answer.error());
      sent = sent || answer->sent_before;
      if (answer->succeeded) {
        std::string text = text_of(after);
        turns->guess = Seen{std::move(after), answer->header.revision, std::move(text)};
        return range;
      }
      auto found = parse(counter, answer->found.front());
      if (!found) return failed(std::move(found.error()));
      there = *std::move(found);
      guessed = false;
      if (Result<void> on = database_.step_aside(attempt, *until, kDoing); !on)
        return failed(std::move(on.error()));
    }
  }

  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                             std::int64_t floor, SteadyTime by) override {
    std::vector<std::int64_t> next(counters.size());
    const auto raise = [&](CounterState& state) -> Result<void> {
      state.next = std::max(state.next, state.bounds.at_or_above(floor));
      return {};
    };
    const Result<void> raised =
        change_each(counters, raise, by, "raise a counter in",
                    [&](std::size_t i, const CounterState& state) { next[i] = state.next; });
    if (!raised) return std::unexpected(raised.error());
    return next;
  }

  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                               std::int64_t last) override {
    std::vector<CounterBounds> bounds(counters.size());
    const auto extend = [&](CounterState& state) -> Result<void> {
      if (last > largest_last(state.bounds.stride))
        return std::unexpected(too_large_an_end(state.name, last, state.bounds.stride));
      state.bounds.last = std::max(state.bounds.last, last);
      return {};
    };
    const Result<void> extended =
        change_each(counters, extend, SteadyTime::max(), "extend a counter in",
                    [&](std::size_t i, const CounterState& state) { bounds[i] = state.bounds; });
    if (!extended) return std::unexpected(extended.error());
    return bounds;
  }

  Result<void> do_close(std::span<const std::string> counters) override {
    const auto close = [](CounterState& state) -> Result<void> {
      state.closed = true;
      return {};
    };
    return change_each(counters, close, SteadyTime::max(), "close a counter in",
                       [](std::size_t, const CounterState&) {});
  }

  Result<CounterState> do_peek(std::string_view counter, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<std::optional<Seen>> found = read(counter, *until);
    if (!found) return std::unexpected(found.error());
    if (const std::optional<Seen>& seen = *found; seen) return seen->state;
    return std::unexpected(no_counter(counter, database_.url()));
  }

  Result<std::vector<CounterState>> do_list(std::string_view prefix, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const auto entries = database_.list(database_.keys().counter(prefix), *until);
    if (!entries) return std::unexpected(entries.error());
    const std::size_t before = database_.keys().counter("").size();
    std::vector<CounterState> all;
    for (const Entry& entry : *entries) {
      auto seen = parse(entry.key.substr(before), entry);
      if (!seen) return std::unexpected(std::move(seen.error()));
      all.push_back(std::move(seen->state));
    }
    return all;
  }

  // Whether the counter gives at least that many values.
  static bool has(const CounterState& state, std::int64_t least) {
    return !state.closed && state.left() >= least;
  }

  // REQUIRES: this is no child of fork().
  std::shared_ptr<Turns> turns_of(std::string_view counter) {
    const std::lock_guard lock(turns_->mutex);
    const auto at = turns_->by_counter.find(counter);
    if (at != turns_->by_counter.end()) return at->second;
    return turns_->by_counter.emplace(counter, std::make_shared<Turns>()).first->second;
  }

  [[nodiscard]] Result<Seen> parse(std::string_view counter, const Entry& entry) const {
    std::optional<CounterState> state = read_counter(counter, entry.value);
    if (!state)
      return database_.damaged("counter " + shown(counter) + " has the value " +
                               shown(entry.value));
    return Seen{*std::move(state), entry.changed, entry.value};
  }
  // Nothing: no such counter.
  [[nodiscard]] Result<std::optional<Seen>> parse(std::string_view counter,
                                                  const Found& found) const {
    if (found.entries.empty()) return std::nullopt;
    Result<Seen> seen = parse(counter, found.entries.front());
    if (!seen) return std::unexpected(std::move(seen.error()));
    return *std::move(seen);
  }

  Result<std::optional<Seen>> read(std::string_view counter, SteadyTime until) {
    const auto found = database_.read({get(database_.keys().counter(counter))}, until);
    if (!found) return std::unexpected(found.error());
    return parse(counter, found->front());
  }

  // Changes each of them, many at a time, until every one is as `change` wants it. The error of the
  // first counter that is missing, or that `change` refuses, is the answer after the others are
  // changed.
  Result<void> change_each(std::span<const std::string> counters, const auto& change, SteadyTime by,
                           std::string_view doing, const auto& on_each) {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    std::map<std::string_view, Task> tasks;
    for (const std::string& counter : counters) tasks.try_emplace(counter, Task{&counter});
    bool applied = false;
    for (int attempt = 0;; ++attempt) {
      bool all = true;
      for (auto at = tasks.begin(); at != tasks.end();) {
        std::vector<Task*> some;
        for (; at != tasks.end() && some.size() < kMostOperations; ++at)
          if (!at->second.done) some.push_back(&at->second);
        if (some.empty()) continue;
        if (Result<void> changed = change_some(some, change, *until, doing); !changed)
          return std::unexpected(applied ? after_a_write(changed.error()) : changed.error());
        applied = true;
        all = all && std::ranges::all_of(some, [](const Task* task) { return task->done; });
      }
      if (all) break;
      if (Result<void> on = database_.step_aside(attempt, *until, doing); !on)
        return std::unexpected(after_a_write(on.error()));
    }
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const Task& task = tasks.at(counters[i]);
      if (!task.there) return std::unexpected(no_counter(counters[i], database_.url()));
      CounterState state = task.there->state;
      if (Result<void> refused = change(state); !refused) return refused;
      on_each(i, state);
    }
    return {};
  }

  Result<void> change_some(std::span<Task* const> some, const auto& change, SteadyTime until,
                           std::string_view doing) {
    Operations reading;
    for (const Task* task : some)
      if (!task->known) reading.push_back(get(database_.keys().counter(*task->name)));
    if (!reading.empty()) {
      const auto found = database_.read(reading, until);
      if (!found) return std::unexpected(found.error());
      auto at = found->begin();
      for (Task* task : some) {
        if (task->known) continue;
        auto there = parse(*task->name, *at++);
        if (!there) return std::unexpected(std::move(there.error()));
        task->there = *std::move(there);
        task->known = true;
      }
    }
    Transaction changing;
    std::vector<std::pair<Task*, CounterState>> changed;
    for (Task* task : some) {
      task->done = true;
      if (!task->there) continue;
      CounterState after = task->there->state;
      if (!change(after) || after == task->there->state) continue;
      task->done = false;
      const std::string key = database_.keys().counter(*task->name);
      changing.then.push_back(nested({.compares = {is_as_changed(key, task->there->changed)},
                                      .then = {put(key, text_of(after))},
                                      .otherwise = {get(key)}}));
      changed.emplace_back(task, std::move(after));
    }
    if (changed.empty()) return {};
    const Result<Answer> answer = database_.change(Kind::kWrite, std::move(changing), until, doing);
    if (!answer) return std::unexpected(answer.error());
    for (std::size_t i = 0; i < changed.size(); ++i) {
      auto& [task, after] = changed[i];
      if (answer->found[i].succeeded) {
        std::string text = text_of(after);
        task->there = Seen{std::move(after), answer->header.revision, std::move(text)};
        task->done = true;
        continue;
      }
      auto there = parse(*task->name, answer->found[i]);
      if (!there) return std::unexpected(std::move(there.error()));
      task->there = *std::move(there);
    }
    return {};
  }

  const OwnedByProcess owner_;
  Database& database_;
  std::unique_ptr<AllTurns> turns_ = std::make_unique<AllTurns>();
};

}  // namespace

std::shared_ptr<CounterStore> counters_of(Database& database) {
  return std::make_shared<Counters>(database);
}

}  // namespace idmint::stores::etcd
