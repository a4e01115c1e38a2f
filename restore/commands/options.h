// Options that several commands share, and how all commands connect.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "restore/server.h"
#include "terminal/command.h"
#include "terminal/stop.h"

namespace idmint::restore {

// The renamed options of find and show.
inline constexpr std::array kSpanRenamed = {Renamed{"--from", "--since"},
                                            Renamed{"--to", "--until"}};

// An option with a value, which the help calls `type`.
template <class Value>
CLI::Option* add_value(CLI::App& command, const char* name, Value& into, const char* type,
                       const char* help) {
  return command.add_option(name, into, help)->type_name(type);
}

inline void add_not_sharded(CLI::App& command, bool& not_sharded) {
  command.add_flag("--not-sharded", not_sharded,
                   "The set is not a shard, though it looks like one: skip the check");
}

inline void add_readers(CLI::App& command, unsigned& readers) {
  add_value(command, "--readers", readers, "N",
            "Connections that read documents at once, 1 to 64 (4)")
      ->check(CLI::Range(1, 64));
}

// Prints it as a line. Bytes that are not UTF-8 are replaced.
inline void write_json(Context& context, const nlohmann::ordered_json& json) {
  using Json = nlohmann::ordered_json;
  context.out.write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
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
