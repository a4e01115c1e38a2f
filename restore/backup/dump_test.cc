#include "restore/backup/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "restore/backup/base.h"
#include "restore/backup/metadata.h"
#include "restore/backup/ranges.h"
#include "restore/collections.h"
#include "restore/oplog/fields.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using servers::mongo_set;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

Result<void> no_progress(std::int64_t, std::int64_t) { return {}; }

Server connected(const std::string& uri) {
  Result<Server> server = Server::connect(uri);
  EXPECT_TRUE(server) << server.error().message();
  return *std::move(server);
}

Bson command(Server& server, const char* database, const std::string& json) {
  const Result<Bson> parsed = read_extended_json(json);
  EXPECT_TRUE(parsed) << json.substr(0, 200) << ": " << parsed.error().message();
  if (!parsed) return Bson();
  Result<Bson> reply = server.command(database, *parsed);
  EXPECT_TRUE(reply) << json.substr(0, 200) << ": " << reply.error().message();
  if (!reply) return Bson();
  EXPECT_FALSE(reply->view().has("writeErrors")) << to_relaxed_json(reply->view());
  return *std::move(reply);
}

std::string text_of(Document document) {
  return {reinterpret_cast<const char*>(document.bytes().data()), document.bytes().size()};
}

using Documents = std::multiset<std::string>;

// Those of a live collection; at a moment, if one is given.
Documents live(Server& server, const char* database, const std::string& name,
               std::optional<Timestamp> at = {}) {
  Bson find = Bson("find", name, "batchSize", 100000, "singleBatch", true);
  if (at) {
    find.append("readConcern", Bson("level", "snapshot", "atClusterTime",
                                    BsonTimestamp{at->seconds, at->ordinal}));
  }
  const Result<Bson> reply = server.command(database, find);
  EXPECT_TRUE(reply) << reply.error().message();
  Documents all;
  if (reply) reply->view().each_found([&](const Document& row) { all.insert(text_of(row)); });
  return all;
}

struct Read {
  std::map<std::string, Documents> documents;  // by DATABASE.COLLECTION of the facts
  std::map<std::string, CollectionFacts> collections;
  std::vector<std::string> left_out;
  std::vector<Bson> slice;
};

Read read_back(const std::string& path) {
  Read all;
  const auto base = open_base(path);
  EXPECT_TRUE(base) << base.error().message();
  if (!base) return all;
  const Result<void> good = (*base)->check([](std::uint64_t) { return Result<void>{}; });
  EXPECT_TRUE(good) << good.error().message();
  all.left_out = (*base)->left_out();
  const auto name_of = [](const CollectionFacts& facts) {
    return facts.database + "." + facts.name;
  };
  EXPECT_TRUE((*base)->documents(
      std::nullopt, [&](const CollectionFacts& of, std::span<const Document> documents) {
        for (const Document each : documents) all.documents[name_of(of)].insert(text_of(each));
        return Result<void>{};
      }));
  EXPECT_TRUE((*base)->oplog([&](const Entry& entry) {
    const bson_t view = entry.document.view();
    all.slice.push_back(Bson(bson_copy(&view)));
    return Result<void>{};
  }));
  for (const CollectionFacts& each : (*base)->collections()) {
    CollectionFacts copy{.database = each.database, .name = each.name, .kind = each.kind};
    copy.uuid = each.uuid;
    copy.options = Bson(bson_copy(each.options.get()));
    for (const Bson& index : each.indexes) copy.indexes.push_back(Bson(bson_copy(index.get())));
    all.collections.emplace(name_of(each), std::move(copy));
  }
  return all;
}

// Every kind of collection, in a database of its own.
void make_collections(Server& server, const char* database) {
  command(server, database, R"({"dropDatabase":1})");
  for (
      const std::string& json : {
          std::string(R"({"create":"plain"})"),
          std::string(R"({"create":"empty","capped":true,"size":8192,"max":5})"),
          std::string(R"({"create":"german","collation":{"locale":"de"}})"),
          std::string(
              R"({"create":"checked","validator":{"a":{"$type":["string","null"]},"b":{"$regex":"^x"}}})"),
          std::string(R"({"create":"clustered","clusteredIndex":{"key":{"_id":1},"unique":true}})"),
          std::string(R"({"create":"weather","timeseries":{"timeField":"t","metaField":"m"}})"),
          std::string(
              R"({"create":"seen","viewOn":"plain","pipeline":[{"$match":{"k":{"$regex":"^a"}}}]})"),
          std::string(
              R"({"createIndexes":"plain","indexes":[{"key":{"k":1},"name":"k_1","unique":true,"partialFilterExpression":{"k":{"$exists":true}}},{"key":{"d":1},"name":"d_1","expireAfterSeconds":3600},{"key":{"$**":1},"name":"all"},{"key":{"t":"text"},"name":"t_text"}]})"),
          std::string(
              R"({"createIndexes":"german","indexes":[{"key":{"n":1},"name":"n_1"},{"key":{"s":1},"name":"s_1","collation":{"locale":"simple"}}]})"),
          std::string(R"({"insert":"german","documents":[{"_id":"ä","n":"z"}]})"),
          std::string(R"({"insert":"checked","documents":[{"_id":1,"a":"x","b":"xy"}]})"),
          std::string(R"({"insert":"clustered","documents":[{"_id":3},{"_id":1},{"_id":2}]})"),
          std::string(
              R"({"insert":"weather","documents":[{"t":{"$date":"2026-11-22T00:00:00Z"},"m":"a","v":1.5},{"t":{"$date":"2026-11-22T00:00:01Z"},"m":"b","v":2}]})"),
          std::string(R"({"insert":"a/ b%..","documents":[{"_id":1}]})"),
          std::string(R"({"insert":")" + std::string(100, 'x') + std::string(60, '/') +
                      R"(é","documents":[{"_id":1}]})"),
          std::string(R"({"insert":"large","documents":[{"_id":-1,"x":")" +
                      std::string(15 << 20, 'x') + R"("}]})"),
      })
    command(server, database, json);
  std::string many;
  for (int i = 0; i < 3000; ++i)
    many += (i == 0 ? "" : ",") + (R"({"_id":)" + std::to_string(i) + R"(,"k":"a)" +
                                   std::to_string(i) + R"(","n":{"$numberLong":"5"}})");
  // The documents take several batches, after a large document too.
  command(server, database, R"({"insert":"plain","documents":[)" + many + "]}");
  command(server, database, R"({"insert":"large","documents":[)" + many + "]}");
}

class EachForm : public testing::TestWithParam<std::pair<BackupForm, bool>> {};

INSTANTIATE_TEST_SUITE_P(, EachForm,
                         testing::Values(std::pair(BackupForm::kFolder, false),
                                         std::pair(BackupForm::kFolder, true),
                                         std::pair(BackupForm::kArchive, false),
                                         std::pair(BackupForm::kArchive, true)));

TEST_P(EachForm, HasWhatTheServerHas) {
  const auto [form, gzip] = GetParam();
  Server server = connected(mongo_set().url("admin"));
  make_collections(server, "kinds");
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts =
      dump(connected(mongo_set().url("admin")),
           {.path = folder.path("b/"), .form = form, .gzip = gzip}, no_progress);
  ASSERT_TRUE(facts) << facts.error().message();
  const Read base = read_back(folder.path("b"));

  const Bson listed = command(server, "kinds", R"({"listCollections":1})");
  Fields rows(listed.view().document("cursor").array("firstBatch"));
  int compared = 0;
  for (Field each; rows.next(each);) {
    const Document row = each.document();
    const std::string name(row.text("name"));
    if (name.starts_with("system.")) continue;
    ++compared;
    ASSERT_THAT(base.collections, Contains(testing::Key("kinds." + name)));
    const CollectionFacts& found = base.collections.at("kinds." + name);
    EXPECT_EQ(text_of(found.options.view()), text_of(row.document("options"))) << name;
    EXPECT_EQ(found.uuid.empty(), !row.document("info").has("uuid")) << name;
    if (found.kind == CollectionKind::kView) continue;
    EXPECT_EQ(base.documents.contains("kinds." + name), name != "empty");
    if (name != "empty") {
      EXPECT_TRUE(base.documents.at("kinds." + name) == live(server, "kinds", data_name(found)))
          << name;
    }
    std::vector<std::string> indexes;
    const Bson list = Bson("listIndexes", name);
    const Result<Bson> reply = server.command("kinds", list);
    ASSERT_TRUE(reply);
    std::vector<std::string> listed_indexes;
    reply->view().each_found(
        [&](const Document& index) { listed_indexes.push_back(text_of(index)); });
    for (const Bson& index : found.indexes) indexes.push_back(text_of(index.view()));
    EXPECT_EQ(indexes, listed_indexes) << name;
  }
  EXPECT_EQ(compared, 10);
  EXPECT_THAT(base.left_out, Contains("admin.system.version"));
  EXPECT_EQ(static_cast<std::int64_t>(base.slice.size()), facts->entries);
  EXPECT_EQ(parse_entry(base.slice.front().view())->at.ts, facts->first);
  EXPECT_EQ(parse_entry(base.slice.back().view())->at.ts, facts->last);
  EXPECT_EQ(facts->version.substr(0, 1), "6");
}

// Inserts and deletes of the slice, done over what the base has.
void replay(Read& base, const std::string& ns) {
  std::map<std::string, std::string> by_id;
  const auto id_of = [](Document document) { return document.numeric("_id").value_or(-1); };
  std::map<std::int64_t, std::string> documents;
  for (const std::string& each : base.documents[ns]) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(each.data()), each.size());
    documents[id_of(Document::of(bytes))] = each;
  }
  for (const Bson& each : base.slice) {
    const Result<Entry> entry = parse_entry(each.view());
    ASSERT_TRUE(entry);
    if (entry->operation.ns != ns) continue;
    if (entry->operation.op == Op::kInsert)
      documents[id_of(entry->operation.o)] = text_of(entry->operation.o);
    if (entry->operation.op == Op::kDelete) documents.erase(id_of(entry->operation.o));
  }
  base.documents[ns].clear();
  for (const auto& [id, document] : documents) base.documents[ns].insert(document);
}

TEST(Dump, IsOfOneMomentWhileOthersWrite) {
  Server server = connected(mongo_set().url("admin"));
  for (const char* const database : {"moment", "moment2"}) {
    command(server, database, R"({"dropDatabase":1})");
    std::string many;
    const std::string filling(4000, 'x');
    for (int i = 0; i < 3000; ++i)
      many += (i == 0 ? "" : ",") + (R"({"_id":)" + std::to_string(i) + R"(,"x":")") + filling +
              R"("})";
    command(server, database, R"({"insert":"c","documents":[)" + many + "]}");
  }
  // For each batch that was read, some are inserted and some deleted, in both.
  int next = 3000;
  const auto change = [&](std::int64_t, std::int64_t) -> Result<void> {
    for (const char* const database : {"moment", "moment2"}) {
      command(server, database,
              R"({"insert":"c","documents":[{"_id":)" + std::to_string(next) + "}]}");
      command(server, database,
              R"({"delete":"c","deletes":[{"q":{"_id":)" + std::to_string(next - 2990) +
                  R"(},"limit":1}]})");
      ++next;
    }
    return {};
  };
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts =
      dump(connected(mongo_set().url("admin")), {.path = folder.path("b")}, change);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_GT(next, 3002);
  Read base = read_back(folder.path("b"));
  for (const char* const database : {"moment", "moment2"}) {
    const std::string ns = std::string(database) + ".c";
    replay(base, ns);
    EXPECT_TRUE(base.documents[ns] == live(server, database, "c", facts->last)) << database;
  }
}

// {_id, x: 100 bytes}, in this order.
void insert_many(Server& server, const char* database, const char* name, int count,
                 const std::function<Bson(int)>& id) {
  const std::string filling(100, 'x');
  for (int i = 0; i < count;) {
    BsonArray documents;
    for (int n = 0; n < 10'000 && i < count; ++n, ++i)
      documents.items.append(std::to_string(n).c_str(), id(i).append("x", filling));
    const Bson insert = Bson("insert", name, "documents", documents);
    ASSERT_TRUE(server.command(database, insert));
  }
}
Bson increasing(int i) { return Bson("_id", i); }
// The same numbers, each once.
Bson scattered(int i) { return Bson("_id", static_cast<int>(std::int64_t{i} * 7919 % 30'000)); }
// All numbers sort before all texts.
Bson of_two_types(int i) {
  char text[16];
  std::snprintf(text, sizeof text, "%08d", i);
  return i < 15'000 ? Bson("_id", i) : Bson("_id", std::string(text));
}

std::vector<IdRange> ranges_of(const std::string& database, const std::string& name) {
  Result<Member> member = Member::choose(connected(mongo_set().url("admin")));
  EXPECT_TRUE(member);
  Server server = connected(mongo_set().url("admin"));
  const Result<std::vector<CollectionFacts>> all = list_collections(server);
  EXPECT_TRUE(all);
  const auto found = std::ranges::find(*all, database + "." + name, &CollectionFacts::ns);
  EXPECT_NE(found, all->end());
  Result<std::vector<IdRange>> ranges = split(*member, *found, 30'000, 500'000);
  EXPECT_TRUE(ranges) << ranges.error().message();
  return *std::move(ranges);
}

TEST(Split, IsOfWhatIsStoredInTheOrderOfItsIds) {
  Server server = connected(mongo_set().url("admin"));
  command(server, "ranges", R"({"dropDatabase":1})");
  for (const char* const json :
       {R"({"create":"capped","capped":true,"size":10000000})",
        R"({"create":"german","collation":{"locale":"de"}})",
        R"({"create":"clustered","clusteredIndex":{"key":{"_id":1},"unique":true}})"})
    command(server, "ranges", json);
  for (const char* const name : {"plain", "capped", "german", "clustered"})
    insert_many(server, "ranges", name, 30'000, increasing);
  insert_many(server, "ranges", "scattered", 30'000, scattered);
  insert_many(server, "ranges", "types", 30'000, of_two_types);
  for (const char* const name : {"plain", "types"}) {
    const std::vector<IdRange> ranges = ranges_of("ranges", name);
    EXPECT_GE(ranges.size(), 5U) << name;
    EXPECT_FALSE(ranges.front().min);
    EXPECT_FALSE(ranges.back().max);
    for (std::size_t i = 1; i < ranges.size(); ++i)
      EXPECT_EQ(ranges[i].min.view(), ranges[i - 1].max.view());
  }
  for (const char* const name : {"capped", "german", "clustered", "scattered"})
    EXPECT_EQ(ranges_of("ranges", name).size(), 1U) << name;
}

TEST_P(EachForm, ReadsRangesSideBySide) {
  const auto [form, gzip] = GetParam();
  Server server = connected(mongo_set().url("admin"));
  command(server, "ranges", R"({"dropDatabase":1})");
  insert_many(server, "ranges", "types", 30'000, of_two_types);
  insert_many(server, "ranges", "scattered", 30'000, scattered);
  for (const unsigned readers : {1U, 3U, 8U}) {
    const fakes::TempFolder folder;
    const Result<DumpFacts> facts = dump(connected(mongo_set().url("admin")),
                                         {.path = folder.path("b"), .form = form, .gzip = gzip},
                                         no_progress, {.readers = readers, .range = 300'000});
    ASSERT_TRUE(facts) << facts.error().message();
    const Read base = read_back(folder.path("b"));
    for (const char* const name : {"types", "scattered"})
      EXPECT_TRUE(base.documents.at(std::string("ranges.") + name) == live(server, "ranges", name))
          << name << " by " << readers;
  }
}

// Documents in all ranges come and go meanwhile.
TEST(Dump, RangesAreOfOneMomentToo) {
  Server server = connected(mongo_set().url("admin"));
  command(server, "ranges", R"({"dropDatabase":1})");
  insert_many(server, "ranges", "c", 30'000, increasing);
  std::atomic<bool> over = false;
  std::jthread writer([&] {
    Server own = connected(mongo_set().url("admin"));
    for (int i = 0; !over; ++i) {
      const int id = static_cast<int>(std::int64_t{i} * 7919 % 40'000);
      const Bson change =
          i % 2 == 0 ? Bson("delete", "c", "deletes", array(Bson("q", Bson("_id", id), "limit", 1)))
                     : Bson("insert", "c", "documents", array(Bson("_id", id, "new", i)));
      EXPECT_TRUE(own.command("ranges", change));
    }
  });
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts = dump(connected(mongo_set().url("admin")),
                                       {.path = folder.path("b")}, no_progress, {.range = 300'000});
  over = true;
  writer.join();
  ASSERT_TRUE(facts) << facts.error().message();
  Read base = read_back(folder.path("b"));
  replay(base, "ranges.c");
  EXPECT_TRUE(base.documents["ranges.c"] == live(server, "ranges", "c", facts->last));
}

// Documents of a range that were read before come twice.
TEST(Dump, RangesGoOnOverARename) {
  Server server = connected(mongo_set().url("admin"));
  command(server, "ranges", R"({"dropDatabase":1})");
  insert_many(server, "ranges", "c", 30'000, increasing);
  const Documents before = live(server, "ranges", "c");
  const fakes::TempFolder folder;
  bool renamed = false;
  const Result<DumpFacts> facts =
      dump(connected(mongo_set().url("admin")), {.path = folder.path("b")},
           [&](std::int64_t, std::int64_t) -> Result<void> {
             if (!std::exchange(renamed, true))
               command(server, "admin", R"({"renameCollection":"ranges.c","to":"ranges.d"})");
             return {};
           },
           {.readers = 2, .range = 300'000});
  ASSERT_TRUE(facts) << facts.error().message();
  const Documents read = read_back(folder.path("b")).documents.at("ranges.c");
  EXPECT_EQ(std::set(read.begin(), read.end()), std::set(before.begin(), before.end()));
}

// The error of one ends all.
TEST(Dump, EndsWhenAReaderFails) {
  servers::MongoSet set({.members = 1});
  Server server = connected(set.url("admin"));
  insert_many(server, "ranges", "c", 30'000, increasing);
  command(server, "admin",
          R"({"configureFailPoint":"failCommand","mode":{"skip":3},"data":{
              "failCommands":["getMore"],"namespace":"ranges.c","errorCode":292}})");
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts = dump(connected(set.url("admin")), {.path = folder.path("b")},
                                       no_progress, {.range = 300'000});
  ASSERT_FALSE(facts);
  EXPECT_THAT(facts.error().message(), HasSubstr("getMore on "));
  EXPECT_TRUE(fs::is_empty(folder.path("")));
}

TEST(Dump, BeginsWithTheOldestOpenTransaction) {
  Server server = connected(mongo_set().url("admin"));
  command(server, "moment", R"({"insert":"before","documents":[{"x":1}]})");
  const Bson last =
      command(server, "local", R"({"find":"oplog.rs","sort":{"$natural":-1},"limit":1})");
  ASSERT_TRUE(last.view().first_found());
  const Timestamp begin = parse_entry(last.view().first_found())->at.ts;
  command(server, "moment", R"({"insert":"before","documents":[{"x":1}]})");
  const std::string id =
      R"({"id":{"$binary":{"base64":"AAAAAAAAQACAAAAAAAAAAA==","subType":"04"}},"uid":{"$binary":{"base64":"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=","subType":"00"}}})";
  const std::string at_begin = R"({"ts":{"$timestamp":{"t":)" + std::to_string(begin.seconds) +
                               R"(,"i":)" + std::to_string(begin.ordinal) +
                               R"(}},"t":{"$numberLong":"1"}})";
  // Without a session, as the server wants it there: unacknowledged, and before what comes next.
  const auto write = [&](const std::string& json) {
    const Bson options = Bson("writeConcern", Bson("w", 0));
    const Result<Bson> parsed = from_json(json);
    ASSERT_TRUE(parsed) << parsed.error().message();
    bson_error_t error{};
    EXPECT_TRUE(mongoc_client_write_command_with_opts(server.client(), "config", parsed->get(),
                                                      options.get(), nullptr, &error))
        << error.message;
    command(server, "admin", R"({"ping":1})");
  };
  write(R"({"insert":"transactions","documents":[{"_id":)" + id +
        R"(,"txnNum":{"$numberLong":"1"},"state":"inProgress","startOpTime":)" + at_begin +
        R"(,"lastWriteOpTime":)" + at_begin +
        R"(,"lastWriteDate":{"$date":"2026-11-22T00:00:00Z"}}]})");
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts =
      dump(connected(mongo_set().url("admin")), {.path = folder.path("b")}, no_progress);
  write(R"({"delete":"transactions","deletes":[{"q":{"_id":)" + id + R"(},"limit":1}]})");
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->first, begin);
  EXPECT_GE(facts->entries, 2);
}

// Dumps, and calls `something` when the first documents were read.
Result<DumpFacts> dump_while(const std::string& path, const std::function<void()>& something) {
  bool done = false;
  return dump(connected(mongo_set().url("admin")), {.path = path},
              [&](std::int64_t, std::int64_t) -> Result<void> {
                if (!std::exchange(done, true)) something();
                return {};
              });
}

TEST(Dump, GoesOnOverARenameMeanwhile) {
  Server server = connected(mongo_set().url("admin"));
  command(server, "shuffled", R"({"dropDatabase":1})");
  command(server, "shuffled", R"({"insert":"a","documents":[{"x":1}]})");
  const fakes::TempFolder folder;
  for (const auto& [database, json] :
       {std::pair("admin", R"({"renameCollection":"shuffled.a","to":"shuffled.b"})"),
        std::pair("shuffled", R"({"aggregate":"b","pipeline":[{"$out":"c"}],"cursor":{}})"),
        std::pair("shuffled", R"({"convertToCapped":"c","size":4096})")}) {
    const char* const in = database;
    const std::string text = json;
    const Result<DumpFacts> facts =
        dump_while(folder.path("b"), [&] { command(server, in, text); });
    ASSERT_TRUE(facts) << json << facts.error().message();
    std::vector<std::string> renames;
    for (const Bson& each : read_back(folder.path("b")).slice) {
      const Result<Entry> entry = parse_entry(each.view());
      // The first entry can be the rename of the turn before.
      if (entry->at.ts != facts->first && entry->operation.command() == "renameCollection")
        renames.push_back(to_relaxed_json(entry->operation.o));
    }
    EXPECT_THAT(renames, testing::SizeIs(1)) << json;
    fs::remove_all(folder.path("b"));
  }
}

// A create that was cut short leaves half a time series.
TEST(Dump, LeavesOutHalfATimeSeries) {
  Server server = connected(mongo_set().url("admin"));
  command(server, "half", R"({"create":"series","timeseries":{"timeField":"t"}})");
  command(server, "admin",
          R"({"applyOps":[{"op":"d","ns":"half.system.views","o":{"_id":"half.series"}}]})");
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts =
      dump(connected(mongo_set().url("admin")), {.path = folder.path("b")}, no_progress);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_THAT(facts->notes,
              testing::ElementsAre(HasSubstr("half.system.buckets.series is left out")));
  EXPECT_FALSE(read_back(folder.path("b")).collections.contains("half.series"));
  command(server, "half", R"({"dropDatabase":1})");
}

// It goes on, or says that the same command may be tried again.
TEST(Dump, TellsOfAStepDownMeanwhile) {
  servers::MongoSet set({.members = 3});
  Server server = connected(set.url("admin"));
  for (int i = 0; i < 3; ++i)
    command(server, "d",
            R"({"insert":"c","documents":[{"x":")" + std::string(1 << 20, 'x') + "\"}]}");
  const fakes::TempFolder folder;
  bool done = false;
  const std::size_t before = set.primary();
  const Result<DumpFacts> facts =
      dump(connected(set.url("admin")), {.path = folder.path("b")},
           [&](std::int64_t, std::int64_t) -> Result<void> {
             if (std::exchange(done, true)) return {};
             servers::mongo_command(set.direct(before), "admin",
                                    R"({"replSetStepDown":60,"secondaryCatchUpPeriodSecs":10})");
             while (set.primary() == before) {
             }
             return {};
           });
  if (!facts) {
    EXPECT_EQ(facts.error().code, Code::kUnavailable) << facts.error().message();
    EXPECT_TRUE(fs::is_empty(folder.path(""))) << "half a backup is left";
    return;
  }
  EXPECT_EQ(read_back(folder.path("b")).documents.at("d.c").size(), 3);
}

TEST(Dump, GoesOnOverADrop) {
  Server server = connected(mongo_set().url("admin"));
  command(server, "zz", R"({"dropDatabase":1})");
  command(server, "zz", R"({"insert":"gone","documents":[{"_id":1}]})");
  command(server, "zz", R"({"insert":"kept","documents":[{"_id":1}]})");
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts =
      dump_while(folder.path("b"), [&] { command(server, "zz", R"({"drop":"gone"})"); });
  ASSERT_TRUE(facts) << facts.error().message();
  const Read base = read_back(folder.path("b"));
  EXPECT_EQ(base.documents.at("zz.kept").size(), 1);
  std::vector<std::string> drops;
  for (const Bson& each : base.slice) {
    const Result<Entry> entry = parse_entry(each.view());
    if (entry->operation.op == Op::kCommand) drops.push_back(to_relaxed_json(entry->operation.o));
  }
  EXPECT_THAT(drops, Contains(HasSubstr(R"("drop" : "gone")")));
}

// A server answers with one of these errors when it ended a cursor for another reason.
TEST(Dump, ReadsAgainWhatItsReadingWasEndedOf) {
  servers::MongoServer mongod({"--replSet", "one", "--setParameter", "enableTestCommands=1"});
  const std::string direct = mongod.url("admin?directConnection=true");
  servers::mongo_command(direct, "admin",
                         R"({"replSetInitiate":{"_id":"one","members":[{"_id":0,"host":")" +
                             mongod.host() + R"("}]}})");
  while (servers::mongo_command(direct, "admin", R"({"hello":1})")
             .find(R"("isWritablePrimary" : true)") == std::string::npos) {
  }
  Server server = connected(direct);
  std::string documents;  // of several batches
  for (int i = 0; i < 3000; ++i)
    documents += (i == 0 ? "{\"_id\":" : ",{\"_id\":") + std::to_string(i) + "}";
  command(server, "d", R"({"insert":"c","documents":[)" + documents + "]}");
  const fakes::TempFolder folder;
  const auto fail_reading = [&](int number, int times) {
    command(server, "admin",
            R"({"configureFailPoint":"failCommand","mode":{"times":)" + std::to_string(times) +
                R"(},"data":{"failCommands":["getMore"],"namespace":"d.c","errorCode":)" +
                std::to_string(number) + "}}");
  };
  const auto dumped = [&] {
    fs::remove_all(folder.path("b"));
    return dump(connected(direct), {.path = folder.path("b")}, no_progress);
  };
  for (const int number : {175, 136}) {  // QueryPlanKilled, CappedPositionLost
    fail_reading(number, 3);
    const Result<DumpFacts> facts = dumped();
    ASSERT_TRUE(facts) << number << facts.error().message();
    const Documents read = read_back(folder.path("b")).documents.at("d.c");
    EXPECT_EQ(std::set(read.begin(), read.end()).size(), 3000U);
    EXPECT_GT(read.size(), 3000U) << "what was read before comes twice";
    fail_reading(number, 1000);
    const Result<DumpFacts> ended = dumped();
    ASSERT_FALSE(ended) << number;
    EXPECT_EQ(ended.error().code, Code::kUnavailable);
    EXPECT_THAT(ended.error().message(), HasSubstr("--exclude d.c"));
    EXPECT_TRUE(fs::is_empty(folder.path("")));
    command(server, "admin", R"({"configureFailPoint":"failCommand","mode":"off"})");
  }
  fail_reading(43, 1);  // CursorNotFound
  const Result<DumpFacts> lost = dumped();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kUnavailable);
  EXPECT_TRUE(dumped());
}

TEST(Dump, RefusesAnOplogThatRolledOver) {
  servers::MongoSet set({.members = 1});  // of its own, as its oplog is spent
  Server server = connected(set.url("admin"));
  command(server, "d", R"({"insert":"c","documents":[{"_id":1}]})");
  const std::string filling(std::size_t{10} << 20, 'x');
  const auto oldest = [&] {
    const Bson first =
        command(server, "local", R"({"find":"oplog.rs","sort":{"$natural":1},"limit":1})");
    return to_relaxed_json(first.view()).substr(0, 200);
  };
  const fakes::TempFolder folder;
  bool spent = false;
  const Result<DumpFacts> facts =
      dump(connected(set.url("admin")), {.path = folder.path("b")},
           [&](std::int64_t, std::int64_t) -> Result<void> {
             if (std::exchange(spent, true)) return {};
             for (const std::string begin = oldest(); oldest() == begin;)
               command(server, "d", R"({"insert":"c","documents":[{"x":")" + filling + R"("}]})");
             return {};
           });
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Code::kOutOfRange) << facts.error().message();
  EXPECT_THAT(facts.error().message(), HasSubstr("replSetResizeOplog"));
  EXPECT_TRUE(fs::is_empty(folder.path("")));
}

TEST(Dump, NeedsTheRoleBackup) {
  servers::MongoSet set({.users = true, .members = 1});
  Server root = connected(set.url("admin"));
  command(root, "admin", R"({"createUser":"keeper","pwd":"k","roles":["backup"]})");
  command(root, "admin", R"({"createUser":"reader","pwd":"k","roles":["readAnyDatabase"]})");
  command(root, "d", R"({"insert":"c","documents":[{"_id":1}]})");
  command(root, "d", R"({"create":"w","timeseries":{"timeField":"t"}})");
  command(root, "d", R"({"insert":"w","documents":[{"t":{"$date":"2026-11-22T00:00:00Z"}}]})");
  const auto as = [&](const std::string& user) {
    std::string uri = set.url("admin");
    return uri.replace(uri.find("root:r@"), 7, user + ":k@");
  };
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts =
      dump(connected(as("keeper")), {.path = folder.path("b")}, no_progress);
  ASSERT_TRUE(facts) << facts.error().message();
  const Read base = read_back(folder.path("b"));
  EXPECT_EQ(base.documents.at("d.c").size(), 1);
  EXPECT_EQ(base.documents.at("d.w").size(), 1);
  EXPECT_THAT(base.left_out, Contains("admin.system.users"));
  const Result<Server> reader = Server::connect(as("reader"));
  const Result<DumpFacts> refused =
      reader ? dump(connected(as("reader")), {.path = folder.path("c")}, no_progress)
             : Result<DumpFacts>(std::unexpected(reader.error()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied) << refused.error().message();
  EXPECT_FALSE(fs::exists(folder.path("c")));
}

TEST(Dump, ReadsFromTheMemberThatTheUriPrefers) {
  const std::size_t primary = mongo_set().primary();
  const fakes::TempFolder folder;
  const std::string uri = mongo_set().url("admin") + "&readPreference=secondary";
  Result<DumpFacts> facts = dump(connected(uri), {.path = folder.path("a")}, no_progress);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_NE(facts->member, mongo_set().member(primary).host());
  const std::size_t other = primary == 0 ? 1 : 0;
  facts = dump(connected(mongo_set().direct(other)), {.path = folder.path("b")}, no_progress);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->member, mongo_set().member(other).host());
}

TEST(Dump, OfAStandaloneIsRefused) {
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts =
      dump(connected(servers::mongo_standalone().url("")), {.path = folder.path("b")}, no_progress);
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(facts.error().message(), HasSubstr("no member of a replica set"));
}

TEST(Dump, StopsWhereItIsTold) {
  const fakes::TempFolder folder;
  const Result<DumpFacts> facts =
      dump(connected(mongo_set().url("admin")), {.path = folder.path("b")},
           [](std::int64_t, std::int64_t) -> Result<void> {
             return std::unexpected(Error{Code::kUnavailable, "stop"});
           });
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().message(), "stop");
  EXPECT_TRUE(fs::is_empty(folder.path("")));
}

}  // namespace
}  // namespace idmint::restore
