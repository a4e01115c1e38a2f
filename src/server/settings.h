// Settings: what the daemon is told, by a file of TOML and by variables of the environment.
//
//   store = "sqlite:/var/lib/idmint/ids.db"         # or env:NAME, file:PATH
//   also = ["postgresql://db/ids"]                  # where sequences go on that are moved
//   over = ["mongodb://u:p@eu/ids"]                 # stores of sequences over several
//   redis = ["127.0.0.1:7379", "tls:0.0.0.0:7389"]  # or unix:PATH
//   http = ["127.0.0.1:7380"]
//   max_connections = 20000
//   drain_seconds = 10
//   integers = "64-bit"                             # or by-client
//   max_sources = 1000                              # that a caller may create over HTTP
//   max_stripes = 100_000                           # of these sources, with worker ids of pools
//   max_leases = 1000                               # of worker ids that a caller may hold
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
//   max_sources = 10
//   max_stripes = 1000
//   max_leases = 10
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "server/access.h"
#include "server/log.h"
#include "server/tls.h"

namespace idmint::server {

struct StoreSetting {
  std::string name{};    // empty: the first store
  std::string url{};     // as given; empty: the default store
  std::string origin{};  // where it was given, for messages: "line 3: stores.eu", "--store"

  // `origin` is not compared.
  friend bool operator==(const StoreSetting& a, const StoreSetting& b) {
    return a.name == b.name && a.url == b.url;
  }
};

// Stores that no source is named after.
struct StoresSetting {
  std::vector<std::string> urls{};  // as given
  std::string origin{};             // as in StoreSetting

  friend bool operator==(const StoresSetting& a, const StoresSetting& b) {
    return a.urls == b.urls;
  }
};

struct Settings {
  StoreSetting store{};
  std::vector<StoreSetting> stores{};  // further ones
  StoresSetting also{};                // to which sequences of the others may be moved
  StoresSetting over{};                // of sequences over several, as MintOptions::over
  std::vector<std::string> redis{};
  std::vector<std::string> http{};
  std::optional<std::int64_t> max_connections{};
  std::optional<std::int64_t> drain_seconds{};
  bool all_hold_64_bits = false;  // integers = "64-bit"
  // For tokens that have no limit of their own, or for all callers together if there are no tokens.
  std::optional<std::int64_t> max_sources{};
  std::optional<std::int64_t> max_stripes{};
  std::optional<std::int64_t> max_leases{};
  TlsSettings tls{};
  LogSettings log{};
  std::vector<TokenSettings> tokens{};
};

inline constexpr std::size_t kLongestSettings = std::size_t{1} << 20;

// Applies the text of the file `path` to the settings, and leaves the others unchanged. Returns the
// errors in it, each with its path and line. If there are any, the settings must not be used.
[[nodiscard]] std::vector<Error> read_toml(std::string_view path, std::string_view text,
                                           Settings& settings);

// Applies the variables that override the file. `value_of` returns null for an unset one. Commas
// separate the elements of lists, and blanks those of IDMINT_ALSO and IDMINT_OVER, as a URL may
// have commas.
// Returns the errors likewise.
[[nodiscard]] std::vector<Error> read_environment(
    const std::function<const char*(const char* name)>& value_of, Settings& settings);

// kInvalidArgument: a further store cannot have this name, which prefixes its sources.
[[nodiscard]] Result<void> check_store_name(std::string_view name);

// A TOML table for a token, without the token itself.
[[nodiscard]] std::string to_toml(std::string_view name, const TokenSettings::Hash& hash,
                                  const std::vector<std::string>& allow);

}  // namespace idmint::server
