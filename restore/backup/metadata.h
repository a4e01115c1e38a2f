// The metadata of a collection: the text of its .metadata.json.
#pragma once

#include <string>
#include <string_view>

#include "restore/backup/base.h"
#include "restore/error_in.h"

namespace idmint::restore {

// Accepts canonical, relaxed and legacy extended JSON. Unlike libbson's reader, it keeps query
// operators that resemble types: {"$type": ["string"]} in a validator, {"$regex": "^a"} in the
// pipeline of a view. kDataLoss: the text is not extended JSON.
[[nodiscard]] Result<Bson> read_extended_json(std::string_view json);
// Writes canonical extended JSON without blanks. kUnimplemented: the text would be read as another
// document.
[[nodiscard]] Result<std::string> write_extended_json(Document document);

// Kind, UUID, options and indexes; the name, if it is there. kDataLoss: the message says what is
// wrong, not where.
[[nodiscard]] Result<CollectionFacts> parse_metadata(std::string_view json);
[[nodiscard]] Result<std::string> print_metadata(const CollectionFacts& collection);

}  // namespace idmint::restore
