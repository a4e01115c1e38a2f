// The source of a pool of worker ids.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "idmint/definition.h"
#include "idmint/source.h"
#include "idmint/store.h"
#include "mint/formats.h"

namespace idmint {

// The first next() leases a worker id. Its ids have the time of the call, so that a program that
// mints a few ids and exits takes one unit of id-time. The source keeps the store alive.
[[nodiscard]] std::unique_ptr<Source> make_pool_source(
    std::shared_ptr<Store> store, PoolDefinition pool,
    std::optional<std::chrono::nanoseconds> window, const MadeWith& mint);

}  // namespace idmint
