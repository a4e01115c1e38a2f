// The commands of idmint-restore.
#pragma once

#include "terminal/command.h"

namespace idmint::restore {

extern const Command kCompletion;
extern const Command kDump;
extern const Command kFence;
extern const Command kFind;
extern const Command kKeep;
extern const Command kOplogCopy;
extern const Command kPromote;
extern const Command kReady;
extern const Command kRun;
extern const Command kSeed;
extern const Command kShow;
extern const Command kVerify;
extern const Command kVersion;

}  // namespace idmint::restore
