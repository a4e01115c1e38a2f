// Clean-up work that nobody waits for.
#pragma once

#include "idmint/clock.h"
#include "idmint/executor.h"
#include "idmint/result.h"

namespace idmint {

// Calls `work` in a thread of its own. It must neither throw nor end the process. exit() waits for
// the work under way until `exit_waits`; other ways to end a process do not. False: there can be no
// thread, and `work` was neither called nor destroyed: the system has none left, exit() has begun,
// or this is a child of fork() whose parent had called this function before. Threads may share it.
[[nodiscard]] bool start_in_background(MoveOnlyFunction<void()>& work,
                                       SteadyTime exit_waits = SteadyTime::max()) noexcept;
// The same; without a thread it calls `work` in the caller's.
void run_in_background(MoveOnlyFunction<void()> work,
                       SteadyTime exit_waits = SteadyTime::max()) noexcept;

// Whether any work is under way. False once exit() waits for it.
[[nodiscard]] bool background_is_busy();

// Whether any work was ever started.
[[nodiscard]] IDMINT_EXPORT bool background_was_used() noexcept;

}  // namespace idmint
