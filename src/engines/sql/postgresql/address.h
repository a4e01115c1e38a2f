// Where the servers of a store are, and how to log in: what a URL says, as libpq takes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint::stores::postgresql {

// A keyword of libpq and its value.
struct Setting {
  std::string keyword;
  std::string value;
};

struct Address {
  std::string shown;  // the URL without passwords, for messages
  // For each server that the URL names, in its order. What is missing comes from libpq's usual
  // places: PGHOST and its like, the password file, a service.
  std::vector<std::vector<Setting>> servers;
};

// kInvalidArgument: not such a URL, or an option that libpq does not have. The message holds no
// secret.
// REQUIRES: load_libpq() succeeded.
[[nodiscard]] Result<Address> parse_address(std::string_view url);

}  // namespace idmint::stores::postgresql
