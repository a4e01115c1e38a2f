// The first documents in which a collection differs on two servers, for people who look for why.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/replay/state.h"
#include "restore/server.h"

namespace idmint::restore {

// Of at most `most` documents, in the simple order of their _id, a row for each field that differs,
// and one for a document that a server lacks. Values are Extended JSON, cut off after 120
// characters: relaxed, or canonical where only the types of numbers differ. Of a document at most 8
// fields are named. Reads both collections up to the last of these documents; what others write
// meanwhile may be in it.
[[nodiscard]] Result<std::vector<Difference>> first_differences(Server& is, Server& should,
                                                                const std::string& ns,
                                                                std::size_t most);

}  // namespace idmint::restore
