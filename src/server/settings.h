// Settings: what the daemon is told, by a file of TOML and by variables of the environment.
//
//   store = "sqlite:/var/lib/idmint/ids.db"         # or env:NAME, file:PATH
//   redis = ["127.0.0.1:7379", "tls:0.0.0.0:7389"]  # or unix:PATH
//   http = ["127.0.0.1:7380"]
//   max_connections = 20000
//   drain_seconds = 10
//
//   [stores]                                        # further ones: their sources are eu/NAME
//   eu = "mongodb://eu1,eu2,eu3/ids"
//
//   [tls]
//   certificate = "/etc/idmint/certificate.pem"
//   key = "/etc/idmint/key.pem"
//   client_ca = "/etc/idmint/clients.pem"
//
//   [log]
//   level = "info"                                  # error, warning, info or debug
//   format = "json"                                 # or text
//
//   [token.web]                                     # made by idmintd token
//   sha256 = "..."
//   allow = ["next orders*", "peek *"]
//   ids_per_second = 1000
//   ids_per_day = 1_000_000
//   largest_count = 100
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/result.h"
#include "server/access.h"
#include "server/log.h"
#include "server/tls.h"

namespace idmint::server {

struct Settings {
  std::string store{};  // as it is given; empty: the default one
  std::vector<std::pair<std::string, std::string>> stores{};  // names and URLs, as they are given
  std::vector<std::string> redis{};
  std::vector<std::string> http{};
  std::optional<std::int64_t> max_connections{};
  std::optional<std::int64_t> drain_seconds{};
  TlsSettings tls{};
  LogSettings log{};
  std::vector<TokenSettings> tokens{};
};

inline constexpr std::size_t kLongestSettings = std::size_t{1} << 20;

// Changes the settings to what the text says, and leaves the others. Returns what is wrong in it,
// each with its line; then the settings are not to be used.
[[nodiscard]] std::vector<Error> read_toml(std::string_view text, Settings& settings);

// Changes the settings to what the variables that override the file say. `value_of` returns null
// for one that is not set. Lists have commas between their elements. Returns what is wrong, as
// above.
[[nodiscard]] std::vector<Error> read_environment(
    const std::function<const char*(const char* name)>& value_of, Settings& settings);

// kInvalidArgument: no further store can have this name, which stands before those of its sources.
[[nodiscard]] Result<void> check_store_name(std::string_view name);

// A table of TOML for a token, without the token.
[[nodiscard]] std::string to_toml(std::string_view name, const TokenSettings::Hash& hash,
                                  const std::vector<std::string>& allow);

}  // namespace idmint::server
