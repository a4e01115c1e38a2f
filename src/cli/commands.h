// The commands of idmint.
#pragma once

#include "terminal/command.h"

namespace idmint::cli {

extern const Command kAlter;
extern const Command kApply;
extern const Command kBench;
extern const Command kBounds;
extern const Command kCheck;
extern const Command kCompletion;
extern const Command kConvert;
extern const Command kCreate;
extern const Command kDoctor;
extern const Command kFormats;
extern const Command kInsert;
extern const Command kInspect;
extern const Command kList;
extern const Command kMove;
extern const Command kName;
extern const Command kNext;
extern const Command kPeek;
extern const Command kPlan;
extern const Command kPlanChange;
extern const Command kRaise;
extern const Command kRetire;
extern const Command kSweep;
extern const Command kVersion;
extern const Command kWorkers;

}  // namespace idmint::cli
