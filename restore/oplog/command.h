// The commands in oplogs, and how a restore treats each.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/bson.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

enum class Treatment : std::uint8_t { kApply, kPassOver, kRefuse };

struct OplogCommand {
  std::string_view name;
  Treatment treatment;
  const char* why;  // the reason to refuse it
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

// Null: no such command.
[[nodiscard]] constexpr const OplogCommand* find_oplog_command(std::string_view name) {
  for (const OplogCommand& row : kOplogCommands)
    if (row.name == name) return &row;
  return nullptr;
}

// The collection that the command concerns, with its database; for renameCollection the old name;
// for dropDatabase "DATABASE.".
[[nodiscard]] std::string namespace_of(const Operation& command);
// The new name in a renameCollection.
[[nodiscard]] std::string new_namespace_of(const Operation& command);
// For startIndexBuild, commitIndexBuild and abortIndexBuild: the names of the indexes, and the UUID
// of the build.
[[nodiscard]] std::vector<std::string> names_of_build(const Operation& command);
[[nodiscard]] std::string build_of(const Operation& command);
// The specifications of the indexes that are complete after createIndexes or commitIndexBuild. They
// point into the command. None for other commands.
[[nodiscard]] std::vector<Document> specs_of_build(const Operation& command);
// The options of the collection that a command create makes. Without `temp`, as a server drops
// temporary collections when it starts.
[[nodiscard]] Bson options_of_create(const Operation& create);
// Whether it creates a temporary collection, which the server drops at its next start. $out and
// mapReduce write to one first.
[[nodiscard]] bool is_temporary(const Operation& create);

// The entry's name in messages: "u on db.c, _id 7, at 1795230181:16".
[[nodiscard]] std::string in_words(const Operation& operation, Timestamp ts);
// The _id of the written document, type byte first. Empty: it has none.
[[nodiscard]] std::string_view id_element(const Operation& write);

}  // namespace idmint::restore
