#include "engines/sqlite/tables.h"
#include "store/engine.h"
#include "store/protocol/definitions.h"

namespace idmint::stores::sqlite {
namespace {

class DefinitionTable final : private DefinitionRows {
 public:
  explicit DefinitionTable(TrustedFile& file) : file_(file) {}

  [[nodiscard]] Catalog& catalog() noexcept { return catalog_; }

 private:
  Result<Swapped> insert_definition(const DefinitionRow& row, SteadyTime until,
                                    std::string_view doing) override {
    return change({doing, until}, insert_, row.name, row.json);
  }

  Result<Swapped> swap_definition(const DefinitionRow& row, const std::string& json,
                                  SteadyTime until, std::string_view doing) override {
    return change({doing, until, Needs::kNothing}, swap_, row.name, row.json, json);
  }

  Result<std::optional<std::string>> read_definition(std::string_view name,
                                                     SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    Statement row(file_, read_, "read", name);
    if (row.next()) return std::string(row.bytes(0));
    if (!row.is_done()) return std::unexpected(row.failure());
    return std::nullopt;
  }

  Result<std::vector<DefinitionRow>> list_definitions(std::string_view after, std::size_t most,
                                                      SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    Statement row(file_, list_, "read", after);
    std::vector<DefinitionRow> all;
    while (all.size() < most && row.next()) {
      if (file_.is_late()) return std::unexpected(file_.too_long_a_list(all.size()));
      all.push_back({std::string(row.bytes(0)), std::string(row.bytes(1))});
    }
    if (all.size() < most && !row.is_done()) return std::unexpected(row.failure());
    return all;
  }

  // The query returns a row if it changed one.
  Result<Swapped> change(const Call& call, Query& query, const auto&... values) {
    bool changed = false;
    const Result<void> done = file_.change(call, [&] {
      Statement row(file_, query, call.doing, values...);
      changed = row.next();
      return row.end();
    });
    if (!done) return std::unexpected(done.error());
    return changed ? Swapped::kYes : Swapped::kNo;
  }

  TrustedFile& file_;
  Query insert_{
      "INSERT INTO definitions (name, json) VALUES (?1, ?2) ON CONFLICT DO NOTHING RETURNING 1"};
  Query swap_{"UPDATE definitions SET json = ?3 WHERE name = ?1 AND json = ?2 RETURNING 1"};
  Query read_{"SELECT json FROM definitions WHERE name = ?1"};
  Query list_{"SELECT name, json FROM definitions WHERE name > ?1 ORDER BY name"};
  Definitions catalog_{file_, *this};
};

}  // namespace

std::shared_ptr<Catalog> catalog_of(TrustedFile& file) {
  const auto table = std::make_shared<DefinitionTable>(file);
  return {table, &table->catalog()};
}

}  // namespace idmint::stores::sqlite
