// The table of the routes and their document.
#include "server/http_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "ids/format.h"
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
    routes.push_back(lower_case(route.method) + " " + std::string(route.path));
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(routes));
}

TEST(HttpRoutes, TheDocumentHasEachFormatInOrderOfTime) {
  const auto document = nlohmann::json::parse(kOpenapi);
  const auto& parameter = document["paths"]["/v1/bounds"]["get"]["parameters"][0];
  ASSERT_EQ(parameter["name"], "format");
  std::vector<std::string> formats_of_time;
  for (const Format* const format : formats()) {
    if (format->bounds != nullptr) formats_of_time.emplace_back(format->name);
  }
  EXPECT_THAT(parameter["schema"]["enum"].get<std::vector<std::string>>(),
              testing::UnorderedElementsAreArray(formats_of_time))
      << "correct the enum of /v1/bounds in src/server/openapi.json";
}

}  // namespace
}  // namespace idmint::server
