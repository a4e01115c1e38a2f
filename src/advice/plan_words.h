// The steps of a plan in the words of this command line.
#pragma once

#include <string>

#include "advice/plan.h"

namespace idmint::advice {

// "idmint create NAME --digits 12"; empty: no steps.
[[nodiscard]] std::string command_of(const Steps& steps);

// The text after the commands of a choice, or the reason why there are none.
[[nodiscard]] std::string note_of(const Needs& needs, const Choice& choice);

// The condition under which worker ids of this origin are unique, or the way they are made.
[[nodiscard]] std::string condition_of(const WorkerTerms& terms);

}  // namespace idmint::advice
