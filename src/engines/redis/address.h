// The addresses of a store's servers, and the login, from its URL.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint::stores::redis {

struct Host {
  std::string name;  // or an IP address, without brackets
  std::string port;
};

// PEM files.
struct TlsFiles {
  std::string ca{};           // that signed the server's certificate; empty: those of this host
  std::string certificate{};  // of the client; empty: it shows none
  std::string key{};
};

struct Address {
  std::string shown{};          // the URL without the password, for messages
  std::vector<Host> servers{};  // in the order of the URL
  bool tls = false;
  TlsFiles files{};
  std::string user{};      // empty: the default user
  std::string password{};  // empty: none is needed
  int database = 0;
};

// redis://[USER[:PASSWORD]@]HOST[:PORT][,...][/DATABASE], or rediss:// with ?tls_ca=, tls_cert= and
// tls_key=. Without a password in the URL that of the environment (REDISCLI_AUTH) is taken.
// kInvalidArgument: not such a URL. The message holds no secret.
[[nodiscard]] Result<Address> parse_address(std::string_view url);

}  // namespace idmint::stores::redis
