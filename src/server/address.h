// Addresses of the daemon, as its settings write them: "ADDRESS:PORT", "[V6ADDRESS]:PORT", ":PORT"
// (the loopback address), one of these behind "tls:", or "unix:PATH".
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint::server {

using Endpoint = boost::asio::generic::stream_protocol::endpoint;

struct Address {
  Endpoint endpoint;
  std::string unix_path{};  // empty: TCP, or a socket that is open already
  bool tls = false;
  bool loopback = true;
};

// kInvalidArgument: it is no address.
[[nodiscard]] Result<Address> address_of(std::string_view at);

// As clients name it: "127.0.0.1:7379", "unix:/run/ids", "unix:@ids" for an abstract one.
[[nodiscard]] std::string name_of(const Endpoint& endpoint);

// Whether only programs on this host reach it. A Unix socket counts as such.
[[nodiscard]] bool is_loopback(const Endpoint& endpoint);

// Where a program on this host reaches what listens there: the loopback address in place of the one
// that stands for all addresses of the host.
[[nodiscard]] Endpoint reached_from_here(const Endpoint& endpoint);

}  // namespace idmint::server
