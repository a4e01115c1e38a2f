// Reads a file of settings or of TLS: a plain one, of a size that such files have.
#pragma once

#include <cstddef>
#include <string>

#include "idmint/result.h"

namespace idmint::server {

// All of it; of a longer one the first `longest` bytes. Never waits, as it would for a pipe.
// kNotFound, kPermissionDenied, kUnavailable: what the system says. kInvalidArgument: it is a
// folder, a device, a pipe or a socket. The message begins with the path.
[[nodiscard]] Result<std::string> read_plain_file(const std::string& path, std::size_t longest);

}  // namespace idmint::server
