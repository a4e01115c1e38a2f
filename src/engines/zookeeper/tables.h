// The tables of a store, each behind its interface.
#pragma once

#include <memory>

#include "engines/zookeeper/database.h"
#include "ids/lease_table.h"
#include "store/counter_store.h"
#include "store/protocol/definitions.h"
#include "store/unique_index.h"

namespace idmint::stores::zookeeper {

// `database` must outlive them. They are shared because the interfaces have no public destructor.
[[nodiscard]] std::shared_ptr<CounterStore> counters_of(Database& database);
[[nodiscard]] std::shared_ptr<UniqueIndex> claims_of(Database& database);
[[nodiscard]] std::shared_ptr<LeaseTable> workers_of(Database& database);
[[nodiscard]] std::shared_ptr<Definitions> definitions_of(Database& database);

}  // namespace idmint::stores::zookeeper
