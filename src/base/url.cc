#include "base/url.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/similar.h"
#include "base/sqlite_url.h"

namespace idmint {
namespace {

constexpr std::string_view kHidden = "***";

// The options of MongoDB's C driver, and options of other drivers that do not affect it; in lower
// case, sorted.
constexpr auto kOptions = std::to_array<std::string_view>({
    "appname",
    "authmechanism",
    "authmechanismproperties",
    "authsource",
    "canonicalizehostname",
    "compressors",
    "connecttimeoutms",
    "directconnection",
    "gssapiservicename",
    "heartbeatfrequencyms",
    "j",
    "journal",
    "loadbalanced",
    "localthresholdms",
    "maxconnecting",
    "maxidletimems",
    "maxpoolsize",
    "maxstalenessseconds",
    "minpoolsize",
    "readconcernlevel",
    "readpreference",
    "readpreferencetags",
    "replicaset",
    "retryreads",
    "retrywrites",
    "safe",
    "servermonitoringmode",
    "serverselectiontimeoutms",
    "serverselectiontryonce",
    "slaveok",
    "socketcheckintervalms",
    "sockettimeoutms",
    "srvmaxhosts",
    "srvservicename",
    "ssl",
    "sslallowinvalidcertificates",
    "sslallowinvalidhostnames",
    "sslcertificateauthorityfile",
    "sslclientcertificatekeyfile",
    "sslclientcertificatekeypassword",
    "tls",
    "tlsallowinvalidcertificates",
    "tlsallowinvalidhostnames",
    "tlscafile",
    "tlscertificatekeyfile",
    "tlscertificatekeyfilepassword",
    "tlsdisablecertificaterevocationcheck",
    "tlsdisableocspendpointcheck",
    "tlsinsecure",
    "uuidrepresentation",
    "w",
    "waitqueuemultiple",
    "waitqueuetimeoutms",
    "wtimeoutms",
    "zlibcompressionlevel",
});
static_assert(std::ranges::is_sorted(kOptions));

// Those of libpq; in lower case, sorted.
constexpr auto kPostgresqlOptions = std::to_array<std::string_view>({
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "fallback_application_name",
    "gssencmode",
    "gsslib",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "options",
    "passfile",
    "password",
    "port",
    "require_auth",
    "requirepeer",
    "service",
    "ssl",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
});
static_assert(std::ranges::is_sorted(kPostgresqlOptions));

// Those of idmint for MariaDB.
constexpr auto kMariadbOptions = std::to_array<std::string_view>({"socket"});

// PEM files for a Redis server with TLS.
constexpr auto kRedisOptions = std::to_array<std::string_view>({"tls_ca", "tls_cert", "tls_key"});
static_assert(std::ranges::is_sorted(kRedisOptions));

// Those of etcd; in lower case, sorted.
constexpr auto kEtcdOptions = std::to_array<std::string_view>({
    "tls",
    "tls_ca",
    "tls_cert",
    "tls_key",
});
static_assert(std::ranges::is_sorted(kEtcdOptions));

// ZooKeeper has none.
constexpr std::array<std::string_view, 0> kZookeeperOptions{};

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

// The name of an option, in lower case and without percent-encoding.
std::string plain_name(std::string_view name) {
  std::string plain = percent_decoded(name);
  for (char& c : plain) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

using Known = std::span<const std::string_view>;

// A kind of store on servers, by its URLs.
struct ServerKind {
  std::array<std::string_view, 2> schemes;  // in lower case; empty: there is no second one
  std::string_view of;                      // whose connection string it is
  std::string_view driver;                  // what knows its options
  Known options;                            // in lower case, sorted
  bool asks_password = true;                // from a user whom the URL gives without one
};
constexpr auto kServerKinds = std::to_array<ServerKind>({
    {{"mongodb", "mongodb+srv"}, "MongoDB", "MongoDB's C driver", kOptions},
    {{"postgresql", "postgres"}, "PostgreSQL", "libpq", kPostgresqlOptions, false},
    {{"mysql", "mariadb"}, "MariaDB", "idmint's store of MariaDB", kMariadbOptions, false},
    {{"redis", "rediss"}, "Redis", "idmint", kRedisOptions, false},
    {{"etcd"}, "etcd", "idmint's store of etcd", kEtcdOptions},
    {{"zookeeper"}, "ZooKeeper", "idmint's store of ZooKeeper", kZookeeperOptions},
});

// By a URL, or its scheme alone. Null: it is of no store on servers.
const ServerKind* find_server_kind(std::string_view url) {
  const std::string scheme = plain_name(url.substr(0, url.find(':')));
  const auto at = std::ranges::find_if(kServerKinds, [&](const ServerKind& kind) {
    return !scheme.empty() && std::ranges::find(kind.schemes, scheme) != kind.schemes.end();
  });
  return at != kServerKinds.end() ? &*at : nullptr;
}

// The options that such URLs may have; if it is of an unknown kind, those of MongoDB.
Known known_options(std::string_view url) {
  const ServerKind* const kind = find_server_kind(url);
  return kind != nullptr ? kind->options : kOptions;
}

bool is_known(Known known, std::string_view name) {
  return std::ranges::binary_search(known, std::string_view(plain_name(name)));
}

bool is_secret(std::string_view name) {
  const std::string plain = plain_name(name);
  return plain.contains("password") || plain.contains("authmechanismproperties");
}

// Letters and digits, those of `others`, and what is not ASCII.
bool is_plain(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [&](char c) {
    return is_alphanumeric(c) || static_cast<unsigned char>(c) >= 0x80 || others.contains(c);
  });
}

constexpr std::string_view kInUser = "._-~%+=,!$&'()*;";
constexpr std::string_view kInPath = "._-~%+=,!$&'()*;:/";
constexpr std::string_view kInValue = "._-~%+=,!$'()*;:/@[]";

// Whether this user is certainly no user with a password, of which the colon was escaped too. To
// the server it is a user like any other.
bool is_shown_user(std::string_view user) { return !percent_decoded(user).contains(':'); }

// Whether the value of libpq's option of this name sets only the schema.
bool sets_schema(std::string_view value) {
  std::string text = percent_decoded(value);
  if (!text.starts_with("-c")) return false;
  text.erase(0, 2);
  text.erase(0, text.find_first_not_of(' '));
  return text.starts_with("search_path=") && is_plain(text, "_=,$\"");
}

bool is_shown(Known known, std::string_view name, std::string_view value) {
  return is_known(known, name) && !is_secret(name) && is_plain(value, kInValue) &&
         (plain_name(name) != "options" || sets_schema(value));
}

// Whether a text before an equals sign is a name rather than a part of a value.
bool is_option_name(std::string_view name) { return !name.empty() && is_plain(name, "_%"); }

// Whether an @ in the value of an option is plausible. In other values it is the end of a password.
bool may_contain_at(Known known, std::string_view name) {
  const std::string plain = plain_name(name);
  return is_secret(plain) || plain == "appname" ||
         (is_known(known, plain) && plain.ends_with("file"));
}

struct Option {
  std::string_view whole;
  std::string_view name;
  std::string_view value;
  char before;  // the separator
};

// `query` begins with its question mark, or is empty.
void each_option_of(std::string_view query, const std::function<void(const Option&)>& use) {
  while (!query.empty()) {
    const char before = query.front();
    query.remove_prefix(1);
    const std::string_view whole = query.substr(0, query.find('&'));
    query.remove_prefix(whole.size());
    const std::size_t equals = std::min(whole.find('='), whole.size());
    use({.whole = whole,
         .name = whole.substr(0, equals),
         .value = whole.substr(std::min(equals + 1, whole.size())),
         .before = before});
  }
}

struct Parts {
  std::string_view scheme;  // with its "://"
  std::string_view user;    // with the password
  bool has_user = false;    // there was an @
  std::string_view hosts;
  std::string_view path;  // with its leading /
  std::string_view query;
};

// Splits a URL like the driver: a password may contain ? and :.
std::optional<Parts> split(std::string_view url) {
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos || colon == 0 ||
      !std::ranges::all_of(url.substr(0, colon), [](char c) {
        return is_alphanumeric(c) || c == '+' || c == '-' || c == '.';
      }))
    return std::nullopt;
  Parts parts;
  parts.scheme = url.substr(0, colon + 3);
  std::string_view rest = url.substr(colon + 3);
  if (const std::size_t at = rest.substr(0, rest.find('/')).rfind('@');
      at != std::string_view::npos) {
    parts.has_user = true;
    parts.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
  }
  parts.hosts = rest.substr(0, rest.find_first_of("/?"));
  rest.remove_prefix(parts.hosts.size());
  parts.path = rest.substr(0, rest.find('?'));
  parts.query = rest.substr(parts.path.size());
  return parts;
}

// HOST[:PORT],...; a host may be an IPv6 address in brackets or a percent-encoded socket.
bool are_hosts(std::string_view hosts) {
  constexpr std::string_view others = ".-_%[]:,";
  constexpr std::size_t longest_port = 5;
  bool in_brackets = false;
  std::optional<std::size_t> port;  // digits of it so far
  for (const char c : hosts) {
    if (c == '[' || c == ']') in_brackets = c == '[';
    if (c == ',') port.reset();
    if (c == ':' && !in_brackets) {
      if (port) return false;
      port = 0;
    } else if (port ? c < '0' || c > '9' || ++*port > longest_port
                    : !is_alphanumeric(c) && others.find(c) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

std::string_view user_name(const Parts& parts) {
  return parts.user.substr(0, parts.user.find(':'));
}

// Whether no secret can be outside the places for secrets.
bool is_clear(const Parts& parts) {
  if (!are_hosts(parts.hosts) || !is_plain(parts.path, kInPath) ||
      !is_plain(user_name(parts), kInUser))
    return false;
  const Known known = known_options(parts.scheme);
  bool clear = true;
  each_option_of(parts.query, [&](const Option& option) {
    clear = clear && (!option.whole.contains('@') ||
                      (may_contain_at(known, option.name) && !option.name.contains('@')));
  });
  return clear;
}

std::string shown_query(Known options, std::string_view query) {
  std::string shown;
  bool after_secret = false;  // as in check_server_url()
  each_option_of(query, [&](const Option& option) {
    shown += option.before;
    const bool named = option.name.size() < option.whole.size() && is_option_name(option.name);
    after_secret = after_secret || is_secret(option.name);
    if (named && is_shown(options, option.name, option.value)) {
      shown += option.whole;
    } else if (!option.whole.empty()) {
      const bool tell =
          named && (!after_secret || is_known(options, option.name) || is_secret(option.name));
      shown += tell ? std::string(option.name) + "=" + std::string(kHidden) : kHidden;
    }
  });
  return shown;
}

// Words that people write for a scheme. None of them can be a secret.
constexpr auto kOtherSchemes = std::to_array<std::string_view>(
    {"http", "https", "jdbc", "maria", "mongo", "mssql", "oracle", "pg", "pgsql", "psql", "sqlite3",
     "sqlserver", "tcp", "unix", "valkey", "valkeys", "zk"});

bool is_near_a_scheme(std::string_view scheme) {
  static const auto known = [] {
    std::vector<std::string> all;
    for (const ServerKind& kind : kServerKinds)
      for (const std::string_view each : kind.schemes)
        if (!each.empty()) all.emplace_back(each);
    return all;
  }();
  return std::ranges::find(kOtherSchemes, scheme) != kOtherSchemes.end() ||
         !close_matches(scheme, known).empty();
}

// The path of a file of SQLite, without a scheme.
bool is_database_file(std::string_view text) {
  return is_plain(text, "._-~+/") &&
         (text.ends_with(".db") || text.ends_with(".sqlite") || text.ends_with(".sqlite3") ||
          text.starts_with("./") || text.starts_with("../"));
}

// `rest` is the text after "sqlite:".
std::string shown_sqlite(std::string_view rest) {
  const std::string_view path = rest.substr(0, rest.find('?'));
  if (path.contains("://") || (path.starts_with("//") && !path.starts_with("///")))
    return std::string(kHidden);
  std::string shown(path);
  each_option_of(rest.substr(path.size()), [&](const Option& option) {
    shown += option.before;
    const bool named = option.name.size() < option.whole.size() && is_option_name(option.name);
    shown += option.whole == "filesystem=local" ? std::string(option.whole)
             : named ? std::string(option.name) + "=" + std::string(kHidden)
                     : std::string(kHidden);
  });
  return shown;
}

}  // namespace

std::string redacted(std::string_view url) {
  const std::size_t colon = url.find(':');
  const std::string scheme = plain_name(url.substr(0, colon));
  const bool on_servers = find_server_kind(scheme) != nullptr;
  if (colon == std::string_view::npos) {
    const bool known = on_servers || scheme == "sqlite" || scheme == "memory";
    return known || url.empty() || is_database_file(url) ? std::string(url) : std::string(kHidden);
  }
  std::string shown(url.substr(0, colon + 1));
  const std::string_view rest = url.substr(colon + 1);
  if (rest.empty() && (on_servers || scheme == "sqlite" || scheme == "memory")) return shown;
  if (scheme == "sqlite") return shown + shown_sqlite(rest);
  if (scheme == "env" || scheme == "file")  // the place of a URL
    return shown.append(is_plain(rest, "._-~+/") ? rest : kHidden);
  if (!rest.starts_with("//")) return on_servers ? shown.append(kHidden) : std::string(kHidden);
  shown += "//";
  const std::optional<Parts> parts = split(url);
  if (!parts || !on_servers)
    return is_near_a_scheme(scheme) ? shown.append(kHidden) : std::string(kHidden);
  if (!is_clear(*parts) || !is_shown_user(user_name(*parts))) return shown.append(kHidden);
  shown += user_name(*parts);
  if (parts->user.contains(':')) shown.append(":").append(kHidden);
  if (parts->has_user) shown += "@";
  shown.append(parts->hosts).append(parts->path);
  return shown + shown_query(known_options(scheme), parts->query);
}

std::string without_url(std::string_view word) {
  return word.contains("://") || word.contains('@') ? redacted(word) : std::string(word);
}

bool has_secret(std::string_view text) { return text.contains("://") && redacted(text) != text; }

Result<void> check_server_url(std::string_view url) {
  const ServerKind* const found = find_server_kind(url);
  const ServerKind& kind = found != nullptr ? *found : kServerKinds.front();
  const std::unexpected<Error> unclear(
      Error{Code::kInvalidArgument,
            "not a connection string of " + std::string(kind.of) +
                "; look at it, and write what is not a letter or digit in the user, the password "
                "and the database with %, such as %40 for @ and %2F for /"});
  const std::optional<Parts> parts = split(url);
  if (!parts) return url.contains('@') ? unclear : Result<void>{};
  if (parts->user.contains('@') || !is_clear(*parts)) return unclear;
  std::optional<Option> unknown;
  bool may_be_secret = false;  // what is unknown may be the rest of a secret with an unescaped &
  each_option_of(parts->query, [&](const Option& option) {
    may_be_secret = may_be_secret || is_secret(option.name);
    if (!option.name.empty() && !is_known(kind.options, option.name)) unknown = option;
  });
  if (!unknown) return {};
  if (may_be_secret) return unclear;
  const bool named = unknown->name.size() < unknown->whole.size() && is_option_name(unknown->name);
  return refuse(redacted(url) + ": " + std::string(kind.driver) +
                (named ? " knows no option \"" + std::string(unknown->name) + "\""
                       : " does not know an option in it") +
                "; look at how it is spelled");
}

std::optional<UrlParts> url_parts(std::string_view url) {
  const std::optional<Parts> parts = split(url);
  if (!parts) return std::nullopt;
  return UrlParts{.user = parts->user,
                  .has_user = parts->has_user,
                  .hosts = parts->hosts,
                  .path = parts->path.substr(parts->path.empty() ? 0 : 1)};
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
        hex_digit(text[i + 2]) >= 0) {
      c = static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    }
    decoded += c;
  }
  return decoded;
}

void each_option(std::string_view url,
                 const std::function<void(std::string_view name, std::string_view value)>& use) {
  if (const std::optional<Parts> parts = split(url))
    each_option_of(parts->query, [&](const Option& option) { use(option.name, option.value); });
}

std::string user_without_password(std::string_view url) {
  const std::optional<Parts> parts = split(url);
  const ServerKind* const kind = find_server_kind(url);
  if (!parts || kind == nullptr || !kind->asks_password || !parts->has_user ||
      parts->user.contains(':') || !is_clear(*parts))
    return {};
  bool password = true;
  each_option_of(parts->query, [&](const Option& option) {
    if (plain_name(option.name) == "authmechanism")
      password = option.value == "PLAIN" || option.value.starts_with("SCRAM-");
  });
  return password ? std::string(parts->user) : std::string();
}

std::string with_password(std::string_view url, std::string_view password) {
  std::string whole(url.substr(0, url.find('@')));
  whole += ':';
  constexpr std::string_view hex = "0123456789ABCDEF";
  for (const char c : password) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_alphanumeric(c)) {
      whole += c;
    } else {
      whole += {'%', hex[byte >> 4], hex[byte & 15]};
    }
  }
  return whole + std::string(url.substr(url.find('@')));
}

namespace {

// The URL with an absolute path and, with `options`, its options. nullopt: not a URL of SQLite.
std::optional<std::string> absolute_sqlite(std::string_view url, bool options) {
  if (!url.starts_with("sqlite:")) return std::nullopt;
  const Result<SqliteUrl> parsed = parse_sqlite_url(url);
  if (!parsed) return std::nullopt;
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::absolute(parsed->path, failed);
  if (failed) return std::nullopt;
  return sqlite_url(path.lexically_normal().string()) +
         (options && parsed->local_file_system ? "?filesystem=local" : "");
}

}  // namespace

std::string without_secrets(std::string_view url) {
  if (auto file = absolute_sqlite(url, true)) return *std::move(file);
  if (!url.contains("://")) return std::string(url);
  const std::optional<Parts> parts = split(url);
  if (!parts || !is_clear(*parts)) return redacted(url);
  std::string bare(parts->scheme);
  if (const std::string_view user = user_name(*parts); !user.empty() && is_shown_user(user))
    bare.append(user).append("@");
  bare.append(parts->hosts).append(parts->path);
  const Known known = known_options(parts->scheme);
  char separator = '?';
  each_option_of(parts->query, [&](const Option& option) {
    if (!is_shown(known, option.name, option.value) || option.value == kHidden) return;
    bare += std::exchange(separator, '&');
    bare += option.whole;
  });
  return bare;
}

std::string place_of(std::string_view url) {
  if (auto file = absolute_sqlite(url, false)) return *std::move(file);
  if (!url.contains("://")) return std::string(url);
  const std::optional<Parts> parts = split(url);
  if (!parts || !is_clear(*parts)) return redacted(url);
  return std::string(parts->scheme) + std::string(parts->hosts) + std::string(parts->path);
}

}  // namespace idmint
