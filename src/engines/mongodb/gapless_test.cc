// Gapless inserts on real servers: whatever dies, the numbers are 1 to n.
#include "idmint/gapless.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mongoc/mongoc.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/gapless.h"
#include "tests/servers/mongo.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::in_child;
using fakes::why;
using servers::mongo_command;
using servers::mongo_set;
using servers::mongo_standalone;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

using Document = std::vector<std::byte>;

Document document(const std::string& json) {
  bson_error_t error;
  bson_t* const parsed = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(json.data()),
                                            static_cast<ssize_t>(json.size()), &error);
  if (parsed == nullptr) std::abort();
  const auto* const bytes = reinterpret_cast<const std::byte*>(bson_get_data(parsed));
  Document copy(bytes, bytes + parsed->len);
  bson_destroy(parsed);
  return copy;
}

Document key(const std::string& text) { return document(R"({"key":")" + text + R"("})"); }

// {a: {a: {a: ...}}}
Document nested(std::size_t levels) {
  Document deep(levels * 8 + 5);
  for (std::size_t i = 0; i <= levels; ++i) {
    const auto size = static_cast<std::uint32_t>((levels - i) * 8 + 5);
    std::memcpy(deep.data() + i * 7, &size, sizeof size);
    if (i == levels) break;
    deep[i * 7 + 4] = std::byte{3};
    deep[i * 7 + 5] = std::byte{'a'};
  }
  return deep;
}

// The values of `field` in the documents of the collection, as text, in their order.
std::vector<std::string> all_of(const std::string& url, const std::string& database,
                                const std::string& collection, const std::string& field) {
  mongoc_client_t* const client = mongoc_client_new(url.c_str());
  mongoc_collection_t* const there =
      mongoc_client_get_collection(client, database.c_str(), collection.c_str());
  bson_t* const filter = bson_new();
  mongoc_cursor_t* const cursor = mongoc_collection_find_with_opts(there, filter, nullptr, nullptr);
  std::vector<std::string> found;
  const bson_t* one = nullptr;
  while (mongoc_cursor_next(cursor, &one)) {
    bson_iter_t at;
    if (!bson_iter_init_find(&at, one, field.c_str())) {
      found.emplace_back("none");
    } else if (bson_iter_type(&at) == BSON_TYPE_INT64) {
      found.push_back(std::to_string(bson_iter_int64(&at)));
    } else if (bson_iter_type(&at) == BSON_TYPE_UTF8) {
      found.emplace_back(bson_iter_utf8(&at, nullptr));
    } else {
      found.emplace_back("other");
    }
  }
  bson_error_t error;
  EXPECT_FALSE(mongoc_cursor_error(cursor, &error)) << error.message;
  mongoc_cursor_destroy(cursor);
  bson_destroy(filter);
  mongoc_collection_destroy(there);
  mongoc_client_destroy(client);
  return found;
}

// A client's transaction that has changed the counter "invoices" and goes no further.
class OpenTransaction {
 public:
  OpenTransaction(const std::string& url, const std::string& database, bson_t* update)
      : client_(mongoc_client_new(url.c_str())),
        session_(mongoc_client_start_session(client_, nullptr, &error_)) {
    EXPECT_TRUE(mongoc_client_session_start_transaction(session_, nullptr, &error_));
    mongoc_collection_t* const counters =
        mongoc_client_get_collection(client_, database.c_str(), "idmint.counters");
    bson_t options = BSON_INITIALIZER;
    EXPECT_TRUE(mongoc_client_session_append(session_, &options, &error_));
    bson_t* const query = BCON_NEW("_id", "invoices");
    EXPECT_TRUE(mongoc_collection_update_one(counters, query, update, &options, nullptr, &error_))
        << error_.message;
    bson_destroy(query);
    bson_destroy(update);
    bson_destroy(&options);
    mongoc_collection_destroy(counters);
  }
  ~OpenTransaction() {
    mongoc_client_session_destroy(session_);
    mongoc_client_destroy(client_);
  }
  OpenTransaction(const OpenTransaction&) = delete;
  OpenTransaction& operator=(const OpenTransaction&) = delete;

  void abort() { mongoc_client_session_abort_transaction(session_, nullptr); }
  bool commit() { return mongoc_client_session_commit_transaction(session_, nullptr, &error_); }

 private:
  bson_error_t error_{};
  mongoc_client_t* const client_;
  mongoc_client_session_t* const session_;
};

class GaplessTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static_cast<void>(mongo_set());
    mongoc_init();
  }

  fakes::TempFolder folder_;
  std::string database_ = std::filesystem::path(folder_.path("x")).parent_path().filename();
  std::string url_ = mongo_set().url(database_);

  void SetUp() override { create({.name = "invoices", .strategy = Strategy::kGapless}); }

  void create(const SequenceDefinition& definition) {
    const auto store = Store::open(url_, {.deadline = seconds{60}});
    ASSERT_TRUE(store) << why(store);
    const auto created = create_sequence(**store, definition);
    ASSERT_TRUE(created) << why(created);
  }
  servers::OpenedInserter open(const std::string& name = "invoices",
                               const std::string& field = "number",
                               milliseconds deadline = seconds{60}) {
    const auto try_to = [&] {
      return servers::open_gapless(url_, name, database_ + ".docs", field, {.deadline = deadline});
    };
    auto inserter = try_to();
    // The deadline may be so short that the opening misses it.
    for (int attempt = 0; !inserter && deadline < seconds{60} && attempt < 20; ++attempt)
      inserter = try_to();
    if (!inserter) {
      ADD_FAILURE() << why(inserter);
      std::abort();
    }
    return *std::move(inserter);
  }
  std::string ask(const std::string& json) { return mongo_command(url_, database_, json); }
  void make_index(const std::string& field) {
    ASSERT_THAT(ask(R"({"createIndexes":"docs","indexes":[{"key":{")" + field + R"(":1},"name":")" +
                    field + R"(","unique":true}],"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  }
  std::vector<std::int64_t> numbers(const std::string& field = "number") {
    std::vector<std::int64_t> all;
    for (const std::string& text : all_of(url_, database_, "docs", field))
      all.push_back(std::stoll(text));
    std::ranges::sort(all);
    return all;
  }
  std::int64_t next() {
    const auto store = Store::open(url_, {.deadline = seconds{60}});
    return store ? (*store)->counters()->peek("invoices")->next : -1;
  }
  // 1 to n, and the counter comes next.
  std::int64_t expect_no_hole(const std::string& field = "number") {
    const std::vector<std::int64_t> all = numbers(field);
    std::vector<std::int64_t> wanted(all.size());
    std::iota(wanted.begin(), wanted.end(), 1);
    EXPECT_EQ(all, wanted);
    EXPECT_EQ(next(), std::ssize(all) + 1);
    return std::ssize(all);
  }
};

TEST_F(GaplessTest, IsBoundToItsFirstPlace) {
  const Document some = document(R"({"a":1})");
  ASSERT_EQ(open()->insert(some), 1);
  for (const auto& [collection, field] :
       {std::pair{database_ + ".others", "number"}, {database_ + ".docs", "no"}}) {
    const auto other =
        servers::open_gapless(url_, "invoices", collection, field, {.deadline = seconds{60}});
    ASSERT_TRUE(other) << why(other);
    const auto refused = (*other)->insert(some);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
    EXPECT_THAT(why(refused), HasSubstr(database_ + ".docs:number"));
  }
  EXPECT_EQ(open()->insert(some), 2);
  EXPECT_THAT(numbers(), testing::ElementsAre(1, 2));
}

TEST_F(GaplessTest, AStoreInThePlaceOfAnotherGivesNoNumber) {
  const auto inserter = open();
  ASSERT_EQ(inserter->insert(key("a")), 1);
  ASSERT_THAT(ask(R"({"dropDatabase":1,"writeConcern":{"w":"majority"}})"),
              HasSubstr(R"("ok" : 1.0)"));
  create({.name = "invoices", .strategy = Strategy::kGapless, .first = 1});
  ASSERT_EQ(open()->insert(key("b")), 1);
  ASSERT_EQ(open()->insert(key("c")), 2);
  const auto refused = inserter->insert(key("d"));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << why(refused);
  EXPECT_THAT(why(refused), HasSubstr("another store is there now, with the id "));
  EXPECT_EQ(expect_no_hole(), 2);
}

TEST_F(GaplessTest, ARenamedCollectionKeepsItsSequence) {
  create({.name = "others", .strategy = Strategy::kGapless});
  const Document some = document(R"({"a":1})");
  const auto place = [&](const std::string& collection) { return database_ + "." + collection; };
  const auto rename = [&](const std::string& from, const std::string& to) {
    ASSERT_THAT(mongo_command(url_, "admin",
                              R"({"renameCollection":")" + place(from) + R"(","to":")" + place(to) +
                                  R"(","writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  };
  const auto opened = [&](const std::string& name, const std::string& collection,
                          const std::string& field = "number") {
    return servers::open_gapless(url_, name, place(collection), field, {.deadline = seconds{60}});
  };
  const auto stays = open();
  ASSERT_EQ(stays->insert(some), 1);
  ASSERT_EQ(open()->insert(some), 2);
  rename("docs", "renamed");
  const auto refused = opened("others", "renamed");
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << why(refused);
  EXPECT_THAT(why(refused), HasSubstr("sequence invoices numbers"));
  EXPECT_TRUE(opened("others", "renamed", "another_field"));
  // Its own goes on in it, and then only there.
  const auto follows = opened("invoices", "renamed");
  ASSERT_TRUE(follows) << why(follows);
  EXPECT_EQ((*follows)->insert(some), 3);
  EXPECT_EQ(code_of(stays->insert(some)), Code::kFailedPrecondition);
  EXPECT_EQ(all_of(url_, database_, "renamed", "number"),
            (std::vector<std::string>{"1", "2", "3"}));

  // A collection that is dropped and made again is numbered on, and so it is after another rename.
  ASSERT_THAT(ask(R"({"drop":"renamed","writeConcern":{"w":"majority"}})"),
              HasSubstr(R"("ok" : 1.0)"));
  const auto again = opened("invoices", "renamed");
  ASSERT_TRUE(again) << why(again);
  EXPECT_EQ((*again)->insert(some), 4);
  EXPECT_EQ(code_of(opened("others", "renamed")), Code::kFailedPrecondition) << "of that name";
  rename("renamed", "once_more");
  EXPECT_EQ(code_of(opened("others", "once_more")), Code::kFailedPrecondition);

  // As an older version bound it: the next inserter notes the collection.
  ASSERT_THAT(ask(R"({"update":"idmint.counters","updates":[{"q":{"_id":"invoices"},)"
                  R"("u":{"$unset":{"numbers_in":1}}}],"writeConcern":{"w":"majority"}})"),
              HasSubstr(R"("nModified" : 1)"));
  ASSERT_TRUE(opened("invoices", "renamed"));
  rename("renamed", "the_last");
  EXPECT_EQ(code_of(opened("others", "the_last")), Code::kFailedPrecondition);
}

TEST_F(GaplessTest, DocumentsGetTheNumbersInTheirOrder) {
  const auto inserter = open();
  const Document a = key("a");
  const Document b = key("b");
  EXPECT_EQ(inserter->insert(a), 1);
  const std::array<std::span<const std::byte>, 3> three{b, a, b};
  EXPECT_EQ(inserter->insert(three), (Range{2, 1, 3}));
  EXPECT_THAT(ask(R"({"find":"docs","projection":{"_id":0}})"),
              HasSubstr(R"([ { "key" : "a", "number" : 1 }, { "key" : "b", "number" : 2 }, )"
                        R"({ "key" : "a", "number" : 3 }, { "key" : "b", "number" : 4 } ])"));
  EXPECT_EQ(expect_no_hole(), 4);
  EXPECT_EQ(inserter->statistics().documents, 4);
  EXPECT_EQ(inserter->statistics().transactions, 2);
}

TEST_F(GaplessTest, TheNumberCanBeTheIdAndText) {
  const auto by_id = open("invoices", "_id");
  EXPECT_EQ(by_id->insert(key("a")), 1);
  EXPECT_EQ(by_id->insert(key("b")), 2);
  EXPECT_EQ(expect_no_hole("_id"), 2);
  create({.name = "texts",
          .strategy = Strategy::kGapless,
          .first = 99,
          .last = 9999,
          .form = {.prefix = "INV-", .digits = 4}});
  const auto inserter = open("texts");
  EXPECT_EQ(inserter->insert(key("c")), 99);
  EXPECT_EQ(inserter->insert(key("d")), 100);
  EXPECT_THAT(
      ask(R"({"find":"docs","filter":{"number":{"$exists":true}}})"),
      AllOf(HasSubstr(R"("number" : "INV-0099" })"), HasSubstr(R"("number" : "INV-0100")")));
}

TEST_F(GaplessTest, CallersShareTransactions) {
  const auto inserter = open();
  constexpr int kThreads = 64;
  constexpr int kEach = 30;
  std::vector<std::vector<std::int64_t>> got(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto number = inserter->insert(key(std::to_string(t) + "/" + std::to_string(i)));
          ASSERT_TRUE(number) << why(number);
          got[static_cast<std::size_t>(t)].push_back(*number);
        }
      });
  }
  EXPECT_EQ(expect_no_hole(), kThreads * kEach);
  std::set<std::int64_t> all;
  for (const auto& each : got) {
    EXPECT_TRUE(std::ranges::is_sorted(each));
    all.insert(each.begin(), each.end());
  }
  EXPECT_EQ(all.size(), kThreads * kEach);
  EXPECT_LT(inserter->statistics().transactions, kThreads * kEach / 4);
}

TEST_F(GaplessTest, OneThreadInsertsManyWithoutWaiting) {
  constexpr std::int64_t kCalls = 2000;
  const auto inserter = open();
  const Document some = document(R"({"a":1})");
  const std::span<const std::byte> bytes(some);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::int64_t> given;
  for (std::int64_t i = 0; i < kCalls; ++i) {
    const auto queued = inserter->submit(std::span(&bytes, 1), [&](const Result<Range>& range) {
      const std::lock_guard lock(mutex);
      given.push_back(range ? range->first : 0);
      changed.notify_one();
    });
    ASSERT_TRUE(queued) << why(queued);
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return std::ssize(given) == kCalls; });
  }
  std::ranges::sort(given);
  EXPECT_EQ(given, numbers());
  EXPECT_EQ(expect_no_hole(), kCalls);
  EXPECT_LT(inserter->statistics().transactions, kCalls / 4);
}

TEST_F(GaplessTest, CloseAnswersWhoWaitsAndLeavesNoHole) {
  const auto inserter = open();
  const Document some = document(R"({"a":1})");
  const std::span<const std::byte> bytes(some);
  std::atomic<int> answered{0};
  std::atomic<int> inserted{0};
  int queued = 0;
  for (int i = 0; i < 3000; ++i) {
    queued += inserter->submit(std::span(&bytes, 1),
                               [&](const Result<Range>& range) {
                                 EXPECT_TRUE(range || range.error().code == Code::kUnavailable);
                                 inserted += range ? 1 : 0;
                                 ++answered;
                               })
                  ? 1
                  : 0;
  }
  inserter->close();
  EXPECT_EQ(answered.load(), queued);
  EXPECT_EQ(expect_no_hole(), inserted.load());
  EXPECT_EQ(code_of(inserter->insert(some)), Code::kUnavailable);
}

TEST_F(GaplessTest, TwoInsertersShareASequence) {
  const std::array inserters{open(), open()};
  {
    std::vector<std::jthread> threads;
    for (const auto& inserter : inserters)
      for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
          for (int i = 0; i < 20; ++i) {
            const auto number = inserter->insert(key("x"));
            ASSERT_TRUE(number) << why(number);
          }
        });
  }
  EXPECT_EQ(expect_no_hole(), 160);
}

TEST_F(GaplessTest, WhoIsRefusedDisturbsNobodyAndLeavesNoHole) {
  make_index("key");
  const auto inserter = open();
  ASSERT_EQ(inserter->insert(key("taken")), 1);
  const Document fresh = key("fresh");
  const Document taken = key("taken");
  const std::array<std::span<const std::byte>, 2> both{fresh, taken};
  const auto refused = inserter->insert(both);
  EXPECT_EQ(code_of(refused), Code::kAlreadyExists);
  EXPECT_THAT(why(refused), AllOf(HasSubstr("document 2: "), HasSubstr("dup key"),
                                  HasSubstr("no number was used")));
  EXPECT_EQ(expect_no_hole(), 1) << "all of a call's documents or none";
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 24; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 10; ++i) {
          const bool bad = (t + i) % 4 == 0;
          const auto number =
              inserter->insert(key(bad ? "taken" : std::to_string(t) + "/" + std::to_string(i)));
          if (bad ? code_of(number) != Code::kAlreadyExists : !number) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(expect_no_hole(), 1 + 24 * 10 * 3 / 4);
}

TEST_F(GaplessTest, TheCollectionsValidatorIsHeard) {
  ASSERT_THAT(ask(R"({"create":"docs","validator":{"key":{"$type":"string"}}})"),
              HasSubstr(R"("ok" : 1.0)"));
  const auto inserter = open();
  EXPECT_EQ(code_of(inserter->insert(document(R"({"key":5})"))), Code::kInvalidArgument);
  EXPECT_EQ(inserter->insert(key("a")), 1);
}

TEST_F(GaplessTest, ANumberThatAnotherProgramWroteIsReportedAsThat) {
  make_index("number");
  const auto inserter = open();
  ASSERT_EQ(inserter->insert(key("a")), 1);
  ASSERT_THAT(ask(R"({"insert":"docs","documents":[{"number":2}]})"), HasSubstr(R"("n" : 1)"));
  const auto refused = inserter->insert(key("b"));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), AllOf(HasSubstr("has the number 2 in number already"),
                                  HasSubstr("did not come from sequence invoices")));
  EXPECT_EQ(next(), 2);
}

TEST_F(GaplessTest, MoreThanOneMessageIsOneTransaction) {
  const auto inserter = open();
  const Document large = document(R"({"key":")" + std::string(9 << 20, 'x') + R"("})");
  const std::array<std::span<const std::byte>, 3> three{large, large, large};
  const auto range = inserter->insert(three);
  EXPECT_EQ(range, (Range{1, 1, 3})) << why(range);
  const Document largest = document(R"({"key":")" + std::string((16 << 20) - 200, 'x') + R"("})");
  EXPECT_EQ(inserter->insert(largest), 4);
  const Document small = key("s");
  const std::vector<std::span<const std::byte>> many(5000, small);
  EXPECT_EQ(inserter->insert(many), (Range{5, 1, 5000}));
  EXPECT_EQ(inserter->statistics().transactions, 3);
  EXPECT_EQ(expect_no_hole(), 5004);
}

TEST_F(GaplessTest, BadInputIsRefusedBeforeAnythingIsSent) {
  const auto inserter = open();
  Document cut = key("a");
  cut.pop_back();
  Document wrong = key("a");
  wrong[4] = std::byte{0x7e};
  const Document too_large = document(R"({"key":")" + std::string((16 << 20) - 100, 'x') + R"("})");
  for (const Document& bad : {Document{}, cut, wrong, too_large, nested(201), nested(2'000'000),
                              document(R"({"number":"mine"})")}) {
    const auto refused = inserter->insert(bad);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument);
    EXPECT_THAT(why(refused), HasSubstr("document 1: "));
  }
  EXPECT_EQ(code_of(inserter->insert(std::span<const std::span<const std::byte>>())),
            Code::kInvalidArgument);
  const Document small = key("s");
  const std::vector<std::span<const std::byte>> many(GaplessInserter::kMaxDocuments + 1, small);
  EXPECT_EQ(code_of(inserter->insert(many)), Code::kInvalidArgument);
  EXPECT_EQ(inserter->statistics().transactions, 0);
  using namespace std::string_literals;
  for (const std::string& collection :
       {"docs"s, ""s, ".docs"s, "a."s, "admin.docs"s, "a.b$c"s, "a.system.views"s, "a.b\0c"s,
        "a b.c"s, "a."s + std::string(300, 'x'), "a.b..c"s, "a.b\xff"s, "a\xff.b"s})
    EXPECT_EQ(code_of(servers::open_gapless(url_, "invoices", collection, "number")),
              Code::kInvalidArgument)
        << collection;
  for (const std::string& field :
       {""s, "$n"s, "a.b"s, "a\0b"s, "\xc3"s, "\xed\xa0\x80"s, "\xc0\x80"s, std::string(256, 'x')})
    EXPECT_EQ(code_of(servers::open_gapless(url_, "invoices", "a.b", field)),
              Code::kInvalidArgument)
        << field;
  EXPECT_EQ(code_of(servers::open_gapless(url_, "none", "a.b", "n")), Code::kNotFound);
  create({.name = "orders"});
  EXPECT_EQ(code_of(servers::open_gapless(url_, "orders", "a.b", "n")), Code::kFailedPrecondition);
}

TEST_F(GaplessTest, TheEndADamageAndARetirementAreTold) {
  create({.name = "few", .strategy = Strategy::kGapless, .last = 3});
  const auto few = servers::open_gapless(url_, "few", database_ + ".more", "number").value();
  const Document one = key("a");
  const std::array<std::span<const std::byte>, 2> two{one, one};
  EXPECT_EQ(few->insert(two), (Range{1, 1, 2}));
  EXPECT_EQ(code_of(few->insert(two)), Code::kOutOfRange);
  EXPECT_EQ(few->insert(one), 3);
  EXPECT_EQ(code_of(few->insert(one)), Code::kOutOfRange);

  EXPECT_EQ(open()->insert(one), 1);
  const auto set_to = [&](const std::string& value) {
    ask(R"({"update":"idmint.counters","updates":[{"q":{"_id":"invoices"},"u":{"$set":{"next":)" +
        value + R"(}}}],"writeConcern":{"w":"majority"}})");
  };
  for (const char* const next : {R"("2")", "2.5", "2.0", R"({"$numberLong":"0"})"}) {
    set_to(next);
    EXPECT_EQ(code_of(open()->insert(one)), Code::kDataLoss) << next;
  }
  set_to(R"({"$numberLong":"2"})");
  const auto inserter = open();
  EXPECT_EQ(inserter->insert(one), 2);
  EXPECT_EQ(numbers().size(), 2);
  const auto store = Store::open(url_, {.deadline = seconds{60}});
  ASSERT_TRUE(store && retire_sequence(**store, "invoices"));
  EXPECT_EQ(code_of(inserter->insert(one)), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(servers::open_gapless(url_, "invoices", "a.b", "n")),
            Code::kFailedPrecondition);
  ask(R"({"delete":"idmint.counters","deletes":[{"q":{"_id":"few"},"limit":1}]})");
  EXPECT_EQ(code_of(few->insert(one)), Code::kDataLoss);
}

TEST_F(GaplessTest, AStoreThatIsSetBackIsToldAndGivesNoNumberTwice) {
  const auto inserter = open();
  ASSERT_EQ(inserter->insert(key("a")), 1);
  const auto copy = [&](const std::string& from, const std::string& to) {
    EXPECT_THAT(ask(R"({"aggregate":")" + from + R"(","pipeline":[{"$out":")" + to +
                    R"("}],"cursor":{},"writeConcern":{"w":"majority"}})"),
                HasSubstr(R"("ok" : 1.0)"));
  };
  copy("idmint.counters", "counters_backup");
  copy("docs", "docs_backup");
  for (std::int64_t number = 2; number < 5; ++number) ASSERT_EQ(inserter->insert(key("b")), number);
  copy("counters_backup", "idmint.counters");
  copy("docs_backup", "docs");
  for (int again = 0; again < 2; ++again) {
    const auto refused = inserter->insert(key("c"));
    EXPECT_EQ(code_of(refused), Code::kDataLoss);
    EXPECT_THAT(why(refused), AllOf(HasSubstr("gives 2 next, and 4 was given already"),
                                    HasSubstr("gone back"), HasSubstr("nothing was inserted")));
  }
  EXPECT_EQ(numbers(), (std::vector<std::int64_t>{1}));
  // Opened again, too: what a process was given it knows for its life.
  EXPECT_EQ(code_of(open()->insert(key("d"))), Code::kDataLoss);
}

TEST_F(GaplessTest, AValueAloneIsRefusedAndSoIsARaise) {
  const auto store = Store::open(url_, {.deadline = seconds{60}});
  ASSERT_TRUE(store);
  const auto sequence = Sequence::open(**store, "invoices");
  EXPECT_EQ(code_of(sequence), Code::kFailedPrecondition);
  EXPECT_THAT(why(sequence), HasSubstr("GaplessInserter"));
  EXPECT_EQ(code_of(raise_sequence(**store, "invoices", 10)), Code::kFailedPrecondition);
  EXPECT_EQ(next(), 1);
}

TEST_F(GaplessTest, AStandaloneIsRefused) {
  const std::string url = mongo_standalone().url(database_);
  const auto store = Store::open(url, {.deadline = seconds{60}});
  ASSERT_TRUE(store) << why(store);
  const SequenceDefinition definition{.name = "invoices", .strategy = Strategy::kGapless};
  const auto refused = create_sequence(**store, definition);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(why(refused), HasSubstr("--replSet"));
  ASSERT_TRUE((*store)->counters()->create("invoices", {1, kLargestValue}));
  ASSERT_TRUE((*store)->catalog()->define(definition));
  EXPECT_EQ(code_of(servers::open_gapless(url, "invoices", "a.b", "n")), Code::kFailedPrecondition);
}

TEST_F(GaplessTest, ACallThatCannotBeDoneInTimeSaysSo) {
  static_cast<void>(open());  // binds it
  // Somebody else holds the counter, under another name.
  OpenTransaction held(url_, database_, BCON_NEW("$set", "{", "x", BCON_INT32(1), "}"));
  const auto inserter = open("invoices", "number", milliseconds{700});
  const auto begin = std::chrono::steady_clock::now();
  const auto refused = inserter->insert(key("a"));
  EXPECT_EQ(code_of(refused), Code::kUnavailable) << why(refused);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds{5});
  held.abort();
  EXPECT_EQ(numbers().size(), 0);
  const auto again = open();
  EXPECT_EQ(again->insert(key("a")), 1);
}

// ---- faults

// The primary fails the next commands of the inserter.
class GaplessFaults : public GaplessTest {
 protected:
  // `how`: what failCommand is told. `mode`: "off", or how often.
  void fail(const std::string& command, const std::string& how, const std::string& mode) {
    const std::string data = R"("data":{"failCommands":[")" + command + R"("],"appName":"idmint )" +
                             database_ + R"( gapless invoices",)" + how + "}";
    admin(R"({"configureFailPoint":"failCommand","mode":)" + mode +
          (mode == kOff ? "" : "," + data) + "}");
  }
  // A command of the primary's database admin.
  static void admin(const std::string& command) {
    const std::string reply = mongo_command(
        mongo_set().member(mongo_set().primary()).url("?directConnection=true"), "admin", command);
    ASSERT_THAT(reply, HasSubstr(R"("ok" : 1.0)"));
  }
  static constexpr const char* kOff = R"("off")";
  static constexpr const char* kAlways = R"("alwaysOn")";
  static constexpr const char* kCut = R"("closeConnection":true)";
  // The command is done, and the server cannot say that a majority has it.
  static constexpr const char* kDoneUnknown =
      R"("writeConcernError":{"code":64,"errmsg":"waiting for replication timed out"})";
  void TearDown() override { fail("ping", kCut, kOff); }
};

TEST_F(GaplessFaults, ACommitOfUnknownOutcomeIsSentAgainAndNotDoneTwice) {
  const auto inserter = open();
  fail("commitTransaction", kDoneUnknown, R"({"times":3})");
  EXPECT_EQ(inserter->insert(key("a")), 1);
  fail("commitTransaction", kCut, R"({"times":2})");
  EXPECT_EQ(inserter->insert(key("b")), 2);
  EXPECT_EQ(inserter->statistics().transactions, 2);
  EXPECT_EQ(expect_no_hole(), 2);
}

TEST_F(GaplessFaults, ACommitThatIsUnknownAtTheDeadlineIsSaidToBe) {
  const auto inserter = open("invoices", "number", seconds{6});
  for (const char* const how : {kDoneUnknown, kCut}) {
    fail("commitTransaction", how, kAlways);
    const auto unknown = inserter->insert(key("a"));
    EXPECT_TRUE(code_of(unknown) == Code::kUnknown || code_of(unknown) == Code::kDeadlineExceeded)
        << why(unknown);
    fail("ping", kCut, kOff);
  }
  // The first was done, the second was not.
  EXPECT_EQ(open()->insert(key("last")), 2);
  EXPECT_EQ(expect_no_hole(), 2);
}

// A copy of this process is further in the session, which was renewed: what the commit of the old
// one did is not known from the new one.
TEST_F(GaplessFaults, ACommitWhoseSessionWasRenewedIsBegunAgainOnlyIfItWasNotSentBefore) {
  const auto inserter = open();
  const std::string renewed = R"("errorCode":225)";
  fail("commitTransaction", renewed, R"({"times":1})");
  const auto inserted = inserter->insert(key("a"));
  EXPECT_EQ(inserted, 1) << why(inserted);
  EXPECT_EQ(expect_no_hole(), 1) << "the first commit was not done";

  // The next commit is done and its answer is lost; each one after it meets the renewed session.
  admin(
      R"({"configureFailPoint":"participantReturnNetworkErrorForCommitAfterExecutingCommitLogic",)"
      R"("mode":{"times":1}})");
  fail("commitTransaction", renewed, R"({"skip":1})");
  const auto unknown = inserter->insert(key("b"));
  fail("ping", kCut, kOff);
  EXPECT_EQ(code_of(unknown), Code::kUnknown) << why(unknown);
  EXPECT_THAT(why(unknown), HasSubstr("inserted or not"));
  EXPECT_EQ(open()->insert(key("last")), 3) << "it was not inserted twice";
  EXPECT_EQ(expect_no_hole(), 3);
}

TEST_F(GaplessFaults, WhatBreaksBeforeTheCommitIsBegunAgain) {
  const auto inserter = open();
  std::int64_t number = 0;
  for (const char* const command : {"findAndModify", "insert", "commitTransaction"})
    for (const char* const how : {R"("errorCode":112,"errorLabels":["TransientTransactionError"])",
                                  R"("errorCode":251,"errorLabels":["TransientTransactionError"])",
                                  R"("errorCode":189,"errorLabels":["TransientTransactionError"])",
                                  R"("errorCode":11601)", kCut}) {
      fail(command, how, R"({"times":2})");
      const auto inserted = inserter->insert(key("a"));
      EXPECT_EQ(inserted, ++number) << command << how << why(inserted);
    }
  EXPECT_EQ(expect_no_hole(), 15);
}

TEST_F(GaplessFaults, WhatIsNotInsertedInTimeIsSaidNotToBe) {
  const auto hurried = open("invoices", "number", seconds{2});
  const auto patient = open();
  for (const char* const command : {"findAndModify", "insert"}) {
    fail(command, kCut, kAlways);
    EXPECT_EQ(code_of(hurried->insert(key("a"))), Code::kUnavailable);
    fail(command, R"("errorCode":13)", kAlways);
    EXPECT_EQ(code_of(patient->insert(key("a"))), Code::kPermissionDenied);
    fail(command, R"("errorCode":50)", kAlways);  // it took too long
    EXPECT_EQ(code_of(patient->insert(key("a"))), Code::kUnavailable);
    fail(command, R"("errorCode":263)", kAlways);  // not in a transaction
    EXPECT_EQ(code_of(patient->insert(key("a"))), Code::kFailedPrecondition);
    fail("ping", kCut, kOff);
  }
  EXPECT_EQ(open()->insert(key("last")), 1);
  EXPECT_EQ(expect_no_hole(), 1);
}

// A transaction that holds the counter and whose client is gone, as far as anybody can tell.
TEST_F(GaplessTest, ATransactionThatSomebodyLeftIsEnded) {
  static_cast<void>(open());  // binds it
  const std::string name = "idmint%20" + database_ + "%20gapless%20invoices";
  OpenTransaction left(url_ + "&appname=" + name, database_,
                       BCON_NEW("$inc", "{", "next", BCON_INT64(1), "}"));
  const auto hurried = open("invoices", "number", milliseconds{900});
  Result<std::int64_t> number = hurried->insert(key("a"));
  for (int calls = 1; code_of(number) == Code::kUnavailable && calls < 40; ++calls)
    number = hurried->insert(key("a"));
  EXPECT_NE(code_of(number), Code::kUnavailable)
      << why(number) << ": the server would have ended it after 60 s";
  EXPECT_GT(open()->insert(key("b")).value_or(0), 0);
  EXPECT_FALSE(left.commit());
  expect_no_hole();
}

// ---- what a user must be allowed to do, as docs/mongodb-gapless.md has it

class GaplessRights : public GaplessTest {
 protected:
  static void SetUpTestSuite() {
    mongoc_init();
    set_ = new servers::MongoSet({.users = true, .members = 1});
  }
  static void TearDownTestSuite() { delete set_; }
  GaplessRights() { url_ = set_->url(database_); }

  // Its documents are in another database than its store.
  struct Right {
    std::string database;
    std::string collection;
    std::string action;
  };
  std::vector<Right> rights() const {
    return {{database_, "idmint.store", "find"},
            {database_, "idmint.definitions", "find"},
            {database_, "idmint.counters", "find"},
            {database_, "idmint.counters", "update"},
            {database_ + "b", "docs", "insert"}};
  }
  // A user who has these.
  std::string user(const std::string& name, const std::vector<Right>& rights) {
    std::string all;
    for (const auto& [database, collection, action] : rights)
      all += (all.empty() ? "" : ",") + (R"({"resource":{"db":")" + database) +
             R"(","collection":")" + collection + R"("},"actions":[")" + action + "\"]}";
    const std::string role = database_ + name;
    for (const std::string& json :
         {R"({"createRole":")" + role + R"(","roles":[],"privileges":[)" + all + "]}",
          R"({"createUser":")" + role + R"(","pwd":"p","roles":[")" + role + "\"]}"})
      EXPECT_THAT(mongo_command(set_->url(""), "admin", json), HasSubstr(R"("ok" : 1.0)"));
    return "mongodb://" + role + ":p@" + set_->hosts() + "/" + database_ +
           "?authSource=admin&replicaSet=set";
  }
  Result<std::int64_t> insert(const std::string& url, milliseconds deadline = seconds{30}) {
    const auto inserter = servers::open_gapless(url, "invoices", database_ + "b.docs", "number",
                                                {.deadline = deadline});
    if (!inserter) return std::unexpected(inserter.error());
    return (*inserter)->insert(key("a"));
  }

  static servers::MongoSet* set_;
};

servers::MongoSet* GaplessRights::set_ = nullptr;

TEST_F(GaplessRights, WithoutOneOfThemItIsNamedAndNothingIsInserted) {
  const std::vector<Right> wanted = rights();
  for (std::size_t without = 0; without < wanted.size(); ++without) {
    std::vector<Right> others = wanted;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(without));
    const auto refused = insert(user(std::to_string(without), others));
    const auto& [database, collection, action] = wanted[without];
    EXPECT_EQ(code_of(refused), Code::kPermissionDenied) << collection << why(refused);
    EXPECT_THAT(why(refused), AllOf(HasSubstr("the user needs the action"), HasSubstr(action),
                                    HasSubstr("in the database " + database)));
  }
  const auto first = insert(user("all", wanted));
  EXPECT_EQ(first, 1) << why(first);
}

// By a program of the same user.
TEST_F(GaplessRights, AreEnoughToEndATransactionThatSomebodyLeft) {
  const std::string url = user("all", rights());
  ASSERT_TRUE(servers::open_gapless(url, "invoices", database_ + "b.docs", "number"));  // binds it
  OpenTransaction left(url + "&appname=idmint%20" + database_ + "%20gapless%20invoices", database_,
                       BCON_NEW("$inc", "{", "next", BCON_INT64(1), "}"));
  const auto number = insert(url);
  EXPECT_EQ(number, 1) << why(number) << ": the server would have ended it after 60 s";
  EXPECT_FALSE(left.commit());
}

TEST_F(GaplessTest, AChildOfForkGetsNothing) {
  const auto inserter = open();
  ASSERT_EQ(inserter->insert(key("a")), 1);
  EXPECT_EQ(in_child([&] { return code_of(inserter->insert(key("b"))); }),
            Code::kFailedPrecondition);
  EXPECT_EQ(inserter->insert(key("c")), 2);
}

}  // namespace
}  // namespace idmint
