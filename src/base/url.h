// URLs of stores and servers: their printable form, their parts, and the options that they may
// have.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// The URL for a message, a report or a log. "***" replaces the password and the value of each
// option that is secret or unknown. A URL that cannot be parsed, such as one with an unescaped / in
// its password, loses every part that may belong to a secret. URLs of SQLite and of memory hold no
// secret and are returned as they are.
[[nodiscard]] std::string redacted(std::string_view url);

// Whether the text has "://" and redacted() hides a part of it.
[[nodiscard]] bool has_secret(std::string_view text);

// The URL without the parts that redacted() replaces by "***", to be kept and opened again, with
// the path of an SQLite file made absolute.
[[nodiscard]] std::string without_secrets(std::string_view url);

// The servers and the database, or the file: the URL without user, password and options.
[[nodiscard]] std::string place_of(std::string_view url);

// Rejects URLs that the driver would misread. The message contains no secret. kInvalidArgument: an
// unknown option, which the driver ignores (with tsl=true it connects in clear text), or an
// unescaped @ or / in the user or the password.
[[nodiscard]] Result<void> check_mongodb_url(std::string_view url);
// The same for MariaDB.
[[nodiscard]] Result<void> check_mariadb_url(std::string_view url);
// The same for PostgreSQL, whose libpq names in its messages what it takes for the host.
[[nodiscard]] Result<void> check_postgresql_url(std::string_view url);
// The same for Redis.
[[nodiscard]] Result<void> check_redis_url(std::string_view url);
// The same for etcd.
[[nodiscard]] Result<void> check_etcd_url(std::string_view url);

// The user who needs a password that the URL does not give; empty: none does.
[[nodiscard]] std::string user_without_password(std::string_view url);
// REQUIRES: user_without_password(url) is not empty.
[[nodiscard]] std::string with_password(std::string_view url, std::string_view password);

// Calls use(name, value) for each option of such a URL, in order and verbatim.
void each_option(std::string_view url,
                 const std::function<void(std::string_view name, std::string_view value)>& use);

// The parts of SCHEME://[USER[:PASSWORD]@]HOSTS[/PATH][?OPTIONS], verbatim: parts of the URL
// itself.
struct UrlParts {
  std::string_view user;  // with the password
  bool has_user = false;  // there was an @
  std::string_view hosts;
  std::string_view path;  // without its leading slash
};
// Nothing: it is no such URL.
[[nodiscard]] std::optional<UrlParts> url_parts(std::string_view url);

// The text with each %XX as the byte that it stands for.
[[nodiscard]] std::string percent_decoded(std::string_view text);

}  // namespace idmint
