// Parses texts of an HTTP request that Beast does not: its target, and the headers Accept, Host,
// Origin and Authorization. The functions are pure; any thread may call them. Sources: RFC 9110,
// RFC 3986.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idmint::server {

struct HttpTarget {
  std::string_view authority{};     // of "http://HOST:PORT/..."; empty: it begins with its path
  std::vector<std::string> path{};  // its segments, decoded
  std::vector<std::pair<std::string, std::string>> query{};  // names and values, decoded

  friend bool operator==(const HttpTarget&, const HttpTarget&) = default;
};
// Parses "/v1/ids/orders?count=3", also behind "http://HOST" or "https://HOST" (RFC 9112, 3.2.2).
// In the query + is a blank. nullopt: it is neither, or its percent-encoding is invalid.
[[nodiscard]] std::optional<HttpTarget> target_of(std::string_view text);

// The media type of ids in a response.
enum class IdsAs : std::uint8_t { kText, kJson, kJsonLines };
// The type with the highest weight in the Accept header among text/plain, application/json and
// application/x-ndjson. Among equals: the one named first; for a range that includes several, the
// first of these. An empty header accepts anything. Elements with an invalid weight are ignored.
// nullopt: none of the three is accepted.
[[nodiscard]] std::optional<IdsAs> ids_as(std::string_view accept);

// Whether the Host header names this machine. It protects against DNS rebinding: a web page whose
// name resolves to a loopback address sends its own name.
[[nodiscard]] bool names_this_machine(std::string_view host);

// Whether the Origin header is the server in the Host header. Browsers send Origin with each
// request from a page of another site.
[[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host, bool encrypted);

// The token of "Bearer TOKEN". Empty: there is none.
[[nodiscard]] std::string_view bearer_token(std::string_view authorization);

}  // namespace idmint::server
