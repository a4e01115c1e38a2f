// The net effect of two updates of one document.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mongo/document.h"

namespace idmint::restore {

// The `o` of one update that leaves every document as `first` and then `second` leave it, byte for
// byte: also a document that is newer than both, or has other types. Both may be damaged. nullopt:
// - One of them is no diff ($v: 2), or a server would refuse it.
// - No diff is known to have that effect. For example, `second` changes the inside of a value that
//   `first` sets, or the order of the fields that both append is not that of one diff.
// - Merging would take long: a diff has more than 64 changes in one document, or `first` is much
//   larger than `second`. So a diff into which many are merged does not grow without bound.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> net_effect(Document first, Document second);

}  // namespace idmint::restore
