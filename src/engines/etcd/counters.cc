#include "store/protocol/counters.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "engines/etcd/tables.h"
#include "engines/key_value/turns.h"
#include "store/backend.h"
#include "store/engine.h"

namespace idmint::stores::etcd {
namespace {

// A counter as it was at one revision, which is that of its latest change.
struct Seen {
  CounterState state;
  std::int64_t changed;
  std::string text;  // the value of the key
};

class CounterTable final : private CounterRows {
 public:
  explicit CounterTable(Database& database) : database_(database) {}
  CounterTable(const CounterTable&) = delete;
  CounterTable& operator=(const CounterTable&) = delete;

  [[nodiscard]] CounterStore& counters() noexcept { return counters_; }

 private:
  // One of many counters, while it is changed.
  struct Task {
    const std::string* name;
    std::optional<Seen> there{};
    bool known = false;  // `there` was read; nothing: it does not exist
    bool done = false;
  };

  Result<CounterStates> make_counters(std::span<const NewCounter> counters, SteadyTime until,
                                      std::string_view doing) override {
    CounterStates there;
    bool applied = false;
    while (!counters.empty()) {
      const auto some = counters.first(std::min(counters.size(), kMostOperations));
      counters = counters.subspan(some.size());
      Transaction making;
      for (const NewCounter& counter : some) {
        const std::string key = database_.keys().counter(counter.name);
        making.then.push_back(nested(
            {.compares = {is_as_changed(key, 0)},
             .then = {put(
                 key, text_of(CounterState{counter.name, counter.bounds, counter.bounds.first}))},
             .otherwise = {get(key)}}));
      }
      const Result<Answer> made = database_.change(Kind::kHandOut, std::move(making), until, doing);
      if (!made) return std::unexpected(applied ? after_a_write(made.error()) : made.error());
      applied = true;
      for (std::size_t i = 0; i < some.size(); ++i) {
        CounterState state{some[i].name, some[i].bounds, some[i].bounds.first};
        if (!made->found[i].succeeded) {
          auto seen = parse(some[i].name, made->found[i]);
          if (!seen) return std::unexpected(std::move(seen.error()));
          const std::optional<Seen>& found = *seen;
          if (!found) continue;
          state = found->state;
        }
        there.insert_or_assign(some[i].name, std::move(state));
      }
    }
    return there;
  }

  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least, SteadyTime until,
                                       std::string_view doing) override {
    const auto turn = turns_.take(counter, until, database_.url(), doing);
    if (!turn) return std::unexpected(turn.error());
    const std::string key = database_.keys().counter(counter);
    std::optional<Seen> there = std::exchange(turn->guess(), std::nullopt);
    bool guessed = there.has_value();
    bool sent = false;  // an attempt may have been applied: its values are nobody's
    const auto failed = [&sent](Error error) {
      return std::unexpected(sent ? after_a_write(std::move(error)) : std::move(error));
    };
    for (int attempt = 0;; ++attempt) {
      if (!there || (guessed && !has(there->state, least))) {
        guessed = false;
        auto found = read(counter, until);
        if (!found) return failed(std::move(found.error()));
        there = *std::move(found);
      }
      if (!there || !has(there->state, least)) {
        if (!sent) return std::nullopt;
        return failed(there ? refused_advance(there->state, most)
                            : no_counter(counter, database_.url()));
      }
      CounterState after = there->state;
      const Range range{after.next, after.bounds.stride, std::min(most, after.left())};
      after.next += range.count * range.stride;
      const Result<Answer> answer = database_.change(
          Kind::kHandOut,
          {.compares = {is_as_changed(key, there->changed), has_value(key, there->text)},
           .then = {put(key, text_of(after))},
           .otherwise = {get(key)}},
          until, doing);
      if (!answer) return failed(answer.error());
      sent = sent || answer->sent_before;
      if (answer->succeeded) {
        std::string text = text_of(after);
        turn->guess() = Seen{std::move(after), answer->header.revision, std::move(text)};
        return range;
      }
      auto found = parse(counter, answer->found.front());
      if (!found) return failed(std::move(found.error()));
      there = *std::move(found);
      guessed = false;
      if (Result<void> on = database_.step_aside(attempt, until, doing); !on)
        return failed(std::move(on.error()));
    }
  }

  // Many at a time, until every one is as it is to be.
  Result<CounterStates> lift(std::span<const std::string> counters, const CounterLift& lift,
                             SteadyTime until, std::string_view doing) override {
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
        if (Result<void> changed = lift_some(some, lift, until, doing); !changed)
          return std::unexpected(applied ? after_a_write(changed.error()) : changed.error());
        applied = true;
        all = all && std::ranges::all_of(some, [](const Task* task) { return task->done; });
      }
      if (all) break;
      if (Result<void> on = database_.step_aside(attempt, until, doing); !on)
        return std::unexpected(after_a_write(on.error()));
    }
    CounterStates lifted;
    for (const auto& [name, task] : tasks)
      if (const std::optional<Seen>& there = task.there; there) lifted.emplace(name, there->state);
    return lifted;
  }

  Result<CounterStates> read_counters(std::span<const std::string> counters,
                                      SteadyTime until) override {
    CounterStates there;
    for (const std::string& counter : counters) {
      Result<std::optional<Seen>> found = read(counter, until);
      if (!found) return std::unexpected(std::move(found.error()));
      if (std::optional<Seen>& seen = *found; seen)
        there.insert_or_assign(counter, std::move(seen->state));
    }
    return there;
  }

  Result<std::vector<CounterState>> list_counters(std::string_view prefix,
                                                  SteadyTime until) override {
    const auto entries = database_.list(database_.keys().counter(prefix), until);
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

  Result<void> lift_some(std::span<Task* const> some, const CounterLift& lift, SteadyTime until,
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
      lift_to(lift, after);
      if (after == task->there->state) continue;
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

  Database& database_;
  // A guess is only that: the transaction names the revision that it belongs to, and its value, as
  // a restored snapshot gives revisions again.
  key_value::Turns<Seen> turns_{};
  Counters counters_{database_, *this};
};

}  // namespace

std::shared_ptr<CounterStore> counters_of(Database& database) {
  const auto table = std::make_shared<CounterTable>(database);
  return {table, &table->counters()};
}

}  // namespace idmint::stores::etcd
