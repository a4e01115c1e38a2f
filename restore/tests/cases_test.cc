// Backups and oplogs as people have them, each restored to what production had: fixtures/cases, and
// what the tests write themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "restore/document_reader.h"
#include "restore/server.h"
#include "restore/tests/oplog_builder.h"
#include "restore/tests/program.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using servers::mongo_command;
using servers::MongoServer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

MongoServer& target() {
  static MongoServer server;
  return server;
}
std::string target_uri() { return target().url("?directConnection=true"); }
std::string ask(const std::string& database, const std::string& json) {
  return mongo_command(target_uri(), database, json);
}

std::string case_file(const std::string& name, const std::string& file) {
  return (fs::path(IDMINT_FIXTURES) / "cases" / name / file).string();
}

class Case : public ::testing::Test {
 protected:
  Case() {
    for (const char* const database : {"shop", "Shop", "mark", "zzz", "idmint_restore"})
      ask(database, R"({"dropDatabase":1})");
  }
  Ended program(std::vector<std::string> words) { return Program(folder_, std::move(words)).end(); }
  std::string report() { return folder_.path("report.json"); }
  std::vector<std::string> words_of(const std::string& name) {
    std::string limit = content(case_file(name, "limit"));
    while (limit.ends_with('\n')) limit.pop_back();
    return {"run",
            "--base",
            case_file(name, "base"),
            "--oplog",
            case_file(name, "oplog.bson"),
            "--limit",
            limit,
            "--target",
            target_uri(),
            "--report",
            report(),
            "--yes"};
  }
  // Restores a case, and compares the result with what production had.
  Ended expect_restored(const std::string& name, const std::vector<std::string>& more = {}) {
    Ended ended = program(with(words_of(name), more));
    EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
    const Ended counted =
        program({"verify", "--target", target_uri(), "--restore-report", report()});
    EXPECT_EQ(counted.status, 0) << counted.out << counted.err;
    const Ended verified = program({"verify", "--target", target_uri(), "--restore-report",
                                    report(), "--expected", case_file(name, "expected.json")});
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    return ended;
  }

  fakes::TempFolder folder_;
};

// Elements of BSON, byte by byte.
std::string element(char type, std::string_view key, std::string_view value) {
  std::string bytes{type};
  bytes.append(key).push_back('\0');
  return bytes.append(value);
}
std::string number(std::uint32_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
std::string int32(std::string_view key, std::uint32_t value) {
  return element(0x10, key, number(value));
}
std::string timestamp(std::string_view key, std::uint32_t seconds, std::uint32_t ordinal) {
  return element(0x11, key, number(ordinal) + number(seconds));
}
// Binary data of subtype 2 without the length in it that the specification asks for.
std::string old_binary(std::string_view key, std::string_view data) {
  return element(0x05, key,
                 number(static_cast<std::uint32_t>(data.size())) + '\x02' + std::string(data));
}
std::string text(std::string_view key, std::string_view value) {
  return element(0x02, key,
                 number(static_cast<std::uint32_t>(value.size() + 1)) + std::string(value) + '\0');
}
std::string regex(std::string_view key, std::string_view pattern, std::string_view flags) {
  return element(0x0b, key, std::string(pattern) + '\0' + std::string(flags) + '\0');
}
std::string code(std::string_view key, std::string_view value) {
  std::string bytes = text(key, value);
  bytes[0] = 0x0d;
  return bytes;
}
std::string document(std::initializer_list<std::string> elements) {
  std::string bytes;
  for (const std::string& each : elements) bytes += each;
  return number(static_cast<std::uint32_t>(bytes.size() + 5)) + bytes + '\0';
}
std::string inner(std::string_view key, const std::string& bytes) {
  return element(0x03, key, bytes);
}

constexpr const char* kIdIndex = R"({"v":2,"key":{"_id":1},"name":"_id_"})";

// A base of shop.orders, and an oplog after it.
class Written : public Case {
 protected:
  void base(const std::string& documents, const std::string& metadata) {
    fs::create_directories(path("base/shop"));
    write(path("base/shop/orders.bson"), documents);
    write(path("base/shop/orders.metadata.json"), metadata);
    OplogBuilder slice;
    slice.noop();
    slice.write(path("base/oplog.bson"));
    oplog_.noop();
  }
  void base(const std::string& documents, const std::vector<std::string>& indexes = {},
            const std::string& options = "{}") {
    std::string list = kIdIndex;
    for (const std::string& each : indexes) list += "," + each;
    base(documents, R"({"options":)" + options + R"(,"indexes":[)" + list +
                        R"(],"uuid":"","collectionName":"orders","type":"collection"})");
  }
  // An entry with this operation and raw elements.
  void entry(std::string_view op, std::string_view ns, const std::string& o,
             const std::string& more = {}) {
    const Timestamp at = oplog_.next();
    oplog_.noop();  // takes the position
    std::string& bytes = oplog_.bytes();
    bytes.resize(oplog_.offset(++entries_));
    bytes += document({text("op", op), text("ns", ns), inner("o", o), more,
                       timestamp("ts", at.seconds, at.ordinal), int32("t", 1), int32("v", 2)});
  }
  std::vector<std::string> words() {
    return {"run",   "--base",   path("base"), "--oplog",  oplog_.write(path("oplog.bson")),
            "--all", "--target", target_uri(), "--report", report(),
            "--yes"};
  }
  Ended restored(const std::vector<std::string>& more = {}) { return program(with(words(), more)); }
  // The documents of shop.orders, byte by byte in the order of _id.
  static std::string there() {
    Result<Server> server = Server::connect(target_uri());
    EXPECT_TRUE(server);
    const Bson find = Bson("find", "orders", "sort", Bson("_id", 1));
    const Result<Bson> reply = server->command("shop", find);
    EXPECT_TRUE(reply) << reply.error().message();
    std::string bytes;
    reply->view().each_found([&](const Document& each) {
      bytes.append(reinterpret_cast<const char*>(each.bytes().data()), each.bytes().size());
    });
    return bytes;
  }
  std::string path(const std::string& name) { return folder_.path(name); }

  OplogBuilder oplog_;
  std::size_t entries_ = 0;
};

TEST_F(Case, AnIndexOfVersion1GetsNoCollation) { expect_restored("v1_index_oplog"); }

TEST_F(Case, AnIndexKeepsBackground) { expect_restored("background_base"); }

TEST_F(Case, ACollectionKeepsAutoIndexId) { expect_restored("autoindexid_base"); }

TEST_F(Case, ZeroTimestampsLeaveRegularExpressionsAndCodeAsTheyAre) {
  expect_restored("zero_timestamp_regex_base");
}

TEST_F(Case, BinaryDataOfAnOldFormIsNoDamage) { expect_restored("binary2_oplog"); }

// A document that libbson cannot read, or would write differently.
std::string odd(std::uint32_t id) {
  return document({int32("_id", id), old_binary("b", "hello"), regex("r", "ab", "xig"),
                   code("c", std::string_view("a\0b", 3)),
                   inner("in", document({old_binary("b", "x"), timestamp("t", 0, 0)}))});
}

TEST_F(Written, DocumentsOfABaseAreTheSameBytes) {
  const std::string all =
      odd(1) +
      document({int32("_id", 2), timestamp("t", 0, 0), regex("r", "ab", "xi"),
                old_binary("b", "hello")}) +
      // A field that occurs twice, with a zero timestamp or without.
      document({int32("_id", 3), timestamp("t", 0, 0), int32("x", 1), timestamp("t", 0, 0)}) +
      document({int32("_id", 4), timestamp("t", 0, 0), int32("x", 1), timestamp("t", 7, 1)}) +
      document({int32("_id", 5), int32("x", 1), int32("x", 2)}) +
      document({old_binary("_id", "key"), int32("x", 1)});
  base(all);
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(there(), all);
}

TEST_F(Written, DocumentsOfAnOplogAreTheSameBytes) {
  base(document({int32("_id", 1)}) + document({int32("_id", 6)}));
  const std::string replaced = document({int32("_id", 6), timestamp("t", 7, 1), code("c", "f"),
                                         timestamp("t", 0, 0), old_binary("b", "u")});
  const std::vector<std::string> inserted = {
      odd(2),
      document({int32("_id", 3), timestamp("t", 0, 0), int32("x", 1), timestamp("t", 0, 0),
                regex("r", "a", "g")}),
      document({int32("_id", 4), timestamp("t", 0, 0), int32("x", 1), timestamp("t", 7, 1)}),
      document({int32("_id", 5), timestamp("t", 0, 0), code("c", std::string_view("\0b", 2))}),
  };
  std::string all = document({int32("_id", 1), old_binary("b", "new"), regex("r", "ab", "xi")});
  for (const std::string& each : inserted) {
    entry("i", "shop.orders", each);
    all += each;
  }
  entry("u", "shop.orders", replaced, inner("o2", document({int32("_id", 6)})));
  entry("u", "shop.orders",
        document({int32("$v", 2),
                  inner("diff", document({inner("i", document({old_binary("b", "new"),
                                                               regex("r", "ab", "xi")}))}))}),
        inner("o2", document({int32("_id", 1)})));
  const std::string last = document({old_binary("_id", "key"), timestamp("t", 0, 0)});
  entry("i", "shop.orders", last);
  entry("i", "shop.orders", document({old_binary("_id", "gone"), int32("x", 1)}));
  entry("d", "shop.orders", document({old_binary("_id", "gone")}));
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_EQ(there(), all + replaced + last);
  const Ended verified =
      program({"verify", "--target", target_uri(), "--restore-report", report()});
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

TEST_F(Written, ADocumentThatIsTwiceInABaseKeepsItsZeroTimestamp) {
  const std::string last = document({int32("_id", 1), int32("n", 2), timestamp("t", 0, 0)});
  base(document({int32("_id", 1), int32("n", 1), timestamp("t", 0, 0)}) + last);
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(there(), last);
}

TEST_F(Written, AnEntryOutsideTheWindowMayHaveOldBinaryData) {
  base(document({int32("_id", 1)}));
  entry("i", "shop.orders", document({int32("_id", 2)}));
  const Timestamp limit = oplog_.next();
  entry("i", "shop.orders", odd(3));
  std::vector<std::string> limited = words();
  limited[5] = "--limit";
  limited.insert(limited.begin() + 6, print_timestamp(limit));
  const Ended ended = program(limited);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(there(), document({int32("_id", 1)}) + document({int32("_id", 2)}));
}

TEST_F(Written, IndexesOfVersion1AreTheSame) {
  base(document({int32("_id", 1)}), {R"({"v":1,"key":{"a":1},"name":"a_1","background":true})"},
       R"({"collation":{"locale":"en"}})");
  oplog_.command("shop", R"({"createIndexes":"orders","v":1,"key":{"b":1},"name":"b_1"})");
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  const std::string indexes = ask("shop", R"({"listIndexes":"orders"})");
  EXPECT_THAT(
      indexes,
      AllOf(HasSubstr(R"({ "v" : 1, "key" : { "a" : 1 }, "name" : "a_1", "background" : true })"),
            HasSubstr(R"({ "v" : 1, "key" : { "b" : 1 }, "name" : "b_1" })")));
}

TEST_F(Written, ACollectionWithEncryptedFieldsIsTheSame) {
  constexpr const char* fields =
      R"({"encryptedFields":{"escCollection":"enxcol_.orders.esc","eccCollection":"enxcol_.orders.ecc",)"
      R"("ecocCollection":"enxcol_.orders.ecoc","fields":[{"keyId":{"$binary":{"base64":)"
      R"("MDAwMDAwMDAwMDAwMDAwMA==","subType":"04"}},"path":"x","bsonType":"int"}]}})";
  base(document({int32("_id", 1)}), {}, fields);
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ask("shop", R"({"listCollections":1})"), HasSubstr("enxcol_.orders.ecoc"));
}

TEST_F(Written, AnIndexOfIdAsOlderServersNotedIt) {
  base(
      document({int32("_id", 1)}),
      R"({"options":{"autoIndexId":true,"flags":1},"indexes":[{"v":1,"unique":true,"key":{"_id":1},)"
      R"("name":"_id_","ns":"shop.orders","background":false}],"uuid":""})");
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ask("shop", R"({"listIndexes":"orders"})"),
              HasSubstr(R"({ "v" : 1, "key" : { "_id" : 1 })"));
}

TEST_F(Written, AValidatorKeepsTheFlagsOfItsRegularExpression) {
  base(document({int32("_id", 1)}), {},
       R"({"validator":{"a":{"$regularExpression":{"pattern":"ab","options":"xi"}}}})");
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  Result<Server> server = Server::connect(target_uri());
  ASSERT_TRUE(server);
  const Bson list = Bson("listCollections", 1);
  const Result<Bson> reply = server->command("shop", list);
  ASSERT_TRUE(reply);
  const auto bytes = reply->view().bytes();
  EXPECT_THAT(std::string(bytes.begin(), bytes.end()), HasSubstr(regex("a", "ab", "xi")));
}

TEST_F(Case, InsertsOverWhatIsThereByAnApplyOpsAreNoDifference) {
  const Ended ended = expect_restored("applyops_over");
  EXPECT_THAT(ended.out, HasSubstr("0 inserts, 0 updates, 0 deletes, 0 commands, 2 replacements"));
}

TEST_F(Written, AnApplyOpsUpsertsAsInProduction) {
  base(document({int32("_id", 1), int32("a", 1)}));
  const auto update = [](int id, const std::string& o) {
    return R"({"op":"u","ns":"shop.orders","o2":{"_id":)" + std::to_string(id) + R"(},"o":)" + o +
           "}";
  };
  const std::string diff = R"({"$v":2,"diff":{"u":{"a":7}}})";
  // By default; as told; and in the innermost one.
  oplog_.command("admin", R"({"applyOps":[)" + update(1, diff) + "," + update(2, diff) + "]}");
  oplog_.command(
      "admin", R"({"applyOps":[)" + update(3, R"({"_id":3,"a":7})") + R"(],"alwaysUpsert":true})");
  oplog_.command("admin", R"({"applyOps":[{"op":"d","ns":"shop.orders","o":{"_id":9}},)"
                          R"({"op":"i","ns":"shop.orders","o":{"_id":4,"a":7}},)"
                          R"({"op":"i","ns":"shop.orders","o":{"_id":4,"a":7}}]})");
  oplog_.command("admin", R"({"applyOps":[{"op":"u","b":true,"ns":"shop.orders","o2":{"_id":5},)"
                          R"("o":{"_id":5,"a":7}}],"alwaysUpsert":false})");
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("4 inserts, 1 update, 0 deletes, 0 commands, 1 replacement"));
  std::string all;
  for (const std::uint32_t id : {1U, 2U, 3U, 4U, 5U})
    all += document({int32("_id", id), int32("a", 7)});
  EXPECT_EQ(there(), all);
  const Ended verified =
      program({"verify", "--target", target_uri(), "--restore-report", report()});
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

TEST_F(Written, AnUpdateOfNothingIsStillMissed) {
  base(document({int32("_id", 1)}));
  oplog_.command("admin", R"({"applyOps":[{"op":"u","ns":"shop.orders","o2":{"_id":2},)"
                          R"("o":{"$v":2,"diff":{"u":{"a":7}}}}],"alwaysUpsert":false})");
  oplog_.set("shop.orders", "3", R"({"a":7})");
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 10) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("2 updates found no document"));
  EXPECT_EQ(there(), document({int32("_id", 1)}));
}

TEST_F(Case, AnIndexWhoseBuildIsUnfinishedIsNotBuilt) {
  const Ended ended = program(words_of("unfinished_unique_index"));
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ask("shop", R"({"listIndexes":"orders"})"), Not(HasSubstr("k_1")));
  const Ended verified =
      program({"verify", "--target", target_uri(), "--restore-report", report()});
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

TEST_F(Written, ALossAfterAnApplyOpsIsFound) {
  base(document({int32("_id", 1)}) + document({int32("_id", 2)}));
  const auto each = [](const std::string& op, int id, const std::string& more) {
    return R"({"op":")" + op + R"(","ns":"shop.orders","o":{"_id":)" + std::to_string(id) + "}" +
           more + "}";
  };
  const auto update = [&](int id) {
    return each("u", id, R"(,"o2":{"_id":)" + std::to_string(id) + "}");
  };
  // An insert over a document, updates that insert, and a delete of none.
  oplog_.command("admin", R"({"applyOps":[)" + update(1) + "," + update(2) + "," + update(3) + "," +
                              each("i", 1, "") + "," + each("d", 9, "") + "]}");
  oplog_.command("shop", R"({"renameCollection":"shop.orders","to":"shop.done"})");
  oplog_.create("shop.orders").insert("shop.orders", R"({"_id":1})");
  oplog_.command("admin", R"({"applyOps":[)" + each("i", 1, "") + "]}");
  oplog_.command("admin", R"({"applyOps":[{"op":"u","ns":"shop.done","o2":{"_id":4},)"
                          R"("o":{"_id":4}},{"op":"i","ns":"shop.done","o":{"_id":4}}]})");
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  const std::vector<std::string> verify = {"verify", "--target", target_uri(), "--restore-report",
                                           report()};
  const Ended good = program(verify);
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  EXPECT_THAT(good.out, AllOf(HasSubstr("2 + 2 - 0"), HasSubstr("0 + 1 - 0")));
  ask("shop", R"({"delete":"done","deletes":[{"q":{"_id":4},"limit":1}]})");
  const Ended lost = program(verify);
  EXPECT_EQ(lost.status, 10) << lost.out;
  EXPECT_THAT(lost.out, HasSubstr("4 = 2 + 2 - 0"));
  for (const int id : {4, 5})
    ask("shop", R"({"insert":"done","documents":[{"_id":)" + std::to_string(id) + "}]}");
  EXPECT_EQ(program(verify).status, 10);
}

TEST_F(Written, WhatAnApplyOpsDidInOneStepIsCounted) {
  const std::string twice = document({int32("_id", 1), timestamp("t", 0, 0), timestamp("t", 7, 1)});
  base(twice);
  const auto apply = [&](const std::string& op, std::uint32_t id, const std::string& more = {}) {
    const std::string o = document({int32("_id", id), timestamp("t", 0, 0), timestamp("t", 7, 1)});
    const std::string inside =
        document({text("op", op), text("ns", "shop.orders"), inner("o", o), more});
    std::string list = inner("applyOps", document({inner("0", inside)}));
    list[0] = 0x04;
    entry("c", "admin.$cmd", document({list}));
  };
  apply("i", 1);
  apply("i", 2);
  apply("u", 3, inner("o2", document({int32("_id", 3)})));
  apply("u", 3, inner("o2", document({int32("_id", 3)})));
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  const Ended verified =
      program({"verify", "--target", target_uri(), "--restore-report", report()});
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("1 + 2 - 0"));
}

TEST_F(Case, ADatabaseWhoseNameDiffersInCaseAlone) { expect_restored("db_case_slice"); }

TEST_F(Case, APlusInTheNameOfAFileOfAnOlderTool) { expect_restored("old_name_plus"); }

TEST_F(Case, IncludingWhatOutWroteSaysWhatToAdd) {
  const Ended refused = program(with(words_of("include_out"), {"--include", "shop.report"}));
  EXPECT_EQ(refused.status, 5) << refused.err;
  EXPECT_THAT(refused.err,
              HasSubstr("; $out writes to it first: add --include 'shop.tmp.agg_out.*'"));
  const Ended added = program(with(
      words_of("include_out"), {"--include", "shop.report", "--include", "shop.tmp.agg_out.*"}));
  EXPECT_EQ(added.status, 0) << added.err;
  EXPECT_THAT(ask("shop", R"({"count":"report"})"), HasSubstr(R"("n" : 6)"));
  for (const char* const database : {"shop", "idmint_restore"})
    ask(database, R"({"dropDatabase":1})");
  expect_restored("include_out");
}

TEST_F(Written, AFileOfAnotherKindIsNamed) {
  base(document({int32("_id", 1)}));
  std::vector<std::string> given = words();
  for (const auto& [bytes, name] :
       {std::pair{std::string("\x6d\xe2\x99\x81 and more"), "is an archive of mongodump"},
        std::pair{std::string("\x28\xb5\x2f\xfd and more"), "is compressed by zstd"},
        std::pair{std::string("\xfd"
                              "7zXZ and more"),
                  "is compressed by xz"},
        std::pair{std::string("BZh91AY"), "is compressed by bzip2"}}) {
    write(path("oplog.bson"), bytes);
    const Ended oplog = program(given);
    EXPECT_EQ(oplog.status, 2) << oplog.err;
    EXPECT_THAT(oplog.err, HasSubstr(name));
    if (bytes[0] == 'm') continue;
    std::vector<std::string> archive = given;
    archive[2] = path("oplog.bson");
    EXPECT_THAT(program(archive).err, HasSubstr(name));
  }
}

// Its length, in the order of its bytes, is "BZh" and a zero: no bzip2 file begins so.
TEST_F(Written, ADocumentIsNoCompressedFile) {
  constexpr std::size_t size = 0x00685a42;
  const Bson empty = Bson("text", "");
  const Bson large = Bson("text", std::string(size - empty.view().bytes().size(), 'a'));
  const std::span<const std::uint8_t> bytes = large.view().bytes();
  ASSERT_EQ(bytes.size(), size);
  write(path("large.bson"), std::string(reinterpret_cast<const char*>(bytes.data()), size));
  Result<DocumentReader> reader = DocumentReader::open(path("large.bson"));
  ASSERT_TRUE(reader);
  const Result<std::optional<Document>> next = reader->next();
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_TRUE(*next);
}

TEST_F(Written, TheReportSumsUpToWhatIsThere) {
  fs::create_directories(path("base/shop"));
  write(path("base/shop/orders.bson"), document({int32("_id", 1)}) + document({int32("_id", 2)}));
  write(path("base/shop/orders.metadata.json"),
        std::string(R"({"indexes":[)") + kIdIndex + R"(],"uuid":"","collectionName":"orders"})");
  // The base was read after its slice had begun.
  OplogBuilder slice;
  slice.insert("shop.orders", R"({"_id":1})").insert("shop.orders", R"({"_id":2})");
  slice.insert("shop.orders", R"({"_id":3})").remove("shop.orders", "9");
  slice.write(path("base/oplog.bson"));
  for (int i = 0; i < 4; ++i) oplog_.noop();
  oplog_.insert("shop.orders", R"({"_id":4})");
  const Ended ended = restored();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(
      ended.out,
      AllOf(HasSubstr("base          2 documents\n"),
            HasSubstr("slice         1 insert, 0 updates, 0 deletes, 0 commands, 2 replacements"),
            HasSubstr("oplog         1 insert, ")));
}

TEST_F(Written, ShowGoesOnPastAnEntryThatItCannotPrint) {
  base(document({int32("_id", 1)}));
  entry("i", "shop.orders", odd(2));
  // The field v has the length that the specification asks for; the field b makes libbson give up.
  entry("i", "shop.orders",
        document({int32("_id", 5), old_binary("v", number(5) + "valid"), old_binary("b", "x")}));
  const Timestamp damaged = oplog_.next();
  entry("i", "shop.orders", document({int32("_id", 3), element(0x7e, "x", "x")}));
  entry("i", "shop.orders", document({int32("_id", 4)}));
  const Ended ended = program({"show", "--oplog", oplog_.write(path("oplog.bson"))});
  EXPECT_EQ(ended.status, 10) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("not printed: "), HasSubstr(print_timestamp(damaged))));
  EXPECT_THAT(ended.out, AllOf(HasSubstr(R"("_id" : 4)"),
                               HasSubstr(R"("base64" : "aGVsbG8=", "subType" : "02")"),
                               HasSubstr(R"("base64" : "dmFsaWQ=", "subType" : "02")"),
                               HasSubstr(R"("options" : "xig")")));
}

TEST_F(Case, AnIndexThatTheServerRefusesIsFoundBeforeTheLoad) {
  const Ended refused = program(words_of("ttl_large_base"));
  EXPECT_EQ(refused.status, 5) << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("a_1 of shop.orders"), HasSubstr("--index-errors report")));
  EXPECT_THAT(ask("shop", R"({"count":"orders"})"), HasSubstr(R"("n" : 0)"));
  const Ended left_out = expect_restored("ttl_large_base", {"--index-errors", "report"});
  EXPECT_THAT(left_out.out, HasSubstr("left out is the index a_1 of"));
  const Ended verified =
      program({"verify", "--target", target_uri(), "--restore-report", report()});
  EXPECT_THAT(verified.out, HasSubstr("left out      the index a_1 of shop.orders"));
}

TEST_F(Written, ADryRunToASpareTriesTheIndexes) {
  const std::vector<std::string> indexes = {R"({"v":0,"key":{"b":1},"name":"v0"})"};
  base(document({int32("_id", 1)}), indexes);
  const SpareServer spare;
  const std::vector<std::string> words =
      with({"run", "--base", path("base"), "--dry-run"}, spare.words());
  const Ended refused = program(words);
  EXPECT_EQ(refused.status, 5) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("  v0 of shop.orders: "));
  const Ended reported = program(with(words, {"--index-errors", "report"}));
  EXPECT_EQ(reported.status, 0) << reported.err;
  EXPECT_THAT(reported.out, HasSubstr("left out      the index v0 of shop.orders: "));
  EXPECT_FALSE(fs::exists(spare.path()));
}

// An entry that builds an index which an older server allowed.
constexpr const char* kOldIndex =
    R"({"createIndexes":"orders","v":0,"key":{"old":1},"name":"old_1"})";

TEST_F(Written, AnIndexOfTheOplogThatTheServerRefusesIsFoundBeforeTheLoad) {
  base(document({int32("_id", 1)}), {}, R"({"capped":true,"size":4096})");
  const Timestamp ttl = oplog_.next();
  oplog_.command("shop", R"({"createIndexes":"orders","v":2,"key":{"t":1},"name":"ttl",)"
                         R"("expireAfterSeconds":60})");
  oplog_.create("shop.new");
  oplog_.command("shop", R"({"commitIndexBuild":"new","indexBuildUUID":)"
                         R"({"$binary":{"base64":"MDAwMDAwMDAwMDAwMDAwMA==","subType":"04"}},)"
                         R"("indexes":[{"v":2,"key":{"a":1},"name":"good"},)"
                         R"({"v":2,"key":{"t":1},"name":"good_ttl","expireAfterSeconds":60},)"
                         R"({"v":0,"key":{"b":1},"name":"built"}]})");
  oplog_.command("shop", R"({"renameCollection":"shop.orders","to":"shop.capped"})");
  oplog_.command("shop", R"({"createIndexes":"capped","v":2,"key":{"t":1},"name":"again",)"
                         R"("expireAfterSeconds":60})");
  const auto limit = print_timestamp(oplog_.next());
  oplog_.command("shop", R"({"createIndexes":"new","v":0,"key":{"c":1},"name":"after"})");
  std::vector<std::string> limited = words();
  limited[5] = "--limit";
  limited.insert(limited.begin() + 6, limit);
  const Ended refused = program(limited);
  EXPECT_EQ(refused.status, 5) << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("  ttl of shop.orders, built at " + print_timestamp(ttl) + ": "),
                    HasSubstr("  built of shop.new, built at "),
                    HasSubstr("  again of shop.capped, built at "), Not(HasSubstr("good")),
                    Not(HasSubstr("after of"))));
  EXPECT_THAT(ask("shop", R"({"listCollections":1})"), Not(HasSubstr("orders")));
  const SpareServer spare;
  const Ended dry = program(with(
      {"run", "--base", path("base"), "--oplog", path("oplog.bson"), "--limit", limit, "--dry-run"},
      spare.words()));
  EXPECT_EQ(dry.status, 5) << dry.err;
  EXPECT_THAT(dry.err, HasSubstr("  ttl of shop.orders, built at " + print_timestamp(ttl)));
}

TEST_F(Written, ChangesOfAnIndexThatIsLeftOutArePassedOver) {
  base(document({int32("_id", 1)}),
       {R"({"v":0,"key":{"a":1},"name":"a_1"})", R"({"v":0,"key":{"b":1},"name":"b_1"})",
        R"({"v":0,"key":{"d":1},"name":"d_1"})"});
  oplog_.command("shop", kOldIndex);
  oplog_.command("shop", R"({"collMod":"orders","index":{"name":"a_1","hidden":true}})");
  oplog_.command("shop", R"({"collMod":"orders","index":{"name":"old_1","expireAfterSeconds":7}})");
  oplog_.command("shop", R"({"dropIndexes":"orders","index":"b_1"})");
  // From now on it is there.
  oplog_.command("shop", R"({"dropIndexes":"orders","index":"d_1"})");
  oplog_.command("shop", R"({"createIndexes":"orders","v":2,"key":{"d":1},"name":"d_1"})");
  oplog_.command("shop", R"({"collMod":"orders","index":{"name":"d_1","hidden":true}})");
  oplog_.command("shop", R"({"renameCollection":"shop.orders","to":"shop.done"})");
  oplog_.command("shop", R"({"collMod":"done","index":{"name":"old_1","hidden":true}})");
  const Ended ended = restored({"--index-errors", "report"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("left out is the index a_1 of shop.done: "),
                               HasSubstr("left out is the index old_1 of shop.done, built at "),
                               Not(HasSubstr("index b_1")), Not(HasSubstr("index d_1"))));
  EXPECT_THAT(ask("shop", R"({"listIndexes":"done"})"),
              AllOf(HasSubstr(R"("name" : "d_1", "hidden" : true)"), Not(HasSubstr("old_1"))));
  const Ended verified =
      program({"verify", "--target", target_uri(), "--restore-report", report()});
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, AllOf(HasSubstr("left out      the index a_1 of shop.done: "),
                                  HasSubstr("left out      the index old_1 of shop.done, built")));
}

TEST_F(Written, EachIndexThatTheServerRefusesIsNamed) {
  // Older servers made such indexes. Only the last one is found after the load, as it cannot be
  // built.
  base(document({int32("_id", 1), int32("u", 1)}) + document({int32("_id", 2), int32("u", 1)}),
       {R"({"v":2,"key":{"a":1},"name":"ttl","expireAfterSeconds":"60"})",
        R"({"v":0,"key":{"b":1},"name":"v0"})",
        R"({"v":1,"key":{"g":"geoHaystack","x":1},"name":"haystack","bucketSize":1})",
        R"({"v":2,"key":{"_fts":"text","_ftsx":1},"name":"text","weights":{"a":-1}})",
        R"({"v":2,"key":{"c":0},"name":"zero"})", R"({"v":2,"key":{"d":1},"name":"good"})",
        R"({"v":2,"key":{"u":1},"name":"twice","unique":true})"});
  const Ended refused = restored();
  EXPECT_EQ(refused.status, 5) << refused.err;
  for (const char* const name : {"ttl", "v0", "haystack", "text", "zero"})
    EXPECT_THAT(refused.err, HasSubstr(std::string("  ") + name + " of shop.orders: "));
  EXPECT_THAT(refused.err, Not(HasSubstr("good of")));
  const Ended reported = restored({"--index-errors", "report"});
  EXPECT_EQ(reported.status, 0) << reported.err;
  const Ended verified =
      program({"verify", "--target", target_uri(), "--restore-report", report()});
  EXPECT_EQ(verified.status, 0) << verified.err;
  for (const char* const name : {"ttl", "v0", "haystack", "text", "zero", "twice"})
    EXPECT_THAT(verified.out, HasSubstr(std::string("the index ") + name + " of shop.orders"));
  EXPECT_THAT(ask("shop", R"({"listIndexes":"orders"})"), HasSubstr(R"("name" : "good")"));
}

}  // namespace
}  // namespace idmint::restore
