// The addresses of a store's servers, and the login: a URL in the form that libpq takes.
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
  // One for each server that the URL names, in its order. Missing settings come from libpq's usual
  // places: PGHOST and its like, the password file, a service.
  std::vector<std::vector<Setting>> servers;
};

// kInvalidArgument: not such a URL, or an option that libpq does not have. The message holds no
// secret.
// REQUIRES: load_libpq() succeeded.
[[nodiscard]] Result<Address> parse_address(std::string_view url);

}  // namespace idmint::stores::postgresql
