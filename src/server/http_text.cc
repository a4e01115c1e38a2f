#include "server/http_text.h"

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <cstddef>

#include "idmint/uuid.h"

namespace idmint::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Ignores the case of ASCII letters.
bool are_equal(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// The text before the next separator that is not in quotes, without blanks around it. `rest` begins
// behind the separator then.
std::string_view next_part(std::string_view& rest, char separator) {
  bool quotes = false;
  std::size_t end = 0;
  for (; end < rest.size() && (quotes || rest[end] != separator); ++end) {
    if (rest[end] == '"') quotes = !quotes;
    if (rest[end] == '\\' && quotes) ++end;
  }
  end = std::min(end, rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return without_blanks(part);
}

// Percent-encoding. Nothing: it is not valid.
std::optional<std::string> decoded(std::string_view text, bool in_query) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && in_query) {
      result += ' ';
    } else if (text[i] != '%') {
      result += text[i];
    } else {
      if (i + 2 >= text.size() || detail::hex_digit(text[i + 1]) < 0 ||
          detail::hex_digit(text[i + 2]) < 0)
        return std::nullopt;
      result +=
          static_cast<char>(detail::hex_digit(text[i + 1]) * 16 + detail::hex_digit(text[i + 2]));
      i += 2;
    }
  }
  return result;
}

// "0.5" in thousandths: 0 to 1 with at most three digits behind the point.
std::optional<int> weight_of(std::string_view text) {
  constexpr std::size_t longest = 5;
  if (text.empty() || text.size() > longest || (text[0] != '0' && text[0] != '1')) return {};
  int weight = (text[0] - '0') * 1000;
  if (text.size() > 1 && text[1] != '.') return {};
  int place = 100;
  for (const char digit : text.substr(std::min<std::size_t>(text.size(), 2))) {
    if (digit < '0' || digit > '9') return {};
    weight += (digit - '0') * place;
    place /= 10;
  }
  if (weight > 1000) return {};
  return weight;
}

// One element of Accept.
struct MediaRange {
  std::string_view type;
  std::optional<int> weight = 1000;
};
MediaRange media_range(std::string_view element) {
  MediaRange range{.type = next_part(element, ';')};
  while (!element.empty()) {
    std::string_view parameter = next_part(element, ';');
    if (are_equal(next_part(parameter, '='), "q")) range.weight = weight_of(parameter);
  }
  return range;
}

// How closely a range names a type: the type itself, its family, or any. 0: not at all.
int closeness(std::string_view range, std::string_view type) {
  if (are_equal(range, type)) return 3;
  if (range.ends_with("/*") &&
      are_equal(range.substr(0, range.size() - 1), type.substr(0, type.find('/') + 1)))
    return 2;
  return range == "*/*" ? 1 : 0;
}

}  // namespace

std::optional<HttpTarget> target_of(std::string_view text) {
  HttpTarget target;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.size() <= scheme.size() || !are_equal(text.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = text.substr(scheme.size());
    target.authority = rest.substr(0, rest.find_first_of("/?"));
    if (target.authority.empty()) return std::nullopt;
    text = rest.substr(target.authority.size());
    if (text.empty()) text = "/";
  }
  if (!text.starts_with('/')) return std::nullopt;
  const std::size_t mark = text.find('?');
  const std::string_view path = text.substr(0, mark);
  std::string_view query = mark == std::string_view::npos ? "" : text.substr(mark + 1);
  for (std::size_t begin = 1; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    std::optional<std::string> segment = decoded(path.substr(begin, end - begin), false);
    if (!segment) return std::nullopt;
    target.path.push_back(*std::move(segment));
    begin = end + 1;
  }
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    std::optional<std::string> name = decoded(pair.substr(0, equals), true);
    std::optional<std::string> value =
        decoded(equals < pair.size() ? pair.substr(equals + 1) : "", true);
    if (!name || !value) return std::nullopt;
    target.query.emplace_back(*std::move(name), *std::move(value));
  }
  return target;
}

std::optional<IdsAs> ids_as(std::string_view accept) {
  struct Offer {
    std::string_view type;
    IdsAs as;
    // The q value of the element that names it most closely.
    int close = 0;
    int weight = 0;
    std::size_t place = 0;
  };
  std::array offers{Offer{"text/plain", IdsAs::kText}, Offer{"application/json", IdsAs::kJson},
                    Offer{"application/x-ndjson", IdsAs::kJsonLines}};
  std::size_t elements = 0;
  while (!accept.empty()) {
    const std::string_view element = next_part(accept, ',');
    if (element.empty()) continue;
    ++elements;
    const auto [type, weight] = media_range(element);
    if (!weight) continue;
    for (Offer& offer : offers) {
      const int close = closeness(type, offer.type);
      if (close <= offer.close && (close == 0 || close < offer.close || *weight <= offer.weight))
        continue;
      offer.close = close;
      offer.weight = *weight;
      offer.place = elements;
    }
  }
  if (elements == 0) return IdsAs::kText;
  const auto best = std::ranges::min_element(offers, [](const Offer& a, const Offer& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.place < b.place;
  });
  if (best->weight == 0) return std::nullopt;
  return best->as;
}

bool names_this_machine(std::string_view given) {
  std::string host(given);
  std::ranges::transform(host, host.begin(), lower);
  // An address of version 6 stands in brackets; a port may follow.
  const bool brackets = host.starts_with('[');
  const std::size_t end = std::min(brackets ? host.find(']') : host.find(':'), host.size());
  const std::string_view port =
      std::string_view(host).substr(std::min(end + (brackets ? 1 : 0), host.size()));
  if (!port.empty() &&
      (port.front() != ':' || port.find_first_not_of("0123456789", 1) != std::string_view::npos))
    return false;
  boost::system::error_code error;
  if (brackets) {
    const std::string address = host.substr(1, end - 1);
    return end != host.size() &&
           address.find_first_not_of("0123456789abcdef:.") == std::string::npos &&
           boost::asio::ip::make_address_v6(address, error).is_loopback();
  }
  host.resize(end);
  if (host.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") != std::string::npos)
    return false;
  if (host.ends_with('.')) host.pop_back();
  return host == "localhost" || host.ends_with(".localhost") ||
         boost::asio::ip::make_address_v4(host, error).is_loopback();
}

bool is_own_origin(std::string_view origin, std::string_view host, bool encrypted) {
  const std::string_view scheme = encrypted ? "https://" : "http://";
  return origin.starts_with(scheme) && are_equal(origin.substr(scheme.size()), host);
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() <= scheme.size() ||
      !are_equal(authorization.substr(0, scheme.size()), scheme))
    return {};
  const std::size_t token = authorization.find_first_not_of(' ', scheme.size());
  return token == std::string_view::npos ? std::string_view() : authorization.substr(token);
}

}  // namespace idmint::server
