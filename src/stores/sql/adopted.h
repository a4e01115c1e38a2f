// AdoptedCounters: the counters of an SQL server that are in records of other programs.
//
// idmint's own table has the bounds of each, whether it is closed, and the text of its record.
// Only the record has its value. The other programs go on taking from it, and obey neither the
// bounds nor the closing.
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

#include "stores/backend.h"
#include "stores/spi/counter_store.h"
#include "stores/sql/adopted_record.h"
#include "stores/sql/database.h"

namespace idmint::stores::sql {

template <class Engine>
class AdoptedCounters {
 public:
  // What is known of one for ever, but that its end may be moved up.
  struct Known {
    AdoptedRecord record{};
    std::shared_ptr<const AdoptedStatements> statements{};
    CounterBounds bounds{};
  };

  // The database must outlive it.
  explicit AdoptedCounters(Database<Engine>& database) : database_(database) {}

  // Null: not known, or it is idmint's own. Any thread may call any method at any time.
  [[nodiscard]] std::shared_ptr<const Known> known(std::string_view counter) {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(counter);
    return at != known_.end() ? at->second : nullptr;
  }

  // Fills in the value of a counter, of which idmint's own row says the rest and `adopted`.
  // - kDataLoss: the record cannot be counted in, as `problem` says.
  // - kFailedPrecondition: not while the server has such settings.
  Result<CounterState> filled(CounterState state, std::string_view adopted, SteadyTime until) {
    const Result<AdoptedRecord> record = record_from_text(Engine::kAdoptionRules, adopted);
    if (!record)
      return database_.damaged("counter " + shown(state.name) + ": " + record.error().message);
    const Result<Reading> reading = look(*record, state.bounds, until);
    if (!reading) return std::unexpected(reading.error());
    const std::string wrong = problem(*reading, state.bounds);
    if (!wrong.empty())
      return database_.damaged(place_of(*record) + ", which counter " + shown(state.name) +
                               " was adopted from, cannot be counted in: " + wrong);
    if (!reading->settings.empty())
      return std::unexpected(Error{
          Code::kFailedPrecondition,
          database_.url() + ": " + place_of(*record) + ", which counter " + shown(state.name) +
              " was adopted from, gives nothing now: " + reading->settings});
    state.next = state.bounds.at_or_above(reading->next);
    const std::lock_guard lock(mutex_);
    known_.insert_or_assign(state.name, std::make_shared<const Known>(
                                            Known{*record, statements_of(*record), state.bounds}));
    return state;
  }

  // kFailedPrecondition: there is nothing to go on from. The advice has the bounds that fit.
  Result<void> check(const AdoptedRecord& record, const CounterBounds& bounds, SteadyTime until) {
    const Result<Reading> reading = look(record, bounds, until);
    if (!reading && reading.error().code != Code::kDataLoss)
      return std::unexpected(reading.error());
    // Otherwise: no such table or column, or not of such a type.
    std::string wrong = reading ? reading->settings : reading.error().message;
    if (wrong.empty()) wrong = problem(*reading, bounds);
    if (wrong.empty()) return {};
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 database_.url() + ": cannot adopt " + place_of(record) + ": " +
                                     wrong + "; it was left as it is",
                                 reading ? fitting(*reading, bounds) : Advice{}});
  }

  // Nothing: it is closed, there is too little left, or the store is not trusted. May be fewer than
  // `count` and at least `least` if other programs take values at the same time. kUnavailable: they
  // took values in between, again and again.
  Result<std::optional<Range>> take(std::string_view counter, const Known& known,
                                    std::int64_t count, std::int64_t least, SteadyTime until) {
    const AdoptedRecord& record = known.record;
    if (record.kind->answer == Answer::kList && least > kMostListed)
      return std::unexpected(
          Error{Code::kInvalidArgument, "cannot take " + std::to_string(least) + " values from " +
                                            place_of(record) + " at once: ask for " +
                                            std::to_string(kMostListed) + " or fewer"});
    auto values = values_of<Engine>(Name{counter}, count, least);
    values.push_back(Engine::text(record.value));
    values.push_back(Engine::value(known.bounds.last));
    const auto rows = database_.run(known.statements->advance(count, count == least), values, until,
                                    "take values from");
    if (!rows && rows.error().code == Code::kOutOfRange) return std::nullopt;
    if (!rows) return std::unexpected(rows.error());
    switch (record.kind->answer) {
      case Answer::kRange:
        return range_in(*rows, record);
      case Answer::kFirst:
        return from_first(*rows, known, count);
      case Answer::kList:
        break;
    }
    return run_in(*rows, known, count, least);
  }

  // One atomic max of the next value.
  Result<void> raise(const AdoptedRecord& record, std::int64_t target, SteadyTime until) {
    return database_.execute(raise_to(Engine::kAdoptionRules, record, target), until,
                             "raise " + place_of(record) + " in");
  }

 private:
  using Rows = typename Engine::Rows;
  using Taken = Result<std::optional<Range>>;

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
    typename Engine::Values values = {Engine::text(record.value)};
    if (record.kind->steps) {
      const SequenceDefinition alike{.first = bounds.first, .stride = bounds.stride};
      values.push_back(Engine::value(bounds.stride));
      values.push_back(Engine::value(alike.offset()));
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
      return "it is not there: correct its name, or insert it with its first value";
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
      statements = std::make_shared<const AdoptedStatements>(Engine::kAdoptionRules, record,
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

  Taken range_in(const Rows& rows, const AdoptedRecord& record) const {
    if (rows.empty()) return std::nullopt;
    if (rows.size() > 1) return std::unexpected(many(record));
    const auto row = rows[0];
    if (row.integer(3) == 0) return std::unexpected(busy(record));
    return Range{row.integer(0), row.integer(1), row.integer(2)};
  }

  // The statement took as many as there were, up to `count`.
  Taken from_first(const Rows& rows, const Known& known, std::int64_t count) const {
    if (rows.found() == 0) return std::nullopt;
    if (rows.found() > 1) return std::unexpected(many(known.record));
    const std::int64_t first = Engine::inserted(rows);
    return Range{first, 1, std::min(count, known.bounds.last - first + 1)};
  }

  // The first run of values without any of others between them that is long enough.
  Taken run_in(const Rows& rows, const Known& known, std::int64_t count, std::int64_t least) const {
    std::vector<std::int64_t> values;
    for (int i = 0; i < rows.size(); ++i)
      if (const std::int64_t value = rows[i].integer(0); value <= known.bounds.last)
        values.push_back(value);
    std::ranges::sort(values);
    Range run;
    for (const std::int64_t value : values) {
      if (run.count > 0 && value == run.last() + run.stride) {
        ++run.count;
      } else {
        if (run.count >= least) break;
        run = {value, known.bounds.stride, 1};
      }
      if (run.count == count) break;
    }
    if (run.count >= least) return run;
    // Those past the end tell the caller, who looks again, that there are too few.
    if (std::cmp_less(values.size(), least)) return std::nullopt;
    return std::unexpected(busy(known.record));
  }

  Database<Engine>& database_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Known>, std::less<>> known_;
  std::map<std::string, std::shared_ptr<const AdoptedStatements>, std::less<>> statements_;
};

}  // namespace idmint::stores::sql
