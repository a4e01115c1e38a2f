// Clean-up work that nobody waits for.
#pragma once

#include <functional>

#include "idmint/result.h"

namespace idmint {

// Calls `work` in a thread of its own. It must neither throw nor end the process. Calls it in the
// caller's thread if there can be no other: the system has none left, exit() has begun, or this is
// a child of fork() whose parent had called this function before. exit() waits for the work under
// way; other ways to end a process do not. Threads may share it.
void run_in_background(std::move_only_function<void()> work) noexcept;

// Whether any work is under way. False once exit() waits for it.
[[nodiscard]] bool background_is_busy();

// Whether any work was ever started.
[[nodiscard]] IDMINT_EXPORT bool background_was_used() noexcept;

}  // namespace idmint
