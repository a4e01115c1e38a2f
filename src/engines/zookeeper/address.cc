#include "engines/zookeeper/address.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "base/url.h"

namespace idmint::stores::zookeeper {
namespace {

// "db1" with a port, and "[::1]:2181" as libzookeeper has it, without the brackets; empty: it names
// no host.
std::string server_of(std::string_view host) {
  std::string_view port = "2181";
  std::string_view name = host;
  const bool bracketed = host.starts_with('[');
  const std::size_t after = bracketed ? host.find(']') : 0;
  if (after == std::string_view::npos) return {};
  if (const std::size_t colon = host.find(':', after); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    if (colon + 1 < host.size()) port = host.substr(colon + 1);
  }
  if (bracketed) name = name.substr(1, after - 1);
  if (name.empty()) return {};
  return std::string(name) + ":" + std::string(port);
}

// Whether ZooKeeper allows it as the name of a node. Other scripts are allowed there too, but the
// name stands in messages and in commands of operators.
bool is_node_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c < '\x7f'; });
}

// The path of the root node; empty: it is none, or ZooKeeper's own.
std::string root_of(std::string_view path) {
  std::string whole = percent_decoded(path);
  while (whole.ends_with('/')) whole.pop_back();
  if (whole.empty() && !path.empty()) return {};
  if (whole.empty()) whole = "idmint";
  if (whole.size() > 1024) return {};
  for (std::size_t begin = 0; begin <= whole.size();) {
    const std::size_t end = std::min(whole.find('/', begin), whole.size());
    const std::string_view name = std::string_view(whole).substr(begin, end - begin);
    if (!is_node_name(name) || (begin == 0 && name == "zookeeper")) return {};
    begin = end + 1;
  }
  return "/" + whole;
}

}  // namespace

Result<Address> parse_address(std::string_view url) {
  if (Result<void> ok = check_server_url(url); !ok) return std::unexpected(std::move(ok.error()));
  Address address{.shown = redacted(url), .servers = {}, .root = {}};
  const std::optional<UrlParts> parts = url_parts(url);
  if (!parts) return refuse(address.shown + ": give zookeeper://HOST,HOST/PATH");
  if (parts->has_user) {
    const std::size_t colon = parts->user.find(':');
    const std::string user = percent_decoded(parts->user.substr(0, colon));
    if (colon == std::string_view::npos || user.empty() || user.contains(':'))
      return refuse(address.shown +
                    ": a user of ZooKeeper has a password, and no colon in its name: give "
                    "USER:PASSWORD@HOST");
    address.credentials = user + ":" + percent_decoded(parts->user.substr(colon + 1));
  }
  for (std::size_t begin = 0; begin <= parts->hosts.size();) {
    const std::size_t end = std::min(parts->hosts.find(',', begin), parts->hosts.size());
    std::string server = server_of(parts->hosts.substr(begin, end - begin));
    if (server.empty()) return refuse(address.shown + ": it names a server without a host");
    address.servers.push_back(std::move(server));
    begin = end + 1;
  }
  address.root = root_of(parts->path);
  if (address.root.empty())
    return refuse(address.shown +
                  ": the path is that of the store's node, 1 to 1024 printable characters of "
                  "ASCII, and neither /zookeeper nor in it");
  return address;
}

}  // namespace idmint::stores::zookeeper
