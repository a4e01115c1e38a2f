// What a request over HTTP says in its JSON body, and integers in JSON. Integers are strings in
// what is sent, as many readers round those beyond 2^53. Each error is kInvalidArgument.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "server/http_session.h"

namespace idmint::server {

[[nodiscard]] nlohmann::ordered_json integer(std::int64_t value);

[[nodiscard]] Result<std::int64_t> whole(std::string_view what, std::string_view text,
                                         std::int64_t least, std::int64_t most);
// The body, an object whose members are among `known`, each of them once.
[[nodiscard]] Result<nlohmann::ordered_json> body_of(const HttpRequest& request,
                                                     std::span<const std::string_view> known);
// An integer of 0 or more, as a number or as a string; nothing where the member is not there.
[[nodiscard]] Result<std::optional<std::int64_t>> integer_of(const nlohmann::ordered_json& json,
                                                             std::string_view name);
// The same, of a member that must be there.
[[nodiscard]] Result<std::int64_t> needed_integer(const nlohmann::ordered_json& json,
                                                  std::string_view name);
// The integer of a body whose only member this is.
[[nodiscard]] Result<std::int64_t> only_integer(const HttpRequest& request, std::string_view name);
[[nodiscard]] Result<std::optional<std::string>> string_of(const nlohmann::ordered_json& json,
                                                           std::string_view name);

}  // namespace idmint::server
