// One collection of production: its properties, blocking its writers, and renaming it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "mongo/bson.h"
#include "restore/collections.h"
#include "restore/error_in.h"
#include "restore/oplog/fields.h"
#include "restore/promote/record.h"
#include "restore/server.h"

namespace idmint::restore {

// The longest that a command waits for a lock or for an answer, in milliseconds.
inline constexpr int kCommandLimit = 60'000;

// Runs a command that changes something, with write concern majority and journal, within
// kCommandLimit. kUnavailable: it may have been done; it is safe to send it again.
// kFailedPrecondition: the server refuses a write in it.
[[nodiscard]] Result<Bson> change(Server& production, const std::string& database, Bson command);

// Whether a write of the reply failed for a reason that passes, such as that the primary stepped
// down.
[[nodiscard]] bool failed_in_passing(Document reply);

// Without its indexes. nullopt: no collection has this name.
[[nodiscard]] Result<std::optional<CollectionFacts>> find_collection(Server& server,
                                                                     const std::string& ns);

// The UUID of the collection with this name; empty: none has it, or a view.
[[nodiscard]] Result<std::string> uuid_of(Server& server, const std::string& ns);

// The bytes of an element _id. A whole number of any type but decimal is one of 64 bits, as servers
// take 5 and 5.0 for one _id.
[[nodiscard]] std::string id_key(const Field& id);
[[nodiscard]] std::string id_key(Document document);
// The documents with these _ids that the collection has, by id_key(). `ids` are {_id: ID}.
[[nodiscard]] Result<std::map<std::string, Bson>> documents_of(Server& server,
                                                               const std::string& ns,
                                                               std::span<const Bson> ids);

// Inserts a document with a zero timestamp, which the command insert would set to the present time.
// Empty: done; otherwise why it is refused.
[[nodiscard]] Result<std::string> insert_as_it_is(Server& server, const std::string& ns,
                                                  const Bson& document);

// `validator`, `validationLevel` and `validationAction` of the options, if set.
[[nodiscard]] Bson validation_in(Document options);
// A validator that rejects every document. Writes that bypass validation still pass.
[[nodiscard]] Bson refusing_validator(const std::string& id);
[[nodiscard]] bool refuses_writers(Document options, const std::string& id);

// Blocks writers from now on, after saving the old validation in the record. An item that is
// already blocked is left unchanged. kFailedPrecondition: it is no longer a plain collection.
[[nodiscard]] Result<void> block_writers(PromoteRecord& record, PromoteItem& item);
// Sets the validation of the collection with this name to `validation`, which validation_in()
// returned. If that is empty, removes the validator. Ignores a missing collection.
[[nodiscard]] Result<void> let_writers_in(Server& production, const std::string& ns,
                                          Document validation);

// Creates the view of this item unless its name is taken; the record says so first.
[[nodiscard]] Result<void> make_view(PromoteRecord& record, PromoteItem& item);

struct Rename {
  std::string uuid;  // of the collection, 32 hex digits
  std::string from;
  std::string to;
};
// Renames all of them under one lock of the server, so that no writer comes in between. Skips
// renames that are already done. REQUIRES: all in one database.
[[nodiscard]] Result<void> rename_at_once(Server& production, std::span<const Rename> renames);

// Ignores a missing collection.
[[nodiscard]] Result<void> drop_collection(Server& production, const std::string& ns);

}  // namespace idmint::restore
