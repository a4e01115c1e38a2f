// Where idmint keeps what it is not told a place for.
#pragma once

#include <filesystem>

#include "idmint/result.h"

namespace idmint {

// $XDG_DATA_HOME/idmint or ~/.local/share/idmint. kFailedPrecondition: neither is known.
[[nodiscard]] Result<std::filesystem::path> data_folder();

// The folder and its parents, mode 0700; synced, so that what is acknowledged later does not go
// with its folder. One that is there is left as it is. kPermissionDenied, kResourceExhausted,
// kFailedPrecondition: could not be made.
[[nodiscard]] Result<void> make_folder(const std::filesystem::path& folder);

}  // namespace idmint
