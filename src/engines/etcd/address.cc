#include "engines/etcd/address.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "base/url.h"

namespace idmint::stores::etcd {
namespace {

// "[::1]:2379" and "db1" with a scheme and a port; empty: it names no host.
std::string server_of(std::string_view host, bool tls) {
  constexpr std::string_view kPort = ":2379";
  const std::size_t after = host.starts_with('[') ? host.find(']') : 0;
  if (after == std::string_view::npos) return {};
  const std::size_t colon = host.find(':', after);
  const bool has_port = colon != std::string_view::npos && colon + 1 < host.size();
  const std::string_view name = host.substr(0, colon);
  if (name.empty() || name == "[]") return {};
  return (tls ? "https://" : "http://") + std::string(name) +
         std::string(has_port ? host.substr(colon) : kPort);
}

// The prefix of the keys; empty: it is none.
std::string prefix_of(std::string_view path) {
  std::string prefix = percent_decoded(path);
  while (prefix.ends_with('/')) prefix.pop_back();
  if (prefix.empty() && !path.empty()) return {};
  if (prefix.empty()) prefix = "idmint";
  if (prefix.size() > 1024 || prefix.starts_with('/')) return {};
  return prefix + "/";
}

Result<void> read_options(std::string_view url, Address& address) {
  Result<void> read;
  const auto wrong = [&](const std::string& why) {
    if (read) read = refuse(address.shown + ": " + why);
  };
  each_option(url, [&](std::string_view option, std::string_view text) {
    const std::string name = lower_case(option);
    std::string value = percent_decoded(text);
    if (name == "tls") {
      if (value != "on" && value != "off") wrong("tls is on or off, not " + shown(value));
      address.tls = value == "on";
    } else if (name == "tls_ca") {
      address.tls_ca = std::move(value);
    } else if (name == "tls_cert") {
      address.tls_cert = std::move(value);
    } else if (name == "tls_key") {
      address.tls_key = std::move(value);
    }
  });
  if (!address.tls &&
      !(address.tls_ca.empty() && address.tls_cert.empty() && address.tls_key.empty()))
    wrong("it names files for TLS without tls=on");
  if (address.tls_cert.empty() != address.tls_key.empty())
    wrong("tls_cert and tls_key go together: give both");
  return read;
}

}  // namespace

Result<Address> parse_address(std::string_view url) {
  if (Result<void> ok = check_server_url(url); !ok) return std::unexpected(std::move(ok.error()));
  Address address{.shown = redacted(url), .servers = {}, .prefix = {}};
  const std::optional<UrlParts> parts = url_parts(url);
  if (!parts) return refuse(address.shown + ": give etcd://HOST,HOST/PREFIX");
  if (Result<void> read = read_options(url, address); !read)
    return std::unexpected(std::move(read.error()));
  if (parts->has_user) {
    const std::size_t colon = parts->user.find(':');
    address.user = percent_decoded(parts->user.substr(0, colon));
    if (colon == std::string_view::npos || address.user.empty())
      return refuse(address.shown + ": a user of etcd has a password: give USER:PASSWORD@HOST");
    address.password = percent_decoded(parts->user.substr(colon + 1));
  }
  for (std::size_t begin = 0; begin <= parts->hosts.size();) {
    const std::size_t end = std::min(parts->hosts.find(',', begin), parts->hosts.size());
    std::string server = server_of(parts->hosts.substr(begin, end - begin), address.tls);
    if (server.empty()) return refuse(address.shown + ": it names a server without a host");
    address.servers.push_back(std::move(server));
    begin = end + 1;
  }
  address.prefix = prefix_of(parts->path);
  if (address.prefix.empty())
    return refuse(address.shown +
                  ": the path is the prefix of the store's keys, 1 to 1024 bytes that do not begin "
                  "with a slash");
  return address;
}

}  // namespace idmint::stores::etcd
