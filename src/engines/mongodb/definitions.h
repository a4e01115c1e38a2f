// The definitions of a store of MongoDB:
//
//   idmint.definitions   {_id: NAME, json}   as to_json() writes it
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engines/mongodb/database.h"
#include "idmint/definition.h"
#include "store/catalog.h"
#include "store/first_definition.h"

namespace idmint::stores::mongodb {

inline constexpr const char* kDefinitions = "idmint.definitions";

class Definitions final : public Catalog {
 public:
  // `database` must outlive it.
  explicit Definitions(const Database& database) : database_(database) {}

  // Has the definition that was read when the store was opened.
  [[nodiscard]] FirstDefinition& first() noexcept { return first_; }

  Result<Definition> do_define(const Definition& definition) override;
  Result<Definition> do_replace(const Definition& old, const Definition& updated) override;
  Result<Definition> do_find(std::string_view name, SteadyTime by) override;
  Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t most,
                                                  SteadyTime by) override;

 private:
  // Stores the text in `json`.
  Result<Definition> read(std::string_view name, SteadyTime until, std::string* json = nullptr);
  Result<Definition> parse(std::string_view name, std::string_view json) const;

  const Database& database_;
  FirstDefinition first_;
};

}  // namespace idmint::stores::mongodb
