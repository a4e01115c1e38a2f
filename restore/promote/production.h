// How a promotion connects to servers.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"
#include "restore/server.h"

namespace idmint::restore {

// The URI, with the read preference `primary` in the place of its own, so that nothing is read from
// a member that is behind, and with a socket timeout unless it has one.
[[nodiscard]] std::string for_promotion(std::string_view uri);
// Errors: those of Server::connect().
[[nodiscard]] Result<Server> connect_for_promotion(const std::string& uri);

}  // namespace idmint::restore
