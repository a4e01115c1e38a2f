// A GaplessInserter with the store that it needs.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "idmint/gapless.h"
#include "idmint/store.h"

namespace idmint::servers {

struct OpenedInserter {
  std::unique_ptr<Store> store;
  std::unique_ptr<GaplessInserter> inserter;

  GaplessInserter* operator->() const { return inserter.get(); }
  GaplessInserter& operator*() const { return *inserter; }
};

inline Result<OpenedInserter> open_gapless(std::string_view url, std::string_view name,
                                           std::string_view collection, std::string_view field,
                                           const GaplessOptions& options = {}) {
  Result<std::unique_ptr<Store>> store =
      Store::open(url, {.deadline = options.deadline, .create = false});
  if (!store) return std::unexpected(std::move(store).error());
  auto inserter = GaplessInserter::open(**store, name, collection, field, options);
  if (!inserter) return std::unexpected(std::move(inserter).error());
  return OpenedInserter{*std::move(store), *std::move(inserter)};
}

}  // namespace idmint::servers
