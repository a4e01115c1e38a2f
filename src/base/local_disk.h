// What the file systems of this host can be trusted with.
#pragma once

#include <cstdint>
#include <string>

#include "idmint/result.h"

namespace idmint {

// Whether a file system of this type (statfs f_type) may be shared between hosts: there locks,
// shared memory and syncs do not keep two hosts apart. FUSE may be either, and counts as shared.
[[nodiscard]] IDMINT_EXPORT bool is_shared_between_hosts(long file_system_type) noexcept;

// Whether a file can be reached by names in two folders, or by two in one. Locks and logs that go
// by the name of a file do not keep those who use different names apart.
enum class Names : std::uint8_t {
  kOne,           // or it cannot be told: no such file, or an old kernel
  kHardLinks,     // its link count is above 1
  kMountedAlone,  // it is a mount of its own (mount --bind FILE), so that its folder is another's
};

// Of the file that symbolic links lead to. Opens nothing.
[[nodiscard]] Names names_of(const std::string& path) noexcept;

// Syncs the folder that `path` lies in, so that the name survives a power cut. 0, or an errno.
[[nodiscard]] int sync_folder_of(const std::string& path) noexcept;

}  // namespace idmint
