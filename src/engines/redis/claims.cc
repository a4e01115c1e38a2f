#include <algorithm>
#include <optional>

#include "engines/redis/scripts.h"
#include "engines/redis/tables.h"
#include "store/backend.h"

namespace idmint::stores::redis {
namespace {

// ARGV[2] is the space.
constexpr Script kCreateSpace{IDMINT_LUA_HAND_OUT R"(
call('HSETNX', key('spaces', ''), ARGV[2], '0')
return {'ok'})",
                              Kind::kHandOut};

// ARGV[3] and on are the numbers. For each a 1 if it was free, otherwise a 0, in one text.
constexpr Script kClaim{IDMINT_LUA_HAND_OUT R"(
local closed = call('HGET', key('spaces', ''), ARGV[2])
if not closed then return {'none'} end
if closed ~= '0' then return {'closed'} end
local claims, ours = key('claims:', ARGV[2]), {}
for i = 3, #ARGV do ours[i - 2] = call('SADD', claims, ARGV[i]) end
return {'ok', table.concat(ours)})",
                        Kind::kHandOut};

// How many claims there are, and whether ARGV[2] is one.
constexpr Script kSpace{IDMINT_LUA_BEGIN R"(
if call('HEXISTS', key('spaces', ''), ARGV[2]) == 0 then return {'none'} end
local claims = key('claims:', ARGV[2])
return {'ok', tostring(call('SCARD', claims)), tostring(call('SISMEMBER', claims, ARGV[3]))})",
                        Kind::kRead};

constexpr Script kCloseSpace{IDMINT_LUA_WRITE R"(
if call('HEXISTS', key('spaces', ''), ARGV[2]) == 0 then return {'none'} end
call('HSET', key('spaces', ''), ARGV[2], '1')
return {'ok'})",
                             Kind::kWrite};

class Claims final : public UniqueIndex {
 public:
  explicit Claims(Database& database) : database_(database) {}

 private:
  Result<void> do_create_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Answer> made =
        database_.run(kCreateSpace, values_of(space), *until, "make a space of claims in");
    if (!made) return std::unexpected(made.error());
    return {};
  }

  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    Values values = values_of(space);
    for (const std::int64_t key : keys) values.push_back(text_of(key));
    const Result<Answer> answer = database_.run(kClaim, values, *until, "claim numbers in");
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome() == "none") return std::unexpected(no_space(space, database_.url()));
    if (answer->outcome() == "closed") return std::unexpected(closed_space(space));
    const std::string_view ours = answer->text(1);
    if (ours.size() != keys.size()) return database_.damaged("a script answered for other claims");
    std::vector<bool> all;
    all.reserve(ours.size());
    for (const char each : ours) all.push_back(each == '1');
    return all;
  }

  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<Answer> answer = read(space, "", *until);
    if (!answer) return std::unexpected(answer.error());
    return answer->integer(1).value_or(0);
  }

  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    const Result<SteadyTime> until = database_.enter_to_read();
    if (!until) return std::unexpected(until.error());
    const Result<Answer> answer = read(space, text_of(key), *until);
    if (!answer) return std::unexpected(answer.error());
    return answer->text(2) == "1";
  }

  Result<void> do_close_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Answer> answer =
        database_.run(kCloseSpace, values_of(space), *until, "close a space of claims in");
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome() == "none") return std::unexpected(no_space(space, database_.url()));
    return {};
  }

  Result<Answer> read(std::string_view space, std::string_view key, SteadyTime until) {
    Result<Answer> answer = database_.run(kSpace, values_of(space, key), until, "read");
    if (answer && answer->outcome() == "none")
      return std::unexpected(no_space(space, database_.url()));
    return answer;
  }

  Database& database_;
};

}  // namespace

std::shared_ptr<UniqueIndex> claims_of(Database& database) {
  return std::make_shared<Claims>(database);
}

}  // namespace idmint::stores::redis
