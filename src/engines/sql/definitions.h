// DefinitionTable: the definitions in an SQL server, whatever its dialect.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/sql/database.h"
#include "store/engine.h"
#include "store/protocol/definitions.h"

namespace idmint::stores::sql {

// The statements of an engine, with their values -> the columns of their rows.
struct DefinitionStatements {
  // found() of the first two is 1 if it was done.
  Query insert;  // name, json; what is there stays as it is
  Query swap;    // name, json, new json; another text than `json` stays as it is
  Query read;    // name -> json
  Query list;    // a name, n -> name, json of n at most that come after it; sorted by name
};

template <class Dialect>
class DefinitionTable final : private DefinitionRows {
 public:
  // Both must outlive it.
  DefinitionTable(Database<Dialect>& database, const DefinitionStatements& statements)
      : database_(database), sql_(statements) {}

  [[nodiscard]] Definitions& catalog() noexcept { return catalog_; }

 private:
  using Rows = typename Dialect::Rows;

  Result<Swapped> insert_definition(const DefinitionRow& row, SteadyTime until,
                                    std::string_view doing) override {
    return changed(database_.change(sql_.insert, values_of<Dialect>(Name{row.name}, Json{row.json}),
                                    until, doing));
  }

  Result<Swapped> swap_definition(const DefinitionRow& row, const std::string& json,
                                  SteadyTime until, std::string_view doing) override {
    return changed(database_.change(
        sql_.swap, values_of<Dialect>(Name{row.name}, Json{row.json}, Json{json}), until, doing));
  }
  static Result<Swapped> changed(const Result<Rows>& rows) {
    if (!rows) return std::unexpected(rows.error());
    return rows->found() != 0 ? Swapped::kYes : Swapped::kNo;
  }

  Result<std::optional<std::string>> read_definition(std::string_view name,
                                                     SteadyTime until) override {
    const Result<Rows> rows =
        database_.run(sql_.read, values_of<Dialect>(Name{name}), until, "read");
    if (!rows) return std::unexpected(rows.error());
    return rows->empty() ? std::nullopt : std::optional(std::string((*rows)[0].bytes(0)));
  }

  Result<std::vector<DefinitionRow>> list_definitions(std::string_view after, std::size_t most,
                                                      SteadyTime until) override {
    const auto limit = static_cast<std::int64_t>(std::min(most, std::size_t{kLargestValue}));
    const Result<Rows> rows =
        database_.run(sql_.list, values_of<Dialect>(Name{after}, limit), until, "read");
    if (!rows) return std::unexpected(rows.error());
    std::vector<DefinitionRow> all;
    for (int i = 0; i < rows->size(); ++i)
      all.push_back({Dialect::name_of((*rows)[i].bytes(0)), std::string((*rows)[i].bytes(1))});
    return all;
  }

  Database<Dialect>& database_;
  const DefinitionStatements& sql_;
  Definitions catalog_{database_, *this};
};

}  // namespace idmint::stores::sql
