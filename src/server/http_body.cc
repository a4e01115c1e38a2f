#include "server/http_body.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/errors.h"

namespace idmint::server {

namespace {
using Json = nlohmann::ordered_json;
}

Json integer(std::int64_t value) { return std::to_string(value); }

Result<std::int64_t> whole(std::string_view what, std::string_view text, std::int64_t least,
                           std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    return refuse(std::string(what) + " takes a whole number from " + std::to_string(least) +
                  " to " + std::to_string(most));
  return value;
}

Result<Json> body_of(const HttpRequest& request, std::span<const std::string_view> known) {
  std::size_t members = 0;
  const auto count_members = [&](int depth, Json::parse_event_t event, const Json& /*parsed*/) {
    if (depth == 1 && event == Json::parse_event_t::key) ++members;
    return true;
  };
  Json json = Json::parse(request.body, count_members, false);
  if (!json.is_object()) return refuse("the body must be a JSON object");
  if (members != json.size()) return refuse("the body has a member twice");
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    std::string names;
    for (const std::string_view each : known)
      names += (names.empty() ? "" : ", ") + std::string(each);
    return refuse("the body has an unknown member \"" + key.substr(0, 64) + "\": it takes " +
                  names);
  }
  return json;
}

// As in JSON Schema, 20.0 and 2e1 are integers. Beyond 2^53 such a number may have been another one
// before it was read.
Result<std::optional<std::int64_t>> integer_of(const Json& json, std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return std::nullopt;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (found->is_string())
    return whole("\"" + std::string(name) + "\"", found->get<std::string>(), 0, most);
  if (found->is_number_float()) {
    constexpr double exact = 9'007'199'254'740'992;  // 2^53
    const auto value = found->get<double>();
    if (value >= 0 && value <= exact && std::trunc(value) == value)
      return static_cast<std::int64_t>(value);
  } else if (found->is_number_integer()) {
    const auto value = found->get<std::int64_t>();
    // One beyond 2^63 would have become negative.
    if (value >= 0) return value;
  }
  return refuse("\"" + std::string(name) +
                "\" takes a whole number of 0 or more, or it as a string; from 2^53 on without a "
                "fraction and an exponent");
}

Result<std::int64_t> needed_integer(const Json& json, std::string_view name) {
  const Result<std::optional<std::int64_t>> given = integer_of(json, name);
  if (!given) return std::unexpected(given.error());
  const std::optional<std::int64_t> value = *given;
  if (!value) return refuse("\"" + std::string(name) + "\" is missing");
  return *value;
}

Result<std::int64_t> only_integer(const HttpRequest& request, std::string_view name) {
  const Result<Json> body = body_of(request, std::span(&name, 1));
  if (!body) return std::unexpected(body.error());
  return needed_integer(*body, name);
}

Result<std::optional<std::string>> string_of(const Json& json, std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) return refuse("\"" + std::string(name) + "\" takes a string");
  return found->get<std::string>();
}

}  // namespace idmint::server
