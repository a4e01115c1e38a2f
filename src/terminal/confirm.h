// Asks a person before something is done that cannot be undone.
#pragma once

#include <string>

#include "idmint/result.h"
#include "terminal/output.h"

namespace idmint {

struct Question {
  std::string text;       // "Restore?"
  std::string undone;     // what holds if the answer is no: "nothing was written"
  std::string otherwise;  // what to do without a terminal: "add --yes to restore"
};

// Asks on `out`, and reads the answer from standard input. kFailedPrecondition: the answer is not
// yes; or there is no terminal to ask on, which standard input must be, and `json` is false.
[[nodiscard]] Result<void> confirm(Output& out, bool json, const Question& question);

}  // namespace idmint
