// An input as a file, for readers of files.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzz/require.h"

namespace idmint::fuzz {

// The same one for each input, in memory.
inline std::string input_path(const std::uint8_t* data, std::size_t size) {
  static const int fd = ::memfd_create("input", MFD_CLOEXEC);
  require(fd >= 0 && ::ftruncate(fd, 0) == 0);
  require(::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace idmint::fuzz
