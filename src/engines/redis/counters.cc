#include "store/protocol/counters.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/errors.h"
#include "engines/redis/adoption.h"
#include "engines/redis/scripts.h"
#include "engines/redis/tables.h"
#include "store/backend.h"
#include "store/engine.h"

namespace idmint::stores::redis {
namespace {

// The value of a key of other programs, and its fault, or nothing: "none", its type, "text",
// "expires", or "low": it is below `taken`. INCR takes integers of 64 bits only.
#define IDMINT_LUA_LOOK                                                                \
  "local function look(at, taken)"                                                     \
  " local kind = call('TYPE', at).ok "                                                 \
  " if kind ~= 'string' then return '', kind end "                                     \
  " local is = call('STRLEN', at) <= 20 and call('GET', at) or '' "                    \
  " local digits = string.match(is, '^-?([1-9]%d*)$') or is == '0' and is "            \
  " if not digits or above(digits, '9223372036854775807') then return '', 'text' end " \
  " if string.sub(is, 1, 1) == '-' or above(taken, is) then return is, 'low' end "     \
  " return is, call('TTL', at) >= 0 and 'expires' or '' end "

// The fields of a counter, each empty where it is missing, and last what is wrong with its key. In
// the place of `next` an adopted one has what its key holds.
#define IDMINT_LUA_COUNTER                                                                       \
  IDMINT_LUA_LOOK                                                                                \
  "local function counter(name)"                                                                 \
  " local c = call('HMGET', key('counter:', name), 'first', 'last', 'stride', 'next', 'closed'," \
  "  'adopted', 'taken')"                                                                        \
  " for i = 1, 7 do c[i] = c[i] or '' end c[8] = '' "                                            \
  " if c[6] ~= '' then c[4], c[8] = look(string.sub(c[6], 5), c[7]) end return c end "           \
  "local function append(all, some)"                                                             \
  " for i = 1, #some do all[#all + 1] = some[i] end end "

// ARGV[2] the counter; [3] how many values, less 1; [4] what that many strides are, or nothing
// where a double has it exactly; [5] the last value that the counter must have, or nothing; [6] how
// many values. The outcomes but "ok" and "taken" are followed by the counter: "short" there are not
// so many, "large" [4] is needed, "other" it has another last value, "wrong" its key is wrong.
// "taken": from a key, and the value that it had before.
constexpr Script kAdvance{IDMINT_LUA_HAND_OUT IDMINT_LUA_COUNTER R"(
local c = counter(ARGV[2])
if c[1] == '' then return {'none'} end
local function refuse(how) local all = {how} append(all, c) return all end
if c[8] ~= '' then return refuse('wrong') end
if c[5] ~= '0' or above(c[4], c[2]) then return refuse('short') end
if ARGV[5] ~= '' and ARGV[5] ~= c[2] then return refuse('other') end
if c[6] ~= '' then
  local its = string.sub(c[6], 5)
  local done = redis.pcall('INCRBY', its, ARGV[6])
  if type(done) == 'table' then
    return string.find(done.err, 'overflow', 1, true) and refuse('short') or done
  end
  local is = call('GET', its)
  if above(is, c[2]) then
    call('INCRBY', its, '-' .. ARGV[6])
    return refuse('short')
  end
  call('HSET', key('counter:', ARGV[2]), 'taken', is)
  return {'taken', c[4]}
end
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

// ARGV[2] and on: name, first, last and stride of each, the text of its record, or nothing, and the
// value before the first. All counters as they are then. The outcome "wrong", before anything is
// made, is followed by a text, what its key holds and what is wrong with that.
constexpr Script kCreate{IDMINT_LUA_HAND_OUT IDMINT_LUA_COUNTER R"(
local all, found = {'ok'}, {}
for i = 2, #ARGV, 6 do
  if ARGV[i + 4] ~= '' and call('EXISTS', key('counter:', ARGV[i])) == 0 then
    local is, wrong = look(string.sub(ARGV[i + 4], 5), ARGV[i + 5])
    if wrong ~= '' then return {'wrong', ARGV[i + 4], is, wrong} end
    found[i] = is
  end
end
for i = 2, #ARGV, 6 do
  call('ZADD', key('counters', ''), 0, ARGV[i])
  if call('EXISTS', key('counter:', ARGV[i])) == 0 then
    call('HSET', key('counter:', ARGV[i]), 'first', ARGV[i + 1], 'last', ARGV[i + 2],
         'stride', ARGV[i + 3], 'next', ARGV[i + 1], 'closed', '0')
    if found[i] then
      call('HSET', key('counter:', ARGV[i]), 'adopted', ARGV[i + 4], 'taken', found[i])
    end
  end
  append(all, counter(ARGV[i]))
end
return all)",
                         Kind::kHandOut};

// ARGV[2] and on: name, the last value that it must have, the one that it gets, the next one that
// it is raised to, the value before that, and whether it is closed. Each text but the first two may
// be empty: then that is left. The fields of each as they are then; the first is empty if nothing
// was done, as it has another last value, or its key is wrong and it is to be raised.
constexpr Script kLift{IDMINT_LUA_WRITE IDMINT_LUA_COUNTER R"(
local all = {'ok'}
for i = 2, #ARGV, 6 do
  local at, c = key('counter:', ARGV[i]), counter(ARGV[i])
  local raises = ARGV[i + 3] ~= ''
  if c[2] ~= ARGV[i + 1] or raises and c[8] ~= '' then
    c[1] = ''
  else
    if ARGV[i + 2] ~= '' then call('HSET', at, 'last', ARGV[i + 2]) end
    if raises and c[6] ~= '' then
      if above(ARGV[i + 4], c[4]) then
        call('SET', string.sub(c[6], 5), ARGV[i + 4])
        call('HSET', at, 'taken', ARGV[i + 4])
      end
    elseif raises and above(ARGV[i + 3], c[4]) then
      call('HSET', at, 'next', ARGV[i + 3])
    end
    if ARGV[i + 5] ~= '' then call('HSET', at, 'closed', '1') end
    c = counter(ARGV[i])
  end
  append(all, c)
end
return all)",
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
#undef IDMINT_LUA_LOOK

constexpr std::size_t kFields = 8;
// So many counters go into one script, during which the server does nothing else.
constexpr std::size_t kAtOnce = 1000;

// The fault of a key, for messages.
std::string what_is_wrong(std::string_view wrong) {
  struct Row {
    std::string_view wrong;
    std::string_view words;
  };
  constexpr std::array kRows = {
      Row{"none", "it is not there"}, Row{"text", "it holds no integer of 64 bits"},
      Row{"expires", "it has a time to live, after which it would begin anew: PERSIST it"}};
  const auto* const row = std::ranges::find(kRows, wrong, &Row::wrong);
  return row != kRows.end() ? std::string(row->words) : "it is a " + std::string(wrong);
}

class CounterTable final : private CounterRows {
 public:
  explicit CounterTable(Database& database) : database_(database) {}

  [[nodiscard]] CounterStore& counters() noexcept { return counters_; }

 private:
  struct Found {
    CounterState state{};
    std::string adopted{};   // the text of its record, or nothing
    std::string wrong{};     // with its key; then the next value of the state is none
    std::string held{};      // by its key
    std::int64_t taken = 0;  // from its key
  };
  using FoundCounters = std::map<std::string, Found, std::less<>>;

  [[nodiscard]] const Adoption* adoption() const noexcept override { return &kAdoption; }

  Result<CounterStates> make_counters(std::span<const NewCounter> counters, SteadyTime until,
                                      std::string_view doing) override {
    for (const NewCounter& each : counters)
      if (Result<void> can = can_adopt(each); !can) return std::unexpected(std::move(can.error()));
    CounterStates states;
    for (bool written = false; !counters.empty(); written = true) {
      const auto some = counters.first(std::min(counters.size(), kAtOnce));
      counters = counters.subspan(some.size());
      Values values;
      for (const NewCounter& each : some)
        for (std::string& value :
             values_of(each.name, each.bounds.first, each.bounds.last, each.bounds.stride,
                       each.adopted, each.bounds.first - 1))
          values.push_back(std::move(value));
      const Result<Answer> made = database_.run(kCreate, values, until, doing);
      if (!made) return std::unexpected(written ? after_a_write(made.error()) : made.error());
      if (made->outcome() == "wrong") return not_adopted(*made);
      for (std::size_t i = 0; i < some.size(); ++i) {
        auto there = found_in(*made, 1 + i * kFields, some[i].name);
        if (!there) return std::unexpected(std::move(there.error()));
        if (there->adopted != some[i].adopted)
          return std::unexpected(other_record(some[i].name, there->adopted, some[i].adopted));
        states.insert_or_assign(some[i].name, std::move(there->state));
      }
    }
    return states;
  }

  // kInvalidArgument: not the text of a record, or the counter cannot be in it.
  static Result<void> can_adopt(const NewCounter& counter) {
    if (counter.adopted.empty()) return {};
    const std::string making = "cannot make counter " + shown(counter.name);
    if (const Result<std::string> key = key_from_text(counter.adopted); !key)
      return refused(making, key.error());
    const std::string place = redis::place_of(counter.adopted);
    if (auto ok = must_begin_above_0(counter.bounds.first, making + ": it", place); !ok) return ok;
    if (counter.bounds.stride != 1)
      return refuse(making + ": " + place + " cannot be adopted in steps of " +
                    std::to_string(counter.bounds.stride) +
                    ", as the others that use it count by one");
    return {};
  }

  // There is nothing to go on from.
  [[nodiscard]] std::unexpected<Error> not_adopted(const Answer& answer) const {
    const std::string_view wrong = answer.text(3);
    std::string why = what_is_wrong(wrong);
    if (wrong == "none")
      why += ": name the key that your programs INCR; another would begin a second counter";
    Advice advice;
    if (wrong == "low") {
      why = "it holds " + std::string(answer.text(2)) + ", and the sequence begins further above";
      if (const auto holds = answer.integer(2); holds && *holds >= 0)
        advice = {.remedy = Remedy::kSetOption, .values = {"first=" + std::to_string(*holds + 1)}};
    }
    return std::unexpected(at_place(
        database_.url(),
        {Code::kFailedPrecondition,
         "cannot adopt " + redis::place_of(answer.text(1)) + ": " + why + "; it was left as it is",
         std::move(advice)}));
  }

  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least, SteadyTime until,
                                       std::string_view doing) override {
    std::int64_t wanted = most;
    Values values = values_of(counter, wanted - 1, "", "", wanted);
    // Another round where the division of 64 bits, which Lua has not, decides what is left.
    for (;;) {
      const Result<Answer> answer = database_.run(kAdvance, values, until, doing);
      if (!answer) return std::unexpected(answer.error());
      if (answer->outcome() == "none") return std::nullopt;
      if (answer->outcome() == "ok") {
        const auto first = answer->integer(1);
        const auto stride = answer->integer(2);
        if (!first || !stride) return damaged_counter(counter);
        return Range{*first, *stride, wanted};
      }
      if (answer->outcome() == "taken") {
        const auto before = answer->integer(1);
        if (!before) return damaged_counter(counter);
        return Range{*before + 1, 1, wanted};
      }
      const Result<CounterState> state = usable(found_in(*answer, 1, counter));
      if (!state) return std::unexpected(state.error());
      const std::int64_t left = state->left();
      if (state->closed || left < least) return std::nullopt;
      // Fewer only while the counter ends there.
      wanted = std::min(most, left);
      values = values_of(counter, wanted - 1, (wanted - 1) * state->bounds.stride,
                         wanted < most ? text_of(state->bounds.last) : std::string(), wanted);
    }
  }

  Result<CounterStates> lift(std::span<const std::string> counters, const CounterLift& lift,
                             SteadyTime until, std::string_view doing) override {
    CounterStates lifted;
    std::set<std::string, std::less<>> left(counters.begin(), counters.end());
    // Another round for those that were extended meanwhile.
    for (bool written = false; !left.empty(); written = true) {
      const auto failed = [&](const Error& why) {
        return std::unexpected(written ? after_a_write(why) : why);
      };
      const std::vector<std::string> some = some_of(left);
      const Result<FoundCounters> there = read(some, until);
      if (!there) return failed(there.error());
      for (const std::string& name : some)
        if (!there->contains(name)) left.erase(name);
      Values values;
      for (const auto& [name, found] : *there) {
        if (lift.next)
          if (const Result<CounterState> state = usable(found); !state)
            return failed(state.error());
        CounterState after = found.state;
        lift_to(lift, after);
        const std::int64_t last = found.state.bounds.last;
        const std::string next = lift.next ? text_of(after.bounds.at_or_above(*lift.next)) : "";
        const std::string before =
            lift.next ? text_of(after.bounds.at_or_above(*lift.next) - 1) : "";
        for (std::string& value :
             values_of(name, last, after.bounds.last != last ? text_of(after.bounds.last) : "",
                       next, before, lift.closed ? "1" : ""))
          values.push_back(std::move(value));
      }
      if (values.empty()) continue;
      const Result<Answer> answer = database_.run(kLift, values, until, doing);
      if (!answer) return failed(answer.error());
      std::size_t at = 1;
      for (const auto& [name, before] : *there) {
        if (!answer->text(at).empty()) {
          Result<Found> found = found_in(*answer, at, name);
          if (!found) return std::unexpected(after_a_write(std::move(found.error())));
          lifted.insert_or_assign(name, std::move(found->state));
          left.erase(name);
        }
        at += kFields;
      }
    }
    return lifted;
  }

  Result<CounterStates> read_counters(std::span<const std::string> counters,
                                      SteadyTime until) override {
    const Result<FoundCounters> found = read({counters.begin(), counters.end()}, until);
    if (!found) return std::unexpected(found.error());
    CounterStates there;
    for (const auto& [name, each] : *found) {
      Result<CounterState> state = usable(each);
      if (!state) return std::unexpected(std::move(state.error()));
      there.emplace(name, *std::move(state));
    }
    return there;
  }

  Result<std::vector<CounterState>> list_counters(std::string_view prefix,
                                                  SteadyTime until) override {
    std::vector<CounterState> all;
    std::string from = "[" + std::string(prefix);
    for (;;) {
      const Result<Answer> some =
          database_.run(kList, values_of(from, prefix, std::int64_t{kAtOnce}), until, "read");
      if (!some) return std::unexpected(some.error());
      const std::size_t found = (some->size() - 1) / (kFields + 1);
      for (std::size_t i = 0; i < found; ++i) {
        const std::size_t at = 1 + i * (kFields + 1);
        Result<CounterState> state = usable(found_in(*some, at + 1, some->text(at)));
        if (!state) return std::unexpected(state.error());
        all.push_back(*std::move(state));
      }
      if (found < kAtOnce) return all;
      from = "(" + all.back().name;
    }
  }

  // By their names. Those that are not there are left out.
  Result<FoundCounters> read(const std::vector<std::string>& counters, SteadyTime until) {
    const Result<Answer> answer = database_.run(kPeek, counters, until, "read");
    if (!answer) return std::unexpected(answer.error());
    FoundCounters all;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const std::size_t at = 1 + i * kFields;
      if (answer->text(at).empty()) continue;
      Result<Found> found = found_in(*answer, at, counters[i]);
      if (!found) return std::unexpected(found.error());
      all.insert_or_assign(counters[i], *std::move(found));
    }
    return all;
  }

  static std::vector<std::string> some_of(const std::set<std::string, std::less<>>& names) {
    std::vector<std::string> some;
    std::ranges::copy_n(names.begin(), static_cast<std::ptrdiff_t>(std::min(names.size(), kAtOnce)),
                        std::back_inserter(some));
    return some;
  }

  // The value after one that was taken from a counter that ends at `last`.
  static std::int64_t after(std::int64_t value, std::int64_t last) {
    return std::min(value, last) + 1;
  }

  // The counter in the fields from the text `at` on. kDataLoss: they are not those of a counter.
  Result<Found> found_in(const Answer& answer, std::size_t at, std::string_view name) const {
    Found found{.adopted = std::string(answer.text(at + 5)),
                .wrong = std::string(answer.text(at + 7)),
                .held = std::string(answer.text(at + 3))};
    const auto first = answer.integer(at);
    const auto last = answer.integer(at + 1);
    const auto stride = answer.integer(at + 2);
    auto next = answer.integer(at + 3);
    const std::string_view closed = answer.text(at + 4);
    if (!first || !last || !stride || (closed != "0" && closed != "1"))
      return damaged_counter(name);
    if (!found.adopted.empty()) {
      const auto taken = answer.integer(at + 6);
      if (!taken || *taken < *first - 1 || *stride != 1 || !key_from_text(found.adopted))
        return damaged_counter(name);
      found.taken = *taken;
      next = after(found.wrong.empty() ? next.value_or(*taken) : *taken, *last);
    }
    if (!next) return damaged_counter(name);
    const bool sound = 0 <= *first && *first <= *last && 1 <= *stride &&
                       *last <= largest_last(*stride) && *first <= *next &&
                       *next <= *last + *stride;
    if (!sound) return damaged_counter(name);
    found.state = {std::string(name), {*first, *last, *stride}, *next, closed == "1"};
    return found;
  }

  // kDataLoss: its key cannot be counted in.
  Result<CounterState> usable(const Result<Found>& found) const {
    if (!found) return std::unexpected(found.error());
    if (found->wrong.empty()) return found->state;
    std::string why = what_is_wrong(found->wrong);
    if (found->wrong == "low") why = "it was set back to " + found->held;
    if (found->wrong == "low" || found->wrong == "none")
      why += ", and it had " + std::to_string(found->taken) +
             ": stop the programs that take from it, SET it to the largest value in use, that or "
             "above, and "
             "start them again";
    return std::unexpected(at_place(
        database_.url(), {Code::kDataLoss, redis::place_of(found->adopted) + ", which counter " +
                                               shown(found->state.name) +
                                               " was adopted from, cannot be counted in: " + why}));
  }

  [[nodiscard]] std::unexpected<Error> damaged_counter(std::string_view name) const {
    return database_.damaged("the record of counter " + shown(name) + " is damaged");
  }

  Database& database_;
  Counters counters_{database_, *this};
};

}  // namespace

std::shared_ptr<CounterStore> counters_of(Database& database) {
  const auto table = std::make_shared<CounterTable>(database);
  return {table, &table->counters()};
}

}  // namespace idmint::stores::redis
