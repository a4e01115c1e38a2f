#include <algorithm>

#include "engines/redis/scripts.h"
#include "engines/redis/tables.h"
#include "store/engine.h"

namespace idmint::stores::redis {
namespace {

// ARGV[2] the name, [3] the text. The outcome "there": the name has a text.
constexpr Script kInsert{IDMINT_LUA_HAND_OUT R"(
return {call('HSETNX', key('definitions', ''), ARGV[2], ARGV[3]) == 1 and 'ok' or 'there'})",
                         Kind::kHandOut};

// ARGV[2] the name; [3] the text that it must have, or the outcome is "none"; [4] the new one.
constexpr Script kSwap{IDMINT_LUA_WRITE R"(
if call('HGET', key('definitions', ''), ARGV[2]) ~= ARGV[3] then return {'none'} end
call('HSET', key('definitions', ''), ARGV[2], ARGV[4])
return {'ok'})",
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

class DefinitionTable final : private DefinitionRows {
 public:
  explicit DefinitionTable(Database& database) : database_(database) {}

  [[nodiscard]] Definitions& catalog() noexcept { return catalog_; }

 private:
  Result<Swapped> insert_definition(const DefinitionRow& row, SteadyTime until,
                                    std::string_view doing) override {
    return changed(database_.run(kInsert, values_of(row.name, row.json), until, doing));
  }

  Result<Swapped> swap_definition(const DefinitionRow& row, const std::string& json,
                                  SteadyTime until, std::string_view doing) override {
    return changed(database_.run(kSwap, values_of(row.name, row.json, json), until, doing));
  }
  static Result<Swapped> changed(const Result<Answer>& answer) {
    if (!answer) return std::unexpected(answer.error());
    return answer->outcome() == "ok" ? Swapped::kYes : Swapped::kNo;
  }

  Result<std::optional<std::string>> read_definition(std::string_view name,
                                                     SteadyTime until) override {
    const Result<Answer> answer = database_.run(kFindDefinition, values_of(name), until, "read");
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome() == "none") return std::nullopt;
    return std::string(answer->text(1));
  }

  // No part of a hash can be read in the order of its fields.
  Result<std::vector<DefinitionRow>> list_definitions(std::string_view after, std::size_t /*most*/,
                                                      SteadyTime until) override {
    const Result<Answer> answer = database_.run(kListDefinitions, {}, until, "read");
    if (!answer) return std::unexpected(answer.error());
    std::vector<DefinitionRow> all;
    for (std::size_t i = 1; i + 1 < answer->size(); i += 2)
      if (answer->text(i) > after)
        all.push_back({std::string(answer->text(i)), std::string(answer->text(i + 1))});
    std::ranges::sort(all, {}, &DefinitionRow::name);
    return all;
  }

  Database& database_;
  Definitions catalog_{database_, *this};
};

}  // namespace

std::shared_ptr<Definitions> definitions_of(Database& database) {
  const auto table = std::make_shared<DefinitionTable>(database);
  return {table, &table->catalog()};
}

}  // namespace idmint::stores::redis
