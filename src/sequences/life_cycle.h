// What may become of a sequence that is there, for who asks before it is done.
#pragma once

#include "idmint/catalog.h"
#include "idmint/export.h"

namespace idmint {

// Whether extend_sequence() makes of what is there what is wanted: the same with its end further
// up, or where it is, which finishes an extension that was cut off. A key or a width that `wanted`
// leaves open is whatever is there.
[[nodiscard]] IDMINT_EXPORT bool can_extend(const Definition& there, const Definition& wanted);

}  // namespace idmint
