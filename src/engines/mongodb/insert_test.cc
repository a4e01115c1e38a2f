// Documents that get their ids as they are inserted, into real servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "idmint/mint.h"
#include "idmint/mongodb.h"
#include "idmint/testing.h"
#include "tests/fakes/code_of.h"
#include "tests/servers/mongo.h"

namespace idmint::mongodb {
namespace {

using fakes::code_of;
using fakes::why;
using servers::mongo_command;
using servers::mongo_set;
using servers::mongo_standalone;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Declaration declared(std::string format = "integer", Form form = {}) {
  Declaration declaration;
  declaration.name = "script";
  declaration.format = std::move(format);
  declaration.form = std::move(form);
  return declaration;
}
Declaration counter() {
  Declaration declaration = declared();
  declaration.name = "orders";
  declaration.guarantee = Guarantee::kLinearizable;
  declaration.order = Order::kAll;
  return declaration;
}

// Gives what it was told to.
class Script final : public Source {
 public:
  explicit Script(std::deque<Id> ids, Declaration declaration = declared())
      : declaration_(std::move(declaration)), ids_(std::move(ids)) {}
  const Declaration& declaration() const noexcept override { return declaration_; }
  using Source::next;
  Result<void> next(std::span<Id> out) override {
    if (declaration_.largest_count > 0 && std::ssize(out) > declaration_.largest_count)
      return std::unexpected(Error{Code::kInvalidArgument, "too many at once"});
    if (out.size() > ids_.size())
      return std::unexpected(Error{Code::kOutOfRange, "the script is at its end"});
    for (Id& id : out) {
      id = ids_.front();
      ids_.pop_front();
    }
    return {};
  }
  std::size_t left() const { return ids_.size(); }

 private:
  const Declaration declaration_;
  std::deque<Id> ids_;
};

Script integers(const std::vector<std::int64_t>& values, Declaration declaration = declared()) {
  return Script(std::deque<Id>(values.begin(), values.end()), std::move(declaration));
}

class Documents {
 public:
  explicit Documents(const std::vector<std::string>& jsons) {
    for (const std::string& json : jsons) add(json);
  }
  explicit Documents(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add(R"({"n":)" + std::to_string(i) + "}");
  }
  std::span<const Bytes> get() {
    views_.assign(all_.begin(), all_.end());
    return views_;
  }
  void add(const std::string& json) {
    Result<std::vector<std::byte>> document = document_from_json(json);
    EXPECT_TRUE(document) << json << document.error().message();
    if (document) all_.push_back(*std::move(document));
  }
  void push(std::vector<std::byte> raw) { all_.push_back(std::move(raw)); }

 private:
  std::vector<std::vector<std::byte>> all_;
  std::vector<Bytes> views_;
};

// Each test has a database of its own.
class InsertTest : public testing::Test {
 protected:
  InsertTest() {
    static int number = 0;
    database_ = "insert" + std::to_string(++number);
  }

  Collection open(const std::string& name = "accounts") {
    Result<Collection> collection =
        Collection::open(mongo_set().url(database_), name, {.deadline = std::chrono::minutes{1}});
    EXPECT_TRUE(collection) << why(collection);
    return *std::move(collection);
  }
  std::string command(const std::string& json) {
    return mongo_command(mongo_set().url(database_), database_, json);
  }
  std::string find(const std::string& filter, const std::string& collection = "accounts") {
    return command(R"({"find":")" + collection + R"(","filter":)" + filter +
                   R"(,"sort":{"_id":1},"readConcern":{"level":"majority"}})");
  }
  std::int64_t count(const std::string& collection = "accounts", const std::string& query = "{}") {
    const std::string reply = command(R"({"count":")" + collection + R"(","query":)" + query + "}");
    const std::size_t at = reply.find(R"("n" : )");
    return at == std::string::npos ? -1 : std::stoll(reply.substr(at + 6));
  }
  void unique(const std::string& field, const std::string& more = "") {
    ASSERT_THAT(command(R"({"createIndexes":"accounts","indexes":[{"key":{")" + field +
                        R"(":1},"name":"by_)" + field + R"(","unique":true)" + more + "}]}"),
                HasSubstr(R"("ok" : 1.0)"));
  }

  std::string database_;
};

TEST_F(InsertTest, EachDocumentGetsAnIdInIdOrInTheFieldThatIsNamed) {
  Collection accounts = open();
  Script ids = integers({7, 8, 9});
  Documents two({R"({"name":"ann"})", R"({"name":"bob"})"});
  const auto inserted = insert_with_id(accounts, ids, two.get());
  ASSERT_TRUE(inserted) << why(inserted);
  EXPECT_EQ(inserted->ids, (std::vector<Id>{std::int64_t{7}, std::int64_t{8}}));
  EXPECT_EQ(inserted->collisions, 0);
  EXPECT_THAT(find("{}"), AllOf(HasSubstr(R"({ "_id" : 7, "name" : "ann" })"),
                                HasSubstr(R"({ "_id" : 8, "name" : "bob" })")));
  Collection orders = open("orders");
  Documents one({R"({"_id":"x","name":"eve"})"});
  const auto numbered = insert_with_id(orders, ids, one.get(), {.field = "n", .make_index = true});
  ASSERT_TRUE(numbered) << why(numbered);
  EXPECT_THAT(find(R"({"n":9,"_id":"x"})", "orders"), HasSubstr("eve"));
  EXPECT_TRUE(insert_with_id(orders, ids, {})) << "nothing is fine";
}

TEST_F(InsertTest, EveryKindOfIdHasItsTypeInBson) {
  Collection accounts = open();
  const auto inserted_as = [&](const Id& id, const Form& form, StoredAs as) {
    Script source({id}, declared(std::string(format_of(id)), form));
    Documents one({R"({"t":1})"});
    mongo_command(mongo_set().url(database_), database_,
                  R"({"delete":"accounts","deletes":[{"q":{},"limit":0}]})");
    const auto inserted = insert_with_id(accounts, source, one.get(), {.stored_as = as});
    if (!inserted) return std::string(name(code_of(inserted)));
    const std::string reply = find("{}");
    const std::size_t at = reply.find(R"("_id" : )") + 8;
    return reply.substr(at, reply.find(R"(, "t")", at) - at);
  };
  const Uuid uuid = *Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
  const ObjectId oid = *ObjectId::parse("00112233445566778899aabb");
  const Form padded{.digits = 6};
  EXPECT_EQ(inserted_as(std::int64_t{42}, {}, StoredAs::kUsual), "42");
  EXPECT_EQ(inserted_as(std::int64_t{42}, {}, StoredAs::kText), R"("42")");
  EXPECT_EQ(inserted_as(std::int64_t{42}, padded, StoredAs::kUsual), R"("000042")");
  EXPECT_EQ(inserted_as(std::int64_t{42}, padded, StoredAs::kNumber), "42");
  EXPECT_EQ(inserted_as(*Digits::parse("0042"), {}, StoredAs::kUsual), R"("0042")");
  EXPECT_EQ(inserted_as(*Digits::parse("0042"), {}, StoredAs::kNumber), "42");
  EXPECT_EQ(inserted_as(*Digits::parse("1234567890123456789"), {}, StoredAs::kNumber),
            "OUT_OF_RANGE");
  EXPECT_EQ(inserted_as(uuid, {}, StoredAs::kUsual),
            R"({ "$binary" : { "base64" : "ABEiM0RVZneImaq7zN3u/w==", "subType" : "04" } })");
  EXPECT_EQ(inserted_as(uuid, {}, StoredAs::kText), R"("00112233-4455-6677-8899-aabbccddeeff")");
  EXPECT_EQ(inserted_as(uuid, {}, StoredAs::kNumber), "INVALID_ARGUMENT");
  EXPECT_EQ(inserted_as(oid, {}, StoredAs::kUsual), R"({ "$oid" : "00112233445566778899aabb" })");
  EXPECT_EQ(inserted_as(Snowflake(454947766275222906), {}, StoredAs::kUsual), "454947766275222906");
  EXPECT_EQ(inserted_as(Snowflake(~0ULL), {}, StoredAs::kUsual), "OUT_OF_RANGE");
  EXPECT_EQ(inserted_as(*Ulid::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV"), {}, StoredAs::kUsual),
            R"("01ARZ3NDEKTSV4RRFFQ69G5FAV")");
}

TEST_F(InsertTest, IdsWithoutAnOrderAreSentInOneAndStayWithTheirDocuments) {
  Collection accounts = open();
  Declaration none = declared();
  none.order = Order::kNone;
  Script ids = integers({30, 10, 20}, none);
  Documents three({R"({"n":0})", R"({"n":1})", R"({"n":2})"});
  const auto inserted = insert_with_id(accounts, ids, three.get());
  ASSERT_TRUE(inserted) << why(inserted);
  EXPECT_EQ(inserted->ids, (std::vector<Id>{std::int64_t{30}, std::int64_t{10}, std::int64_t{20}}));
  EXPECT_EQ(count("accounts", R"({"_id":30,"n":0})"), 1);
  const std::string stored = command(R"({"find":"accounts","sort":{"$natural":1}})");
  const auto place = [&](const char* document) { return stored.find(document); };
  EXPECT_LT(place(R"("n" : 1)"), place(R"("n" : 2)")) << stored;
  EXPECT_LT(place(R"("n" : 2)"), place(R"("n" : 0)")) << stored;
}

TEST_F(InsertTest, OnlyWhatCollidedGetsAnotherId) {
  Collection accounts = open();
  unique("account");
  Script first = integers({3, 5});
  ASSERT_TRUE(insert_with_id(accounts, first, Documents(2).get(), {.field = "account"}));
  // 3 and 5 are there, 4 comes twice in the batch, and of what is drawn next 5 is there again.
  Script ids = integers({3, 4, 4, 5, 6, 5, 7, 8, 9, 10});
  const auto inserted = insert_with_id(accounts, ids, Documents(5).get(), {.field = "account"});
  ASSERT_TRUE(inserted) << why(inserted);
  const std::vector<Id> want{std::int64_t{9}, std::int64_t{4}, std::int64_t{7}, std::int64_t{8},
                             std::int64_t{6}};
  EXPECT_EQ(inserted->ids, want);
  EXPECT_EQ(inserted->collisions, 4);
  EXPECT_EQ(ids.left(), 1U) << "no more than was needed";
  EXPECT_EQ(count(), 7);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(count("accounts", R"({"n":)" + std::to_string(i) + "}"), i < 2 ? 2 : 1);
}

TEST_F(InsertTest, NoMoreIdsAreTakenAtOnceThanTheSourceAllows) {
  Collection accounts = open();
  Declaration limited = declared();
  limited.largest_count = 3;
  Script ids = integers({1, 2, 3, 4, 5, 6, 7}, limited);
  const auto inserted = insert_with_id(accounts, ids, Documents(7).get());
  ASSERT_TRUE(inserted) << why(inserted);
  EXPECT_EQ(inserted->ids.back(), Id{std::int64_t{7}});
}

TEST_F(InsertTest, AttemptsAreBoundedAndTheRateOfCollisionsIsTold) {
  Collection accounts = open();
  Script first = integers({1, 2});
  ASSERT_TRUE(insert_with_id(accounts, first, Documents(2).get()));
  Script ids = integers({1, 9, 2, 1, 8});
  const auto inserted = insert_with_id(accounts, ids, Documents(2).get(), {.attempts = 3});
  EXPECT_EQ(code_of(inserted), Code::kResourceExhausted);
  EXPECT_THAT(why(inserted), AllOf(HasSubstr("document 1 of"), HasSubstr("3 of 4 in all"),
                                   HasSubstr("1 of 2 documents were inserted")));
  ASSERT_FALSE(inserted);
  EXPECT_EQ(inserted.error().outcomes[0].fate, Outcome::Fate::kAbsent);
  EXPECT_EQ(inserted.error().outcomes[1].fate, Outcome::Fate::kInserted);
  EXPECT_EQ(inserted.error().outcomes[1].id, Id{std::int64_t{9}});
  EXPECT_EQ(inserted.error().document, 0U);
  EXPECT_EQ(ids.left(), 1U);
}

TEST_F(InsertTest, AKeyThatIsTakenInAnotherIndexIsTheCallersError) {
  Collection accounts = open();
  unique("account");
  unique("email");
  ASSERT_THAT(command(R"({"createIndexes":"accounts","indexes":[{"key":{"account":1,"x":1},)"
                      R"("name":"both","unique":true}]})"),
              HasSubstr(R"("ok" : 1.0)"));
  Script ids = integers({1, 2, 3, 4, 5, 6, 7});
  Documents documents(
      {R"({"email":"a"})", R"({"email":"b"})", R"({"email":"a"})", R"({"email":"c"})"});
  const std::vector<std::int64_t> lines = {11, 12, 14, 15};
  const auto inserted =
      insert_with_id(accounts, ids, documents.get(), {.field = "account", .numbers = lines});
  EXPECT_EQ(code_of(inserted), Code::kAlreadyExists);
  EXPECT_THAT(why(inserted), AllOf(HasSubstr("document 14 of"), HasSubstr("\"by_email\""),
                                   HasSubstr("3 of 4 documents were inserted")));
  EXPECT_EQ(ids.left(), 3U) << "no other id would help";
  EXPECT_EQ(count(), 3);
  // The default _id is another index too.
  Documents same({R"({"_id":1,"email":"d"})", R"({"_id":1,"email":"e"})"});
  const auto again = insert_with_id(accounts, ids, same.get(), {.field = "account"});
  EXPECT_EQ(code_of(again), Code::kAlreadyExists);
  EXPECT_THAT(why(again), AllOf(HasSubstr("document 2 of"), HasSubstr("\"_id_\"")));
}

TEST_F(InsertTest, WhatAValidatorRefusesIsNamedAndTheOthersGoIn) {
  ASSERT_THAT(command(R"({"create":"accounts","validator":{"n":{"$gt":0}}})"),
              HasSubstr(R"("ok" : 1.0)"));
  Collection accounts = open();
  Script ids = integers({1, 2, 3});
  const auto inserted = insert_with_id(accounts, ids, Documents(3).get());
  EXPECT_EQ(code_of(inserted), Code::kInvalidArgument);
  EXPECT_THAT(why(inserted), AllOf(HasSubstr("document 1 of"), HasSubstr("validation"),
                                   HasSubstr("error 121"), HasSubstr("2 of 3")));
  EXPECT_EQ(count(), 2);
}

TEST_F(InsertTest, WithoutAUniqueIndexNothingIsInsertedUnlessItIsMade) {
  Collection accounts = open();
  Script ids = integers({1, 2, 3});
  const auto refused = insert_with_id(accounts, ids, Documents(1).get(), {.field = "account"});
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_EQ(refused.error().error.advice, (Advice{Remedy::kSetOption, "", {"make_index"}}));
  EXPECT_THAT(
      why(refused),
      HasSubstr(R"(db.getCollection("accounts").createIndex({"account": 1}, {unique: true}))"));
  EXPECT_EQ(ids.left(), 3U);
  ASSERT_TRUE(
      insert_with_id(accounts, ids, Documents(1).get(), {.field = "account", .make_index = true}));
  EXPECT_THAT(command(R"({"listIndexes":"accounts"})"), HasSubstr("account_1"));
  Collection fresh = open();
  EXPECT_TRUE(insert_with_id(fresh, ids, Documents(1).get(), {.field = "account"}));

  // It cannot be made where values repeat.
  command(R"({"insert":"accounts","documents":[{"k":1,"account":8},{"k":1,"account":9}]})");
  const auto repeated =
      insert_with_id(fresh, ids, Documents(1).get(), {.field = "k", .make_index = true});
  EXPECT_EQ(code_of(repeated), Code::kAlreadyExists) << why(repeated);
  EXPECT_THAT(why(repeated), AllOf(HasSubstr("alike in \"k\", { k: null }, "),
                                   HasSubstr("{unique: true, sparse: true}")));
  EXPECT_EQ(count(), 4);
  command(R"({"delete":"accounts","deletes":[{"q":{"k":null},"limit":0}]})");
  const auto alike =
      insert_with_id(fresh, ids, Documents(1).get(), {.field = "k", .make_index = true});
  EXPECT_EQ(code_of(alike), Code::kAlreadyExists);
  EXPECT_THAT(why(alike),
              AllOf(HasSubstr("alike in \"k\", { k: 1 }, "), HasSubstr("nothing was inserted"),
                    HasSubstr(R"(db.getCollection("accounts").aggregate([{$sortByCount: "$k"})")));
}

TEST_F(InsertTest, APartialIndexIsNone) {
  unique("account", R"(,"partialFilterExpression":{"live":true})");
  Collection accounts = open();
  Script ids = integers({1});
  const auto refused = insert_with_id(accounts, ids, Documents(1).get(), {.field = "account"});
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), HasSubstr("is partial"));
}

TEST_F(InsertTest, AnIndexThatIsBeingBuiltIsNone) {
  command(R"({"insert":"accounts","documents":[{"account":1},{"account":2}]})");
  const std::string primary =
      mongo_set().member(mongo_set().primary()).url("?directConnection=true");
  const std::string failpoint = R"("hangAfterStartingIndexBuild")";
  const auto set = [&](const std::string& mode) {
    return mongo_command(primary, "admin",
                         R"({"configureFailPoint":)" + failpoint + R"(,"mode":")" + mode + "\"}");
  };
  ASSERT_THAT(set("alwaysOn"), HasSubstr(R"("count" : 0)"));
  std::thread building([&] {
    command(R"({"createIndexes":"accounts","indexes":[)"
            R"({"key":{"account":1},"name":"account_1","unique":true}]})");
  });
  EXPECT_THAT(mongo_command(primary, "admin",
                            R"({"waitForFailPoint":)" + failpoint +
                                R"(,"timesEntered":1,"maxTimeMS":60000})"),
              HasSubstr(R"("ok" : 1.0)"));
  Collection accounts = open();
  Script ids = integers({3});
  const auto refused = insert_with_id(accounts, ids, Documents(1).get(), {.field = "account"});
  auto hasty = Collection::open(mongo_set().url(database_), "accounts",
                                {.deadline = std::chrono::seconds{3}});
  ASSERT_TRUE(hasty);
  const auto late =
      insert_with_id(*hasty, ids, Documents(1).get(), {.field = "account", .make_index = true});
  set("off");
  building.join();
  EXPECT_EQ(code_of(late), Code::kUnavailable) << why(late);
  EXPECT_THAT(why(late), AllOf(HasSubstr("a majority of the members has built it"),
                               HasSubstr("{unique: true})")));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), HasSubstr("\"account_1\" is still being built"));
  EXPECT_TRUE(insert_with_id(accounts, ids, Documents(1).get(), {.field = "account"}));
}

TEST_F(InsertTest, AnIndexIsMadeWhileAMemberIsDown) {
  command(R"({"insert":"accounts","documents":[{"account":1},{"account":2}],)"
          R"("writeConcern":{"w":3,"wtimeout":60000}})");
  // The other may have followed the one that is down, and needs some seconds to find that out.
  Result<Collection> accounts = Collection::open(mongo_set().url(database_), "accounts",
                                                 {.deadline = std::chrono::minutes{1}});
  ASSERT_TRUE(accounts) << why(accounts);
  Script ids = integers({3});
  const servers::MongoServer& down = mongo_set().member((mongo_set().primary() + 1) % 3);
  down.signal(SIGSTOP);
  const auto inserted =
      insert_with_id(*accounts, ids, Documents(1).get(), {.field = "account", .make_index = true});
  down.signal(SIGCONT);
  EXPECT_TRUE(inserted) << why(inserted);
}

TEST_F(InsertTest, TheIdOfATimeSeriesGuardsNothing) {
  ASSERT_THAT(command(R"({"create":"accounts","timeseries":{"timeField":"t"}})"),
              HasSubstr(R"("ok" : 1.0)"));
  ASSERT_THAT(command(R"({"createIndexes":"accounts","indexes":[{"key":{"_id":1},"name":"x"}]})"),
              HasSubstr(R"("ok" : 1.0)"));
  Collection accounts = open();
  Script ids = integers({1, 2});
  Documents one({R"({"t":{"$date":"2026-01-01T00:00:00Z"}})"});
  const auto refused = insert_with_id(accounts, ids, one.get());
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), HasSubstr("time-series"));
  EXPECT_EQ(refused.error().error.advice, (Advice{Remedy::kSetOption, "", {"proxy"}}));
  EXPECT_EQ(ids.left(), 2U);
  InsertOptions claimed;
  claimed.proxy = "accounts.ids";
  const auto inserted = insert_with_id(accounts, ids, one.get(), claimed);
  EXPECT_TRUE(inserted) << why(inserted);
  ASSERT_THAT(command(R"({"create":"clustered","clusteredIndex":{"key":{"_id":1},"unique":true}})"),
              HasSubstr(R"("ok" : 1.0)"));
  Collection clustered = open("clustered");
  EXPECT_TRUE(insert_with_id(clustered, ids, Documents(1).get()));
}

TEST_F(InsertTest, WhatIsWrongWithADocumentIsSaidBeforeAnythingIsSent) {
  Collection accounts = open();
  Script ids = integers({1, 2, 3});
  const auto refused = [&](std::vector<std::byte> raw, const std::string& field = "_id") {
    Documents documents(1);
    documents.push(std::move(raw));
    const auto inserted = insert_with_id(accounts, ids, documents.get(), {.field = field});
    EXPECT_EQ(code_of(inserted), Code::kInvalidArgument);
    EXPECT_TRUE(!inserted && inserted.error().outcomes.empty());
    return why(inserted);
  };
  EXPECT_THAT(refused(*document_from_json(R"({"_id":1})")),
              AllOf(HasSubstr("document 2 has the field \"_id\" already"),
                    HasSubstr("nothing was inserted")));
  EXPECT_THAT(refused({}), HasSubstr("document 2 is not BSON"));
  EXPECT_THAT(refused({std::byte{5}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{1}}),
              HasSubstr("is not BSON"));
  std::vector<std::byte> broken = *document_from_json(R"({"a":"text"})");
  broken[7] = std::byte{99};  // the length of the text
  EXPECT_THAT(refused(broken), HasSubstr("is not BSON"));
  EXPECT_THAT(refused(*document_from_json(R"({"a":")" + std::string(16'777'150, 'x') + "\"}")),
              HasSubstr("divide it"));
  // {a: {a: {a: ...}}}, deeper than any stack.
  constexpr std::size_t kLevels = 500'000;
  std::vector<std::byte> deep(kLevels * 8 + 5);
  for (std::size_t i = 0; i <= kLevels; ++i) {
    const auto size = static_cast<std::uint32_t>((kLevels - i) * 8 + 5);
    std::memcpy(deep.data() + i * 7, &size, 4);
    if (i == kLevels) break;
    deep[i * 7 + 4] = std::byte{3};
    deep[i * 7 + 5] = std::byte{'a'};
  }
  EXPECT_THAT(refused(deep), HasSubstr("nested"));
  for (const std::string field : {"", "a.b", "$a", "a\xff"}) {
    const auto inserted = insert_with_id(accounts, ids, Documents(1).get(), {.field = field});
    EXPECT_EQ(code_of(inserted), Code::kInvalidArgument) << field;
  }
  const auto nul =
      insert_with_id(accounts, ids, Documents(1).get(), {.field = std::string("a\0", 2)});
  EXPECT_THAT(why(nul), HasSubstr("NUL"));
  EXPECT_EQ(ids.left(), 3U);
}

TEST_F(InsertTest, LargeDocumentsAreSentInAsManyCommandsAsTheyTake) {
  Collection accounts = open();
  Script ids = integers({1, 2, 3, 4});
  Documents documents(0);
  for (int i = 0; i < 3; ++i)
    documents.add(R"({"a":")" + std::string(i == 0 ? 16'776'000 : 6'000'000, 'x') + "\"}");
  documents.add("{}");
  const auto inserted = insert_with_id(accounts, ids, documents.get());
  ASSERT_TRUE(inserted) << why(inserted);
  EXPECT_EQ(count(), 4);
}

TEST_F(InsertTest, OfAHundredThousandDocumentsOnlyTheCollidedAreSentAgain) {
  Collection accounts = open();
  constexpr std::int64_t kCount = 100'000;
  // Two draws of the same seventh of the numbers: the second half collides with the first where it
  // is divisible by 7, and is drawn again.
  std::deque<Id> draws;
  for (std::int64_t i = 0; i < kCount; ++i) draws.emplace_back(i % 7 == 0 ? i / 14 * 14 : i);
  std::int64_t repeated = 0;
  for (std::int64_t i = 7; i < kCount; i += 14) ++repeated;
  for (std::int64_t i = 0; i < repeated; ++i) draws.emplace_back(kCount + i);
  Script ids(draws);
  const auto inserted = insert_with_id(accounts, ids, Documents(kCount).get());
  ASSERT_TRUE(inserted) << why(inserted);
  EXPECT_EQ(inserted->collisions, repeated);
  EXPECT_EQ(count(), kCount);
  EXPECT_EQ(ids.left(), 0U);
  EXPECT_EQ(std::set<Id>(inserted->ids.begin(), inserted->ids.end()).size(), 100'000U);
}

TEST_F(InsertTest, ManyThreadsOfManySmallSpacesGetNoDuplicate) {
  Collection accounts = open();
  unique("account");
  const Mint mint;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      Mint own;
      const auto digits = own.source("digits", {.digits = DigitsLayout{.digits = 4}});
      ASSERT_TRUE(digits);
      for (int i = 0; i < 10; ++i) {
        const auto inserted = insert_with_id(accounts, **digits, Documents(50).get(),
                                             {.field = "account", .attempts = 50});
        EXPECT_TRUE(inserted) << why(inserted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count(), 2000);
  EXPECT_THAT(command(R"({"aggregate":"accounts","pipeline":[{"$group":{"_id":"$account"}},)"
                      R"({"$count":"n"}],"cursor":{}})"),
              HasSubstr(R"("n" : 2000)"));
}

TEST_F(InsertTest, AReplyThatIsLostLeadsToNoSecondDocument) {
  Collection accounts = open();
  unique("account");
  Script first = integers({2});
  ASSERT_TRUE(insert_with_id(accounts, first, Documents(1).get(), {.field = "account"}));
  const std::string primary =
      mongo_set().member(mongo_set().primary()).url("?directConnection=true");
  ASSERT_THAT(mongo_command(primary, "admin",
                            R"({"configureFailPoint":"onPrimaryTransactionalWrite","mode":)"
                            R"({"times":3},"data":{"closeConnection":true}})"),
              HasSubstr(R"("ok" : 1.0)"));
  Script ids = integers({1, 2, 3, 4, 5, 6, 7, 8});
  const auto inserted = insert_with_id(accounts, ids, Documents(5).get(), {.field = "account"});
  EXPECT_THAT(mongo_command(primary, "admin",
                            R"({"configureFailPoint":"onPrimaryTransactionalWrite","mode":"off"})"),
              HasSubstr(R"("count" : 3)"))
      << "so many were closed";
  ASSERT_TRUE(inserted) << why(inserted);
  EXPECT_EQ(inserted->collisions, 1) << "what it inserted itself is no collision";
  EXPECT_EQ(count(), 6);
}

// It knows no quorum of members.
TEST_F(InsertTest, AnIndexIsMadeOnAStandalone) {
  Result<Collection> accounts = Collection::open(mongo_standalone().url(database_), "accounts",
                                                 {.deadline = std::chrono::minutes{1}});
  ASSERT_TRUE(accounts);
  Script ids = integers({1, 2});
  const auto first = insert_with_id(*accounts, ids, Documents(1).get());
  ASSERT_TRUE(first) << why(first);
  const auto inserted =
      insert_with_id(*accounts, ids, Documents(1).get(), {.field = "account", .make_index = true});
  EXPECT_TRUE(inserted) << why(inserted);
}

TEST_F(InsertTest, OfAStandaloneABrokenInsertIsUnknownAndItsDocumentsAreNamed) {
  Result<Collection> accounts = Collection::open(mongo_standalone().url(database_), "accounts",
                                                 {.deadline = std::chrono::minutes{1}});
  ASSERT_TRUE(accounts);
  ASSERT_THAT(mongo_command(mongo_standalone().url(""), "admin",
                            R"({"configureFailPoint":"failCommand","mode":{"skip":1},"data":)"
                            R"({"failCommands":["insert"],"closeConnection":true}})"),
              HasSubstr(R"("ok" : 1.0)"));
  std::vector<std::int64_t> many;
  for (std::int64_t i = 0; i < 30'000; ++i) many.push_back(i);
  Script ids = integers(many);
  const auto inserted = insert_with_id(*accounts, ids, Documents(30'000).get());
  mongo_command(mongo_standalone().url(""), "admin",
                R"({"configureFailPoint":"failCommand","mode":"off"})");
  EXPECT_EQ(code_of(inserted), Code::kUnknown) << why(inserted);
  EXPECT_THAT(why(inserted), AllOf(HasSubstr("10000 of 30000 documents were inserted, and 10000 "
                                             "may have been, from document 10001 on"),
                                   Not(HasSubstr("it is a standalone server now"))))
      << "nor was anything tried after it";
  ASSERT_FALSE(inserted);
  using Fate = Outcome::Fate;
  const auto& outcomes = inserted.error().outcomes;
  EXPECT_EQ(outcomes[9'999].fate, Fate::kInserted);
  EXPECT_EQ(outcomes[10'000].fate, Fate::kUnknown);
  EXPECT_EQ(outcomes[10'000].id, Id{std::int64_t{10'000}});
  EXPECT_EQ(outcomes[20'000].fate, Fate::kAbsent);
}

// One that is not known to leave the document out, as here of a text index.
TEST_F(InsertTest, AnErrorThatIsNoRefusalOfADocumentIsUnknown) {
  ASSERT_THAT(
      command(R"({"createIndexes":"accounts","indexes":[{"key":{"t":"text"},"name":"t"}]})"),
      HasSubstr(R"("ok" : 1.0)"));
  Collection accounts = open();
  Script ids = integers({1, 2});
  const auto inserted =
      insert_with_id(accounts, ids, Documents({R"({"t":"a","language":"x"})"}).get());
  EXPECT_EQ(code_of(inserted), Code::kUnknown) << why(inserted);
  ASSERT_FALSE(inserted);
  ASSERT_EQ(inserted.error().outcomes.size(), 1U);
  EXPECT_EQ(inserted.error().outcomes[0].fate, Outcome::Fate::kUnknown);
}

TEST_F(InsertTest, ACounterBehindTheDataIsReportedAndHealed) {
  Collection accounts = open();
  std::string documents;
  for (int i = 1; i <= 20; ++i)
    documents += (i > 1 ? "," : "") + std::string(R"({"_id":)") + std::to_string(i) + "}";
  command(R"({"insert":"accounts","documents":[)" + documents +
          R"(,{"_id":"text"},{"_id":9.5e300}]})");
  std::vector<std::int64_t> values;
  for (std::int64_t i = 1; i <= 40; ++i) values.push_back(i);

  Script far = integers(values, counter());
  const auto stuck = insert_with_id(accounts, far, Documents(1).get());
  EXPECT_EQ(code_of(stuck), Code::kFailedPrecondition);
  EXPECT_THAT(why(stuck), HasSubstr("orders is behind the data"));
  EXPECT_EQ(stuck.error().error.advice,
            (Advice{Remedy::kRaisePastField, "orders", {database_ + ".accounts", "_id"}}));
  EXPECT_EQ(far.left(), 30U);

  Script near = integers({19, 20, 21, 22}, counter());
  const auto through = insert_with_id(accounts, near, Documents(2).get());
  ASSERT_TRUE(through) << why(through);
  EXPECT_TRUE(through->behind) << "nor is that kept to oneself";

  Script from_one = integers(values, counter());
  int asked = 0;
  InsertOptions healing{.heal = [&]() -> Result<void> {
    ++asked;
    std::array<Id, 1> skipped;
    while (from_one.left() > 40 - 22)
      if (auto took = from_one.next(skipped); !took) return took;
    return {};
  }};
  const auto healed = insert_with_id(accounts, from_one, Documents(3).get(), healing);
  ASSERT_TRUE(healed) << why(healed);
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(healed->behind);
  EXPECT_EQ(healed->ids.front(), Id{std::int64_t{23}});

  Script random = integers({1, 2, 23, 24, 99, 98});
  const auto drawn = insert_with_id(accounts, random, Documents(2).get());
  ASSERT_TRUE(drawn) << why(drawn);
  EXPECT_FALSE(drawn->behind) << "a random source is never behind";
}

// ---- the proxy

class ProxyTest : public InsertTest {
 protected:
  ProxyTest() {
    options_.field = "account";
    options_.proxy = "accounts.ids";
    options_.owner = "test";
    sweeping_.field = "account";
    EXPECT_THAT(command(R"({"createIndexes":"accounts","indexes":[{"key":{"account":1},)"
                        R"("name":"plain"}]})"),
                HasSubstr(R"("ok" : 1.0)"));
  }
  std::int64_t claims(const std::string& state) {
    return count("accounts.ids", R"({"state":")" + state + R"("})");
  }
  // Sets what the primary does to the next command of a kind on one of the collections.
  std::string fail(const std::string& kind, const std::string& collection, const std::string& how) {
    return mongo_command(
        mongo_set().member(mongo_set().primary()).url("?directConnection=true"), "admin",
        R"({"configureFailPoint":"failCommand","mode":{"times":1},"data":{"failCommands":[")" +
            kind + R"("],"namespace":")" + database_ + "." + collection + R"(",)" + how + "}}");
  }

  ManualClock clock_{Instant{std::chrono::sys_days{std::chrono::year{2026} / 3 / 1}}};
  InsertOptions options_;
  SweepOptions sweeping_;
};

TEST_F(ProxyTest, AnIdThatSomebodyElseWroteIsACollisionInAnIndexOnMoreFieldsToo) {
  ASSERT_THAT(command(R"({"createIndexes":"accounts","indexes":[{"key":{"region":1,"account":1},)"
                      R"("name":"both","unique":true}]})"),
              HasSubstr(R"("ok" : 1.0)"));
  command(R"({"insert":"accounts","documents":[{"region":"eu","account":1}]})");
  Collection accounts = open();
  Script ids = integers({1, 2});
  Documents one({R"({"region":"eu"})"});
  const auto inserted = insert_with_id(accounts, ids, one.get(), options_, clock_);
  ASSERT_TRUE(inserted) << why(inserted);
  EXPECT_EQ(inserted->ids.front(), Id{std::int64_t{2}});
}

TEST_F(ProxyTest, IdsAreClaimedThenInsertedThenMarked) {
  Collection accounts = open();
  Script ids = integers({1, 2, 2, 3, 1, 4});
  const auto inserted = insert_with_id(accounts, ids, Documents(3).get(), options_, clock_);
  ASSERT_TRUE(inserted) << why(inserted);
  EXPECT_EQ(inserted->collisions, 1);
  EXPECT_EQ(claims("used"), 3);
  EXPECT_THAT(find(R"({"_id":2})", "accounts.ids"),
              HasSubstr(R"({ "_id" : 2, "state" : "used", "at" : { "$date" : )"
                        R"("2026-03-01T00:00:00Z" }, "owner" : "test" })"));
  const auto again = insert_with_id(accounts, ids, Documents(1).get(), options_, clock_);
  ASSERT_TRUE(again) << why(again);
  EXPECT_EQ(again->ids.front(), Id{std::int64_t{4}}) << "not 1, which is claimed";
  EXPECT_EQ(count(), 4);
}

TEST_F(ProxyTest, AClaimWithoutADocumentIsAbandonedAndNeverFreed) {
  Collection accounts = open();
  ASSERT_THAT(fail("insert", "accounts", R"("errorCode":20)"), HasSubstr(R"("ok" : 1.0)"));
  Script ids = integers({7, 8, 7, 9});
  const auto broken = insert_with_id(accounts, ids, Documents(2).get(), options_, clock_);
  EXPECT_EQ(code_of(broken), Code::kFailedPrecondition) << why(broken);
  EXPECT_EQ(claims("claimed"), 2) << "claimed first";
  EXPECT_EQ(count(), 0);
  sweeping_.older_than = std::chrono::hours{1};
  const auto early = sweep(accounts, sweeping_, clock_);
  ASSERT_TRUE(early) << why(early);
  EXPECT_EQ(early->abandoned, 0) << "they may be under way";
  clock_.advance(std::chrono::hours{2});
  const auto swept = sweep(accounts, sweeping_, clock_);
  ASSERT_TRUE(swept) << why(swept);
  EXPECT_EQ(swept->abandoned, 2);
  EXPECT_EQ(claims("abandoned"), 2);
  const auto next = insert_with_id(accounts, ids, Documents(1).get(), options_, clock_);
  ASSERT_TRUE(next) << why(next);
  EXPECT_EQ(next->ids.front(), Id{std::int64_t{9}}) << "7 is never given again";
  EXPECT_EQ(sweep(accounts, sweeping_, clock_)->abandoned, 0) << "again is fine";
}

TEST_F(ProxyTest, ADocumentWhoseClaimWasNotMarkedIsFoundByTheSweep) {
  Collection accounts = open();
  Script ids = integers({6, 7, 8});
  ASSERT_TRUE(insert_with_id(accounts, ids, Documents(1).get(), options_, clock_));
  ASSERT_THAT(fail("update", "accounts.ids", R"("errorCode":20)"), HasSubstr(R"("ok" : 1.0)"));
  const auto inserted = insert_with_id(accounts, ids, Documents(2).get(), options_, clock_);
  ASSERT_TRUE(inserted) << "the documents are in: " << why(inserted);
  EXPECT_EQ(claims("claimed"), 2);
  // One document has another type of number, and one claim was abandoned by mistake.
  command(R"({"update":"accounts","updates":[{"q":{"account":8},"u":[{"$set":{"account":)"
          R"({"$toInt":"$account"}}}]}]})");
  command(R"({"update":"accounts.ids","updates":[{"q":{"_id":7},"u":{"$set":)"
          R"({"state":"abandoned"}}}]})");
  clock_.advance(std::chrono::hours{2});
  const auto swept = sweep(accounts, sweeping_, clock_);
  ASSERT_TRUE(swept) << why(swept);
  EXPECT_EQ(swept->used, 2);
  EXPECT_EQ(swept->abandoned, 0);
  EXPECT_EQ(claims("used"), 3);
}

TEST_F(ProxyTest, AnInserterThatIsOnlySlowSuffersNoSweep) {
  command(R"({"create":"accounts.ids"})");
  Collection accounts = open();
  const std::string primary =
      mongo_set().member(mongo_set().primary()).url("?directConnection=true");
  ASSERT_THAT(mongo_command(primary, "admin",
                            R"({"configureFailPoint":"hangDuringBatchInsert","mode":"alwaysOn",)"
                            R"("data":{"nss":")" +
                                database_ + R"(.accounts"}})"),
              HasSubstr(R"("ok" : 1.0)"));
  Script ids = integers({7, 8});
  std::thread slow([&] {
    const auto inserted = insert_with_id(accounts, ids, Documents(2).get(), options_, clock_);
    EXPECT_TRUE(inserted) << why(inserted);
  });
  ManualClock later{clock_.now() + std::chrono::hours{2}};
  std::int64_t abandoned = 0;
  for (int i = 0; i < 10'000 && abandoned == 0; ++i) {
    const auto swept = sweep(accounts, sweeping_, later);
    EXPECT_TRUE(swept) << why(swept);
    if (!swept) break;
    abandoned += swept->abandoned;
  }
  EXPECT_EQ(abandoned, 2);
  mongo_command(primary, "admin", R"({"configureFailPoint":"hangDuringBatchInsert","mode":"off"})");
  slow.join();
  EXPECT_EQ(count(), 2);
  EXPECT_EQ(claims("used"), 2);
}

TEST_F(ProxyTest, MoreClaimsThanAPageOfManyTypesAreSwept) {
  Collection accounts = open();
  constexpr int kClaims = 2500;
  for (const char* const kind : {"n", "t"}) {
    std::string documents;
    for (int i = 0; i < kClaims; ++i)
      documents += (i > 0 ? R"(,{"_id":)" : R"({"_id":)") +
                   (*kind == 'n' ? std::to_string(i) : "\"" + std::to_string(i) + "\"") +
                   R"(,"state":"claimed","at":{"$date":"2026-01-01T00:00:00Z"}})";
    command(R"({"insert":"accounts.ids","documents":[)" + documents + "]}");
  }
  command(R"({"insert":"accounts","documents":[{"account":3},{"account":"4"},{"account":2499}]})");
  std::int64_t looked_at = 0;
  sweeping_.progress = [&](std::int64_t so_far) { looked_at = so_far; };
  const auto swept = sweep(accounts, sweeping_, clock_);
  ASSERT_TRUE(swept) << why(swept);
  EXPECT_EQ(swept->used, 3);
  EXPECT_EQ(swept->abandoned, 2 * kClaims - 3);
  EXPECT_GE(looked_at, 2 * kClaims);
  EXPECT_EQ(claims("claimed"), 0);
}

TEST_F(ProxyTest, WhatCannotWorkIsRefused) {
  Collection accounts = open();
  Script ids = integers({1});
  for (const std::string& proxy : {std::string("accounts"), std::string(), std::string("a$b"),
                                   std::string("system.x"), database_ + ".accounts.ids"}) {
    InsertOptions options = options_;
    options.proxy = proxy;
    EXPECT_EQ(code_of(insert_with_id(accounts, ids, Documents(1).get(), options)),
              Code::kInvalidArgument)
        << proxy;
  }
  SweepOptions no_index = sweeping_;
  no_index.field = "other";
  const auto swept = sweep(accounts, no_index);
  EXPECT_EQ(code_of(swept), Code::kFailedPrecondition);
  EXPECT_THAT(why(swept), HasSubstr(R"(createIndex({"other": 1}))"));
  InsertOptions unfindable = options_;
  unfindable.field = "other";
  EXPECT_EQ(code_of(insert_with_id(accounts, ids, Documents(1).get(), unfindable)),
            Code::kFailedPrecondition);
  SweepOptions no_proxy = sweeping_;
  no_proxy.proxy = "account.ids";
  EXPECT_EQ(code_of(sweep(accounts, no_proxy)), Code::kNotFound);
  EXPECT_EQ(ids.left(), 1U);
}

// ---- what a user must be allowed to do, as docs/mongodb-inserts.md has it

struct Right {
  std::string collection;
  std::string action;
};

class InsertRights : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    set_ = new servers::MongoSet({.users = true, .members = 1});
    ask("admin", R"({"createRole":"some","roles":[],"privileges":[]})");
    ask("admin", R"({"createUser":"ann","pwd":"a","roles":["some"]})");
  }
  static void TearDownTestSuite() { delete set_; }
  void SetUp() override {
    ask("app", R"({"dropDatabase":1,"writeConcern":{"w":"majority"}})");
    ask("app", R"({"createIndexes":"accounts","indexes":[{"key":{"account":1},"name":"by",)"
               R"("unique":true}]})");
  }

  static void ask(const std::string& database, const std::string& json) {
    ASSERT_THAT(mongo_command(set_->url(""), database, json), HasSubstr(R"("ok" : 1.0)"));
  }
  static void allow(const std::vector<Right>& rights) {
    std::string all;
    for (const auto& [collection, action] : rights)
      all += (all.empty() ? "" : ",") + (R"({"resource":{"db":"app","collection":")" + collection) +
             R"("},"actions":[")" + action + "\"]}";
    ask("admin", R"({"updateRole":"some","privileges":[)" + all + "]}");
  }
  // `act` by ann succeeds with all of the rights, and otherwise names the one that is missing.
  static void needs_exactly(const std::vector<Right>& rights,
                            const std::function<Result<void>(Collection&)>& act) {
    const auto as_ann = [&] {
      Result<Collection> accounts = Collection::open(
          "mongodb://ann:a@" + set_->hosts() + "/app?authSource=admin&replicaSet=set", "accounts",
          {.deadline = std::chrono::minutes{1}});
      return accounts ? act(*accounts) : std::unexpected(accounts.error());
    };
    for (std::size_t without = 0; without < rights.size(); ++without) {
      std::vector<Right> others = rights;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(without));
      allow(others);
      const auto refused = as_ann();
      const auto& [collection, action] = rights[without];
      EXPECT_EQ(code_of(refused), Code::kPermissionDenied)
          << action << " on " << collection << why(refused);
      EXPECT_THAT(why(refused),
                  AllOf(HasSubstr("the user needs the action " + action + " in the database app"),
                        HasSubstr(collection)));
    }
    allow(rights);
    const auto done = as_ann();
    EXPECT_TRUE(done) << why(done);
  }

  static Result<void> insert(Collection& into, const InsertOptions& options) {
    Script ids = integers({++id_});
    const auto inserted = insert_with_id(into, ids, Documents(1).get(), options);
    if (!inserted) return std::unexpected(inserted.error().error);
    return {};
  }

  static servers::MongoSet* set_;
  static std::int64_t id_;
};

servers::MongoSet* InsertRights::set_ = nullptr;
std::int64_t InsertRights::id_ = 0;

TEST_F(InsertRights, OfInsertsAndTheirIndex) {
  needs_exactly({{"accounts", "listIndexes"}, {"accounts", "insert"}},
                [](Collection& accounts) { return insert(accounts, {.field = "account"}); });
  needs_exactly({{"accounts", "listIndexes"}, {"accounts", "createIndex"}, {"accounts", "insert"}},
                [](Collection& accounts) {
                  mongo_command(set_->url(""), "app", R"({"drop":"accounts"})");
                  return insert(accounts, {.field = "account", .make_index = true});
                });
}

TEST_F(InsertRights, OfHealing) {
  ask("app", R"({"insert":"accounts","documents":[{"account":41}]})");
  needs_exactly({{"accounts", "find"}}, [](Collection& accounts) -> Result<void> {
    const auto values = ExistingValues::open(
        "mongodb://ann:a@" + set_->hosts() + "/?authSource=admin&replicaSet=set", accounts.name(),
        "account", {});
    if (!values) return std::unexpected(values.error());
    const auto largest = (*values)->largest(1, 100);
    if (!largest) return std::unexpected(largest.error());
    EXPECT_EQ(*largest, 41);
    return {};
  });
}

TEST_F(InsertRights, OfTheProxyAndItsSweep) {
  needs_exactly({{"accounts", "listIndexes"},
                 {"accounts", "insert"},
                 {"accounts.ids", "listIndexes"},
                 {"accounts.ids", "insert"},
                 {"accounts.ids", "update"}},
                [](Collection& accounts) {
                  return insert(accounts, {.field = "account", .proxy = "accounts.ids"});
                });
  ask("app", R"({"insert":"accounts.ids","documents":[{"_id":7777,"state":"claimed",)"
             R"("at":{"$date":"2020-01-01T00:00:00Z"}}]})");
  std::int64_t abandoned = 0;
  needs_exactly({{"accounts", "listIndexes"},
                 {"accounts", "find"},
                 {"accounts.ids", "listIndexes"},
                 {"accounts.ids", "find"},
                 {"accounts.ids", "update"}},
                [&](Collection& accounts) -> Result<void> {
                  const auto swept = sweep(accounts, {.field = "account"});
                  if (!swept) return std::unexpected(swept.error());
                  abandoned = swept->abandoned;
                  return {};
                });
  EXPECT_EQ(abandoned, 1);
}

TEST_F(InsertTest, AViewOrABadNameIsRefused) {
  command(R"({"create":"accounts"})");
  command(R"({"create":"seen","viewOn":"accounts","pipeline":[]})");
  Collection seen = open("seen");
  Script ids = integers({1});
  const auto into_view = insert_with_id(seen, ids, Documents(1).get());
  EXPECT_EQ(code_of(into_view), Code::kFailedPrecondition) << why(into_view);
  for (const std::string name : {"", ".", "a.", ".a", "app.", "app.system.users", "app.a$b",
                                 "a b.c", "app.a..b", "admin.x", "app.\xff"}) {
    const auto none = Collection::open(mongo_set().url(database_), name);
    EXPECT_EQ(code_of(none), Code::kInvalidArgument) << name;
  }
  using namespace std::string_view_literals;
  for (const std::string_view name :
       {"ap\0x.accounts"sv, "app.acc\0ounts"sv, "a\xffp.accounts"sv}) {
    const auto none = Collection::open(mongo_set().url(database_), name);
    EXPECT_EQ(code_of(none), Code::kInvalidArgument) << name;
  }
  EXPECT_THAT(why(Collection::open("mongodb://h/app?w=1", "accounts")), HasSubstr("cannot be had"));
  EXPECT_EQ(open("other.orders.2026").name(), "other.orders.2026");
}

TEST(MongodbJson, OneDocumentOfExtendedJsonALine) {
  const auto documents = [](const std::string& json) { return document_from_json(json); };
  EXPECT_TRUE(documents(R"( {"a": {"$numberLong":"5"}, "b": {"$date":"2026-01-01T00:00:00Z"}} )"));
  EXPECT_TRUE(documents("{}"));
  for (const char* const json :
       {"", " ", "5", "[1]", R"({"a":1} {"b":2})", R"({"a":1},{"b":2})", R"({"a":1}])", R"({"a":1)",
        R"({"a":1,})", R"({"a\u0000b":1})", "{\"a\":\"\xff\"}", R"({"a":{"$numberLong":"x"}})",
        R"({"x":9223372036854775808})", R"([{}])", R"({"$oid":"00112233445566778899aabb"})"})
    EXPECT_EQ(code_of(documents(json)), Code::kInvalidArgument) << json;
  EXPECT_THAT(why(documents(R"({"a":1,})")), HasSubstr("position 7"));
}

}  // namespace
}  // namespace idmint::mongodb
