#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/redis/scripts.h"
#include "engines/redis/tables.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/callers_clock.h"
#include "store/engine.h"
#include "store/protocol/lease_rules.h"
#include "store/protocol/leases.h"

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

// The time of the server's clock, and whether it is too far from `clock`, the time of the caller's
// clock when the script was sent. `most` below 0: nothing is compared.
#define IDMINT_LUA_CLOCKS             \
  "local time = now() "               \
  "local function apart(clock, most)" \
  " most = tonumber(most)"            \
  " return most >= 0 and math.abs(time - tonumber(clock)) > most end "

// The pool need not be there. It is there when its worker ids are: a script that a right ends half
// way keeps what it has written, and the same call again writes the rest.
constexpr Script kCreatePool{IDMINT_LUA_HAND_OUT R"(
local pool = ARGV[2]
local size = call('HGET', key('pools', ''), pool)
if size then return {'ok', size} end
for worker = 0, tonumber(ARGV[3]) - 1 do
  call('ZADD', key('free:', pool), 0, string.format('%019d:%05d', 0, worker))
  call('HSET', key('worker:', pool .. ':' .. worker), 'token', '', 'holder', '', 'generation', '0',
       'minted_until', '0', 'taken_from', '0', 'held_until', '0', 'nonce', '')
end
call('HSET', key('pools', ''), pool, ARGV[3])
return {'ok', ARGV[3]})",
                             Kind::kHandOut};

// The fields of a worker id in the order of row_in(); each text is empty if it is not there.
#define IDMINT_LUA_ROW                                                                       \
  "local function fields(worker)"                                                            \
  " local its = call('HMGET', row(worker), 'token', 'holder', 'generation', 'minted_until'," \
  "  'held_until', 'taken_from', 'nonce')"                                                   \
  " for i = 1, 7 do its[i] = its[i] or '' end return its end "                               \
  "local all = {'ok', whole(now())} "                                                        \
  "local function add(worker)"                                                               \
  " all[#all + 1] = worker "                                                                 \
  " for _, text in ipairs(fields(worker)) do all[#all + 1] = text end end "

// ARGV[3] the worker id. Its number and its fields.
constexpr Script kWorker{IDMINT_LUA_WRITE IDMINT_LUA_POOL IDMINT_LUA_ROW R"(
if call('EXISTS', row(ARGV[3])) == 0 then return {'absent'} end
add(ARGV[3])
return all)",
                         Kind::kRead};

// ARGV[3] the token, [4] the largest minted_until, or nothing: below 0; [5] and [6] as
// FreeWorkers::start and most. Rows for choose_free(): of those that nobody owns the ones with the
// smallest bounds, and of those whose time is over, which are among the owners, the first 64.
constexpr Script kFindFree{IDMINT_LUA_WRITE IDMINT_LUA_POOL IDMINT_LUA_ROW R"(
local own = call('HGET', tokens, ARGV[3])
if own then
  add(own)
  return all
end
local most, last, time = tonumber(ARGV[6]), place(ARGV[4], '99999'), tonumber(all[2])
local nearest
-- A set may have what a right kept a script from removing: the row decides.
local function consider(worker, member)
  local its = fields(worker)
  local at = place(its[4], worker)
  if its[1] ~= '' and tonumber(its[5]) > time or member and member ~= at then return end
  if ARGV[4] ~= '' and at <= last then add(worker) end
  if not nearest or at < nearest then nearest = at end
end
local function number_in(member) return whole(tonumber(string.sub(member, -5))) end
local within = {}
if ARGV[4] ~= '' then
  within = call('ZRANGE', free, '-', '[' .. last, 'BYLEX', 'LIMIT', 0,
                ARGV[5] == '0' and most or 1024)
end
for i = 0, math.min(#within, most) - 1 do
  local member = within[(tonumber(ARGV[5]) + i) % #within + 1]
  consider(number_in(member), member)
end
for _, worker in ipairs(call('ZRANGE', owners, '-inf', whole(time), 'BYSCORE', 'LIMIT', 0, 64)) do
  consider(worker)
end
if #all > 2 then return all end
for _, member in ipairs(call('ZRANGE', free, 0, 64)) do consider(number_in(member), member) end
for _, worker in ipairs(call('ZRANGE', owners, '-inf', whole(time), 'BYSCORE')) do
  consider(worker)
  if #all > 2 then return all end
end
if nearest then add(number_in(nearest)) end
return all)",
                           Kind::kRead};

// ARGV[3] and [4] as apart(), [5] how many; for each 13 texts: the worker id; token, generation,
// minted_until, taken_from and nonce as they are expected; the same as they are to be, with the
// holder behind the token, and for how long. The outcomes: "apart"; for each "yes" or "no". What
// leaves one set is in the other before: a right may end a script half way.
#define IDMINT_LUA_SWAP                                                                        \
  IDMINT_LUA_POOL IDMINT_LUA_CLOCKS IDMINT_LUA_ROW                                             \
      "local function arg(i, j) return ARGV[5 + i * 13 + j] end "                              \
      "local function as_expected(i) local its = fields(arg(i, 1))"                            \
      " return its[1] == arg(i, 2) and its[3] == arg(i, 3) and its[4] == arg(i, 4)"            \
      " and its[6] == arg(i, 5) and its[7] == arg(i, 6) and its end "                          \
      "local last, any = tonumber(ARGV[5]) - 1, false "                                        \
      "for i = 0, last do any = any or as_expected(i) end "                                    \
      "if any and apart(ARGV[3], ARGV[4]) then return {'apart', whole(time)} end "             \
      "for i = 0, last do "                                                                    \
      "local worker, its = arg(i, 1), as_expected(i) "                                         \
      "if not its then all[#all + 1] = 'no' else "                                             \
      "local token, minted, held = arg(i, 7), arg(i, 10), whole(time + tonumber(arg(i, 13))) " \
      "if token == '' then "                                                                   \
      "call('ZADD', free, 0, place(minted, worker)) "                                          \
      "if its[4] ~= minted then call('ZREM', free, place(its[4], worker)) end "                \
      "call('ZREM', owners, worker) "                                                          \
      "else "                                                                                  \
      "call('ZADD', owners, held, worker) "                                                    \
      "call('ZREM', free, place(its[4], worker)) "                                             \
      "end "                                                                                   \
      "if its[1] ~= token then "                                                               \
      "call('HDEL', tokens, its[1]) "                                                          \
      "if token ~= '' then call('HSET', tokens, token, worker) end "                           \
      "its[2] = arg(i, 8) "                                                                    \
      "end "                                                                                   \
      "call('HSET', row(worker), 'token', token, 'holder', its[2], 'generation', arg(i, 9),"   \
      " 'minted_until', minted, 'taken_from', arg(i, 11), 'nonce', arg(i, 12),"                \
      " 'held_until', held) "                                                                  \
      "all[#all + 1] = 'yes' "                                                                 \
      "end end "                                                                               \
      "return all "
constexpr Script kSwapToHandOut{IDMINT_LUA_HAND_OUT IDMINT_LUA_SWAP, Kind::kHandOut};
constexpr Script kSwapToOperate{IDMINT_LUA_WRITE IDMINT_LUA_SWAP, Kind::kWrite};

// ARGV[3] the first worker id, [4] how many. Their numbers and fields.
constexpr Script kWorkers{IDMINT_LUA_BEGIN IDMINT_LUA_POOL IDMINT_LUA_ROW R"(
local size = tonumber(call('HGET', key('pools', ''), pool))
for i = tonumber(ARGV[3]), math.min(size, ARGV[3] + ARGV[4]) - 1 do add(whole(i)) end
return all)",
                          Kind::kRead};

#undef IDMINT_LUA_SWAP
#undef IDMINT_LUA_ROW
#undef IDMINT_LUA_CLOCKS
#undef IDMINT_LUA_POOL

constexpr std::size_t kTextsOfRow = 8;  // the number and seven fields
constexpr std::int64_t kRowsAtOnce = 4096;
constexpr std::size_t kSwapsAtOnce = 1024;  // Redis does nothing else meanwhile

// Clamps a time to those that a double of Lua has exactly.
std::int64_t exact(std::int64_t ms) {
  constexpr std::int64_t kMost = std::int64_t{1} << 52;
  return std::clamp(ms, -kMost, kMost);
}

std::string text_or_none(const Uuid& id) { return id == Uuid{} ? std::string() : text_of(id); }

class Workers final : private WorkerRows {
 public:
  explicit Workers(Database& database) : database_(database) {}

  [[nodiscard]] LeaseTable& leases() noexcept { return leases_; }

 private:
  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers, SteadyTime until,
                                 std::string_view doing) override {
    const Result<Answer> made = database_.run(kCreatePool, values_of(pool, workers), until, doing);
    if (!made) return std::unexpected(made.error());
    return made->integer(1).value_or(0);
  }

  Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                SteadyTime until) override {
    const Result<std::vector<WorkerRow>> rows = read(kWorker, pool, values_of(pool, worker), until);
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_worker(pool, worker));
    return rows->front();
  }

  Result<std::vector<WorkerRow>> read_workers(std::string_view pool, SteadyTime until) override {
    std::vector<WorkerRow> all;
    for (;;) {
      Result<std::vector<WorkerRow>> some =
          read(kWorkers, pool, values_of(pool, std::ssize(all), kRowsAtOnce), until);
      if (!some) return some;
      std::ranges::move(*some, std::back_inserter(all));
      if (std::ssize(*some) < kRowsAtOnce) return all;
    }
  }

  Result<std::vector<WorkerRow>> find_free(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime until) override {
    constexpr std::uint64_t kExact = std::uint64_t{1} << 31;
    const Result<std::vector<WorkerRow>> rows =
        read(kFindFree, pool,
             values_of(pool, wanted.token, wanted.limit < 0 ? std::string() : text_of(wanted.limit),
                       static_cast<std::int64_t>(wanted.start % kExact),
                       static_cast<std::int64_t>(wanted.most)),
             until);
    if (!rows) return rows;
    FreeWorkers chosen = wanted;
    chosen.start = 0;  // the script has begun there
    return choose_free(*rows, chosen);
  }

  Result<std::vector<Swapped>> swap_workers(std::string_view pool,
                                            std::span<const WorkerSwap> swaps, Purpose purpose,
                                            const LeaseTerms* terms, SteadyTime until,
                                            std::string_view doing) override {
    const Script& script = purpose == Purpose::kHandOut ? kSwapToHandOut : kSwapToOperate;
    const CallersClock clock(terms);
    std::vector<Swapped> swapped;
    while (!swaps.empty()) {
      const auto some = swaps.first(std::min(swaps.size(), kSwapsAtOnce));
      const Instant before = clock.now();
      Values values = values_of(pool, since_1970(before), exact(clock.max_skew()),
                                static_cast<std::int64_t>(some.size()));
      for (const auto& [from, to] : some) {
        const LeaseState& there = from.state;
        const LeaseState& state = to.state;
        std::ranges::move(
            values_of(there.worker, text_or_none(there.token), there.generation, there.minted_until,
                      there.taken_from.value_or(0), text_or_none(from.nonce),
                      text_or_none(state.token), state.holder, state.generation, state.minted_until,
                      state.taken_from.value_or(0), text_or_none(to.nonce),
                      exact(state.held_for.count())),
            std::back_inserter(values));
      }
      const Result<Answer> answer = database_.run(script, values, until, doing);
      if (!answer)
        return std::unexpected(swapped.empty() ? answer.error() : after_a_write(answer.error()));
      if (answer->outcome() == "none") return std::unexpected(no_pool(pool, database_.url()));
      if (answer->outcome() == "apart") {
        const Instant servers{milliseconds{answer->integer(1).value_or(0)}};
        if (auto error = clocks_apart(pool, before, clock.now(), servers, terms->max_skew))
          return std::unexpected(*std::move(error));
        continue;  // they differ by less than the way there and back
      }
      for (std::size_t i = 0; i < some.size(); ++i)
        swapped.push_back(answer->text(2 + i) == "yes" ? Swapped::kYes : Swapped::kNo);
      swaps = swaps.subspan(some.size());
    }
    return swapped;
  }

  // The rows of a script.
  Result<std::vector<WorkerRow>> read(const Script& script, std::string_view pool,
                                      const Values& values, SteadyTime until) {
    const Result<Answer> answer = database_.run(script, values, until, "read");
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome() == "none") return std::unexpected(no_pool(pool, database_.url()));
    std::vector<WorkerRow> rows;
    if (answer->outcome() == "absent") return rows;
    const auto now = answer->integer(1);
    if (!now) return damaged_pool(pool);
    for (std::size_t at = 2; at < answer->size(); at += kTextsOfRow) {
      const auto row = row_in(*answer, at, *now);
      if (!row) return damaged_pool(pool);
      rows.push_back(*row);
    }
    return rows;
  }

  // The row in the texts that begin with `at`. Nothing: they are not those of a worker id.
  static std::optional<WorkerRow> row_in(const Answer& answer, std::size_t at, std::int64_t now) {
    const auto worker = answer.integer(at);
    const auto generation = answer.integer(at + 3);
    const auto minted_until = answer.integer(at + 4);
    const auto held_until = answer.integer(at + 5);
    const auto taken_from = answer.integer(at + 6);
    const Uuid token = answer.uuid(at + 1);
    const Uuid nonce = answer.uuid(at + 7);
    const bool has_uuids = (token != Uuid{} || answer.text(at + 1).empty()) &&
                           (nonce != Uuid{} || answer.text(at + 7).empty());
    if (!worker || !generation || !minted_until || !held_until || !taken_from || !has_uuids)
      return std::nullopt;
    LeaseState state{.worker = *worker, .token = token};
    state.holder = answer.text(at + 2);
    state.generation = *generation;
    state.minted_until = *minted_until;
    if (state.token != Uuid{})
      state.held_for = milliseconds{std::max<std::int64_t>(*held_until - now, 0)};
    state.taken_from = taken_from;
    return WorkerRow{std::move(state), nonce};
  }

  [[nodiscard]] std::unexpected<Error> damaged_pool(std::string_view pool) const {
    return database_.damaged("a worker id of pool " + shown(pool) + " is damaged");
  }

  Database& database_;
  Leases leases_{database_, *this};
};

}  // namespace

std::shared_ptr<LeaseTable> workers_of(Database& database) {
  const auto workers = std::make_shared<Workers>(database);
  return {workers, &workers->leases()};
}

}  // namespace idmint::stores::redis
