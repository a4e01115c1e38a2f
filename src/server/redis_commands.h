// The table of the commands that a client of the Redis protocol may send.
#pragma once

#include <span>
#include <string_view>

#include "server/redis_session.h"

namespace idmint::server {

// Whatever the case of its letters. Null: there is no such command.
[[nodiscard]] const RedisSession::Command* command_named(std::string_view name) noexcept;
// By name.
[[nodiscard]] std::span<const RedisSession::Command> all_commands() noexcept;

}  // namespace idmint::server
