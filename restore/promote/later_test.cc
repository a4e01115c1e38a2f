// The order in which promote lists the documents that it loses. promote_test finds them.
#include "restore/promote/later.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "restore/server.h"

namespace idmint::restore {
namespace {

// The element of a document that has nothing else.
std::string element_of(const Bson& id) {
  const auto bytes = id.view().bytes();
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof(std::uint32_t),
          bytes.size() - sizeof(std::uint32_t) - 1};
}

std::vector<std::string> ordered(const std::vector<std::string>& ids) {
  LaterCollection collection;
  for (const std::string& id : ids) {
    const Result<Bson> document = from_json(R"({"_id":)" + id + "}");
    EXPECT_TRUE(document) << id;
    collection.documents[element_of(*document)] = {};
  }
  std::vector<std::string> all;
  for (const auto* const row : in_order_of_id(collection)) {
    const std::string json = to_relaxed_json(only_id_of(row->first).view());  // { "_id" : VALUE }
    all.push_back(json.substr(10, json.size() - 12));
  }
  return all;
}

TEST(LaterWrites, AreListedInTheOrderOfTheirIds) {
  EXPECT_THAT(ordered({"300", "-1", "2", "1000", "256", "1.5",
                       R"({"$numberLong":"9007199254740993"})", "9007199254740992.0"}),
              testing::ElementsAre("-1", "1.5", "2", "256", "300", "1000", "9007199254740992.0",
                                   "9007199254740993"));
  EXPECT_THAT(ordered({R"("b")", R"("aa")", R"("")", R"("a")"}),
              testing::ElementsAre(R"("")", R"("a")", R"("aa")", R"("b")"));
  EXPECT_THAT(ordered({R"("a")", "7", R"({"$oid":"65f0000000000000000000aa"})",
                       R"({"$oid":"65e0000000000000000000bb"})", R"({"$numberDouble":"NaN"})"}),
              testing::ElementsAre(R"({ "$numberDouble" : "NaN" })", "7", R"("a")",
                                   R"({ "$oid" : "65e0000000000000000000bb" })",
                                   R"({ "$oid" : "65f0000000000000000000aa" })"));
}

}  // namespace
}  // namespace idmint::restore
