// URLs of stores and servers: what may be shown of them, and which options MongoDB has.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// The URL for a message, a report or a log: "***" stands for the password, and for the value of
// each option that holds a secret or is unknown. A URL that cannot be parsed, such as one with an
// unescaped / in its password, loses everything that may be part of a secret. The URLs of SQLite
// and of memory hold no secret and are returned as they are.
[[nodiscard]] std::string redacted(std::string_view url);

// Whether the text has "://" and redacted() hides a part of it.
[[nodiscard]] bool has_secret(std::string_view text);

// Refuses what the driver would misread. kInvalidArgument: an option that does not exist, which the
// driver ignores (with tsl=true it connects in clear), or an unescaped @ or / in the user or the
// password. The message contains no secret.
[[nodiscard]] Result<void> check_mongodb_url(std::string_view url);

// Who is to log in with a password that the URL does not give; empty: nobody.
[[nodiscard]] std::string user_without_password(std::string_view url);
// REQUIRES: user_without_password(url) is not empty.
[[nodiscard]] std::string with_password(std::string_view url, std::string_view password);

// Calls use(name, value) for each option of a MongoDB URL, as they are written.
void each_option(std::string_view url,
                 const std::function<void(std::string_view name, std::string_view value)>& use);

}  // namespace idmint
