// The definitions of a store of MongoDB:
//
//   idmint.definitions   {_id: NAME, json}   as to_json() writes it
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/mongodb/database.h"
#include "idmint/definition.h"
#include "store/engine.h"
#include "store/protocol/definitions.h"

namespace idmint::stores::mongodb {

inline constexpr const char* kDefinitions = "idmint.definitions";

class DefinitionTable final : private DefinitionRows {
 public:
  // Both must outlive it.
  DefinitionTable(const Database& database, DatabaseEngine& engine)
      : database_(database), catalog_(engine, *this) {}

  [[nodiscard]] Definitions& catalog() noexcept { return catalog_; }

 private:
  Result<Swapped> insert_definition(const DefinitionRow& row, SteadyTime until,
                                    std::string_view doing) override;
  Result<Swapped> swap_definition(const DefinitionRow& row, const std::string& json,
                                  SteadyTime until, std::string_view doing) override;
  Result<std::optional<std::string>> read_definition(std::string_view name,
                                                     SteadyTime until) override;
  Result<std::vector<DefinitionRow>> list_definitions(std::string_view after, std::size_t most,
                                                      SteadyTime until) override;
  // The record of an adopted counter in the one text that it has.
  [[nodiscard]] Result<Definition> parse(std::string_view json) const override;

  const Database& database_;
  Definitions catalog_;
};

}  // namespace idmint::stores::mongodb
