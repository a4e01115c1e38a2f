// The sequences and pools of idmint that a restore turned back, and what brings each past the
// values that production handed out after the limit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/namespaces.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct Minted {
  std::string database{};  // of its store
  std::string name{};
  std::string strategy{};  // "counter", ..., "pool"; empty: its definition cannot be read
  // To be run in this order, with nobody minting; empty: there is nothing to raise.
  std::vector<std::string> commands{};
  std::string note{};  // what no command does; empty: nothing
};

struct MintedReport {
  std::vector<Minted> sources{};     // by database and name; retired ones are left out
  std::optional<Timestamp> until{};  // the last entry of the oplog; nothing: none was given
};

// The limit of a restore that had none: nothing comes after it.
inline constexpr Timestamp kNoLimit{.seconds = UINT32_MAX, .ordinal = UINT32_MAX};

// What was handed out is told by the oplog: the file, or the folder it is in; empty: there is none,
// and no source has a command. Claims are counted from `limit` on.
[[nodiscard]] Result<MintedReport> find_minted(Server& server, const NamespaceFilter& filter,
                                               const std::string& oplog, Timestamp limit);

// "mongodb://a,b/shop?x=y" of "mongodb://a,b/?x=y".
[[nodiscard]] std::string with_database(std::string_view uri, std::string_view database);

}  // namespace idmint::restore
