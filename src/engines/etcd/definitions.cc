#include "engines/etcd/tables.h"
#include "store/engine.h"

namespace idmint::stores::etcd {
namespace {

class DefinitionTable final : private DefinitionRows {
 public:
  explicit DefinitionTable(Database& database) : database_(database) {}

  [[nodiscard]] Definitions& catalog() noexcept { return catalog_; }

 private:
  Result<Swapped> insert_definition(const DefinitionRow& row, SteadyTime until,
                                    std::string_view doing) override {
    const std::string key = database_.keys().definition(row.name);
    return changed(database_.change(
        Kind::kHandOut, {.compares = {is_as_changed(key, 0)}, .then = {put(key, row.json)}}, until,
        doing));
  }

  // After a lost answer a text that is replaced by itself is put again, which changes nothing.
  Result<Swapped> swap_definition(const DefinitionRow& row, const std::string& json,
                                  SteadyTime until, std::string_view doing) override {
    const std::string key = database_.keys().definition(row.name);
    return changed(database_.change(
        Kind::kWrite, {.compares = {has_value(key, row.json)}, .then = {put(key, json)}}, until,
        doing));
  }
  static Result<Swapped> changed(const Result<Answer>& answer) {
    if (!answer) return std::unexpected(answer.error());
    if (answer->succeeded) return Swapped::kYes;
    return answer->sent_before ? Swapped::kPerhaps : Swapped::kNo;
  }

  Result<std::optional<std::string>> read_definition(std::string_view name,
                                                     SteadyTime until) override {
    const auto found = database_.read({get(database_.keys().definition(name))}, until);
    if (!found) return std::unexpected(found.error());
    const std::vector<Entry>& there = found->front().entries;
    return there.empty() ? std::nullopt : std::optional(there.front().value);
  }

  Result<std::vector<DefinitionRow>> list_definitions(std::string_view after, std::size_t most,
                                                      SteadyTime until) override {
    const std::string prefix = database_.keys().definition("");
    const auto entries = database_.list(prefix, until, after, most);
    if (!entries) return std::unexpected(entries.error());
    std::vector<DefinitionRow> all;
    for (const Entry& entry : *entries)
      all.push_back({entry.key.substr(prefix.size()), entry.value});
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

}  // namespace idmint::stores::etcd
