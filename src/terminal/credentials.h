// URLs with credentials. These should not be on a command line, which other users can read.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library
class Option;
}

namespace idmint {

// The URL for the argument of an option: the URL itself, env:NAME for the value of a variable, or
// file:PATH for the content of a file. If the URL names a user without a password, asks for it on
// the terminal, without echo. Errors:
// - kInvalidArgument: the variable or the file is empty, or has more than one line.
// - kNotFound: there is no such variable or file.
// - kPermissionDenied: other users can read the file.
// - kUnauthenticated: there is no terminal to ask on.
// - kUnavailable: a signal arrived instead of the password.
[[nodiscard]] Result<std::string> url_given(std::string_view option, const std::string& given);

// Replaces each argument of an option, if given, by its URL. Errors likewise.
[[nodiscard]] Result<void> read_url(CLI::Option& option);

}  // namespace idmint
