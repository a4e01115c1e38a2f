#include <algorithm>
#include <optional>

#include "ids/lease_table.h"
#include "stores/backend.h"
#include "stores/redis/scripts.h"
#include "stores/redis/tables.h"

namespace idmint::stores::redis {
namespace {

// ARGV[2] is the pool. place(): the member of a worker id among those to be leased.
#define IDMINT_LUA_POOL                                                                          \
  "local pool = ARGV[2] "                                                                        \
  "local free, owners, tokens = key('free:', pool), key('owners:', pool), key('tokens:', pool) " \
  "local function row(worker) return key('worker:', pool .. ':' .. worker) end "                 \
  "local function place(minted_until, worker)"                                                   \
  " return string.rep('0', 19 - #minted_until) .. minted_until .. ':' .."                        \
  " string.rep('0', 5 - #worker) .. worker end "                                                 \
  "local function whole(number) return string.format('%.0f', number) end "                       \
  "local function now()"                                                                         \
  " local t = call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end "                    \
  "if call('HEXISTS', key('pools', ''), pool) == 0 then return {'none'} end "

// What the server's clock shows, and whether that is too far from `clock`, which the caller's
// showed when the script was sent. `most` below 0: nothing is compared.
#define IDMINT_LUA_CLOCKS             \
  "local time = now() "               \
  "local function apart(clock, most)" \
  " most = tonumber(most)"            \
  " return most >= 0 and math.abs(time - tonumber(clock)) > most end "

// The pool need not be there.
constexpr Script kCreatePool{IDMINT_LUA_HAND_OUT R"(
local pool = ARGV[2]
if call('HSETNX', key('pools', ''), pool, ARGV[3]) == 1 then
  for worker = 0, tonumber(ARGV[3]) - 1 do
    call('HSET', key('worker:', pool .. ':' .. worker), 'token', '', 'holder', '', 'generation', '0',
         'minted_until', '0', 'taken_from', '0', 'held_until', '0', 'nonce', '')
    call('ZADD', key('free:', pool), 0, string.format('%019d:%05d', 0, worker))
  end
end
return {'ok', call('HGET', key('pools', ''), pool)})",
                             Kind::kHandOut};

// ARGV[3] the token; [4] the clock of the pool and [5] where the range ends, both 0 or more; [6]
// how far ahead it may begin, or nothing; [7] the holder; [8] for how long in ms; [9] and [10] as
// apart(). The outcomes: "full" all are owned, "far" too far ahead, with the nearest, "apart".
constexpr Script kAcquire{IDMINT_LUA_HAND_OUT IDMINT_LUA_POOL IDMINT_LUA_CLOCKS R"(
local worker = call('HGET', tokens, ARGV[3])
if not worker then
  for _, over in ipairs(call('ZRANGE', owners, '-inf', whole(time), 'BYSCORE')) do
    call('ZADD', free, 0, place(call('HGET', row(over), 'minted_until'), over))
    call('ZREM', owners, over)
  end
  local first = call('ZRANGE', free, 0, 0)[1]
  if not first then return {'full'} end
  worker = whole(tonumber(string.sub(first, -5)))
end
if apart(ARGV[9], ARGV[10]) then return {'apart', whole(time)} end
local at = row(worker)
local its = call('HMGET', at, 'token', 'minted_until')
local from = its[2]
if ARGV[6] == '' or above(from, ARGV[6]) then return {'far', from} end
if its[1] ~= ARGV[3] then
  call('HINCRBY', at, 'generation', 1)
  call('HDEL', tokens, its[1])
  call('HSET', tokens, ARGV[3], worker)
end
call('ZREM', free, place(from, worker))
if above(ARGV[4], from) then from = ARGV[4] end
local held = whole(time + tonumber(ARGV[8]))
call('HSET', at, 'token', ARGV[3], 'holder', ARGV[7], 'taken_from', from, 'minted_until', from,
     'held_until', held)
call('HINCRBY', at, 'minted_until', 1)
local to = call('HGET', at, 'minted_until')
if above(ARGV[5], to) then
  to = ARGV[5]
  call('HSET', at, 'minted_until', to)
end
call('ZADD', owners, held, worker)
return {'ok', worker, call('HGET', at, 'generation'), from, to})",
                          Kind::kHandOut};

// The fields of a worker id in the order of state_in(); each text is empty if it is not there.
#define IDMINT_LUA_ROW                                                                       \
  "local function fields(worker)"                                                            \
  " local its = call('HMGET', row(worker), 'token', 'holder', 'generation', 'minted_until'," \
  "  'held_until', 'taken_from', 'nonce')"                                                   \
  " for i = 1, 7 do its[i] = its[i] or '' end return its end "                               \
  "local function refuse(how, its)"                                                          \
  " local all = {how, whole(now())} for i = 1, 7 do all[i + 2] = its[i] end return all end "

// ARGV[3] the worker id, [4] its token, [5] its generation, [6] the bound that is named, [7] the
// nonce: as may_extend(); [8] the new end; [9] for how long; [10] and [11] as apart(). The
// outcomes: "absent" there is no such worker id; "refused", with its fields; "apart".
constexpr Script kExtendLease{IDMINT_LUA_HAND_OUT IDMINT_LUA_POOL IDMINT_LUA_CLOCKS IDMINT_LUA_ROW
                              R"(
local worker, to = ARGV[3], ARGV[8]
local its = fields(worker)
if its[3] == '' then return {'absent'} end
local minted = its[4]
local owned = its[1] == ARGV[4] and its[3] == ARGV[5]
local repeated = its[7] == ARGV[7] and not above(to, minted)
if not owned or not repeated and minted ~= ARGV[6] then return refuse('refused', its) end
if apart(ARGV[10], ARGV[11]) then return {'apart', whole(time)} end
local held = whole(time + tonumber(ARGV[9]))
call('ZREM', free, place(minted, worker))
if above(to, minted) then minted = to end
call('HSET', row(worker), 'minted_until', minted, 'held_until', held, 'nonce', ARGV[7])
call('ZADD', owners, held, worker)
return {'ok'})",
                              Kind::kHandOut};

// ARGV[3] the worker id, [4] its token, [5] its generation. The outcomes as of kExtendLease.
constexpr Script kRelease{IDMINT_LUA_WRITE IDMINT_LUA_POOL IDMINT_LUA_ROW R"(
local worker = ARGV[3]
local its = fields(worker)
if its[3] == '' then return {'absent'} end
if its[1] ~= ARGV[4] or its[3] ~= ARGV[5] then return refuse('refused', its) end
call('HSET', row(worker), 'token', '', 'holder', '')
call('HDEL', tokens, ARGV[4])
call('ZREM', owners, worker)
call('ZADD', free, 0, place(its[4], worker))
return {'ok'})",
                          Kind::kWrite};

// ARGV[3] the floor, [4] the generation.
constexpr Script kRaiseFloor{IDMINT_LUA_WRITE IDMINT_LUA_POOL R"(
for i = 0, tonumber(call('HGET', key('pools', ''), pool)) - 1 do
  local worker = whole(i)
  local its = call('HMGET', row(worker), 'token', 'minted_until')
  local minted = its[2]
  call('HDEL', tokens, its[1])
  call('ZREM', owners, worker)
  call('ZREM', free, place(minted, worker))
  if above(ARGV[3], minted) then minted = ARGV[3] end
  call('HSET', row(worker), 'token', '', 'holder', '', 'generation', ARGV[4], 'taken_from', minted,
       'minted_until', minted)
  call('ZADD', free, 0, place(minted, worker))
end
return {'ok'})",
                             Kind::kWrite};

// ARGV[3] the first worker id, [4] how many. How many the pool has, and the fields of each.
constexpr Script kWorkers{IDMINT_LUA_BEGIN IDMINT_LUA_POOL IDMINT_LUA_ROW R"(
local size = tonumber(call('HGET', key('pools', ''), pool))
local all = {'ok', whole(now()), whole(size)}
for i = tonumber(ARGV[3]), math.min(size, ARGV[3] + ARGV[4]) - 1 do
  local its = fields(whole(i))
  for j = 1, 7 do all[#all + 1] = its[j] end
end
return all)",
                          Kind::kRead};

#undef IDMINT_LUA_ROW
#undef IDMINT_LUA_CLOCKS
#undef IDMINT_LUA_POOL

constexpr std::size_t kFieldsOfRow = 7;
constexpr std::int64_t kRowsAtOnce = 4096;

// Of a time that a double of Lua has exactly.
std::int64_t exact(std::int64_t ms) {
  constexpr std::int64_t kMost = std::int64_t{1} << 52;
  return std::clamp(ms, -kMost, kMost);
}

std::int64_t since_1970(Instant at) {
  return std::chrono::floor<milliseconds>(at.time_since_epoch()).count();
}

// What the caller's clock shows now, given what it showed when the call began.
class CallersClock {
 public:
  explicit CallersClock(const LeaseTerms& terms) : terms_(terms) {}
  [[nodiscard]] Instant now() const {
    return terms_.clock + (std::chrono::steady_clock::now() - begin_);
  }
  // Below 0: nothing is compared.
  [[nodiscard]] std::int64_t max_skew() const {
    return terms_.clock == Instant{} ? -1 : exact(terms_.max_skew.count());
  }

 private:
  const LeaseTerms& terms_;
  const SteadyTime begin_ = std::chrono::steady_clock::now();
};

class Workers final : public LeaseTable {
 public:
  explicit Workers(Database& database) : database_(database) {}

 private:
  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Answer> made =
        database_.run(kCreatePool, values_of(pool, workers), *until, "make worker ids in");
    if (!made) return std::unexpected(made.error());
    const std::int64_t there = made->integer(1).value_or(0);
    if (there != workers) return std::unexpected(other_pool(pool, there, workers));
    return {};
  }

  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime by) override {
    const CallersClock clock(request.terms);
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const std::int64_t limit = request.now + request.max_drift;
    // Another round if the clocks differ by less than the way there and back.
    for (;;) {
      const Instant before = clock.now();
      const Result<Answer> answer = database_.run(
          kAcquire,
          values_of(pool, request.token, std::max<std::int64_t>(request.now, 0),
                    std::max<std::int64_t>(request.now + request.units, 0),
                    limit < 0 ? std::string() : text_of(limit), request.holder,
                    exact(request.terms.held.count()), since_1970(before), clock.max_skew()),
          *until, "lease a worker id from");
      if (!answer) return std::unexpected(answer.error());
      const std::string_view outcome = answer->outcome();
      if (outcome == "none") return std::unexpected(no_pool(pool, database_.url()));
      if (outcome == "full") return std::unexpected(refused_acquire(pool, request, std::nullopt));
      if (outcome == "far") {
        const auto bound = answer->integer(1);
        if (!bound) return damaged_pool(pool);
        return std::unexpected(refused_acquire(pool, request, bound));
      }
      if (outcome == "apart") {
        if (auto error = apart(pool, clock, before, *answer, request.terms.max_skew))
          return std::unexpected(*std::move(error));
        continue;
      }
      const auto worker = answer->integer(1);
      const auto generation = answer->integer(2);
      const auto from = answer->integer(3);
      const auto to = answer->integer(4);
      if (!worker || !generation || !from || !to) return damaged_pool(pool);
      return Lease{*worker, request.token, *generation, *from, *to};
    }
  }

  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms, SteadyTime by) override {
    const CallersClock clock(terms);
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    for (;;) {
      const Instant before = clock.now();
      const Result<Answer> answer = database_.run(
          kExtendLease,
          values_of(pool, lease.worker, lease.token, lease.generation, lease.to, nonce, to,
                    exact(terms.held.count()), since_1970(before), clock.max_skew()),
          *until, "extend a lease in");
      if (!answer) return std::unexpected(answer.error());
      const std::string_view outcome = answer->outcome();
      if (outcome == "ok") {
        Lease extended = lease;
        extended.to = to;
        return extended;
      }
      if (outcome == "apart") {
        if (auto error = apart(pool, clock, before, *answer, terms.max_skew))
          return std::unexpected(*std::move(error));
        continue;
      }
      const Result<LeaseState> state = refused_row(pool, lease.worker, *answer);
      if (!state) return std::unexpected(state.error());
      const Uuid latest = answer->uuid(2 + kFieldsOfRow - 1);
      return std::unexpected(refused_extension(pool, lease, *state, latest, nonce));
    }
  }

  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const Result<Answer> answer = database_.run(
        kRelease, values_of(pool, worker, token, generation), *until, "release a worker id of");
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome() == "ok") return {};
    const Result<LeaseState> state = refused_row(pool, worker, *answer);
    if (!state) return std::unexpected(state.error());
    return std::unexpected(refused_lease(pool, {worker, token, generation, 0, 0}, *state));
  }

  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Values values =
        values_of(pool, std::max<std::int64_t>(floor, 0), draw_generation(database_.entropy()));
    const Result<Answer> answer =
        database_.run(kRaiseFloor, values, *until, "raise the worker ids of");
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome() == "none") return std::unexpected(no_pool(pool, database_.url()));
    return {};
  }

  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    std::vector<LeaseState> all;
    for (std::int64_t begin = 0;; begin += kRowsAtOnce) {
      const Result<Answer> answer =
          database_.run(kWorkers, values_of(pool, begin, kRowsAtOnce), *until, "read");
      if (!answer) return std::unexpected(answer.error());
      if (answer->outcome() == "none") return std::unexpected(no_pool(pool, database_.url()));
      const auto now = answer->integer(1);
      const auto size = answer->integer(2);
      if (!now || !size) return damaged_pool(pool);
      const std::int64_t end = std::min(*size, begin + kRowsAtOnce);
      for (std::int64_t worker = begin; worker < end; ++worker) {
        const std::size_t at = 3 + static_cast<std::size_t>(worker - begin) * kFieldsOfRow;
        Result<LeaseState> state = state_in(*answer, at, pool, worker, *now);
        if (!state) return std::unexpected(state.error());
        all.push_back(*std::move(state));
      }
      if (end == *size) return all;
    }
  }

  // `before`: what the caller's clock showed before the server was asked for its own.
  static std::optional<Error> apart(std::string_view pool, const CallersClock& clock,
                                    Instant before, const Answer& answer, milliseconds max_skew) {
    const Instant servers{milliseconds{answer.integer(1).value_or(0)}};
    return clocks_apart(pool, before, clock.now(), servers, max_skew);
  }

  // Of the fields that begin with the text `at`. kDataLoss: they are not those of a worker id.
  Result<LeaseState> state_in(const Answer& answer, std::size_t at, std::string_view pool,
                              std::int64_t worker, std::int64_t now) const {
    const auto generation = answer.integer(at + 2);
    const auto minted_until = answer.integer(at + 3);
    const auto held_until = answer.integer(at + 4);
    const auto taken_from = answer.integer(at + 5);
    if (!generation || !minted_until || !held_until || !taken_from) return damaged_pool(pool);
    LeaseState state{.worker = worker, .token = answer.uuid(at)};
    state.holder = answer.text(at + 1);
    state.generation = *generation;
    state.minted_until = *minted_until;
    if (state.token != Uuid{})
      state.held_for = milliseconds{std::max<std::int64_t>(*held_until - now, 0)};
    state.taken_from = taken_from;
    return state;
  }

  // Of the answer of a script that refused.
  Result<LeaseState> refused_row(std::string_view pool, std::int64_t worker,
                                 const Answer& answer) const {
    if (answer.outcome() == "none") return std::unexpected(no_pool(pool, database_.url()));
    if (answer.outcome() == "absent") return std::unexpected(no_worker(pool, worker));
    return state_in(answer, 2, pool, worker, answer.integer(1).value_or(0));
  }

  [[nodiscard]] std::unexpected<Error> damaged_pool(std::string_view pool) const {
    return database_.damaged("a worker id of pool " + shown(pool) + " is damaged");
  }

  Database& database_;
};

}  // namespace

std::shared_ptr<LeaseTable> workers_of(Database& database) {
  return std::make_shared<Workers>(database);
}

}  // namespace idmint::stores::redis
