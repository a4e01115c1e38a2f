#include "engines/sql/postgresql/address.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/errors.h"
#include "base/url.h"
#include "engines/sql/postgresql/driver.h"

namespace idmint::stores::postgresql {
namespace {

// The parts of "a,b,c"; of an empty text one empty part.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    parts.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool names_a_server(std::string_view keyword) {
  return keyword == "host" || keyword == "hostaddr" || keyword == "port";
}

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};

}  // namespace

// libpq can try several servers by itself, but gives up one that does not answer only where it may
// block.
Result<Address> parse_address(std::string_view url) {
  if (Result<void> ok = check_server_url(url); !ok) return std::unexpected(std::move(ok.error()));
  const std::unique_ptr<PQconninfoOption, FreeOptions> options(
      PQconninfoParse(std::string(url).c_str(), nullptr));
  if (options == nullptr)
    return refuse(redacted(url) +
                  ": libpq cannot read this URL; look at it, and write what is not a letter or "
                  "digit in the user and the password with %, such as %40 for @");
  Address address{.shown = redacted(url), .servers = {}};
  std::vector<Setting> common;
  std::vector<Setting> listed;  // with a value for each server
  std::size_t count = 1;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    const bool of_a_server = names_a_server(option->keyword);
    (of_a_server ? listed : common).push_back({option->keyword, option->val});
    if (of_a_server) count = std::max(count, parts_of(option->val).size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Setting> server = common;
    for (const auto& [keyword, value] : listed) {
      const std::vector<std::string> parts = parts_of(value);
      // One port may stand for all servers.
      if (parts.size() != count && parts.size() != 1)
        return refuse(address.shown + ": it gives " + std::to_string(count) + " servers and " +
                      std::to_string(parts.size()) + " of " + keyword);
      const std::string& part = parts[parts.size() == 1 ? 0 : i];
      if (!part.empty()) server.push_back({keyword, part});
    }
    address.servers.push_back(std::move(server));
  }
  return address;
}

}  // namespace idmint::stores::postgresql
