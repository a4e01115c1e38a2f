#pragma once

#include "idmint/testing.h"

namespace idmint::fakes {
using idmint::ManualClock;
using idmint::ScriptedEntropy;
}  // namespace idmint::fakes
