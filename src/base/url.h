// URLs of stores and servers: their printable form, their parts, and the options that they may
// have.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// The URL for a message, a report or a log: only what is recognised as no secret is printed, and
// "***" stands for the rest. Recognised are the schemes of stores and words that are like them; in
// a URL of servers the user, the hosts, the database and the options that a store knows, if all of
// them have only characters that need no escape; the path of an SQLite file; the places env:NAME
// and file:PATH; and a path that begins with ./ or ../ or ends in .db, .sqlite or .sqlite3. Of any
// other text, such as a password alone, nothing is printed.
[[nodiscard]] std::string redacted(std::string_view url);

// A word that stands where no URL is expected, for a message: itself, or redacted() if it has "://"
// or an @.
[[nodiscard]] std::string without_url(std::string_view word);

// Whether the text has "://" and redacted() hides a part of it.
[[nodiscard]] bool has_secret(std::string_view text);

// The URL without its secrets and without options that redacted() hides, to be kept and opened
// again, with the path of an SQLite file made absolute. REQUIRES: a store has been opened with it.
[[nodiscard]] std::string without_secrets(std::string_view url);

// The servers and the database, or the file: the URL without user, password and options. For
// comparisons; a text that is no URL is returned as it is.
[[nodiscard]] std::string place_of(std::string_view url);

// Rejects URLs of a store on servers that its driver would misread. The message contains no secret.
// kInvalidArgument: an unknown option, which a driver may ignore (with tsl=true it connects in
// clear text), or an unescaped @ or / in the user or the password, which libpq would take for the
// host, and name.
[[nodiscard]] Result<void> check_server_url(std::string_view url);

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
