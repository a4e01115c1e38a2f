#include "engines/sql/mariadb/address.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/url.h"

namespace idmint::stores::mariadb {
namespace {

// HOST, HOST:PORT or [IPV6]:PORT.
std::optional<Server> server_in(std::string_view text) {
  Server server;
  std::size_t end = std::min(text.find(':'), text.size());
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    server.host = text.substr(1, bracket - 1);
    end = bracket + 1;
  } else {
    server.host = percent_decoded(text.substr(0, end));
  }
  if (server.host.empty()) server.host = "localhost";
  if (end == text.size()) return server;
  std::uint16_t port = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + end + 1, last, port);
  if (text[end] != ':' || error != std::errc{} || stop != last || port == 0) return std::nullopt;
  server.port = port;
  return server;
}

}  // namespace

Result<Address> parse_address(std::string_view url) {
  if (Result<void> ok = check_server_url(url); !ok) return std::unexpected(std::move(ok.error()));
  Address address;
  address.shown = redacted(url);
  const auto unreadable = [&](const std::string& why) {
    return refuse(address.shown + ": " + why + "; write mysql://USER@HOST:PORT/DATABASE");
  };
  const std::optional<UrlParts> parts = url_parts(url);
  if (!parts) return unreadable("not the URL of a database");
  address.database = percent_decoded(parts->path);
  if (address.database.empty()) return unreadable("it names no database");
  if (parts->has_user) {
    const std::size_t colon = std::min(parts->user.find(':'), parts->user.size());
    address.user = percent_decoded(parts->user.substr(0, colon));
    if (colon < parts->user.size())
      address.password = percent_decoded(parts->user.substr(colon + 1));
  }
  std::string socket;
  each_option(url, [&](std::string_view name, std::string_view value) {
    if (name == "socket") socket = percent_decoded(value);
  });
  for (std::string_view hosts = parts->hosts;;) {
    const std::string_view host = hosts.substr(0, hosts.find(','));
    std::optional<Server> server = server_in(host);
    if (!server) return unreadable("the server " + std::string(host) + " has no such form");
    server->socket = socket;
    address.servers.push_back(*std::move(server));
    if (host.size() == hosts.size()) return address;
    hosts.remove_prefix(host.size() + 1);
  }
}

}  // namespace idmint::stores::mariadb
