#include "restore/replay/state.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "restore/replay/preflight.h"
#include "restore/replay/spare.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::restore {
namespace {

Bson document(const std::string& json) {
  Result<Bson> parsed = from_json(json);
  EXPECT_TRUE(parsed) << json;
  return parsed ? *std::move(parsed) : Bson();
}

std::string compared(const std::string& json) { return comparable(document(json).view()); }

TEST(State, OptionsAreTheSameWhereTheyMeanTheSame) {
  EXPECT_EQ(compared(R"({"a":{"$numberInt":"1"},"b":{"$numberDouble":"2"}})"),
            compared(R"({"b":{"$numberLong":"2"},"a":{"$numberDouble":"1.0"}})"));
  EXPECT_NE(compared(R"({"key":{"a":1,"b":1}})"), compared(R"({"key":{"b":1,"a":1}})"))
      << "the order of an index";
  EXPECT_NE(compared(R"({"a":1.5})"), compared(R"({"a":1})"));
  EXPECT_NE(compared(R"({"a":"1"})"), compared(R"({"a":1})"));
  EXPECT_NE(compared(R"({"a":{"$numberLong":"9007199254740993"}})"),
            compared(R"({"a":{"$numberLong":"9007199254740992"}})"));
}

State one() {
  return {{"shop.orders",
           {.type = "collection",
            .options = "{}",
            .indexes = {{"_id_", "{\"name\":\"_id_\"}"}},
            .count = 2,
            .sha256 = "ab"}},
          {"shop.view", {.type = "view", .options = "{\"viewOn\":\"orders\"}"}}};
}

TEST(State, AFileIsReadAsItWasWritten) {
  const fakes::TempFolder folder;
  std::ofstream(folder.path("state")) << state_file(one());
  const Result<State> read = read_state_file(folder.path("state"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(differences(*read, one()).empty());
  EXPECT_EQ(state_file(*read), state_file(one()));
}

TEST(State, OtherFilesAreRefused) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("state");
  EXPECT_EQ(read_state_file(path).error().code, Code::kNotFound);
  for (const char* const text :
       {"", "[]", "{}", R"({"expected":1})", R"({"expected":{"a":1}})",
        R"({"expected":{"a":{"collections":[]}}})", R"({"expected":{"a":{"collections":{"b":1}}}})",
        R"({"expected":{"a":{"collections":{"b":{"type":1}}}}})",
        R"({"expected":{"a":{"collections":{"b":{"type":"view","indexes":[{}]}}}}})"}) {
    std::ofstream(path) << text;
    const Result<State> read = read_state_file(path);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Code::kDataLoss) << text;
  }
}

TEST(State, EveryDifferenceIsNamed) {
  EXPECT_TRUE(differences(one(), one()).empty());
  const auto changed = [](const auto& change) {
    State state = one();
    change(state["shop.orders"]);
    const std::vector<Difference> found = differences(state, one());
    return found.size() == 1 ? found[0].what : std::to_string(found.size());
  };
  EXPECT_EQ(changed([](CollectionState& each) { each.type = "view"; }), "type");
  EXPECT_EQ(changed([](CollectionState& each) { each.options = "{\"a\":1}"; }), "options");
  EXPECT_EQ(changed([](CollectionState& each) { each.count = 3; }), "count");
  EXPECT_EQ(changed([](CollectionState& each) { each.sha256 = "cd"; }), "documents");
  EXPECT_EQ(changed([](CollectionState& each) { each.indexes.clear(); }), "index _id_");
  EXPECT_EQ(changed([](CollectionState& each) { each.indexes["b"] = "{}"; }), "index b");
  State less = one();
  less.erase("shop.view");
  ASSERT_EQ(differences(less, one()).size(), 1U);
  EXPECT_EQ(differences(less, one())[0].is, "missing");
  EXPECT_EQ(differences(one(), less)[0].should_be, "missing");
}

TEST(Preflight, ServersOfOneSeries) {
  EXPECT_TRUE(same_series("6.0.5", "6.0.14"));
  EXPECT_FALSE(same_series("6.0.5", "6.1.0"));
  EXPECT_FALSE(same_series("6.0.5", "7.0.5"));
  EXPECT_FALSE(same_series("6.0.5", "60.0"));
}

TEST(Preflight, AnyActionOnAnyResource) {
  const auto may = [](const std::string& json) { return may_do_anything(document(json).view()); };
  const auto user = [](const std::string& privileges) {
    return R"({"authInfo":{"authenticatedUsers":[{"user":"u","db":"admin"}],)"
           R"("authenticatedUserPrivileges":)" +
           privileges + "}}";
  };
  EXPECT_TRUE(may(R"({"authInfo":{"authenticatedUsers":[]}})")) << "no access control";
  EXPECT_TRUE(may(user(R"([{"resource":{"cluster":true},"actions":["a"]},
      {"resource":{"anyResource":true},"actions":["find","anyAction"]}])")));
  EXPECT_FALSE(may(user("[]")));
  EXPECT_FALSE(may(user(R"([{"resource":{"anyResource":true},"actions":["find"]}])")));
  EXPECT_FALSE(may(user(R"([{"resource":{"db":"","collection":""},"actions":["anyAction"]}])")));
  EXPECT_FALSE(may(user(R"([{"resource":{"anyResource":false},"actions":["anyAction"]}])")));
}

TEST(Spare, WhatAFolderIs) {
  const fakes::TempFolder folder;
  EXPECT_TRUE(look_at(folder.path("none"))->fresh);
  EXPECT_TRUE(look_at(folder.path(""))->fresh);
  std::ofstream(folder.path("idmint-restore.json.part")) << "{";  // of a run that was killed
  EXPECT_TRUE(look_at(folder.path(""))->fresh);
  std::ofstream(folder.path("other")) << "x";
  EXPECT_FALSE(look_at(folder.path(""))->fresh);
  EXPECT_FALSE(look_at(folder.path(""))->ours);
  EXPECT_EQ(look_at(folder.path("other")).error().code, Code::kAlreadyExists);
  std::ofstream(folder.path("idmint-restore.json"))
      << R"({"made_by":"idmint-restore","port":7,"recovered":"5:6"})";
  const Result<SpareFolder> ours = look_at(folder.path(""));
  ASSERT_TRUE(ours) << ours.error().message();
  EXPECT_TRUE(ours->ours);
  EXPECT_EQ(ours->port, 7);
  EXPECT_EQ(ours->recovered, (Timestamp{.seconds = 5, .ordinal = 6}));
  for (const char* const text :
       {"", "{}", "[]", R"({"made_by":"idmint-restore","recovered":"x"})"}) {
    std::ofstream(folder.path("idmint-restore.json")) << text;
    const Result<SpareFolder> damaged = look_at(folder.path(""));
    ASSERT_FALSE(damaged) << text;
    EXPECT_EQ(damaged.error().code, Code::kDataLoss);
  }
}

TEST(Spare, AMongodThatIsNone) {
  EXPECT_EQ(find_mongod("/nowhere/mongod").error().code, Code::kNotFound);
  EXPECT_EQ(version_of("/bin/false").error().code, Code::kFailedPrecondition);
  EXPECT_EQ(version_of("/bin/ls").error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace idmint::restore
