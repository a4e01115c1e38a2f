// The table of the commands that a client of the Redis protocol may send.
#pragma once

#include <span>
#include <string_view>

#include "server/redis_session.h"

namespace idmint::server {

// Finds a command by its name in any case. Null: there is none.
[[nodiscard]] const RedisSession::Command* command_named(std::string_view name) noexcept;
// All commands, by name.
[[nodiscard]] std::span<const RedisSession::Command> all_commands() noexcept;

}  // namespace idmint::server
