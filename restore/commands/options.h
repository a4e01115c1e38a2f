// Options that several commands share, and how all commands connect.
#pragma once

#include <CLI/CLI.hpp>
#include <array>

#include "restore/server.h"
#include "terminal/command.h"
#include "terminal/stop.h"

namespace idmint::restore {

// Of find and show.
inline constexpr std::array kSpanRenamed = {Renamed{"--from", "--since"},
                                            Renamed{"--to", "--until"}};

inline void add_not_sharded(CLI::App& command, bool& not_sharded) {
  command.add_flag("--not-sharded", not_sharded,
                   "The set is not a shard, though it looks like one: skip the check");
}

inline void add_readers(CLI::App& command, unsigned& readers) {
  command.add_option("--readers", readers, "Connections that read documents at once, 1 to 64 (4)")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
}

// The first signal aborts a call that is not answered.
[[nodiscard]] inline ConnectOptions watched(bool not_sharded = false) {
  return {.not_sharded = not_sharded, .watch = {.stopped = [] { return stop_signal() != 0; }}};
}
// For reading from production, where no command takes long.
[[nodiscard]] inline ConnectOptions to_read(bool not_sharded) {
  ConnectOptions options = watched(not_sharded);
  options.patience = kReaderPatience;
  return options;
}

// Whether a signal caused the failure. Context::stopped_by then says which.
[[nodiscard]] inline bool was_stopped(const Error& error) {
  return error.code == Code::kUnavailable && stop_signal() != 0;
}

}  // namespace idmint::restore
