// The idmint sequences and pools that a restore set back, and the commands that raise each past the
// values that production handed out after the limit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restore/error_in.h"
#include "restore/namespaces.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct IssuedValues {
  std::string database{};  // of the store
  std::string name{};
  std::string strategy{};  // "counter", ..., "pool"; empty: the definition is unreadable
  // To be run in this order while nobody mints; empty: there is nothing to raise.
  std::vector<std::string> commands{};
  std::string note{};  // what no command does; empty: nothing
};

struct IssuedReport {
  std::vector<IssuedValues> sources{};  // by database and name; without retired ones
  std::optional<Timestamp> until{};     // the last entry of the oplog; nullopt: no oplog
};

// The limit of a restore without one: no entry comes after it.
inline constexpr Timestamp kNoLimit{.seconds = UINT32_MAX, .ordinal = UINT32_MAX};

// `oplog` tells what was handed out: a file, or its folder. Empty: there is none, and no source has
// a command. Skips the slices before `after`. Claims count from `limit` on.
[[nodiscard]] Result<IssuedReport> find_minted(Server& server, const NamespaceFilter& filter,
                                               const std::string& oplog, Timestamp after,
                                               Timestamp limit);

// Turns "mongodb://a,b/?x=y" into "mongodb://a,b/shop?x=y".
[[nodiscard]] std::string with_database(std::string_view uri, std::string_view database);

}  // namespace idmint::restore
