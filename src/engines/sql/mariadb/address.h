// The addresses of a store's servers, and the login, from a URL.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint::stores::mariadb {

struct Server {
  std::string host;
  unsigned port = 3306;
  std::string socket;  // a path, instead of the host and the port; empty: none
};

struct Address {
  std::string shown;            // the URL without passwords, for messages
  std::vector<Server> servers;  // in the order of the URL; at least one
  // Empty: as libmariadb finds them in its option files (~/.my.cnf and its like), group [client].
  std::string user;
  std::string password;
  std::string database;
};

// mysql://[USER[:PASSWORD]@]HOST[:PORT],.../DATABASE[?socket=PATH]. kInvalidArgument: not such a
// URL. The message holds no secret.
[[nodiscard]] Result<Address> parse_address(std::string_view url);

}  // namespace idmint::stores::mariadb
