#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "stores/backend.h"
#include "stores/redis/scripts.h"
#include "stores/redis/tables.h"

namespace idmint::stores::redis {
namespace {

// The five fields of a counter, each empty where it is missing.
#define IDMINT_LUA_COUNTER                                                                       \
  "local function counter(name)"                                                                 \
  " local c = call('HMGET', key('counter:', name), 'first', 'last', 'stride', 'next', 'closed')" \
  " for i = 1, 5 do c[i] = c[i] or '' end return c end "                                         \
  "local function append(all, some)"                                                             \
  " for i = 1, #some do all[#all + 1] = some[i] end end "

// ARGV[2] the counter; [3] how many values, less 1; [4] what that many strides are, or nothing
// where a double has it exactly; [5] the last value that the counter must have, or nothing. The
// outcomes but "ok" are followed by the counter: "short" there are not so many, "large" [4] is
// needed, "other" it has another last value.
constexpr Script kAdvance{IDMINT_LUA_HAND_OUT IDMINT_LUA_COUNTER R"(
local c = counter(ARGV[2])
if c[1] == '' then return {'none'} end
local function refuse(how) local all = {how} append(all, c) return all end
if c[5] ~= '0' or above(c[4], c[2]) then return refuse('short') end
if ARGV[5] ~= '' and ARGV[5] ~= c[2] then return refuse('other') end
local at, span = key('counter:', ARGV[2]), ARGV[4]
if span == '' then
  span = tonumber(ARGV[3]) * tonumber(c[3])
  if span >= 2^53 then return refuse('large') end
  span = string.format('%.0f', span)
end
if span ~= '0' then
  local done = redis.pcall('HINCRBY', at, 'next', span)
  if type(done) == 'table' then
    return string.find(done.err, 'overflow', 1, true) and refuse('short') or done
  end
  if above(call('HGET', at, 'next'), c[2]) then
    call('HINCRBY', at, 'next', '-' .. span)
    return refuse('short')
  end
end
call('HINCRBY', at, 'next', c[3])
return {'ok', c[4], c[3]})",
                          Kind::kHandOut};

// ARGV[2] and on: name, first, last and stride of each. All counters as they are then.
constexpr Script kCreate{IDMINT_LUA_HAND_OUT IDMINT_LUA_COUNTER R"(
local all = {'ok'}
for i = 2, #ARGV, 4 do
  call('ZADD', key('counters', ''), 0, ARGV[i])
  if call('EXISTS', key('counter:', ARGV[i])) == 0 then
    call('HSET', key('counter:', ARGV[i]), 'first', ARGV[i + 1], 'last', ARGV[i + 2],
         'stride', ARGV[i + 3], 'next', ARGV[i + 1], 'closed', '0')
  end
  append(all, counter(ARGV[i]))
end
return all)",
                         Kind::kHandOut};

// ARGV[2] and on: name, the last value that it must have, and the next one that it is raised to.
// The next value of each as it is then; empty: it has another last value.
constexpr Script kRaise{IDMINT_LUA_WRITE IDMINT_LUA_COUNTER R"(
local all = {'ok'}
for i = 2, #ARGV, 3 do
  local c = counter(ARGV[i])
  local is = c[2] == ARGV[i + 1] and c[4] or ''
  if is ~= '' and above(ARGV[i + 2], is) then
    is = ARGV[i + 2]
    call('HSET', key('counter:', ARGV[i]), 'next', is)
  end
  all[#all + 1] = is
end
return all)",
                        Kind::kWrite};

// ARGV[2] the last value; [3] and on the names of those that there are. All counters as they are
// then.
constexpr Script kExtend{IDMINT_LUA_WRITE IDMINT_LUA_COUNTER R"(
local all = {'ok'}
for i = 3, #ARGV do
  local c = counter(ARGV[i])
  if c[1] ~= '' and above(ARGV[2], c[2]) then
    c[2] = ARGV[2]
    call('HSET', key('counter:', ARGV[i]), 'last', c[2])
  end
  append(all, c)
end
return all)",
                         Kind::kWrite};

// ARGV[2] and on: the names of those that there are.
constexpr Script kClose{IDMINT_LUA_WRITE R"(
for i = 2, #ARGV do
  if call('EXISTS', key('counter:', ARGV[i])) == 1 then
    call('HSET', key('counter:', ARGV[i]), 'closed', '1')
  end
end
return {'ok'})",
                        Kind::kWrite};

constexpr Script kPeek{IDMINT_LUA_BEGIN IDMINT_LUA_COUNTER R"(
local all = {'ok'}
for i = 2, #ARGV do append(all, counter(ARGV[i])) end
return all)",
                       Kind::kRead};

// ARGV[2] where to begin, as ZRANGE has it; [3] how the names begin; [4] how many at most.
// Name and fields of each.
constexpr Script kList{IDMINT_LUA_BEGIN IDMINT_LUA_COUNTER R"(
local all = {'ok'}
for _, name in ipairs(call('ZRANGE', key('counters', ''), ARGV[2], '+', 'BYLEX',
                           'LIMIT', 0, ARGV[4])) do
  if string.sub(name, 1, #ARGV[3]) ~= ARGV[3] then break end
  all[#all + 1] = name
  append(all, counter(name))
end
return all)",
                       Kind::kRead};

#undef IDMINT_LUA_COUNTER

constexpr std::size_t kFields = 5;
// So many counters go into one script, during which the server does nothing else.
constexpr std::size_t kAtOnce = 1000;

class Counters final : public CounterStore {
 public:
  explicit Counters(Database& database) : database_(database) {}

 private:
  using States = std::map<std::string, CounterState, std::less<>>;

  Result<void> do_create(std::span<const NewCounter> counters) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    for (bool written = false; !counters.empty(); written = true) {
      const auto some = counters.first(std::min(counters.size(), kAtOnce));
      counters = counters.subspan(some.size());
      Values values;
      for (const NewCounter& each : some)
        for (std::string& value :
             values_of(each.name, each.bounds.first, each.bounds.last, each.bounds.stride))
          values.push_back(std::move(value));
      const Result<Answer> made = database_.run(kCreate, values, *until, "make counters in");
      if (!made) return std::unexpected(written ? after_a_write(made.error()) : made.error());
      for (std::size_t i = 0; i < some.size(); ++i) {
        const auto there = state_in(*made, 1 + i * kFields, some[i].name);
        if (!there) return std::unexpected(there.error());
        if (there->bounds != some[i].bounds)
          return std::unexpected(other_bounds(*there, some[i].bounds));
      }
    }
    return {};
  }

  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const std::int64_t least = take == Take::kAll ? count : 1;
    std::int64_t wanted = count;
    Values values = values_of(counter, wanted - 1, "", "");
    // Another round where the division of 64 bits, which Lua has not, decides what is left.
    for (;;) {
      const Result<Answer> answer = database_.run(kAdvance, values, *until, "take values from");
      if (!answer) return std::unexpected(answer.error());
      if (answer->outcome() == "none") return std::unexpected(no_counter(counter, database_.url()));
      if (answer->outcome() == "ok") {
        const auto first = answer->integer(1);
        const auto stride = answer->integer(2);
        if (!first || !stride) return damaged_counter(counter);
        return Range{*first, *stride, wanted};
      }
      const Result<CounterState> state = state_in(*answer, 1, counter);
      if (!state) return std::unexpected(state.error());
      const std::int64_t left = state->left();
      if (state->closed || left < least) return std::unexpected(refused_advance(*state, count));
      // Fewer only while the counter ends there.
      wanted = std::min(count, left);
      values = values_of(counter, wanted - 1, (wanted - 1) * state->bounds.stride,
                         wanted < count ? text_of(state->bounds.last) : std::string());
    }
  }

  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                             std::int64_t floor, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    std::map<std::string, std::int64_t, std::less<>> next;
    std::set<std::string, std::less<>> left(counters.begin(), counters.end());
    // Another round for those that were extended meanwhile.
    for (bool written = false; !left.empty(); written = true) {
      const std::vector<std::string> some = some_of(left);
      const Result<States> there = read(some, *until);
      if (!there) return std::unexpected(written ? after_a_write(there.error()) : there.error());
      for (const std::string& name : some)
        if (!there->contains(name)) left.erase(name);
      Values values;
      for (const auto& [name, state] : *there)
        for (std::string& value :
             values_of(name, state.bounds.last, state.bounds.at_or_above(floor)))
          values.push_back(std::move(value));
      if (values.empty()) continue;
      const Result<Answer> raised = database_.run(kRaise, values, *until, "raise a counter in");
      if (!raised) return std::unexpected(written ? after_a_write(raised.error()) : raised.error());
      std::size_t at = 1;
      for (const auto& [name, state] : *there)
        if (const auto is = raised->integer(at++)) {
          next.insert_or_assign(name, *is);
          left.erase(name);
        }
    }
    return in_order<std::int64_t>(counters, next);
  }

  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                               std::int64_t last) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    std::map<std::string, CounterBounds, std::less<>> bounds;
    std::optional<Error> too_large;
    const Result<void> done =
        change_some(counters, *until, [&](const States& there) -> Result<void> {
          Values values = values_of(std::max<std::int64_t>(last, 0));
          for (const auto& [name, state] : there) {
            if (last <= largest_last(state.bounds.stride))
              values.push_back(name);
            else if (!too_large)
              too_large = too_large_an_end(name, last, state.bounds.stride);
          }
          if (values.size() == 1) return {};
          const Result<Answer> extended =
              database_.run(kExtend, values, *until, "extend a counter in");
          if (!extended) return std::unexpected(extended.error());
          for (std::size_t i = 1; i < values.size(); ++i) {
            const auto state = state_in(*extended, 1 + (i - 1) * kFields, values[i]);
            if (!state) return std::unexpected(state.error());
            bounds.insert_or_assign(values[i], state->bounds);
          }
          return {};
        });
    if (!done) return std::unexpected(done.error());
    if (too_large) return std::unexpected(*std::move(too_large));
    return in_order<CounterBounds>(counters, bounds);
  }

  Result<void> do_close(std::span<const std::string> counters) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    std::map<std::string, bool, std::less<>> closed;
    const Result<void> done =
        change_some(counters, *until, [&](const States& there) -> Result<void> {
          Values values;
          for (const auto& [name, state] : there) values.push_back(name);
          const Result<Answer> answer = database_.run(kClose, values, *until, "close a counter in");
          if (!answer) return std::unexpected(answer.error());
          for (const std::string& name : values) closed.insert_or_assign(name, true);
          return {};
        });
    if (!done) return done;
    const Result<std::vector<bool>> all = in_order<bool>(counters, closed);
    if (!all) return std::unexpected(all.error());
    return {};
  }

  Result<CounterState> do_peek(std::string_view counter, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<States> found = read({std::string(counter)}, *until);
    if (!found) return std::unexpected(found.error());
    if (found->empty()) return std::unexpected(no_counter(counter, database_.url()));
    return found->begin()->second;
  }

  Result<std::vector<CounterState>> do_list(std::string_view prefix, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    std::vector<CounterState> all;
    std::string from = "[" + std::string(prefix);
    for (;;) {
      const Result<Answer> some =
          database_.run(kList, values_of(from, prefix, std::int64_t{kAtOnce}), *until, "read");
      if (!some) return std::unexpected(some.error());
      const std::size_t found = (some->size() - 1) / (kFields + 1);
      for (std::size_t i = 0; i < found; ++i) {
        const std::size_t at = 1 + i * (kFields + 1);
        Result<CounterState> state = state_in(*some, at + 1, some->text(at));
        if (!state) return std::unexpected(state.error());
        all.push_back(*std::move(state));
      }
      if (found < kAtOnce) return all;
      from = "(" + all.back().name;
    }
  }

  // By their names. Those that are not there are left out.
  Result<States> read(const std::vector<std::string>& counters, SteadyTime until) {
    const Result<Answer> answer = database_.run(kPeek, counters, until, "read");
    if (!answer) return std::unexpected(answer.error());
    States states;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const std::size_t at = 1 + i * kFields;
      if (answer->text(at).empty()) continue;
      Result<CounterState> state = state_in(*answer, at, counters[i]);
      if (!state) return std::unexpected(state.error());
      states.insert_or_assign(counters[i], *std::move(state));
    }
    return states;
  }

  // Calls change(States) for those that there are, some at a time.
  Result<void> change_some(std::span<const std::string> counters, SteadyTime until,
                           const auto& change) {
    for (bool written = false; !counters.empty(); written = true) {
      const auto some = counters.first(std::min(counters.size(), kAtOnce));
      counters = counters.subspan(some.size());
      const Result<States> there = read({some.begin(), some.end()}, until);
      Result<void> changed = there ? (there->empty() ? Result<void>() : change(*there))
                                   : std::unexpected(there.error());
      if (!changed)
        return std::unexpected(written ? after_a_write(std::move(changed.error()))
                                       : std::move(changed.error()));
    }
    return {};
  }

  // The value of each counter. kNotFound: one is missing, as it is not there.
  template <class T>
  Result<std::vector<T>> in_order(std::span<const std::string> counters,
                                  const std::map<std::string, T, std::less<>>& found) const {
    std::vector<T> all;
    for (const std::string& counter : counters) {
      const auto at = found.find(counter);
      if (at == found.end()) return std::unexpected(no_counter(counter, database_.url()));
      all.push_back(at->second);
    }
    return all;
  }

  static std::vector<std::string> some_of(const std::set<std::string, std::less<>>& names) {
    std::vector<std::string> some;
    std::ranges::copy_n(names.begin(), static_cast<std::ptrdiff_t>(std::min(names.size(), kAtOnce)),
                        std::back_inserter(some));
    return some;
  }

  // Of the fields that begin with the text `at`. kDataLoss: they are not those of a counter.
  Result<CounterState> state_in(const Answer& answer, std::size_t at, std::string_view name) const {
    const auto first = answer.integer(at);
    const auto last = answer.integer(at + 1);
    const auto stride = answer.integer(at + 2);
    const auto next = answer.integer(at + 3);
    const std::string_view closed = answer.text(at + 4);
    if (!first || !last || !stride || !next || (closed != "0" && closed != "1"))
      return damaged_counter(name);
    const bool sound = 0 <= *first && *first <= *last && 1 <= *stride &&
                       *last <= largest_last(*stride) && *first <= *next &&
                       *next <= *last + *stride;
    if (!sound) return damaged_counter(name);
    return CounterState{std::string(name), {*first, *last, *stride}, *next, closed == "1"};
  }

  [[nodiscard]] std::unexpected<Error> damaged_counter(std::string_view name) const {
    return database_.damaged("the record of counter " + shown(name) + " is damaged");
  }

  Database& database_;
};

}  // namespace

std::shared_ptr<CounterStore> counters_of(Database& database) {
  return std::make_shared<Counters>(database);
}

}  // namespace idmint::stores::redis
