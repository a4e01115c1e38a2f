// Definitions: the catalog of a store, over its rows, whatever its engine.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/definition.h"
#include "idmint/result.h"
#include "store/catalog.h"
#include "store/engine.h"

namespace idmint::stores {

// Calls of the engine: define 1, and 2 if the name has a definition; replace 2, and 3 if another
// process was quicker; find 1.
class Definitions final : public Catalog {
 public:
  // Both must outlive it.
  Definitions(Engine& engine, DefinitionRows& rows) noexcept : engine_(engine), rows_(rows) {}

  // A definition that was read in the command that opened the store: the first call of the catalog
  // takes it, and find() of that name then asks nobody. Called once, before anything else.
  void remember(std::string_view name, std::string_view json);

 private:
  Result<Defined> do_define(const Definition& definition) override;
  Result<Defined> do_replace(const Definition& old, const Definition& updated) override;
  Result<Definition> do_find(std::string_view name, SteadyTime by) override;
  Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t most,
                                                  SteadyTime by) override;

  // enter() of the engine. `first`: gets the definition that was remembered.
  Result<SteadyTime> enter(Purpose purpose, SteadyTime by, std::optional<DefinitionRow>& first);
  // The definition after a change to `wanted`, whose text is `json`. kNotFound: there is none.
  Result<Defined> after(Swapped change, const Definition& wanted, std::string_view json,
                        SteadyTime until);
  // The text of the row. kNotFound: there is none.
  Result<std::string> read(std::string_view name, SteadyTime until);
  [[nodiscard]] Result<Definition> parse(std::string_view name, std::string_view json) const;

  Engine& engine_;
  DefinitionRows& rows_;
  std::mutex mutex_;  // guards first_
  std::optional<DefinitionRow> first_;
};

}  // namespace idmint::stores
