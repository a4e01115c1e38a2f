#include "restore/replay/index_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idmint::restore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class IndexCatalogTest : public testing::Test {
 protected:
  IndexCatalogTest() {
    for (const char* const spec :
         {R"({"v":2,"key":{"_id":1},"name":"_id_"})", R"({"v":2,"key":{"a":1},"name":"a"})",
          R"({"v":2,"key":{"b":1},"name":"b","expireAfterSeconds":5,"prepareUnique":true})"})
      catalog_.add("d.c", document(spec).view());
  }

  static Bson document(const std::string& json) {
    Result<Bson> parsed = from_json(json);
    EXPECT_TRUE(parsed) << json;
    return parsed ? *std::move(parsed) : Bson();
  }
  Result<void> apply(const std::string& o) {
    const Bson command = document(o);
    Operation operation;
    operation.op = Op::kCommand;
    operation.ns = "d.$cmd";
    operation.o = command.view();
    return catalog_.apply(operation);
  }
  // The names of those of d.c, and more of one.
  std::vector<std::string> names(const std::string& ns = "d.c") {
    std::vector<std::string> all;
    const auto at = catalog_.all().find(ns);
    if (at == catalog_.all().end()) return all;
    for (const auto& [name, spec] : at->second) all.push_back(name);
    return all;
  }
  std::string spec(const std::string& name) {
    return to_relaxed_json(catalog_.all().at("d.c").at(name).view());
  }

  IndexCatalog catalog_;
};

TEST_F(IndexCatalogTest, WhatIsBuiltIsNotThereBeforeItsBuildIsOver) {
  // The base lists it, as its build was under way.
  ASSERT_TRUE(apply(R"({"abortIndexBuild":"c","indexes":[{"v":2,"key":{"a":1},"name":"a"}]})"));
  EXPECT_THAT(names(), ElementsAre("b"));
  ASSERT_TRUE(apply(R"({"startIndexBuild":"c","indexes":[{"v":2,"key":{"b":1},"name":"b"}]})"));
  EXPECT_THAT(names(), IsEmpty());
  ASSERT_TRUE(apply(R"({"commitIndexBuild":"c","indexes":[{"v":2,"key":{"b":1},"name":"b"},
                        {"v":2,"key":{"n":1},"name":"n"}]})"));
  EXPECT_THAT(names(), ElementsAre("b", "n"));
  catalog_.remove("d.c", "n");
  EXPECT_THAT(names(), ElementsAre("b"));
}

TEST_F(IndexCatalogTest, IndexesAreDroppedByNameByKeyAndAllAtOnce) {
  ASSERT_TRUE(apply(R"({"dropIndexes":"c","index":{"a":-1}})"));
  ASSERT_TRUE(apply(R"({"dropIndexes":"other","index":"*"})"));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
  ASSERT_TRUE(apply(R"({"dropIndexes":"c","index":{"a":1}})"));
  EXPECT_THAT(names(), ElementsAre("b"));
  ASSERT_TRUE(apply(R"({"createIndexes":"c","v":2,"key":{"n":1},"name":"n"})"));
  ASSERT_TRUE(apply(R"({"deleteIndexes":"c","index":"b"})"));
  EXPECT_THAT(names(), ElementsAre("n"));
  ASSERT_TRUE(apply(R"({"deleteIndex":"c","index":"n"})"));
  EXPECT_THAT(names(), IsEmpty());
  ASSERT_TRUE(apply(R"({"createIndexes":"c","v":2,"key":{"n":1},"name":"n"})"));
  ASSERT_TRUE(apply(R"({"dropIndexes":"c","index":"*"})"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(IndexCatalogTest, CollModChangesAnIndexByNameOrKey) {
  ASSERT_TRUE(apply(R"({"collMod":"c","index":{"name":"a","hidden":true}})"));
  EXPECT_EQ(spec("a"), R"({ "v" : 2, "key" : { "a" : 1 }, "name" : "a", "hidden" : true })");
  ASSERT_TRUE(apply(R"({"collMod":"c","index":{"keyPattern":{"a":1},"hidden":false}})"));
  EXPECT_EQ(spec("a"), R"({ "v" : 2, "key" : { "a" : 1 }, "name" : "a" })");
  ASSERT_TRUE(apply(R"({"collMod":"c","index":{"name":"b","expireAfterSeconds":9}})"));
  EXPECT_THAT(spec("b"), HasSubstr(R"("expireAfterSeconds" : 9)"));
  EXPECT_THAT(spec("b"), HasSubstr(R"("prepareUnique" : true)"));
  ASSERT_TRUE(apply(R"({"collMod":"c","index":{"name":"b","unique":true}})"));
  EXPECT_EQ(spec("b"), R"({ "v" : 2, "key" : { "b" : 1 }, "name" : "b", "expireAfterSeconds" : 9, )"
                       R"("unique" : true })");
  ASSERT_TRUE(apply(R"({"collMod":"c","index":{"name":"b","forceNonUnique":true}})"));
  EXPECT_EQ(spec("b"),
            R"({ "v" : 2, "key" : { "b" : 1 }, "name" : "b", "expireAfterSeconds" : 9 })");
  ASSERT_TRUE(apply(R"({"collMod":"c","validator":{}})"));
  const Result<void> unknown = apply(R"({"collMod":"c","index":{"name":"a","colour":1}})");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(unknown.error().message(), HasSubstr("colour of the index a of d.c"));
}

TEST_F(IndexCatalogTest, IndexesGoWithTheirCollection) {
  catalog_.add("d.system.buckets.rates", document(R"({"key":{"m":1},"name":"m"})").view());
  ASSERT_TRUE(apply(R"({"dropIndexes":"rates","index":"m"})"));
  EXPECT_THAT(names("d.system.buckets.rates"), IsEmpty());
  ASSERT_TRUE(apply(R"({"create":"c"})"));
  EXPECT_THAT(names(), IsEmpty());
  ASSERT_TRUE(apply(R"({"createIndexes":"c","v":2,"key":{"n":1},"name":"n"})"));
  ASSERT_TRUE(apply(R"({"drop":"c"})"));
  EXPECT_THAT(names(), IsEmpty());
  ASSERT_TRUE(apply(R"({"createIndexes":"c","v":2,"key":{"n":1},"name":"n"})"));
  ASSERT_TRUE(apply(R"({"dropDatabase":1})"));
  EXPECT_EQ(catalog_.size(), 0);
}

TEST_F(IndexCatalogTest, ARenameTakesThemWithIt) {
  ASSERT_TRUE(apply(R"({"createIndexes":"c","v":2,"key":{"n":1},"name":"n"})"));
  ASSERT_TRUE(apply(R"({"createIndexes":"b","v":2,"key":{"m":1},"name":"m"})"));
  ASSERT_TRUE(apply(R"({"renameCollection":"d.c","to":"d.b"})"));
  EXPECT_THAT(names("d.c"), IsEmpty());
  EXPECT_THAT(names("d.b"), testing::ElementsAre("a", "b", "n"));
  ASSERT_TRUE(apply(R"({"renameCollection":"d.c","to":"d.b"})")) << "one without an index";
  EXPECT_THAT(names("d.b"), IsEmpty());
}

}  // namespace
}  // namespace idmint::restore
