// The ranges of `_id` in which a collection is read side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "restore/collections.h"
#include "restore/error_in.h"
#include "restore/oplog/member.h"

namespace idmint::restore {

// From `min` on, and before `max`: each {_id: value}, or none, where the range is open. The bounds
// are in the order of the index, so a range may hold values of several types.
struct IdRange {
  Bson min = Bson::none();
  Bson max = Bson::none();
};

// Ranges of about `bytes` each, which together hold all documents; of `documents`, as the server
// counts them. A single open one, which is read without an index, if the collection
// - is small;
// - has no plain index on _id: it is capped, clustered, a time-series or has a collation;
// - stores its documents in another order than that of their _id, as with random ones: to read it
//   by an index would then read each page of the disk again and again. A sample tells.
// Errors: those of Member, if the member is lost. If it refuses the sample, nothing is split.
[[nodiscard]] Result<std::vector<IdRange>> split(Member& member, const CollectionFacts& collection,
                                                 std::int64_t documents, std::int64_t bytes);

}  // namespace idmint::restore
