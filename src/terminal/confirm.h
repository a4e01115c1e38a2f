// Asks the user before an action that cannot be undone.
#pragma once

#include <string>

#include "idmint/result.h"
#include "terminal/output.h"

namespace idmint {

struct Question {
  std::string text;       // "Restore?"
  std::string undone;     // the state if the answer is no: "nothing was written"
  std::string otherwise;  // the advice without a terminal: "add --yes to restore"
};

// Asks on `out` and reads the answer from standard input. kFailedPrecondition: the answer is not
// yes; standard input or standard output is not a terminal; or `json` is set.
[[nodiscard]] Result<void> confirm(Output& out, bool json, const Question& question);

}  // namespace idmint
