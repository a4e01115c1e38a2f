// What the file systems of this host can be trusted with.
#pragma once

#include <string>

#include "idmint/export.h"

namespace idmint {

// Whether a file system of this type (statfs f_type) is shared between hosts: there locks, shared
// memory and syncs do not keep two hosts apart. FUSE cannot be told: it may be either.
[[nodiscard]] IDMINT_EXPORT bool is_shared_between_hosts(long file_system_type) noexcept;

// Syncs the folder that `path` lies in, so that the name survives a power cut. 0, or an errno.
[[nodiscard]] int sync_folder_of(const std::string& path) noexcept;

}  // namespace idmint
