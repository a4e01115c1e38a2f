// Reads an oplog in a thread of its own, ahead of the caller.
#pragma once

#include <memory>

#include "restore/oplog/source.h"

namespace idmint::restore {

// The same entries, errors and names in the same order. The thread reads and parses entries while
// the caller works with earlier ones. Takes about 4 MB. A larger entry is not copied: the thread
// waits until the caller asks for the next one. For one caller's thread.
[[nodiscard]] std::unique_ptr<OplogSource> read_ahead(std::unique_ptr<OplogSource> source);

}  // namespace idmint::restore
