// The first documents in which a collection differs between two servers, for a person who looks for
// the cause.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/replay/state.h"
#include "restore/server.h"

namespace idmint::restore {

// Covers at most `most` documents, in the simple order of their _id: a row for each field that
// differs, at most 8 per document, and one for a document that a server lacks. Values are relaxed
// extended JSON, or canonical if only the types of numbers differ, cut after 120 characters. No
// value of users and roles is shown, as they have the hashes of passwords. Reads both collections
// up to the last of these documents. Concurrent writes may show up.
[[nodiscard]] Result<std::vector<Difference>> first_differences(Server& is, Server& should,
                                                                const std::string& ns,
                                                                std::size_t most);

}  // namespace idmint::restore
