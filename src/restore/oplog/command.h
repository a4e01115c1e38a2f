// The commands that an oplog has, and what a restore does with each.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "restore/oplog/entry.h"

namespace idmint::restore {

enum class Treatment : std::uint8_t { kApply, kPassOver, kRefuse };

struct OplogCommand {
  std::string_view name;
  Treatment treatment;
  const char* why;  // it is refused
};

inline constexpr std::array kOplogCommands = {
    OplogCommand{"create", Treatment::kApply, nullptr},
    OplogCommand{"drop", Treatment::kApply, nullptr},
    OplogCommand{"dropDatabase", Treatment::kApply, nullptr},
    OplogCommand{"renameCollection", Treatment::kApply, nullptr},
    OplogCommand{"createIndexes", Treatment::kApply, nullptr},
    OplogCommand{"commitIndexBuild", Treatment::kApply, nullptr},
    OplogCommand{"dropIndexes", Treatment::kApply, nullptr},
    OplogCommand{"deleteIndexes", Treatment::kApply, nullptr},
    OplogCommand{"deleteIndex", Treatment::kApply, nullptr},
    OplogCommand{"collMod", Treatment::kApply, nullptr},
    OplogCommand{"emptycapped", Treatment::kApply, nullptr},
    OplogCommand{"startIndexBuild", Treatment::kApply, nullptr},
    OplogCommand{"abortIndexBuild", Treatment::kApply, nullptr},
    OplogCommand{"setMultikeyMetadata", Treatment::kPassOver, nullptr},
    OplogCommand{"dropIdent", Treatment::kPassOver, nullptr},
    OplogCommand{"commitTransaction", Treatment::kRefuse, "it belongs to no session"},
    OplogCommand{"abortTransaction", Treatment::kRefuse, "it belongs to no session"},
    OplogCommand{"convertToCapped", Treatment::kRefuse,
                 "servers since 4.4 log it as other commands, and none can apply it"},
    OplogCommand{"upgradeDowngradeViewlessTimeseries", Treatment::kRefuse,
                 "it changes how a server keeps time-series collections: take a base that was made "
                 "after"},
};

// Null: there is none of that name.
[[nodiscard]] constexpr const OplogCommand* find_oplog_command(std::string_view name) {
  for (const OplogCommand& row : kOplogCommands) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// The collection that a command is of, with its database; of renameCollection the one before; of
// dropDatabase "DATABASE.".
[[nodiscard]] std::string namespace_of(const Operation& command);
// Of renameCollection: the one after.
[[nodiscard]] std::string new_namespace_of(const Operation& command);
// Of startIndexBuild, commitIndexBuild and abortIndexBuild: of its indexes; and which build it is,
// a UUID.
[[nodiscard]] std::vector<std::string> names_of_build(const Operation& command);
[[nodiscard]] std::string build_of(const Operation& command);
// It makes a collection that goes with the server: $out, $merge and mapReduce write to one first.
[[nodiscard]] bool is_temporary(const Operation& create);

// How messages name an entry: "u on db.c, _id 7, at 1795230181:16".
[[nodiscard]] std::string in_words(const Operation& operation, Timestamp ts);
// The _id of the document that a write is of, its type first. Empty: it has none.
[[nodiscard]] std::string_view id_element(const Operation& write);

}  // namespace idmint::restore
