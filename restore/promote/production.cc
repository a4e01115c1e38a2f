#include "restore/promote/production.h"

#include <algorithm>
#include <array>

#include "base/url.h"
#include "restore/promote/collection_at.h"

namespace idmint::restore {

std::string for_promotion(std::string_view uri) {
  constexpr std::array replaced = {std::string_view("readpreference"),
                                   std::string_view("readpreferencetags"),
                                   std::string_view("maxstalenessseconds")};
  bool has_timeout = false;
  std::string options;
  each_option(uri, [&](std::string_view name, std::string_view value) {
    std::string small(name);
    std::ranges::transform(small, small.begin(),
                           [](char c) { return static_cast<char>(c | 0x20); });
    if (std::ranges::find(replaced, small) != replaced.end()) return;
    has_timeout = has_timeout || small == "sockettimeoutms";
    options.append(name).append("=").append(value).append("&");
  });
  // A password may have a '?'.
  const std::size_t at =
      uri.find('?', uri.rfind('@') == std::string_view::npos ? 0 : uri.rfind('@'));
  std::string limited(uri.substr(0, at));
  const std::size_t scheme = limited.find("://");
  const std::size_t hosts = std::max(limited.rfind('@') + 1, scheme + 3);
  if (limited.find('/', hosts) == std::string::npos) limited += '/';
  limited += '?' + options + "readPreference=primary";
  if (!has_timeout) limited += "&socketTimeoutMS=" + std::to_string(2 * kCommandLimit);
  return limited;
}

Result<Server> connect_for_promotion(const std::string& uri) {
  return Server::connect(for_promotion(uri), {.shown = uri});
}

}  // namespace idmint::restore
