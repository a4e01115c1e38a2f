// The addresses of an etcd cluster's members, and the login, from a URL.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint::stores::etcd {

struct Address {
  std::string shown;                 // the URL without its password, for messages
  std::vector<std::string> servers;  // "https://db1:2379", in the order of the URL
  std::string prefix;                // of every key of the store; ends with a slash
  std::string user{};                // empty: none
  std::string password{};
  bool tls = false;
  // Files in PEM; empty: the host's authorities, and no certificate of our own.
  std::string tls_ca{};
  std::string tls_cert{};
  std::string tls_key{};
};

// etcd://[USER:PASSWORD@]HOST[:PORT],.../[PREFIX][?tls=on&tls_ca=FILE&tls_cert=FILE&tls_key=FILE];
// the port is 2379 and the prefix is idmint if the URL does not say. kInvalidArgument: not such a
// URL. The message holds no secret.
[[nodiscard]] Result<Address> parse_address(std::string_view url);

}  // namespace idmint::stores::etcd
