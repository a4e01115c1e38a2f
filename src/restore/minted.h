// The sequences and pools of idmint that a restore turned back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/namespace_filter.h"
#include "restore/server.h"
#include "terminal/output.h"

namespace idmint::restore {

struct Minted {
  std::string database{};  // of its store
  std::string name{};
  std::string strategy{};  // "counter", ..., "pool"; empty: its definition cannot be read
  std::string command{};   // that raises it; empty: nothing can
};

// All that are not retired, by database and name.
[[nodiscard]] Result<std::vector<Minted>> find_minted(Server& server,
                                                      const NamespaceFilter& filter);
// Says what is to be done with them. Nothing, where there are none.
void print_minted(Output& out, const std::vector<Minted>& minted);

// "mongodb://a,b/shop?x=y" of "mongodb://a,b/?x=y".
[[nodiscard]] std::string with_database(std::string_view uri, std::string_view database);

}  // namespace idmint::restore
