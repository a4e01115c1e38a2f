#include "engines/redis/record.h"

#include <utility>

#include "engines/redis/scripts.h"

namespace idmint::stores::redis {
namespace {

constexpr Script kRecord{IDMINT_LUA_BEGIN IDMINT_LUA_JUDGE R"(
local its = call('HMGET', store, 'id', 'schema', 'replid', 'replicas', 'settled', 'gone_back',
                 'doubted', 'port', 'database')
if not its[1] then return {'none'} end
local json = ARGV[1] ~= '' and call('HGET', key('definitions', ''), ARGV[1])
return {'ok', its[1], its[2] or '', its[3] or '', says('master_replid'),
        judged(its[3], its[4], its[8], its[9], ARGV[2]), json or '', its[5] or '0', its[6] or '', its[7] or ''})",
                         Kind::kRead};

}  // namespace

extern const Script kMakeStore;
constinit const Script kMakeStore{IDMINT_LUA_BEGIN IDMINT_LUA_JUDGE R"(
if call('EXISTS', store) == 1 then return {'there'} end
if call('EXISTS', key('counters', ''), key('definitions', ''), key('spaces', ''),
        key('pools', '')) > 0 then return {'parts'} end
call('HSET', store, 'id', ARGV[1], 'schema', '1', 'replid', says('master_replid'),
     'replicas', seen() and '1' or '0', 'port', listens(), 'database', ARGV[2])
return {'ok'})",
                                  Kind::kWrite};

extern const Script kSettle;
constinit const Script kSettle{IDMINT_LUA_WRITE IDMINT_LUA_JUDGE R"(
if (call('HGET', store, 'settled') or '0') ~= ARGV[2] then return {'ok'} end
call('HSET', store, 'replid', says('master_replid'), 'settled', ARGV[3],
     'replicas', says('connected_slaves') ~= '0' and '1' or '0', 'port', listens(),
     'database', here)
call('HDEL', store, 'gone_back', 'doubted')
return {'ok'})",
                               Kind::kWrite};

// A read, as it does nothing that is to be kept: a server that runs so keeps nothing.
extern const Script kMarkUnlogged;
constinit const Script kMarkUnlogged{IDMINT_LUA_BEGIN R"(
local replid = call('HGET', store, 'replid')
if not replid or replid == says('master_replid') then return {'none'} end
call('HSETNX', store, 'doubted', 'unlogged')
return {'marked'})",
                                     Kind::kRead};

extern const Script kMarkGoneBack;
constinit const Script kMarkGoneBack{IDMINT_LUA_WRITE R"(
if (call('HGET', store, 'settled') or '0') ~= ARGV[2] then return {'ok'} end
call('HSETNX', store, 'gone_back', ARGV[3])
return {'ok'})",
                                     Kind::kWrite};

std::expected<std::optional<Record>, Failure> read_record(Connection& connection, int database,
                                                          std::string_view definition,
                                                          SteadyTime until) {
  const auto answer = connection.run(kRecord, values_of(definition, std::int64_t{database}), until);
  if (!answer) return std::unexpected(answer.error());
  if (answer->outcome() != "ok") return std::nullopt;
  Record record{.id = answer->uuid(1),
                .schema = answer->integer(2).value_or(0),
                .replid = std::string(answer->text(3)),
                .replid_now = std::string(answer->text(4)),
                .judged = std::string(answer->text(5)),
                .doubted = std::string(answer->text(9)),
                .settled = answer->integer(7).value_or(0),
                .gone_back = std::string(answer->text(8))};
  if (const std::string_view json = answer->text(6); !json.empty()) record.definition = json;
  return record;
}

std::optional<Error> doubt_of(const Record& record, std::string_view url) {
  const std::string ids =
      "replication id is " + record.replid_now + " now, and was " + record.replid;
  std::string why;
  const auto add = [&why](bool is, const std::string& what) {
    if (is) why += (why.empty() ? "" : "; ") + what;
  };
  const auto is = [&record](std::string_view how) {
    return record.judged == how || record.doubted == how;
  };
  add(is("promoted"), "a replica was promoted: the server's " + ids);
  add(is("renewed"),
      "the server was started again, or had no replica for its repl-backlog-ttl, or a replica took "
      "its place: its " +
          ids + ", and it had replicas");
  add(is("copied"), "the server listens on another port than before: it was moved, or is a copy");
  add(is("elsewhere"),
      "its keys were written in another database of the server: they were moved, or are a copy");
  add(is("unread") || is("unlogged"),
      "the server was started without its append-only file, and has read a dump, which may be "
      "older");
  add(!record.gone_back.empty(), record.gone_back);
  if (why.empty()) return std::nullopt;
  Error doubt = in_doubt(url, why);
  if (record.gone_back.empty()) return doubt;
  doubt.code = Code::kDataLoss;
  doubt.advice.values.clear();  // it was not only moved
  return doubt;
}

}  // namespace idmint::stores::redis
