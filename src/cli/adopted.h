// Notices about a sequence that was just created on a record of other programs.
#pragma once

#include <string>

#include "idmint/mint.h"

namespace idmint::cli {

// Reports a notice on standard error if the record is not as expected:
//   - It has counted nothing yet, and `make` was wanted: it was missing. With the wrong database in
//     the URL, or with a misspelled name, a second counter begins, which repeats every id.
//   - It has come to its last value.
// Reports nothing if the status has an error. REQUIRES: it is that of a sequence that adopts.
void tell_of_adopted(const Mint& mint, const SequenceStatus& status, bool make, bool json);

}  // namespace idmint::cli
