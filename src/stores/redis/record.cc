#include "stores/redis/record.h"

#include <utility>

#include "stores/redis/scripts.h"

namespace idmint::stores::redis {
namespace {

constexpr Script kRecord{IDMINT_LUA_BEGIN IDMINT_LUA_JUDGE R"(
local its = call('HMGET', store, 'id', 'schema', 'replid', 'replicas')
if not its[1] then return {'none'} end
local json = ARGV[1] ~= '' and call('HGET', key('definitions', ''), ARGV[1])
return {'ok', its[1], its[2] or '', its[3] or '', says('master_replid'),
        judged(its[3], its[4]), json or ''})",
                         Kind::kRead};

}  // namespace

extern const Script kMakeStore;
constinit const Script kMakeStore{IDMINT_LUA_BEGIN IDMINT_LUA_JUDGE R"(
if call('EXISTS', store) == 1 then return {'there'} end
if call('EXISTS', key('counters', ''), key('definitions', ''), key('spaces', ''),
        key('pools', '')) > 0 then return {'parts'} end
call('HSET', store, 'id', ARGV[1], 'schema', '1', 'replid', says('master_replid'),
     'replicas', seen() and '1' or '0')
return {'ok'})",
                                  Kind::kWrite};

extern const Script kSettle;
constinit const Script kSettle{IDMINT_LUA_WRITE R"(
call('HSET', store, 'replid', says('master_replid'),
     'replicas', says('connected_slaves') ~= '0' and '1' or '0')
return {'ok'})",
                               Kind::kWrite};

std::expected<std::optional<Record>, Failure> read_record(Connection& connection,
                                                          std::string_view definition,
                                                          SteadyTime until) {
  const auto answer = connection.run(kRecord, values_of(definition), until);
  if (!answer) return std::unexpected(answer.error());
  if (answer->outcome() != "ok") return std::nullopt;
  Record record{.id = answer->uuid(1),
                .schema = answer->integer(2).value_or(0),
                .replid = std::string(answer->text(3)),
                .replid_now = std::string(answer->text(4)),
                .judged = std::string(answer->text(5))};
  if (const std::string_view json = answer->text(6); !json.empty()) record.definition = json;
  return record;
}

std::optional<Error> doubt_of(const Record& record, std::string_view url) {
  const std::string ids =
      "replication id is " + record.replid_now + " now, and was " + record.replid;
  std::string why;
  if (record.judged == "promoted")
    why = "a replica was promoted: the server's " + ids;
  else if (record.judged == "renewed")
    why =
        "the server was started again, or had no replica for its repl-backlog-ttl, or a replica "
        "took its place: its " +
        ids + ", and it had replicas";
  else
    return std::nullopt;
  return Error{Code::kFailedPrecondition,
               std::string(url) + ": " + why +
                   "; what was handed out last may be missing in it; it can be read, and gives no "
                   "value until it is raised past every value in use",
               {Remedy::kRaiseStore, std::string(url), {"moved"}}};
}

}  // namespace idmint::stores::redis
