// The parts that the files of HTTP routes share, and the table of routes for others.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "server/http_session.h"

namespace idmint::server {

// 200, or another status of success, with the JSON. Replaces bytes of texts that are not UTF-8.
[[nodiscard]] HttpResponse ok(const nlohmann::ordered_json& json, int status = 200);

// kInvalidArgument: a parameter of the query is not among `known`, or is given twice.
[[nodiscard]] Result<void> check_parameters(const HttpRequest& request,
                                            std::span<const std::string_view> known);

struct RouteName {
  std::string_view method;
  std::string_view path;  // {} stands for one segment
};
// All routes, in the order of the table.
[[nodiscard]] std::vector<RouteName> route_names();

// ---- routes that take nothing from a store: http_advice.cc

void get_bounds(HttpSession& session, const HttpRequest& request);
void get_convert(HttpSession& session, const HttpRequest& request);
void get_plan(HttpSession& session, const HttpRequest& request);
void get_inspect(HttpSession& session, const HttpRequest& request);

// ---- leases of worker ids: http_leases.cc

void post_lease(HttpSession& session, const HttpRequest& request);
void post_lease_extend(HttpSession& session, const HttpRequest& request);
void delete_lease(HttpSession& session, const HttpRequest& request);

}  // namespace idmint::server
