// Whether locks and syncs on a file system of this host can be trusted.
#pragma once

#include <cstdint>
#include <string>

#include "idmint/result.h"

namespace idmint {

// Whether a file system of this type (statfs f_type) may be shared between hosts. Locks, shared
// memory and syncs do not work across hosts there. FUSE may be either, and counts as shared.
[[nodiscard]] IDMINT_EXPORT bool is_shared_between_hosts(long file_system_type) noexcept;

// Whether a file has a second name, in its folder or in another one. Locks and logs that are found
// by a file's name do not separate processes that use different names.
enum class Names : std::uint8_t {
  kOne,           // or unknown: no such file, or an old kernel
  kHardLinks,     // its link count is above 1
  kMountedAlone,  // it is a mount point itself (mount --bind FILE), so its folder is another one
};

// Follows symbolic links. Opens nothing.
[[nodiscard]] Names names_of(const std::string& path) noexcept;

// Syncs the folder of `path`, so that the name survives a power cut. Returns 0 or an errno.
[[nodiscard]] int sync_folder_of(const std::string& path) noexcept;

}  // namespace idmint
