// Reads a settings or TLS file: a regular file of limited size.
#pragma once

#include <cstddef>
#include <string>

#include "idmint/result.h"

namespace idmint::server {

// The content, at most its first `longest` bytes. Never waits, as it would for a pipe. The message
// begins with the path. Errors:
// - kNotFound, kPermissionDenied, kUnavailable: the file cannot be read.
// - kInvalidArgument: it is a folder, a device, a pipe or a socket.
[[nodiscard]] Result<std::string> read_plain_file(const std::string& path, std::size_t longest);

}  // namespace idmint::server
