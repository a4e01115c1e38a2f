// URLs with credentials, which do not belong on a command line: other users can read that.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library
class Option;
}

namespace idmint {

// What an option that takes a URL was given: the URL itself, env:NAME for the value of a variable,
// or file:PATH for the content of a file. Where the URL names a user without a password, that is
// asked for on the terminal, and not echoed.
// kInvalidArgument: the variable or the file is empty, or holds more than a line. kNotFound: there
// is none. kPermissionDenied: other users can read the file. kUnauthenticated: there is no terminal
// to ask on. kUnavailable: a signal came instead of the password.
[[nodiscard]] Result<std::string> url_given(std::string_view option, const std::string& given);

// Puts that in the place of the URL that an option was given, if it was. Errors likewise.
[[nodiscard]] Result<void> read_url(CLI::Option& option);

}  // namespace idmint
