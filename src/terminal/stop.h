// Signals that ask a command to end early, with what it has.
#pragma once

namespace idmint {

// From now on the first SIGINT, SIGTERM or SIGHUP is noted, and a second one ends the process. What
// was ignored stays ignored (nohup, background jobs).
void stop_at_signals();

// The signal that came; 0: none.
[[nodiscard]] int stop_signal() noexcept;

}  // namespace idmint
