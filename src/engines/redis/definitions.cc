#include <algorithm>

#include "engines/redis/scripts.h"
#include "engines/redis/tables.h"
#include "store/backend.h"

namespace idmint::stores::redis {
namespace {

// ARGV[2] the name, [3] the text. The text that is there then.
constexpr Script kDefine{IDMINT_LUA_HAND_OUT R"(
call('HSETNX', key('definitions', ''), ARGV[2], ARGV[3])
return {'ok', call('HGET', key('definitions', ''), ARGV[2])})",
                         Kind::kHandOut};

// ARGV[2] the name; [3] the text that it must have; [4] the new one. The text that is there then.
constexpr Script kReplace{IDMINT_LUA_WRITE R"(
local there = call('HGET', key('definitions', ''), ARGV[2])
if not there then return {'none'} end
if there == ARGV[3] then
  there = ARGV[4]
  call('HSET', key('definitions', ''), ARGV[2], there)
end
return {'ok', there})",
                          Kind::kWrite};

constexpr Script kFindDefinition{IDMINT_LUA_BEGIN R"(
local there = call('HGET', key('definitions', ''), ARGV[2])
return there and {'ok', there} or {'none'})",
                                 Kind::kRead};

// Name and text of each, in any order.
constexpr Script kListDefinitions{IDMINT_LUA_BEGIN R"(
local all = call('HGETALL', key('definitions', ''))
table.insert(all, 1, 'ok')
return all)",
                                  Kind::kRead};

}  // namespace

Result<Definition> Definitions::parse(std::string_view name, std::string_view json) const {
  return under_name(name, definition_from_json(json), database_.url(),
                    [&](const std::string& why) { return database_.damaged(why); });
}

Result<Definition> Definitions::now_there(std::string_view name,
                                          const Result<Answer>& answer) const {
  if (!answer) return std::unexpected(answer.error());
  if (answer->outcome() == "none") return std::unexpected(no_definition(name, database_.url()));
  return parse(name, answer->text(1));
}

Result<std::string> Definitions::read(std::string_view name, SteadyTime until) {
  const Result<Answer> answer = database_.run(kFindDefinition, values_of(name), until, "read");
  if (!answer) return std::unexpected(answer.error());
  if (answer->outcome() == "none") return std::unexpected(no_definition(name, database_.url()));
  return std::string(answer->text(1));
}

Result<Definition> Definitions::do_define(const Definition& definition) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string& name = idmint::name(definition);
  return now_there(name, database_.run(kDefine, values_of(name, to_json(definition)), *until,
                                       "write a definition into"));
}

// Replaces the text that was read, and no other.
Result<Definition> Definitions::do_replace(const Definition& old, const Definition& updated) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string& name = idmint::name(old);
  const Result<std::string> json = read(name, *until);
  if (!json) return std::unexpected(json.error());
  Result<Definition> there = parse(name, *json);
  if (!there || *there != old) return there;
  return now_there(name, database_.run(kReplace, values_of(name, *json, to_json(updated)), *until,
                                       "replace a definition in"));
}

Result<Definition> Definitions::do_find(std::string_view name, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  if (const auto first = first_.take(); first && first->first == name)
    return parse(name, first->second);
  return now_there(name, database_.run(kFindDefinition, values_of(name), *until, "read"));
}

// Of a hash no part can be read in the order of its fields.
Result<std::vector<CatalogEntry>> Definitions::do_list_after(std::string_view after,
                                                             std::size_t /*most*/, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const Result<Answer> answer = database_.run(kListDefinitions, {}, *until, "read");
  if (!answer) return std::unexpected(answer.error());
  std::vector<CatalogEntry> all;
  for (std::size_t i = 1; i + 1 < answer->size(); i += 2) {
    const std::string name(answer->text(i));
    if (name > after) all.push_back({name, parse(name, answer->text(i + 1))});
  }
  std::ranges::sort(all, {}, &CatalogEntry::name);
  return all;
}

}  // namespace idmint::stores::redis
