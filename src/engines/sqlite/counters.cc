#include "engines/sql/rows.h"
#include "engines/sqlite/tables.h"
#include "store/backend.h"
#include "store/counter_store.h"

namespace idmint::stores::sqlite {
namespace {

class Counters final : public CounterStore {
 public:
  explicit Counters(TrustedFile& file) : file_(file) {}

  Result<void> do_create(std::span<const NewCounter> counters) override {
    const Call call{"make counters in"};
    return file_.change(call, [&]() -> Result<void> {
      for (const NewCounter& counter : counters)
        if (Result<void> made = make(counter); !made) return made;
      return {};
    });
  }

  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime until) override {
    const Call call{"take values from", until};
    const std::int64_t least = take == Take::kAll ? count : 1;
    Range taken;
    const auto advance = [&]() -> Result<void> {
      {
        Statement run(file_, advance_, call.doing, counter, count, least);
        const bool moved = run.next();
        if (moved) taken = {run.integer(0), run.integer(1), run.integer(2)};
        if (Result<void> ended = run.end(); !ended || moved) return ended;
      }
      const Result<CounterState> state = read(counter);
      return std::unexpected(state ? refused_advance(*state, count) : state.error());
    };
    const Result<void> done = file_.change(call, advance);
    if (!done) return std::unexpected(done.error());
    return taken;
  }

  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                             std::int64_t floor, SteadyTime until) override {
    std::vector<std::int64_t> next;
    const Result<void> raised =
        change_each(raise_, counters, floor, {"raise a counter in", until},
                    [&next](const Statement& row) { next.push_back(row.integer(0)); });
    if (!raised) return std::unexpected(raised.error());
    return next;
  }

  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                               std::int64_t last) override {
    std::vector<CounterBounds> bounds;
    const Result<void> extended = change_each(
        extend_, counters, last, {"extend a counter in"}, [&bounds](const Statement& row) {
          bounds.push_back({row.integer(0), row.integer(1), row.integer(2)});
        });
    if (!extended) return std::unexpected(extended.error());
    return bounds;
  }

  Result<void> do_close(std::span<const std::string> counters) override {
    return change_each(close_, counters, std::nullopt, {"close a counter in"},
                       [](const Statement&) {});
  }

  Result<CounterState> do_peek(std::string_view counter, SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    return read(counter);
  }

  Result<std::vector<CounterState>> do_list(std::string_view prefix, SteadyTime until) override {
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

 private:
  // Called with the row of each changed counter.
  using OnRow = std::function<void(const Statement& row)>;

  Result<CounterState> read(std::string_view counter) {
    Statement row(file_, peek_, "read", counter);
    if (row.next()) return sql::counter_of(row);
    return std::unexpected(row.is_done() ? no_counter(counter, file_.url()) : row.failure());
  }

  Result<void> make(const NewCounter& counter) {
    const CounterBounds& bounds = counter.bounds;
    Result<void> made = Statement(file_, create_, "make a counter in", counter.name, bounds.first,
                                  bounds.last, bounds.stride)
                            .end();
    if (!made) return made;
    const Result<CounterState> there = read(counter.name);
    if (!there) return std::unexpected(there.error());
    if (there->bounds != bounds) return std::unexpected(other_bounds(*there, bounds));
    return {};
  }

  // One transaction for all counters. If a counter is missing or the statement rejects it, the
  // first such error is returned after the others are durable.
  Result<void> change_each(Query& query, std::span<const std::string> counters,
                           std::optional<std::int64_t> value, Call call, const OnRow& on_row) {
    call.needs = Needs::kNothing;
    Result<void> all;
    const auto change = [&]() -> Result<void> {
      for (const std::string& counter : counters) {
        Statement run(file_, query, call.doing, counter, value);
        const bool changed = run.next();
        if (changed) on_row(run);
        if (Result<void> ended = run.end(); !ended) return ended;
        if (changed || !all) continue;
        const Result<CounterState> there = read(counter);
        if (!there && there.error().code != Code::kNotFound) return std::unexpected(there.error());
        all = std::unexpected(
            there ? too_large_an_end(counter, value.value_or(0), there->bounds.stride)
                  : there.error());
      }
      return {};
    };
    const Result<void> done = file_.change(call, change);
    return done ? all : done;
  }

  TrustedFile& file_;
  // The number of values left is (last - next + stride) / stride, as in CounterState::left(). A
  // raise moves to CounterBounds::at_or_above(). No sum overflows: 0 <= first, next <= last +
  // stride <= 2^63 - 1.
  Query advance_{
      "UPDATE counters SET taken_from = next,"
      " next = next + min(?2, (last - next + stride) / stride) * stride"
      " WHERE name = ?1 AND NOT closed AND (last - next + stride) / stride >= ?3"
      " RETURNING taken_from, stride, (next - taken_from) / stride"};
  Query raise_{
      "UPDATE counters SET next = max(next,"
      " first + (min(max(?2, first), last + 1) - first + (stride - 1)) / stride * stride)"
      " WHERE name = ?1 RETURNING next"};
  Query extend_{
      "UPDATE counters SET last = max(last, ?2)"
      " WHERE name = ?1 AND ?2 <= 9223372036854775806 - (stride - 1)"
      " RETURNING first, last, stride"};
  Query close_{"UPDATE counters SET closed = 1 WHERE name = ?1 RETURNING 1"};
  Query create_{
      "INSERT INTO counters (name, first, last, stride, next, taken_from, closed)"
      " VALUES (?1, ?2, ?3, ?4, ?2, ?2, 0) ON CONFLICT DO NOTHING"};
  Query peek_{"SELECT name, first, last, stride, next, closed FROM counters WHERE name = ?1"};
  Query list_{
      "SELECT name, first, last, stride, next, closed FROM counters WHERE name >= ?1"
      " ORDER BY name"};
};

}  // namespace

std::shared_ptr<CounterStore> counters_of(TrustedFile& file) {
  return std::make_shared<Counters>(file);
}

}  // namespace idmint::stores::sqlite
