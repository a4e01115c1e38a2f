// Counters: the counters of an SQL server, whatever its dialect.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stores/backend.h"
#include "stores/spi/counter_store.h"
#include "stores/sql/database.h"
#include "stores/sql/rows.h"

namespace idmint::stores::sql {

// The statements of an engine, with their values -> the columns of their rows. "names" is a list of
// them, as Engine::names() makes it. Those that change many counters lock them in one order, so
// that no two wait for each other.
struct CounterStatements {
  Query create;   // Engine::records(); what is there stays as it is
  Query advance;  // name, count, least -> where it began, stride, how many, whether it was given
  Query raise;    // names, floor -> name, next
  Query extend;   // names, last -> name, first, last, stride; of those whose stride allows it
  Query close;    // names -> name
  Query peek;     // names -> as in counter_of()
  Query list;     // Engine::prefix() -> as in counter_of(); there may be others among them
};

template <class Engine>
class Counters final : public CounterStore {
 public:
  // Both must outlive it.
  Counters(Database<Engine>& database, const CounterStatements& statements)
      : database_(database), sql_(statements) {}

 private:
  using Rows = typename Engine::Rows;
  using Row = typename Engine::Row;
  using States = std::map<std::string, CounterState, std::less<>>;

  Result<void> do_create(std::span<const NewCounter> counters) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<void> made =
        in_parts(counters, [&](std::span<const NewCounter> part) -> Result<void> {
          const Result<Rows> done =
              database_.run(sql_.create, Engine::records(part), *until, "make counters in");
          if (!done) return std::unexpected(done.error());
          return {};
        });
    if (!made) return made;
    std::vector<std::string> names;
    names.reserve(counters.size());
    for (const NewCounter& counter : counters) names.push_back(counter.name);
    const Result<States> there = read(names, *until);
    if (!there) return std::unexpected(after_a_write(there.error()));
    for (const NewCounter& counter : counters) {
      const auto at = there->find(counter.name);
      if (at == there->end()) {
        if (Result<void> trusted = database_.check_trust(*until); !trusted) return trusted;
        return database_.damaged("counter " + shown(counter.name) + " went away while it was made");
      }
      if (at->second.bounds != counter.bounds)
        return std::unexpected(other_bounds(at->second, counter.bounds));
    }
    return {};
  }

  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const std::int64_t least = take == Take::kAll ? count : 1;
    const auto values = values_of<Engine>(Name{counter}, count, least);
    // Another round only if somebody made or extended the counter, or settled the store, between
    // the statements.
    for (;;) {
      const Result<Rows> rows = database_.run(sql_.advance, values, *until, "take values from");
      if (!rows) return std::unexpected(rows.error());
      if (!rows->empty()) {
        const Row row = (*rows)[0];
        if (row.integer(3) != 0) return Range{row.integer(0), row.integer(1), row.integer(2)};
      }
      if (Result<void> trusted = database_.check_trust(*until); !trusted)
        return std::unexpected(std::move(trusted.error()));
      const Result<CounterState> state = do_peek(counter, *until);
      if (!state) return std::unexpected(state.error());
      if (state->closed || state->left() < least)
        return std::unexpected(refused_advance(*state, count));
    }
  }

  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                             std::int64_t floor, SteadyTime by) override {
    std::map<std::string, std::int64_t, std::less<>> next;
    const Result<void> raised =
        change_each(sql_.raise, counters, floor, by, "raise a counter in",
                    [&](const std::string& name, const Row& row) { next[name] = row.integer(1); });
    if (!raised) return std::unexpected(raised.error());
    std::vector<std::int64_t> all;
    all.reserve(counters.size());
    for (const std::string& counter : counters) all.push_back(next.at(counter));
    return all;
  }

  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                               std::int64_t last) override {
    std::map<std::string, CounterBounds, std::less<>> bounds;
    const Result<void> extended =
        change_each(sql_.extend, counters, last, SteadyTime::max(), "extend a counter in",
                    [&](const std::string& name, const Row& row) {
                      bounds[name] = {row.integer(1), row.integer(2), row.integer(3)};
                    });
    if (!extended) return std::unexpected(extended.error());
    std::vector<CounterBounds> all;
    all.reserve(counters.size());
    for (const std::string& counter : counters) all.push_back(bounds.at(counter));
    return all;
  }

  Result<void> do_close(std::span<const std::string> counters) override {
    return change_each(sql_.close, counters, std::nullopt, SteadyTime::max(), "close a counter in",
                       [](const std::string&, const Row&) {});
  }

  Result<CounterState> do_peek(std::string_view counter, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const std::string name(counter);
    const Result<States> found = read(std::span(&name, 1), *until);
    if (!found) return std::unexpected(found.error());
    if (found->empty()) return std::unexpected(no_counter(counter, database_.url()));
    return found->begin()->second;
  }

  Result<std::vector<CounterState>> do_list(std::string_view prefix, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows = database_.run(sql_.list, Engine::prefix(prefix), *until, "read");
    if (!rows) return std::unexpected(rows.error());
    std::vector<CounterState> all;
    for (int i = 0; i < rows->size(); ++i)
      if (CounterState state = state_of((*rows)[i]); state.name.starts_with(prefix))
        all.push_back(std::move(state));
    std::ranges::sort(all, {}, &CounterState::name);
    return all;
  }

  static CounterState state_of(const Row& row) {
    CounterState state = counter_of(row);
    state.name = Engine::name_of(state.name);
    return state;
  }

  // Calls use(part) for parts of the list, in order, until one fails: what is sent to a server at
  // once is limited.
  template <class T>
  static Result<void> in_parts(std::span<const T> list, const auto& use) {
    for (std::size_t at = 0; at < list.size(); at += Engine::kAtOnce)
      if (Result<void> ok = use(list.subspan(at, std::min(Engine::kAtOnce, list.size() - at))); !ok)
        return ok;
    return {};
  }

  // By their names. Those that are not there are left out.
  Result<States> read(std::span<const std::string> counters, SteadyTime until) {
    States states;
    const Result<void> found =
        in_parts(counters, [&](std::span<const std::string> part) -> Result<void> {
          const Result<Rows> rows = database_.run(sql_.peek, {Engine::names(part)}, until, "read");
          if (!rows) return std::unexpected(rows.error());
          for (int i = 0; i < rows->size(); ++i) {
            CounterState state = state_of((*rows)[i]);
            states.insert_or_assign(state.name, state);
          }
          return {};
        });
    if (!found) return std::unexpected(found.error());
    return states;
  }

  // One transaction for each part of them. The error of the first counter that is missing, or that
  // the statement refuses, is the answer after the others are on the disk.
  Result<void> change_each(const Query& query, std::span<const std::string> counters,
                           std::optional<std::int64_t> value, SteadyTime by, std::string_view doing,
                           const auto& on_row) {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    std::set<std::string, std::less<>> changed;
    const Result<void> done =
        in_parts(counters, [&](std::span<const std::string> part) -> Result<void> {
          typename Engine::Values values = {Engine::names(part)};
          if (value) values.push_back(Engine::value(*value));
          const Result<Rows> rows = database_.run(query, values, *until, doing);
          if (!rows) return std::unexpected(rows.error());
          for (int i = 0; i < rows->size(); ++i) {
            const std::string name = Engine::name_of((*rows)[i].bytes(0));
            changed.insert(name);
            on_row(name, (*rows)[i]);
          }
          return {};
        });
    if (!done) return done;
    const auto refused = std::ranges::find_if(
        counters, [&](const std::string& counter) { return !changed.contains(counter); });
    if (refused == counters.end()) return {};
    const Result<CounterState> there = do_peek(*refused, *until);
    if (!there && there.error().code != Code::kNotFound)
      return std::unexpected(after_a_write(there.error()));
    return std::unexpected(there
                               ? too_large_an_end(*refused, value.value_or(0), there->bounds.stride)
                               : there.error());
  }

  Database<Engine>& database_;
  const CounterStatements& sql_;
};

}  // namespace idmint::stores::sql
