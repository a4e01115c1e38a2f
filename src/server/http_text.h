// What a request of HTTP says in text that Beast does not read: its target, and the headers Accept,
// Host, Origin and Authorization. Each function looks at its arguments only; any thread may call
// it. Sources: RFC 9110, RFC 3986.
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
// "/v1/ids/orders?count=3", also behind "http://HOST" or "https://HOST" (RFC 9112, 3.2.2). In the
// query + is a blank. Nothing: it is neither, or its percent-encoding is not valid.
[[nodiscard]] std::optional<HttpTarget> target_of(std::string_view text);

// How ids are written in a response.
enum class IdsAs : std::uint8_t { kText, kJson, kJsonLines };
// What the Accept header asks for: of text/plain, application/json and application/x-ndjson the one
// that it weighs most. Of several it is the one that the header names first, and of a range that
// includes several the first of them. An empty header takes anything. An element whose weight is
// not valid does not count. Nothing: it takes none of the three.
[[nodiscard]] std::optional<IdsAs> ids_as(std::string_view accept);

// Whether the Host header names this machine, so that no page of the web can have the name: a page
// whose own name is made to resolve to a loopback address sends that name.
[[nodiscard]] bool names_this_machine(std::string_view host);

// Whether the Origin header is the server that the Host header names. Browsers send Origin with
// each request that a page of another site makes.
[[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host, bool encrypted);

// The token of "Bearer TOKEN". Empty: there is none.
[[nodiscard]] std::string_view bearer_token(std::string_view authorization);

}  // namespace idmint::server
