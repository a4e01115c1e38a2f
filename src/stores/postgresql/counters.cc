#include <algorithm>
#include <map>
#include <set>

#include "stores/backend.h"
#include "stores/postgresql/names.h"
#include "stores/postgresql/tables.h"
#include "stores/sql/rows.h"

namespace idmint::stores::postgresql {
namespace {

// How many values are left is (last - next + stride) / stride, as in CounterState::left(). The
// value that a raise moves to is that of CounterBounds::at_or_above(). No sum overflows:
// 0 <= first, next <= last + stride <= 2^63 - 1.
constexpr Query kAdvance{
    "advance",
    "UPDATE idmint.counters SET taken_from = next,"
    " next = next + least($2::bigint, (last - next + stride) / stride) * stride"
    " WHERE name = $1 AND NOT closed AND (last - next + stride) / stride >= $3::bigint"
    "  AND " IDMINT_TRUSTED " RETURNING taken_from, stride, (next - taken_from) / stride",
    Kind::kHandOut, "SELECT and UPDATE on idmint.counters and SELECT on idmint.trusted"};

// Those that change many lock them in one order, so that no two wait for each other.
#define IDMINT_LOCKED                                                                          \
  "WITH locked AS MATERIALIZED (SELECT name FROM idmint.counters WHERE name = ANY($1::text[])" \
  "  ORDER BY name FOR UPDATE) UPDATE idmint.counters c "
constexpr Query kRaise{
    "raise",
    IDMINT_LOCKED
    "SET next = greatest(next, first + (least(greatest($2::bigint, first), last + 1) - first"
    "  + (stride - 1)) / stride * stride)"
    " FROM locked WHERE c.name = locked.name RETURNING c.name, next",
    Kind::kWrite, "SELECT and UPDATE on idmint.counters"};
constexpr Query kExtend{
    "extend",
    IDMINT_LOCKED
    "SET last = greatest(last, $2::bigint) FROM locked WHERE c.name = locked.name"
    "  AND $2::bigint <= 9223372036854775806 - (stride - 1)"
    " RETURNING c.name, first, last, stride",
    Kind::kWrite, "SELECT and UPDATE on idmint.counters"};
constexpr Query kClose{"close",
                       IDMINT_LOCKED
                       "SET closed = true FROM locked WHERE c.name = locked.name RETURNING c.name",
                       Kind::kWrite, "SELECT and UPDATE on idmint.counters"};
#undef IDMINT_LOCKED

constexpr Query kCreate{
    "create",
    "INSERT INTO idmint.counters (name, first, last, stride, next, taken_from, closed)"
    " SELECT name, first, last, stride, first, first, false FROM unnest($1::text[],"
    "  $2::bigint[], $3::bigint[], $4::bigint[]) AS new (name, first, last, stride)"
    " WHERE " IDMINT_TRUSTED " ORDER BY name ON CONFLICT DO NOTHING",
    Kind::kHandOut, "SELECT and INSERT on idmint.counters and SELECT on idmint.trusted"};
constexpr Query kPeek{"peek",
                      "SELECT name, first, last, stride, next, closed FROM idmint.counters"
                      " WHERE name = ANY($1::text[])",
                      Kind::kRead, "SELECT on idmint.counters"};
// $2 begins the names that a prefix does not find.
constexpr Query kList{"list",
                      "SELECT name, first, last, stride, next, closed FROM idmint.counters"
                      " WHERE starts_with(name, $1) OR starts_with(name, $2)",
                      Kind::kRead, "SELECT on idmint.counters"};

CounterState counter_in(const Row& row) {
  CounterState state = sql::counter_of(row);
  state.name = name_of(state.name);
  return state;
}

std::vector<std::string> stored_names(std::span<const std::string> names) {
  std::vector<std::string> all;
  all.reserve(names.size());
  for (const std::string& name : names) all.push_back(stored_name(name));
  return all;
}

class Counters final : public CounterStore {
 public:
  explicit Counters(Database& database) : database_(database) {}

 private:
  using States = std::map<std::string, CounterState, std::less<>>;

  Result<void> do_create(std::span<const NewCounter> counters) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    std::vector<std::string> names;
    std::vector<std::int64_t> first;
    std::vector<std::int64_t> last;
    std::vector<std::int64_t> stride;
    for (const NewCounter& counter : counters) {
      names.push_back(counter.name);
      first.push_back(counter.bounds.first);
      last.push_back(counter.bounds.last);
      stride.push_back(counter.bounds.stride);
    }
    const Result<Rows> made = database_.run(
        kCreate, {array_of(stored_names(names)), array_of(first), array_of(last), array_of(stride)},
        *until, "make counters in");
    if (!made) return std::unexpected(made.error());
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
    const Values values = values_of(stored_name(counter), count, least);
    // Another round only if somebody made or extended the counter, or settled the store, between
    // the statements.
    for (;;) {
      const Result<Rows> rows = database_.run(kAdvance, values, *until, "take values from");
      if (!rows) return std::unexpected(rows.error());
      if (!rows->empty()) {
        const Row row = (*rows)[0];
        return Range{row.integer(0), row.integer(1), row.integer(2)};
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
        change_each(kRaise, counters, floor, by, "raise a counter in",
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
        change_each(kExtend, counters, last, SteadyTime::max(), "extend a counter in",
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
    return change_each(kClose, counters, std::nullopt, SteadyTime::max(), "close a counter in",
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
    // A prefix may end within a character, or hold what no text of PostgreSQL does.
    std::string_view from = prefix.substr(0, prefix.find('\0'));
    while (!is_utf8(from)) from.remove_suffix(1);
    const Result<Rows> rows = database_.run(kList, values_of(from, kHexName), *until, "read");
    if (!rows) return std::unexpected(rows.error());
    std::vector<CounterState> all;
    for (int i = 0; i < rows->size(); ++i)
      if (CounterState state = counter_in((*rows)[i]); state.name.starts_with(prefix))
        all.push_back(std::move(state));
    std::ranges::sort(all, {}, &CounterState::name);
    return all;
  }

  // By their names. Those that are not there are left out.
  Result<States> read(std::span<const std::string> counters, SteadyTime until) {
    const Result<Rows> rows =
        database_.run(kPeek, {array_of(stored_names(counters))}, until, "read");
    if (!rows) return std::unexpected(rows.error());
    States states;
    for (int i = 0; i < rows->size(); ++i) {
      CounterState state = counter_in((*rows)[i]);
      states.insert_or_assign(state.name, state);
    }
    return states;
  }

  // One transaction for all of them. The error of the first counter that is missing, or that the
  // statement refuses, is the answer after the others are on the disk.
  Result<void> change_each(const Query& query, std::span<const std::string> counters,
                           std::optional<std::int64_t> value, SteadyTime by, std::string_view doing,
                           const auto& on_row) {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    Values values = {array_of(stored_names(counters))};
    if (value) values.push_back(text_of(*value));
    const Result<Rows> rows = database_.run(query, values, *until, doing);
    if (!rows) return std::unexpected(rows.error());
    std::set<std::string, std::less<>> changed;
    for (int i = 0; i < rows->size(); ++i) {
      const std::string name = name_of((*rows)[i].bytes(0));
      changed.insert(name);
      on_row(name, (*rows)[i]);
    }
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

  Database& database_;
};

}  // namespace

std::shared_ptr<CounterStore> counters_of(Database& database) {
  return std::make_shared<Counters>(database);
}

}  // namespace idmint::stores::postgresql
