// AdoptedCounters: the counters of an SQL server that are in records of other programs.
//
// idmint's own table has the bounds of each, whether it is closed, the text of its record, and a
// floor: the next value that idmint knows. Only the record has the value. The other programs go on
// taking from it, and obey neither the bounds nor the closing. A record below the floor was set
// back, and gives nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "engines/sql/adopted_record.h"
#include "engines/sql/database.h"
#include "store/backend.h"
#include "store/counter_store.h"

namespace idmint::stores::sql {

template <class Dialect>
class AdoptedCounters {
 public:
  // The facts of a counter that never change, except that its end may be moved up.
  struct Known {
    AdoptedRecord record{};
    std::shared_ptr<const AdoptedStatements> statements{};
    CounterBounds bounds{};
  };

  // The database must outlive it.
  explicit AdoptedCounters(Database<Dialect>& database) : database_(database) {}

  // Null: not known, or it is idmint's own. Any thread may call any method at any time.
  [[nodiscard]] std::shared_ptr<const Known> known(std::string_view counter) {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(counter);
    return at != known_.end() ? at->second : nullptr;
  }

  // Fills in the value of a counter, of which idmint's own row says the rest, the floor as `next`,
  // and `adopted`. One that was set back keeps the floor.
  // - kDataLoss: the record cannot be counted in, as `problem` says.
  // - kFailedPrecondition: not while the server has such settings.
  Result<CounterState> filled(CounterState state, std::string_view adopted, SteadyTime until) {
    const Result<AdoptedRecord> record = record_from_text(Dialect::kAdoptionRules, adopted);
    if (!record)
      return database_.damaged("counter " + shown(state.name) + ": " + record.error().message());
    const Result<Reading> reading = look(*record, state.bounds, until);
    if (!reading) return std::unexpected(reading.error());
    const std::int64_t next = state.bounds.at_or_above(reading->next);
    const bool is_back = reading->rows == 1 && reading->wrong.empty() && next < state.next;
    std::string wrong = is_back ? std::string() : problem(*reading, state.bounds);
    if (reading->rows == 0)
      wrong = "it is not there: insert it again, with a value past every one in use, " +
              std::to_string(state.next) + " or above";
    if (!wrong.empty())
      return database_.damaged(place_of(*record) + ", which counter " + shown(state.name) +
                               " was adopted from, cannot be counted in: " + wrong);
    if (!reading->settings.empty())
      return std::unexpected(at_place(
          database_.url(), {Code::kFailedPrecondition,
                            place_of(*record) + ", which counter " + shown(state.name) +
                                " was adopted from, gives nothing now: " + reading->settings +
                                ": set the server back to those"}));
    if (!is_back)
      state.next = next;
    else if (!state.closed)
      state.set_back = was_set_back(state.name, *record, reading->next, state.next);
    const std::lock_guard lock(mutex_);
    known_.insert_or_assign(state.name, std::make_shared<const Known>(
                                            Known{*record, statements_of(*record), state.bounds}));
    return state;
  }

  // The next value of a record that is to be adopted. kFailedPrecondition: there is nothing to go
  // on from. The advice has the bounds that fit.
  Result<std::int64_t> check(const AdoptedRecord& record, const CounterBounds& bounds,
                             SteadyTime until) {
    const Result<Reading> reading = look(record, bounds, until);
    if (!reading && reading.error().code != Code::kDataLoss)
      return std::unexpected(reading.error());
    const std::string what = "cannot adopt " + place_of(record) + ": ";
    if (!reading)  // no such table or column, or not of such a type
      return fail(
          Code::kFailedPrecondition,
          database_.url() + ": " + what + reading.error().message() + "; it was left as it is");
    std::string wrong = reading->settings;
    if (wrong.empty()) wrong = problem(*reading, bounds);
    if (wrong.empty()) return bounds.at_or_above(reading->next);
    if (!reading->settings.empty())
      wrong += ": give the sequence the stride and the offset of the server";
    return std::unexpected(at_place(
        database_.url(), {Code::kFailedPrecondition, what + wrong + "; it was left as it is",
                          fitting(*reading, bounds)}));
  }

  // Nothing: it is closed, there is too little left, the record is below the floor, or the store is
  // not trusted. May be fewer than
  // `count` and at least `least` if other programs take values at the same time. kUnavailable: they
  // took values in between, again and again.
  Result<std::optional<Range>> take(std::string_view counter, const Known& known,
                                    std::int64_t count, std::int64_t least, SteadyTime until) {
    const AdoptedRecord& record = known.record;
    if (record.kind->rows && least > kMostListed)
      return std::unexpected(
          Error{Code::kInvalidArgument, "cannot take " + std::to_string(least) + " values from " +
                                            place_of(record) + " at once: ask for " +
                                            std::to_string(kMostListed) + " or fewer"});
    auto values = values_of<Dialect>(Name{counter}, count, least);
    values.push_back(Dialect::text(record.value));
    values.push_back(Dialect::value(known.bounds.last));
    const auto rows = database_.run(known.statements->advance(count, count == least), values, until,
                                    "take values from");
    if (!rows && rows.error().code == Code::kOutOfRange) return std::nullopt;
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::nullopt;
    if (rows->size() > 1) return std::unexpected(many(record));
    const auto row = (*rows)[0];
    if (row.integer(3) == 0) return std::unexpected(busy(record));
    return Range{row.integer(0), row.integer(1), row.integer(2)};
  }

  // Whether two records that count in one column are certainly of different rows.
  Result<bool> are_apart(const AdoptedRecord& a, const AdoptedRecord& b, SteadyTime until) {
    if (a.key.empty() || a.key != b.key || has_stripes(a) || has_stripes(b)) return false;
    const auto statements = [&] {
      const std::lock_guard lock(mutex_);
      return statements_of(a);
    }();
    const Result<Rows> rows = database_.run(
        statements->both(), {Dialect::text(a.value), Dialect::text(b.value)}, until, "read");
    if (!rows) return std::unexpected(rows.error());
    return rows->empty();
  }

  // One atomic max of the next value.
  Result<void> raise(const AdoptedRecord& record, std::int64_t target, SteadyTime until) {
    return database_.execute(raise_to(Dialect::kAdoptionRules, record, target), until,
                             "raise " + place_of(record) + " in");
  }

 private:
  using Rows = typename Dialect::Rows;

  struct Reading {
    std::int64_t rows = 0;
    std::int64_t next = 0;
    std::int64_t end = 0;
    std::string wrong{};
    std::string settings{};      // what is wrong with those of the server
    std::int64_t increment = 1;  // of the server
    std::int64_t offset = 1;
  };

  Result<Reading> look(const AdoptedRecord& record, const CounterBounds& bounds, SteadyTime until) {
    const auto statements = [&] {
      const std::lock_guard lock(mutex_);
      return statements_of(record);
    }();
    typename Dialect::Values values = {Dialect::text(record.value)};
    if (record.kind->steps) {
      const SequenceDefinition alike{.first = bounds.first, .stride = bounds.stride};
      values.push_back(Dialect::value(bounds.stride));
      values.push_back(Dialect::value(alike.offset()));
    }
    const Result<Rows> rows = database_.run(statements->look(), values, until, "read");
    if (!rows) return std::unexpected(rows.error());
    Reading reading{.rows = rows->size()};
    if (rows->empty()) return reading;
    reading.next = (*rows)[0].integer(0);
    reading.end = (*rows)[0].integer(1);
    reading.wrong = (*rows)[0].bytes(2);
    if (record.kind->steps) {
      reading.settings = (*rows)[0].bytes(3);
      reading.increment = (*rows)[0].integer(4);
      reading.offset = (*rows)[0].integer(5);
    }
    return reading;
  }

  static std::string problem(const Reading& reading, const CounterBounds& bounds) {
    if (reading.rows == 0)
      return "it is not there: correct its name, or insert it with a value past every one in use";
    if (reading.rows > 1) return "there is more than one such row";
    if (!reading.wrong.empty()) return reading.wrong;
    // The next value of the counter itself may be up to a step further.
    if (reading.next <= bounds.first - bounds.stride)
      return "the next value is " + std::to_string(reading.next) +
             ", below the first one of the sequence, " + std::to_string(bounds.first);
    if (reading.end < bounds.last)
      return "it counts up to " + std::to_string(reading.end) +
             ", and the last value of the sequence is " + std::to_string(bounds.last) +
             ": end there, or widen it";
    return "";
  }

  // The bounds with which a sequence could count in the record. None: no others would help.
  static Advice fitting(const Reading& reading, const CounterBounds& bounds) {
    const auto set = [](std::string_view member, std::int64_t value) {
      return std::string(member) + "=" + std::to_string(value);
    };
    Advice advice{.remedy = Remedy::kSetOption};
    if (reading.rows != 1 || !reading.wrong.empty()) return {};
    if (!reading.settings.empty())
      advice.values = {set("stride", reading.increment), set("offset", reading.offset)};
    if (reading.next <= bounds.first - bounds.stride && reading.next > 0)
      advice.values.push_back(set("first", reading.next));
    if (reading.end < bounds.last) advice.values.push_back(set("last", reading.end));
    return advice.values.empty() ? Advice{} : advice;
  }

  // REQUIRES: the lock is held.
  std::shared_ptr<const AdoptedStatements> statements_of(const AdoptedRecord& record) {
    AdoptedRecord alike = record;
    if (!alike.value.empty()) alike.value = "?";
    std::shared_ptr<const AdoptedStatements>& statements = statements_[to_text(alike)];
    if (statements == nullptr)
      statements = std::make_shared<const AdoptedStatements>(Dialect::kAdoptionRules, record,
                                                             static_cast<int>(statements_.size()));
    return statements;
  }

  Error many(const AdoptedRecord& record) const {
    return database_
        .damaged(place_of(record) + " is there more than once: which one counts is not known")
        .error();
  }

  // The record had values, and other programs others in between.
  static Error busy(const AdoptedRecord& record) {
    return {Code::kUnavailable, "other programs take values from " + place_of(record) +
                                    " so fast that there were always some of theirs between ours; "
                                    "nothing was handed out; take fewer at once"};
  }

  Error was_set_back(std::string_view counter, const AdoptedRecord& record, std::int64_t next,
                     std::int64_t floor) const {
    Advice advice;
    if (!counter.contains('/'))  // a stripe has no name of its own
      advice = {Remedy::kRaiseSequence, std::string(counter)};
    return at_place(
        database_.url(),
        {Code::kDataLoss,
         place_of(record) + ", which counter " + shown(counter) +
             " was adopted from, was set back: its next value is " + std::to_string(next) +
             ", and was " + std::to_string(floor) +
             " when idmint took from it last; stop the programs that take from it; if it was reset "
             "on purpose, with all that has its values, retire the sequence and adopt the record "
             "under another name; otherwise raise it past every value in use",
         std::move(advice)});
  }

  Database<Dialect>& database_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Known>, std::less<>> known_;
  std::map<std::string, std::shared_ptr<const AdoptedStatements>, std::less<>> statements_;
};

}  // namespace idmint::stores::sql
