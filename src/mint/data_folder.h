// The default folder of idmint's files.
#pragma once

#include <filesystem>

#include "idmint/result.h"

namespace idmint {

// $XDG_DATA_HOME/idmint or ~/.local/share/idmint. kFailedPrecondition: neither variable is set.
[[nodiscard]] Result<std::filesystem::path> data_folder();

// Creates the folder and its parents, mode 0700. Synced, so that later acknowledged data is not
// lost with its folder. An existing folder stays as it is. kPermissionDenied, kResourceExhausted,
// kFailedPrecondition: it could not be created.
[[nodiscard]] Result<void> make_folder(const std::filesystem::path& folder);

}  // namespace idmint
