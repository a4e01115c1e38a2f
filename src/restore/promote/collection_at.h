// One collection of production: what it is, how it refuses writers, what it is called.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "restore/collections.h"
#include "restore/promote/record.h"
#include "restore/server.h"

namespace idmint::restore {

// The longest that a command waits for a lock or for an answer, in milliseconds.
inline constexpr int kCommandLimit = 60'000;

// Runs a command that changes something, by majority and durable, within kCommandLimit.
// kUnavailable: it may have been done, and may be sent again.
[[nodiscard]] Result<Bson> change(Server& production, const std::string& database, Bson command);

// Without its indexes. Nothing: there is none of that name.
[[nodiscard]] Result<std::optional<CollectionFacts>> find_collection(Server& server,
                                                                     const std::string& ns);

// `validator`, `validationLevel` and `validationAction` of the options, where they are there.
[[nodiscard]] Bson validation_in(Document options);
// The validator that no document passes. A write that bypasses validation is let through.
[[nodiscard]] Bson refusing_validator(const std::string& id);
[[nodiscard]] bool refuses_writers(Document options, const std::string& id);

// Refuses writers from now on, and knows in the record what was there before. An item that is
// blocked already is left as it is. kFailedPrecondition: it is no plain collection any more.
[[nodiscard]] Result<void> block_writers(PromoteRecord& record, PromoteItem& item);
// The collection that has this name gets these options of validation_in(); where there are none, it
// has no validator. One that is not there is passed over.
[[nodiscard]] Result<void> let_writers_in(Server& production, const std::string& ns,
                                          Document validation);

// The view of this item, unless something has its name by now; the record says so before.
[[nodiscard]] Result<void> make_view(PromoteRecord& record, PromoteItem& item);

struct Rename {
  std::string uuid;  // of the collection, 32 hex digits
  std::string from;
  std::string to;
};
// All of them under one lock of the server, so that no writer comes in between. One that is done
// already is left. REQUIRES: all in one database.
[[nodiscard]] Result<void> rename_at_once(Server& production, std::span<const Rename> renames);

// Passes over what is not there.
[[nodiscard]] Result<void> drop_collection(Server& production, const std::string& ns);

}  // namespace idmint::restore
