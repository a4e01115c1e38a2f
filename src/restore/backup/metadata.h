// What a backup says of a collection: the text of its .metadata.json.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"
#include "restore/backup/base.h"

namespace idmint::restore {

// Of canonical or relaxed extended JSON, and of the older kind. Unlike libbson's reader, it leaves
// operators of queries alone that look a little like types: {"$type": ["string"]} in a validator,
// {"$regex": "^a"} in the pipeline of a view. kDataLoss: it is none.
[[nodiscard]] Result<Bson> read_extended_json(std::string_view json);
// Canonical, without blanks. kUnimplemented: it would not be read as the same document.
[[nodiscard]] Result<std::string> write_extended_json(Document document);

// Kind, UUID, options and indexes; the name, if it is there. kDataLoss: what is wrong with it, not
// where it stands.
[[nodiscard]] Result<CollectionFacts> parse_metadata(std::string_view json);
[[nodiscard]] Result<std::string> print_metadata(const CollectionFacts& collection);

}  // namespace idmint::restore
