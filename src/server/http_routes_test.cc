// The table of the routes and their document.
#include "server/http_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/openapi.h"

namespace idmint::server {
namespace {

// "/v1/ids/{source}" as the table has it: "/v1/ids/{}".
std::string without_names(std::string path) {
  for (std::size_t begin = path.find('{'); begin != std::string::npos;
       begin = path.find('{', begin + 1))
    path.erase(begin + 1, path.find('}', begin) - begin - 1);
  return path;
}

TEST(HttpRoutes, TheDocumentHasEachRouteAndNoOther) {
  const auto document = nlohmann::json::parse(kOpenapi);
  std::vector<std::string> documented;
  for (const auto& [path, operations] : document["paths"].items()) {
    for (const auto& [method, operation] : operations.items())
      documented.push_back(method + " " + without_names(path));
  }
  std::vector<std::string> routes;
  for (const RouteName& route : route_names())
    routes.push_back((route.method == "GET" ? "get " : "post ") + std::string(route.path));
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(routes));
}

}  // namespace
}  // namespace idmint::server
