// Whether two documents mean the same.
#pragma once

#include "mongo/document.h"

namespace idmint::restore {

// Ignores the order of fields and the type of numbers, which drivers choose.
[[nodiscard]] bool equal_fields(Document a, Document b);

}  // namespace idmint::restore
