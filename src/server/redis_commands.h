// The table of the commands that a client of the Redis protocol may send.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "server/redis_session.h"

namespace idmint::server {

// Finds a command by its name in any case. Null: there is none.
[[nodiscard]] const RedisSession::Command* command_named(std::string_view name) noexcept;
// All commands, by name.
[[nodiscard]] std::span<const RedisSession::Command> all_commands() noexcept;

// A whole number of at least `least`.
[[nodiscard]] std::optional<std::int64_t> whole(std::string_view text, std::int64_t least);

}  // namespace idmint::server
