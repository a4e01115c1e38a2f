// The default folder of idmint's files.
#pragma once

#include <filesystem>

#include "idmint/result.h"

namespace idmint {

// $XDG_DATA_HOME/idmint or ~/.local/share/idmint. kFailedPrecondition: neither variable is set.
[[nodiscard]] Result<std::filesystem::path> data_folder();

// Whether this user can make, read and write files in the folder, which need not exist yet. Makes
// nothing. kPermissionDenied, kResourceExhausted, kFailedPrecondition: the message says why not.
[[nodiscard]] Result<void> can_keep_files(const std::filesystem::path& folder);

// Creates the folder and its parents, mode 0700. Synced, so that later acknowledged data is not
// lost with its folder. An existing folder stays as it is. kPermissionDenied, kResourceExhausted,
// kFailedPrecondition: it could not be created.
[[nodiscard]] Result<void> make_folder(const std::filesystem::path& folder);

}  // namespace idmint
