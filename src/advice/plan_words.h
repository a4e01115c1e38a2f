// What a plan says to do, in the words of this command line.
#pragma once

#include <string>

#include "advice/plan.h"

namespace idmint::advice {

// "idmint create NAME --digits 12"; empty: there are no steps.
[[nodiscard]] std::string command_of(const Steps& steps);

// What follows the commands of a choice, or why there are none.
[[nodiscard]] std::string note_of(const Needs& needs, const Choice& choice);

// When worker ids that come from there are unique, or how they are come by.
[[nodiscard]] std::string condition_of(const WorkerTerms& terms);

}  // namespace idmint::advice
