// Signals that ask a command to end early with its partial result.
#pragma once

namespace idmint {

// From now on, the first SIGINT, SIGTERM or SIGHUP is recorded, and the second one ends the
// process. Ignored signals stay ignored (nohup, background jobs).
void stop_at_signals();

// The signal that was recorded; 0: none.
[[nodiscard]] int stop_signal() noexcept;

}  // namespace idmint
