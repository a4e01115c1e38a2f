// The tables of a store, each behind its interface.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "engines/zookeeper/database.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/first_definition.h"
#include "store/unique_index.h"

namespace idmint::stores::zookeeper {

// `database` must outlive them. They are shared because the interfaces have no public destructor.
[[nodiscard]] std::shared_ptr<CounterStore> counters_of(Database& database);
[[nodiscard]] std::shared_ptr<UniqueIndex> claims_of(Database& database);
[[nodiscard]] std::shared_ptr<LeaseTable> workers_of(Database& database);

class Definitions final : public Catalog {
 public:
  // `database` must outlive it.
  explicit Definitions(Database& database) : database_(database) {}

  // Has the definition that was read when the store was opened.
  [[nodiscard]] FirstDefinition& first() noexcept { return first_; }

 private:
  Result<Definition> do_define(const Definition& definition) override;
  Result<Definition> do_replace(const Definition& old, const Definition& updated) override;
  Result<Definition> do_find(std::string_view name, SteadyTime by) override;
  Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t most,
                                                  SteadyTime by) override;

  [[nodiscard]] Result<Definition> parse(std::string_view name, std::string_view json) const;

  Database& database_;
  FirstDefinition first_;
};

}  // namespace idmint::stores::zookeeper
