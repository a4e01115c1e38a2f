#include "engines/redis/address.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/url.h"

namespace idmint::stores::redis {
namespace {

constexpr std::string_view kPort = "6379";

std::optional<int> number_in(std::string_view text, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > most)
    return std::nullopt;
  return number;
}

// HOST[:PORT] or [IPV6][:PORT].
std::optional<Host> host_in(std::string_view text) {
  std::size_t end = text.find(':');
  std::string_view name = text.substr(0, end);
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    name = text.substr(1, bracket - 1);
    end = bracket + 1 < text.size() ? bracket + 1 : std::string_view::npos;
    if (end != std::string_view::npos && text[end] != ':') return std::nullopt;
  }
  if (name.empty()) return std::nullopt;
  if (end == std::string_view::npos) return Host{percent_decoded(name), std::string(kPort)};
  const std::string_view port = text.substr(end + 1);
  constexpr int kLastPort = 65'535;
  if (number_in(port, kLastPort).value_or(0) == 0) return std::nullopt;
  return Host{percent_decoded(name), std::string(port)};
}

}  // namespace

Result<Address> parse_address(std::string_view url) {
  if (Result<void> ok = check_server_url(url); !ok) return std::unexpected(std::move(ok.error()));
  Address address{.shown = redacted(url), .tls = url.starts_with("rediss:")};
  const auto refuse_url = [&](const std::string& why) {
    return refuse(address.shown + ": " + why +
                  "; give one such as redis://HOST, redis://USER:PASSWORD@HOST:6379/0 or "
                  "rediss://HOST");
  };
  const std::optional<UrlParts> parts = url_parts(url);
  if (!parts) return refuse_url("there is no // behind the colon");
  const std::size_t colon = std::min(parts->user.find(':'), parts->user.size());
  address.user = percent_decoded(parts->user.substr(0, colon));
  address.password = percent_decoded(parts->user.substr(std::min(colon + 1, parts->user.size())));
  if (const char* const password = std::getenv("REDISCLI_AUTH");
      password != nullptr && address.password.empty())
    address.password = password;
  for (std::size_t begin = 0; begin <= parts->hosts.size();) {
    const std::size_t end = std::min(parts->hosts.find(',', begin), parts->hosts.size());
    std::optional<Host> host = host_in(parts->hosts.substr(begin, end - begin));
    if (!host) return refuse_url("it has to name a host, or HOST:PORT");
    address.servers.push_back(*std::move(host));
    begin = end + 1;
  }
  constexpr int kMostDatabases = 1'000'000'000;
  const std::optional<int> database =
      parts->path.empty() ? 0 : number_in(parts->path, kMostDatabases);
  if (!database) return refuse_url("a database of Redis is a number, such as /0");
  address.database = *database;
  bool has_option = false;
  each_option(url, [&](std::string_view name, std::string_view value) {
    has_option = true;
    (name == "tls_ca"     ? address.files.ca
     : name == "tls_cert" ? address.files.certificate
                          : address.files.key) = percent_decoded(value);
  });
  if (has_option && !address.tls)
    return refuse_url("it has an option of TLS, and is not encrypted: write rediss://");
  if (address.files.certificate.empty() != address.files.key.empty())
    return refuse_url("tls_cert and tls_key are given together, or not at all");
  return address;
}

}  // namespace idmint::stores::redis
