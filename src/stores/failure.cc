#include "stores/failure.h"

#include <netdb.h>
#include <sys/socket.h>

namespace idmint::stores {

bool is_no_host(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = ::getaddrinfo(name.c_str(), nullptr, &wanted, &found);
  if (unknown == 0) ::freeaddrinfo(found);
  return unknown == EAI_NONAME;
}

}  // namespace idmint::stores
