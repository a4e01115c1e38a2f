// names_this_machine(), is_own_origin() and bearer_token(): no name of another machine passes, and
// what is taken for a token stands in the header.
#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "server/http_text.h"

namespace {

// As the system reads addresses.
bool is_loopback(const std::string& host) {
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24U) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 &&
         std::memcmp(&six, &in6addr_loopback, sizeof six) == 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  using namespace idmint::server;
  const std::string text(reinterpret_cast<const char*>(data), size);
  require(!names_this_machine(text + ".example.org"));
  if (names_this_machine(text)) {
    require(!text.contains('\0'));
    std::string host = text;
    host.erase(host.find_last_not_of("0123456789") + 1);  // a port, or the end of an address
    if (host.ends_with(':')) {
      host.pop_back();
    } else {
      host = text;
    }
    if (host.ends_with('.')) host.pop_back();
    require(std::ranges::count(host, ':') == 0 || (host.starts_with('[') && host.ends_with(']')));
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    std::ranges::transform(host, host.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    require(host == "localhost" || host.ends_with(".localhost") || is_loopback(host));
  }
  require(is_own_origin("http://" + text, text, false));
  require(!is_own_origin("http://" + text + ".example.org", text, false));
  require(!is_own_origin("http://" + text, text, true));
  const std::string_view token = bearer_token(text);
  require(token.empty() || text.ends_with(token));
  const std::size_t blanks = std::min(text.find_first_not_of(' '), text.size());
  require(bearer_token("Bearer " + text) == text.substr(blanks));
  return 0;
}
