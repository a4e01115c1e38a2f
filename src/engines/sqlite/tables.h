// The tables of a store, each behind its interface.
#pragma once

#include "engines/sqlite/trusted_file.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint::stores::sqlite {

// `file` must outlive them. Shared pointers, because the interfaces have no public destructor.
[[nodiscard]] std::shared_ptr<CounterStore> counters_of(TrustedFile& file);
[[nodiscard]] std::shared_ptr<Catalog> catalog_of(TrustedFile& file);
[[nodiscard]] std::shared_ptr<UniqueIndex> claims_of(TrustedFile& file);
[[nodiscard]] std::shared_ptr<LeaseTable> workers_of(TrustedFile& file);

}  // namespace idmint::stores::sqlite
