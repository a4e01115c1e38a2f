// The process of a command, at its begin and its end.
#pragma once

namespace idmint {

// Opens what is closed of the three standard descriptors to /dev/null: a file opened later must not
// become standard output, or results would be written into it. Whether standard output was open.
[[nodiscard]] bool occupy_standard_descriptors();

// Ends the process by the signal, as its parent expects it. What it returns is the exit status
// where that failed.
[[nodiscard]] int end_by(int signal);

}  // namespace idmint
