#include "server/address.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "base/errors.h"
#include "base/url.h"

namespace idmint::server {

namespace asio = boost::asio;

namespace {

asio::ip::tcp::endpoint tcp_endpoint(const Endpoint& endpoint) {
  asio::ip::tcp::endpoint tcp;
  tcp.resize(endpoint.size());
  std::copy_n(reinterpret_cast<const char*>(endpoint.data()), endpoint.size(),
              reinterpret_cast<char*>(tcp.data()));
  return tcp;
}

std::unexpected<Error> bad_address(std::string_view at, std::string_view why) {
  return refuse("cannot use the address \"" + without_url(at) + "\": " + std::string(why) +
                "; give ADDRESS:PORT, such as 127.0.0.1:7379, tls:ADDRESS:PORT or unix:PATH");
}

}  // namespace

Result<Address> address_of(std::string_view at) {
  constexpr std::string_view unix_prefix = "unix:";
  if (at.starts_with(unix_prefix)) {
    const std::string path(at.substr(unix_prefix.size()));
    if (path.empty()) return bad_address(at, "the path is missing");
    if (path.size() >= sizeof(sockaddr_un::sun_path))
      return bad_address(at, "the path of a Unix socket has at most 107 characters");
    return Address{asio::local::stream_protocol::endpoint(path), path};
  }
  constexpr std::string_view tls_prefix = "tls:";
  const bool tls = at.starts_with(tls_prefix);
  const std::string_view all = at;
  if (tls) at.remove_prefix(tls_prefix.size());
  const std::size_t colon = at.rfind(':');
  if (colon == std::string_view::npos) return bad_address(all, "the port is missing");
  std::uint16_t port = 0;
  const std::string_view digits = at.substr(colon + 1);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failed != std::errc{} || end != digits.data() + digits.size())
    return bad_address(all, "the port is no number of 0 to 65535");
  std::string host(at.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  boost::system::error_code error;
  const asio::ip::address ip = asio::ip::make_address(host, error);
  if (error) return bad_address(all, "the address is no IP address");
  return Address{
      .endpoint = asio::ip::tcp::endpoint(ip, port), .tls = tls, .loopback = ip.is_loopback()};
}

std::string name_of(const Endpoint& endpoint) {
  if (endpoint.protocol().family() != AF_UNIX) {
    const asio::ip::tcp::endpoint tcp = tcp_endpoint(endpoint);
    const std::string host = tcp.address().to_string();
    return (tcp.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(tcp.port());
  }
  std::string path(reinterpret_cast<const char*>(endpoint.data()) + offsetof(sockaddr_un, sun_path),
                   endpoint.size() - offsetof(sockaddr_un, sun_path));
  if (path.starts_with('\0')) {
    path.front() = '@';
  } else {
    path.resize(std::min(path.size(), path.find('\0')));
  }
  return "unix:" + path;
}

bool is_loopback(const Endpoint& endpoint) {
  return endpoint.protocol().family() == AF_UNIX || tcp_endpoint(endpoint).address().is_loopback();
}

Endpoint reached_from_here(const Endpoint& endpoint) {
  if (endpoint.protocol().family() == AF_UNIX) return endpoint;
  const asio::ip::tcp::endpoint tcp = tcp_endpoint(endpoint);
  if (!tcp.address().is_unspecified()) return endpoint;
  const asio::ip::address loopback = tcp.address().is_v6()
                                         ? asio::ip::address(asio::ip::address_v6::loopback())
                                         : asio::ip::address(asio::ip::address_v4::loopback());
  return asio::ip::tcp::endpoint(loopback, tcp.port());
}

}  // namespace idmint::server
