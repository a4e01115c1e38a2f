// What the end of something leaves to be done, for which nobody waits.
#pragma once

#include <functional>

#include "idmint/result.h"

namespace idmint {

// Calls `work` in a thread of its own; it must neither throw nor end the process. Here and now
// where there can be no thread: the system has none left, exit() has begun, or this is a child of
// fork() and its parent had called this before. exit() waits for what is under way; the other ways
// to end a process do not. Threads may share it.
void run_in_background(std::move_only_function<void()> work) noexcept;

// Whether any of it is under way; once exit() waits for it, no more.
[[nodiscard]] bool background_is_busy();

// Whether anything ever was.
[[nodiscard]] IDMINT_EXPORT bool background_was_used() noexcept;

}  // namespace idmint
