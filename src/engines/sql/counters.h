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

#include "base/errors.h"
#include "engines/sql/adopted.h"
#include "engines/sql/adopted_record.h"
#include "engines/sql/database.h"
#include "engines/sql/rows.h"
#include "store/backend.h"
#include "store/counter_store.h"
#include "store/engine.h"
#include "store/protocol/counters.h"

namespace idmint::stores::sql {

// The statements of an engine, with their values -> the columns of their rows. "names" is a list of
// them, as Dialect::names() makes it. Those that change many counters lock them in one order, so
// that no two wait for each other.
struct CounterStatements {
  Query create;  // Dialect::rows(); what is there stays as it is
  // name, count, least -> where it began, stride, how many, whether it was given. Not of an adopted
  // one.
  Query advance;
  // names, CounterLift -> as `peek`; the next value of an adopted one is left
  Query lift;
  Query raise_floor;  // names, floor; of adopted ones
  Query peek;  // names -> as in counter_of(), then the text of the adopted record, or an empty one
  Query list;  // Dialect::prefix() -> the same; there may be others among them
  Query adopters;  // -> the names of the counters that are adopted, and the texts of their records
};

template <class Dialect>
class CounterTable final : private CounterRows {
 public:
  // Both must outlive it.
  CounterTable(Database<Dialect>& database, const CounterStatements& statements)
      : database_(database), sql_(statements), adopted_(database) {}

  [[nodiscard]] CounterStore& counters() noexcept { return counters_; }

 private:
  using Rows = typename Dialect::Rows;
  using Row = typename Dialect::Row;
  // idmint's own row of a counter. `next` of an adopted one is its floor.
  struct Found {
    CounterState state{};
    std::string adopted{};
  };
  using FoundCounters = std::map<std::string, Found, std::less<>>;

  [[nodiscard]] const Adoption* adoption() const noexcept override { return &Dialect::kAdoption; }

  Result<CounterStates> make_counters(std::span<const NewCounter> wanted, SteadyTime until,
                                      std::string_view doing) override {
    std::vector<NewRow> rows;
    std::vector<std::string> names;
    for (const NewCounter& each : wanted) {
      NewCounter& counter = rows.emplace_back(each, each.bounds.first).counter;
      names.push_back(counter.name);
      if (counter.adopted.empty()) continue;
      const Result<AdoptedRecord> record = record_of(counter);
      if (!record) return std::unexpected(record.error());
      counter.adopted = to_text(*record);
    }
    if (Result<void> usable = can_adopt(rows, names, until); !usable)
      return std::unexpected(std::move(usable.error()));
    const Result<void> made =
        change_in_parts<NewRow>(rows, [&](std::span<const NewRow> part) -> Result<void> {
          const Result<Rows> done =
              database_.change(sql_.create, Dialect::rows(part), until, doing);
          if (!done) return std::unexpected(done.error());
          return {};
        });
    if (!made) return std::unexpected(made.error());
    // If two callers adopt one record at once, one sees the other's row: each wrote its own first.
    if (Result<void> agreed = agrees_with_others(rows, until); !agreed)
      return std::unexpected(after_a_write(std::move(agreed.error())));
    const Result<FoundCounters> there = read(names, until);
    if (!there) return std::unexpected(after_a_write(there.error()));
    CounterStates states;
    for (const auto& [counter, next] : rows) {
      const auto at = there->find(counter.name);
      if (at == there->end()) continue;
      const auto& [state, adopted] = at->second;
      if (adopted != counter.adopted)
        return std::unexpected(other_record(counter.name, adopted, counter.adopted));
      states.insert_or_assign(counter.name, state);
    }
    return states;
  }

  // kInvalidArgument: not the text of a record, or the counter cannot be in it.
  static Result<AdoptedRecord> record_of(const NewCounter& counter) {
    const std::string making = "cannot make counter " + shown(counter.name);
    Result<AdoptedRecord> record = record_from_text(Dialect::kAdoptionRules, counter.adopted);
    if (!record) return refused(making, record.error());
    *record = of_stripe(*record, counter.stripe);
    if (record->holds_last)
      if (auto ok = must_begin_above_0(counter.bounds.first, making + ": it", record->column); !ok)
        return std::unexpected(std::move(ok.error()));
    if (counter.bounds.stride != 1 && !record->kind->steps)
      return refuse("cannot adopt " + place_of(*record) + " in steps of " +
                    std::to_string(counter.bounds.stride) +
                    ": the others that use it count by one");
    return record;
  }

  // Whether those that are new have records to go on from, and from which values.
  Result<void> can_adopt(std::vector<NewRow>& rows, const std::vector<std::string>& names,
                         SteadyTime until) {
    if (std::ranges::all_of(rows, [](const auto& each) { return each.counter.adopted.empty(); }))
      return {};
    const Result<FoundCounters> there = read(names, until);
    if (!there) return std::unexpected(there.error());
    if (Result<void> agreed = agrees_with_others(rows, until); !agreed) return agreed;
    for (auto& [counter, next] : rows) {
      if (counter.adopted.empty() || there->contains(counter.name)) continue;
      const Result<AdoptedRecord> record =
          record_from_text(Dialect::kAdoptionRules, counter.adopted);
      if (!record) return std::unexpected(record.error());
      Result<std::int64_t> from = adopted_.check(*record, counter.bounds, until);
      if (!from) {
        if (rows.size() > 1) from.error().advice = {};  // the bounds of one stripe
        return std::unexpected(std::move(from.error()));
      }
      next = *from;
    }
    return {};
  }

  // No two counters read one field differently, as the next and as the last value: both would hand
  // out the same values.
  Result<void> agrees_with_others(const std::vector<NewRow>& rows, SteadyTime until) {
    std::vector<Adopter> adopters;
    const auto add = [&](std::string_view counter, const AdoptedRecord& record) -> Result<void> {
      const std::string column = counted_column(record);
      if (column.empty()) return {};
      for (const auto& [other, its] : adopters) {
        if (its.holds_last == record.holds_last || counted_column(its) != column) continue;
        const Result<bool> apart = adopted_.are_apart(its, record, until);
        if (!apart) return std::unexpected(apart.error());
        if (*apart) continue;
        return std::unexpected(at_place(
            database_.url(),
            {Code::kFailedPrecondition,
             "counter " + shown(other) + " was adopted from " + to_text(its) +
                 ", and to read that column the other way would hand out the same values; it was "
                 "left as it is"}));
      }
      adopters.push_back({std::string(counter), record});
      return {};
    };
    const Result<Rows> others = database_.run(sql_.adopters, {}, until, "read");
    if (!others) return std::unexpected(others.error());
    for (int i = 0; i < others->size(); ++i) {
      const std::string text((*others)[i].bytes(1));
      const Result<AdoptedRecord> record = record_from_text(Dialect::kAdoptionRules, text);
      if (!record) continue;  // it hands out nothing
      if (Result<void> agrees = add(Dialect::name_of((*others)[i].bytes(0)), *record); !agrees)
        return agrees;
    }
    for (const auto& [counter, next] : rows) {
      if (counter.adopted.empty()) continue;
      const Result<AdoptedRecord> record =
          record_from_text(Dialect::kAdoptionRules, counter.adopted);
      if (!record) return std::unexpected(record.error());
      if (Result<void> agrees = add(counter.name, *record); !agrees) return agrees;
    }
    return {};
  }
  // A counter, and the record that it was adopted from.
  struct Adopter {
    std::string counter;
    AdoptedRecord record;
  };

  // Values that a sequence or a table of tickets gave to a failed statement do not come back.
  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least, SteadyTime until,
                                       std::string_view doing) override {
    const auto known = adopted_.known(counter);
    if (known == nullptr) return take_own(counter, most, least, until, doing);
    Result<std::optional<Range>> taken = adopted_.take(counter, *known, most, least, until);
    if (!taken)
      return std::unexpected(
          with_other_outcome(std::move(taken.error()), "nothing was handed out"));
    return taken;
  }

  // Nothing: it is not there, closed or adopted, or has too little left, or is not trusted.
  Result<std::optional<Range>> take_own(std::string_view counter, std::int64_t count,
                                        std::int64_t least, SteadyTime until,
                                        std::string_view doing) {
    const Result<Rows> rows =
        database_.run(sql_.advance, values_of<Dialect>(Name{counter}, count, least), until, doing);
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty() || (*rows)[0].integer(3) == 0) return std::nullopt;
    const Row row = (*rows)[0];
    return Range{row.integer(0), row.integer(1), row.integer(2)};
  }

  Result<CounterStates> lift(std::span<const std::string> counters, const CounterLift& lift,
                             SteadyTime until, std::string_view doing) override {
    CounterStates lifted;
    std::set<std::string> adopted;
    const Result<void> changed =
        change_in_parts(counters, [&](std::span<const std::string> part) -> Result<void> {
          const Result<Rows> rows = database_.change(
              sql_.lift,
              {Dialect::names(part), Dialect::value(lift.next.value_or(0)),
               Dialect::value(lift.last), Dialect::value(std::int64_t{lift.closed ? 1 : 0})},
              until, doing);
          if (!rows) return std::unexpected(rows.error());
          for (int i = 0; i < rows->size(); ++i) {
            Found found = found_in((*rows)[i]);
            if (!found.adopted.empty()) adopted.insert(found.state.name);
            lifted.insert_or_assign(found.state.name, std::move(found.state));
          }
          return {};
        });
    if (!changed) return std::unexpected(changed.error());
    if (!lift.next) return lifted;
    bool some = lifted.size() > adopted.size();
    for (const std::string& name : adopted) {
      const Result<std::int64_t> now = raise_adopted(name, *lift.next, until, doing);
      if (!now) return std::unexpected(some ? after_a_write(now.error()) : now.error());
      some = true;
      lifted.at(name).next = *now;
    }
    return lifted;
  }

  // The record first: a floor above it would refuse all that is taken. One that was set back is
  // raised to its floor at least.
  Result<std::int64_t> raise_adopted(const std::string& counter, std::int64_t floor,
                                     SteadyTime until, std::string_view doing) {
    for (bool written = false;; written = true) {
      const auto failed = [&](const Error& why) {
        return std::unexpected(written ? after_a_write(why) : why);
      };
      const Result<CounterStates> there = read_counters(std::span(&counter, 1), until);
      if (!there) return failed(there.error());
      if (there->empty()) return failed(no_counter(counter, database_.url()));
      const CounterState* const state = &there->begin()->second;
      const std::int64_t target = std::max(state->bounds.at_or_above(floor), state->next);
      if (!state->set_back && state->next >= target) {
        const Result<Rows> raised = database_.change(
            sql_.raise_floor, {Dialect::names(std::span(&counter, 1)), Dialect::value(state->next)},
            until, doing);
        if (!raised) return failed(raised.error());
        return state->next;
      }
      const auto known = adopted_.known(counter);
      if (known == nullptr) return database_.damaged("counter " + shown(counter) + " changed");
      if (Result<void> raised = adopted_.raise(known->record, target, until); !raised)
        return std::unexpected(std::move(raised.error()));
    }
  }

  // A record may have been narrowed, or be gone.
  Result<void> can_extend(std::span<const std::string> counters, std::int64_t last,
                          SteadyTime until) override {
    const Result<FoundCounters> there = read(counters, until);
    if (!there) return std::unexpected(there.error());
    for (const auto& [name, found] : *there) {
      if (found.adopted.empty() || last <= found.state.bounds.last) continue;
      const Result<AdoptedRecord> record = record_from_text(Dialect::kAdoptionRules, found.adopted);
      if (!record)
        return database_.damaged("counter " + shown(name) + ": " + record.error().message());
      CounterBounds bounds = found.state.bounds;
      bounds.last = last;
      Result<std::int64_t> possible = adopted_.check(*record, bounds, until);
      if (possible) continue;
      // With a place it is about the bounds.
      if (possible.error().code == Code::kFailedPrecondition && !possible.error().place.empty())
        possible.error().code = Code::kInvalidArgument;
      return std::unexpected(std::move(possible.error()));
    }
    return {};
  }

  Result<CounterStates> read_counters(std::span<const std::string> counters,
                                      SteadyTime until) override {
    Result<FoundCounters> found = read(counters, until);
    if (!found) return std::unexpected(std::move(found.error()));
    CounterStates there;
    for (auto& [name, each] : *found) {
      Result<CounterState> state = whole(std::move(each), until);
      if (!state) return std::unexpected(std::move(state.error()));
      there.emplace(name, *std::move(state));
    }
    return there;
  }

  Result<std::vector<CounterState>> list_counters(std::string_view prefix,
                                                  SteadyTime until) override {
    const Result<Rows> rows = database_.run(sql_.list, Dialect::prefix(prefix), until, "read");
    if (!rows) return std::unexpected(rows.error());
    std::vector<CounterState> all;
    for (int i = 0; i < rows->size(); ++i) {
      Found found = found_in((*rows)[i]);
      if (!found.state.name.starts_with(prefix)) continue;
      Result<CounterState> state = whole(std::move(found), until);
      if (!state) return std::unexpected(std::move(state.error()));
      all.push_back(*std::move(state));
    }
    std::ranges::sort(all, {}, &CounterState::name);
    return all;
  }

  static Found found_in(const Row& row) {
    Found found{counter_of(row), std::string(row.bytes(6))};
    found.state.name = Dialect::name_of(found.state.name);
    return found;
  }
  // With the value of the adopted record.
  Result<CounterState> whole(Found found, SteadyTime until) {
    if (found.adopted.empty()) return std::move(found.state);
    return adopted_.filled(std::move(found.state), found.adopted, until);
  }

  // Calls use(part) for parts of the list, in order, until one fails: what is sent to a server at
  // once is limited.
  template <class T>
  static Result<void> in_parts(std::span<const T> list, const auto& use) {
    for (std::size_t at = 0; at < list.size(); at += Dialect::kAtOnce)
      if (Result<void> ok = use(list.subspan(at, std::min(Dialect::kAtOnce, list.size() - at)));
          !ok)
        return ok;
    return {};
  }

  // The same for parts that are changed: the error of another one than the first says so.
  template <class T>
  static Result<void> change_in_parts(std::span<const T> list, const auto& change) {
    bool some = false;
    return in_parts(list, [&](std::span<const T> part) -> Result<void> {
      Result<void> done = change(part);
      if (!done && some) return std::unexpected(after_a_write(std::move(done.error())));
      some = true;
      return done;
    });
  }

  // idmint's own rows, by their names. Those that are not there are left out.
  Result<FoundCounters> read(std::span<const std::string> counters, SteadyTime until) {
    FoundCounters all;
    const Result<void> done =
        in_parts(counters, [&](std::span<const std::string> part) -> Result<void> {
          const Result<Rows> rows = database_.run(sql_.peek, {Dialect::names(part)}, until, "read");
          if (!rows) return std::unexpected(rows.error());
          for (int i = 0; i < rows->size(); ++i) {
            Found found = found_in((*rows)[i]);
            all.insert_or_assign(found.state.name, std::move(found));
          }
          return {};
        });
    if (!done) return std::unexpected(done.error());
    return all;
  }

  Database<Dialect>& database_;
  const CounterStatements& sql_;
  AdoptedCounters<Dialect> adopted_;
  Counters counters_{database_, *this};
};

}  // namespace idmint::stores::sql
