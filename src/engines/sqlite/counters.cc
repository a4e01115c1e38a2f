#include "store/protocol/counters.h"

#include "engines/sql/rows.h"
#include "engines/sqlite/tables.h"
#include "store/backend.h"
#include "store/counter_store.h"
#include "store/engine.h"

namespace idmint::stores::sqlite {
namespace {

// The columns of a row, as counter_of() reads them.
#define IDMINT_COUNTER "name, first, last, stride, next, closed"
// The end once it is lifted to ?3.
#define IDMINT_LAST \
  "CASE WHEN ?3 <= 9223372036854775806 - (stride - 1) THEN max(last, ?3) ELSE last END"

class CounterTable final : private CounterRows {
 public:
  explicit CounterTable(TrustedFile& file) : file_(file) {}

  [[nodiscard]] CounterStore& counters() noexcept { return counters_; }

 private:
  Result<CounterStates> make_counters(std::span<const NewCounter> counters, SteadyTime until,
                                      std::string_view doing) override {
    CounterStates there;
    const Result<void> done = file_.change({doing, until}, [&]() -> Result<void> {
      for (const auto& [name, bounds, adopted, stripe, make] : counters) {
        Result<void> made =
            Statement(file_, create_, doing, name, bounds.first, bounds.last, bounds.stride).end();
        if (!made) return made;
        if (Result<void> read = add(there, peek_, doing, name); !read) return read;
      }
      return {};
    });
    if (!done) return std::unexpected(done.error());
    return there;
  }

  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least, SteadyTime until,
                                       std::string_view doing) override {
    std::optional<Range> taken;
    bool none = false;
    const Result<void> done = file_.change({doing, until}, [&]() -> Result<void> {
      Statement run(file_, advance_, doing, counter, most, least);
      if (run.next()) taken = {run.integer(0), run.integer(1), run.integer(2)};
      if (Result<void> ended = run.end(); !ended || taken) return ended;
      none = true;  // no sync for that
      return std::unexpected(Error{Code::kUnavailable, "nothing is to be written"});
    });
    if (!done && !none) return std::unexpected(done.error());
    return taken;
  }

  // One transaction for all counters.
  Result<CounterStates> lift(std::span<const std::string> counters, const CounterLift& lift,
                             SteadyTime until, std::string_view doing) override {
    CounterStates lifted;
    const Result<void> done = file_.change({doing, until, Needs::kNothing}, [&]() -> Result<void> {
      for (const std::string& counter : counters)
        if (Result<void> changed = add(lifted, lift_, doing, counter, lift.next.value_or(0),
                                       lift.last, std::int64_t{lift.closed ? 1 : 0});
            !changed)
          return changed;
      return {};
    });
    if (!done) return std::unexpected(done.error());
    return lifted;
  }

  Result<CounterStates> read_counters(std::span<const std::string> counters,
                                      SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    CounterStates there;
    for (const std::string& counter : counters)
      if (Result<void> read = add(there, peek_, "read", counter); !read)
        return std::unexpected(std::move(read.error()));
    return there;
  }

  Result<std::vector<CounterState>> list_counters(std::string_view prefix,
                                                  SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    Statement row(file_, list_, "read", prefix);
    std::vector<CounterState> found;
    while (row.next()) {
      if (!row.bytes(0).starts_with(prefix)) return found;
      if (file_.is_late()) return std::unexpected(file_.too_long_a_list(found.size()));
      found.push_back(sql::counter_of(row));
    }
    if (!row.is_done()) return std::unexpected(row.failure());
    return found;
  }

  // Adds the row that the query returns, if it returns one.
  Result<void> add(CounterStates& states, Query& query, std::string_view doing,
                   const auto&... values) {
    Statement row(file_, query, doing, values...);
    if (row.next()) {
      CounterState state = sql::counter_of(row);
      states.insert_or_assign(state.name, std::move(state));
    }
    return row.end();
  }

  TrustedFile& file_;
  Counters counters_{file_, *this};
  // The number of values left is (last - next + stride) / stride, as in CounterState::left(). A
  // raise moves to CounterBounds::at_or_above(). No sum overflows: 0 <= first, next <= last +
  // stride <= 2^63 - 1.
  Query advance_{
      "UPDATE counters SET taken_from = next,"
      " next = next + min(?2, (last - next + stride) / stride) * stride"
      " WHERE name = ?1 AND NOT closed AND (last - next + stride) / stride >= ?3"
      " RETURNING taken_from, stride, (next - taken_from) / stride"};
  Query lift_{"UPDATE counters SET last = " IDMINT_LAST
              ", next = max(next, first + (min(max(?2, first), " IDMINT_LAST
              " + 1) - first + (stride - 1)) / stride * stride), closed = closed OR ?4"
              " WHERE name = ?1 RETURNING " IDMINT_COUNTER};
  Query create_{
      "INSERT INTO counters (name, first, last, stride, next, taken_from, closed)"
      " VALUES (?1, ?2, ?3, ?4, ?2, ?2, 0) ON CONFLICT DO NOTHING"};
  Query peek_{"SELECT " IDMINT_COUNTER " FROM counters WHERE name = ?1"};
  Query list_{"SELECT " IDMINT_COUNTER " FROM counters WHERE name >= ?1 ORDER BY name"};
};

#undef IDMINT_LAST
#undef IDMINT_COUNTER

}  // namespace

std::shared_ptr<CounterStore> counters_of(TrustedFile& file) {
  const auto rows = std::make_shared<CounterTable>(file);
  return {rows, &rows->counters()};
}

}  // namespace idmint::stores::sqlite
