// find, show, oplog and ready, as their users run them: on dumps, and on real servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "restore/oplog/live.h"
#include "restore/tests/oplog_builder.h"
#include "restore/tests/production.h"
#include "tests/e2e/cli.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using e2e::Ended;
using nlohmann::json;
using servers::MongoServer;
using testing::HasSubstr;
using testing::Not;

// A killed program leaves nothing in /dev/shm.
const std::string kRestore = "MONGOC_DISABLE_SHM=1 idmint-restore";

std::string quoted(const std::string& text) { return "'" + text + "'"; }

class OplogCommands : public e2e::Cli {
 protected:
  // The URI of the set of three members that the tests share.
  static std::string uri() { return servers::mongo_set().url(""); }
  static std::string secondary() {
    const std::size_t primary = servers::mongo_set().primary();
    return servers::mongo_set().direct((primary + 1) % 3);
  }
  static Member member_of(const std::string& at) {
    Result<Member> member = connect_to_oplog(at);
    EXPECT_TRUE(member) << member.error().message();
    return *std::move(member);
  }
  static void await_majority(const std::string& at, Timestamp last) {
    Member member = member_of(at);
    for (;;) {
      const Result<OplogWindow> window = oplog_window(member);
      if (window && window->last >= last) return;
    }
  }
  // The timestamp of the last entry, once all members have it and know that all have it.
  static Timestamp settle(Production& production) {
    production.run("test", R"({"insert":"settled","documents":[{}],"writeConcern":{"w":3}})");
    const Timestamp last = production.now();
    // The note of now() reaches them all, and so does the news that it did.
    for (std::size_t i = 0; i < 3; ++i) await_majority(servers::mongo_set().direct(i), last);
    return last;
  }
  std::string content(const std::string& file) const { return e2e::content(folder_ / file); }
  void write(const std::string& file, const std::string& text) const {
    e2e::fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file, std::ios::binary) << text;
  }
};

// ---- dumps

TEST_F(OplogCommands, FindPrintsTheLimitAndWhatIsAroundIt) {
  const std::string dump = quoted(IDMINT_FIXTURES "/s3_mass_delete_exclusive/oplog-dump");
  const std::string found = output(kRestore + " find --oplog " + dump);
  EXPECT_THAT(found, HasSubstr("1. many documents were deleted at once: app.events\n"
                               "  limit         1795230032:3   2026-11-21T03:00:32Z\n"));
  EXPECT_THAT(found, HasSubstr("  one earlier   1795230032:2 would lose: insert into app.ledger, "
                               "_id \"LAST GOOD\n                OP\"\n"));
  EXPECT_THAT(found, HasSubstr("  one later     1795230032:4 would let through: delete from "
                               "app.events, _id 0\n"));
  EXPECT_THAT(found, HasSubstr("  left out      300 operations of it, and 10 others after it "
                               "began: app.events\n                10 inserts"));
  EXPECT_THAT(found, HasSubstr("restore with --limit 1795230032:3"));
  EXPECT_THAT(found, HasSubstr("  to            1795230032:302, operations: 300\n"));
  EXPECT_THAT(output(kRestore + " find --oplog " +
                     quoted(IDMINT_FIXTURES "/s2_wrong_inc_ordinal/oplog-dump")),
              HasSubstr("  to            1795230181:16, operations: 1\n"));
  EXPECT_THAT(found, HasSubstr("app.events  delete         300"));
  for (const std::string& line : e2e::lines_of(found)) EXPECT_FALSE(line.ends_with(' ')) << line;
}

TEST_F(OplogCommands, FindPrintsJsonAndDrawsAPicture) {
  const std::string dump = quoted(IDMINT_FIXTURES "/s2_wrong_inc_ordinal/oplog-dump");
  const json found =
      json::parse(output(kRestore + " find --json --svg picture.svg --oplog " + dump));
  EXPECT_EQ(found["entries"], 898);
  EXPECT_EQ(found["suspects"][0]["reason"], "fall");
  EXPECT_EQ(found["suspects"][0]["limit"], "1795230181:16");
  EXPECT_EQ(found["suspects"][0]["one_earlier"]["limit"], "1795230181:15");
  EXPECT_EQ(found["suspects"][0]["one_later"]["limit"], "1795230181:18");
  EXPECT_EQ(found["timeline"]["namespaces"][0]["update"]["operations"], 451);
  EXPECT_THAT(content("picture.svg"), HasSubstr("suspect 1"));
  EXPECT_THAT(content("picture.svg"), HasSubstr("</svg>"));
}

TEST_F(OplogCommands, APictureTakesThePlaceOfAnOlderOneOnlyWhenThereIsAnAnswer) {
  const std::string dump = quoted(IDMINT_FIXTURES "/s2_wrong_inc_ordinal/oplog-dump");
  write("picture.svg", "an older one");
  const std::string find = kRestore + " find --svg picture.svg --oplog ";
  EXPECT_EQ(run(find + "nothing").status, 3);
  EXPECT_EQ(run(find + dump + " --ns nothing").status, 3);
  EXPECT_EQ(content("picture.svg"), "an older one");
  EXPECT_FALSE(e2e::fs::exists(folder_ / "picture.svg.partial"));
  const e2e::Ended drawn = run(find + dump + " --html 'a page.html'");
  EXPECT_EQ(drawn.status, 0);
  EXPECT_EQ(drawn.err, "idmint-restore: wrote picture.svg\nidmint-restore: wrote 'a page.html'\n");
  EXPECT_THAT(content("picture.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(output(kRestore + " find --svg /dev/stdout --oplog " + dump), HasSubstr("</svg>"));
  EXPECT_EQ(run(kRestore + " find --svg none/picture.svg --oplog " + dump).status, 5);
}

// The elements that are open at the end, or that were closed out of order.
std::string unbalanced(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return "no end of a tag";
    const bool closes = html[at + 1] == '/';
    const std::size_t begin = at + (closes ? 2 : 1);
    const std::string name = html.substr(begin, html.find_first_of(" >/", begin) - begin);
    if (closes && (open.empty() || open.back() != name)) return "</" + name + ">";
    if (closes) open.pop_back();
    if (!closes && html[end - 1] != '/' && name != "!doctype" && name != "meta")
      open.push_back(name);
  }
  return open.empty() ? "" : "<" + open.back() + ">";
}

TEST_F(OplogCommands, ThePageStandsAloneAndEscapesWhatIsInTheOplog) {
  OplogBuilder oplog;
  oplog.insert("shop.orders", R"({"_id":"<script>alert(1)</script>"})");
  oplog.add(R"("op":"c","ns":"shop.$cmd","o":{"drop":"<img src=x onerror=alert(1)>"},)"
            R"("o2":{"numRecords":3})");
  oplog.insert("shop.orders", R"({"_id":2})");
  oplog.write((folder_ / "hostile.bson").string());
  EXPECT_EQ(run(kRestore + " find --html page.html --oplog hostile.bson").status, 0);
  const std::string page = content("page.html");
  EXPECT_EQ(unbalanced(page), "");
  for (const char* const outside :
       {"<script", "<img", "<link", "href=", "src=\"", "url(", "@import", "http://", "https://"})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_THAT(page, HasSubstr("a collection was dropped: shop.&lt;img src=x onerror=alert(1)&gt;"));
  EXPECT_THAT(page, HasSubstr("insert into shop.orders, _id &quot;&lt;script&gt;alert(1)"));
  EXPECT_THAT(page, HasSubstr("<pre>idmint-restore run --base BASE --oplog hostile.bson --limit "
                              "100:2 --spare SPARE --dry-run</pre>"));
  EXPECT_THAT(page, HasSubstr("class=\"mark\""));
  const std::string history =
      kRestore + " find --html page.html --id '<script>alert(1)</script>' --oplog hostile.bson";
  EXPECT_THAT(run(history).out,
              HasSubstr("History of _id <script>alert(1)</script>:\n100:1  insert"));
  EXPECT_EQ(unbalanced(content("page.html")), "");
  EXPECT_THAT(content("page.html"), HasSubstr("History of _id &lt;script&gt;"));
}

TEST_F(OplogCommands, FindTellsCausesEffectsAndRoutines) {
  OplogBuilder oplog;
  std::uint32_t second = 200;
  std::uint32_t ordinal = 0;
  const auto add = [&](const std::string& fields) {
    oplog.add_raw(R"({"ts":)" + OplogBuilder::json({second, ++ordinal}) +
                  R"(,"v":2,"wall":{"$date":{"$numberLong":")" + std::to_string(second) +
                  R"(000"}},)" + fields + "}");
  };
  int id = 0;
  const auto deletes = [&](const std::string& ns) {
    for (int i = 0; i < 30; ++i)
      add(R"("op":"d","ns":")" + ns + R"(","o":{"_id":)" + std::to_string(id++) + "}");
  };
  for (int minute = 0; minute < 6; ++minute, second += 60) deletes("shop.logins");
  ordinal = 0;
  add(R"("op":"c","ns":"shop.$cmd","o":{"collMod":"audit","index":{"name":"at",)"
      R"("expireAfterSeconds":60}},"o2":{"indexOptions_old":{"expireAfterSeconds":86400}})");
  second += 3;
  ordinal = 0;
  deletes("shop.audit");
  oplog.write((folder_ / "expired.bson").string());
  const std::string find = kRestore + " find --oplog expired.bson";
  const std::string found = output(find);
  EXPECT_THAT(found, HasSubstr("1. documents expire sooner: shop.audit\n"
                               "  limit         560:1 "));
  EXPECT_THAT(found, HasSubstr("  to            563:30, operations: 31\n")) << "with what followed";
  EXPECT_THAT(found, HasSubstr("  then          563:1  30 documents of shop.audit deleted\n"));
  EXPECT_THAT(found, HasSubstr("  left out      1 operation of it, and 0 others after it began\n"));
  EXPECT_THAT(found, Not(HasSubstr("2. ")));
  EXPECT_THAT(found, HasSubstr("Routine, and so no suspects:\n  shop.logins: documents deleted 6 "
                               "times, every 1 min, about 30 documents each\n"));
  const json told = json::parse(output(find + " --json"));
  EXPECT_EQ(told["suspects"][0]["reason"], "time_to_live");
  EXPECT_EQ(told["suspects"][0]["effects"][0]["operations"], 30);
  EXPECT_EQ(told["suspects"][0]["also_lost"]["operations"], 0);
  EXPECT_EQ(told["routines"][0]["times"], 6);
  EXPECT_EQ(told["routines"][0]["every_seconds"], 60);
}

TEST_F(OplogCommands, NoSuspectIsPrintedWhereNoneIsAskedFor) {
  const std::string found = output(kRestore + " find --top 0 --oplog " +
                                   quoted(IDMINT_FIXTURES "/s2_wrong_inc_ordinal/oplog-dump"));
  EXPECT_THAT(found, Not(HasSubstr("Nothing looks like a mistake")));
  EXPECT_THAT(found, Not(HasSubstr("If it is the first")));
}

TEST_F(OplogCommands, ShowEscapesWhatIsNoUtf8AndRefusesDamage) {
  const auto entry = [](const std::string& field) {
    std::string text = std::string("\x11ts\0\1\0\0\0\x64\0\0\0", 12) +
                       std::string("\x02op\0\2\0\0\0n\0", 10) +
                       std::string("\x02ns\0\1\0\0\0\0", 9) + field + '\0';
    return std::string{static_cast<char>(text.size() + 4), 0, 0, 0} + text;
  };
  write("bytes.bson", entry(std::string("\x03o\0\x10\0\0\0\x02t\0\4\0\0\0a\xff"
                                        "b\0\0",
                                        19)));
  EXPECT_THAT(output(kRestore + " show --oplog bytes.bson"),
              HasSubstr(R"("o" : { "t" : "a\\xffb" })"));
  write("damaged.bson", entry(std::string("\x03o\0\x8\0\0\0\x55"
                                          "a\0\0",
                                          11)));
  const Ended damaged = run(kRestore + " show --oplog damaged.bson");
  EXPECT_EQ(damaged.status, 10);
  EXPECT_EQ(damaged.out, "");
  EXPECT_THAT(damaged.err, HasSubstr("byte 0, entry 100:1: damaged BSON"));
}

TEST_F(OplogCommands, FindListsWhatIsAskedFor) {
  const std::string find =
      kRestore + " find --oplog " + quoted(IDMINT_FIXTURES "/s2_wrong_inc_ordinal/oplog-dump");
  const std::string found =
      output(find +
             " --id 'COUNTER DOCUMENT NUMBER 4' --since 1795230181:14 --until "
             "1795230181:16 --field COUNT --list 5");
  EXPECT_THAT(found, HasSubstr("2 of 898 operations were looked at\n"
                               "History of _id COUNTER DOCUMENT NUMBER 4:\n"
                               "1795230181:14  update of ids.uniqueIdentifierCounter, _id "
                               "\"COUNTER DOCUMENT NUMBER 4\": { \"u\" : { \"COUNT\" : "
                               "4000000061 } }\n1795230181:16  update"));
  const Ended none = run(find + " --ns nothing");
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("no operation is as asked for"));
  EXPECT_EQ(run(find + " --since 2:1 --until 1:1").status, 2);
  EXPECT_EQ(run(find + " --since yesterday").status, 2);
}

TEST_F(OplogCommands, FindRefusesDamageWithItsPlace) {
  const std::string whole =
      e2e::content(IDMINT_FIXTURES "/s3_mass_delete_exclusive/oplog-dump/local/oplog.rs.bson");
  write("cut.bson", whole.substr(0, whole.size() - 1));
  const Ended cut = run(kRestore + " find --oplog cut.bson");
  EXPECT_EQ(cut.status, 10);
  EXPECT_THAT(cut.err, HasSubstr("damaged at byte"));
  EXPECT_THAT(cut.err, HasSubstr("the last good entry is 1795230032:311"));
  write("empty.bson", "");
  EXPECT_EQ(run(kRestore + " find --oplog empty.bson").status, 3);
}

// ---- live ones

TEST_F(OplogCommands, AnyMembersOplogIsDumpedAndGoneOnWith) {
  Production production(uri());
  const Timestamp since = settle(production);
  production.insert("shop.orders", R"({"_id":1},{"_id":2})");
  const Timestamp middle = settle(production);
  const std::string dump = kRestore + " oplog --uri " + quoted(secondary()) + " --since " +
                           print_timestamp(since) + " --out dump.bson --json";
  const json first = json::parse(output(dump));
  EXPECT_EQ(first["first"], print_timestamp(since));
  EXPECT_GE(parse_timestamp(first["last"].get<std::string>()).value(), middle);
  production.insert("shop.orders", R"({"_id":3})");
  settle(production);
  // Its checksums say that it was whole once. New ones would hide what it lost.
  const std::string before = content("dump.bson");
  write("dump.bson", before.substr(0, before.size() - 5));
  EXPECT_EQ(run(dump).status, 10);
  // As a dump that was killed while it wrote: the last entry is cut.
  e2e::fs::remove(folder_ / "dump.bson.checksums.json");
  const json second = json::parse(output(dump));
  EXPECT_GT(second["added"], 1);

  production.dump_oplog(since, (folder_ / "truth.bson").string());
  const std::string truth = content("truth.bson");
  const std::string dumped = content("dump.bson");
  EXPECT_EQ(dumped, truth.substr(0, dumped.size()));
  EXPECT_GT(dumped.size(), before.size());
}

TEST_F(OplogCommands, FollowingSurvivesAKill) {
  Production production(uri());
  const Timestamp since = settle(production);
  const std::string dump = kRestore + " oplog --uri " + quoted(uri()) + " --since " +
                           print_timestamp(since) + " --out dump.bson";
  // Until the file has the text that is inserted last.
  const auto await = [](const std::string& text) {
    return "timeout 120 bash -c 'until grep -aq " + text + " dump.bson; do sleep 0.05; done'\n";
  };
  const std::string begun = dump + " --follow & pid=$!\n";
  production.insert("shop.orders", R"({"text":"first-one"})");
  ASSERT_EQ(run(begun + await("first-one") + "kill -9 $pid; wait $pid; true").status, 0);
  production.insert("shop.orders", R"({"text":"second-one"})");
  const Ended followed = run(begun + await("second-one") + "kill -TERM $pid; wait $pid");
  EXPECT_EQ(followed.status, 128 + SIGTERM);
  EXPECT_THAT(followed.out, testing::ContainsRegex("entr(y|ies) added"));
  production.insert("shop.orders", R"({"text":"third-one"})");
  settle(production);
  output(dump);
  EXPECT_THAT(content("dump.bson"), HasSubstr("third-one"));

  production.dump_oplog(since, (folder_ / "truth.bson").string());
  const std::string dumped = content("dump.bson");
  EXPECT_EQ(dumped, content("truth.bson").substr(0, dumped.size()));
}

TEST_F(OplogCommands, FollowingGoesOnWhenTheServerComesBack) {
  servers::MongoSet set({.members = 1});
  Production(set.url("")).insert("shop.orders", R"({"text":"first-one"})");
  const auto await = [](const std::string& text, const std::string& file) {
    return "timeout 120 bash -c 'until grep -aq " + text + " " + file + "; do sleep 0.05; done'";
  };
  run(kRestore + " oplog --follow --out dump.bson --uri " + quoted(set.url("")) +
      " >out 2>told & echo $! >pid");
  EXPECT_EQ(run(await("first-one", "dump.bson")).status, 0) << content("told");
  set.member(0).kill();
  EXPECT_EQ(run(await("trying", "told")).status, 0);
  set.member(0).restart();
  set.primary();
  Production(set.url("")).insert("shop.orders", R"({"text":"second-one"})");
  EXPECT_EQ(run(await("second-one", "dump.bson")).status, 0) << content("told");
  EXPECT_EQ(run("kill -TERM $(cat pid); " + await("added", "out")).status, 0) << content("told");
}

TEST_F(OplogCommands, FollowingNeverHasWhatIsRolledBack) {
  servers::MongoSet set({.members = 3});
  Timestamp since{};
  {
    Production production(set.url(""));
    since = production.now();
    production.run("shop", R"({"insert":"orders","documents":[{"text":"first-one"}],
                               "writeConcern":{"w":3}})");
  }
  const auto await = [](const std::string& text, const std::string& file) {
    return "timeout 120 bash -c 'until grep -aq " + text + " " + file + "; do sleep 0.05; done'";
  };
  run(kRestore + " oplog --follow --out dump.bson --since " + print_timestamp(since) + " --uri " +
      quoted(set.url("")) + " >out 2>told & echo $! >pid");
  EXPECT_EQ(run(await("first-one", "dump.bson")).status, 0) << content("told");
  // The primary alone has one more entry when it is killed, and another becomes the primary.
  const std::size_t before = set.primary();
  const auto fetch = [&](const char* mode) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (i != before)
        servers::mongo_command(
            set.direct(i), "admin",
            R"({"configureFailPoint":"stopReplProducer","mode":")" + std::string(mode) + "\"}");
    }
  };
  fetch("alwaysOn");
  Production(set.direct(before)).run("shop", R"({"insert":"orders",
      "documents":[{"text":"lost-one"}],"writeConcern":{"w":1}})");
  set.member(before).kill();
  fetch("off");
  EXPECT_NE(set.primary(), before);
  Production(set.url("")).insert("shop.orders", R"({"text":"second-one"})");
  EXPECT_EQ(run(await("second-one", "dump.bson")).status, 0) << content("told");
  EXPECT_EQ(run("kill -TERM $(cat pid); " + await("added", "out")).status, 0) << content("told");
  const std::string dumped = content("dump.bson");
  EXPECT_EQ(dumped.find("lost-one"), std::string::npos);
  Production production(set.url(""));
  production.dump_oplog(since, (folder_ / "truth.bson").string());
  EXPECT_TRUE(dumped == content("truth.bson").substr(0, dumped.size()));
}

TEST_F(OplogCommands, FollowingBeginsWhenTheMemberHasRecovered) {
  Production production(uri());
  const Timestamp since = settle(production);
  production.insert("shop.orders", R"({"text":"first-one"})");
  const std::string member = secondary();
  const auto await = [](const std::string& text, const std::string& file) {
    return "timeout 120 bash -c 'until grep -aq " + text + " " + file + "; do sleep 0.05; done'";
  };
  const auto maintenance = [&](const std::string& on) {
    EXPECT_THAT(servers::mongo_command(member, "admin", R"({"replSetMaintenance":)" + on + "}"),
                HasSubstr(R"("ok" : 1.0)"));
  };
  maintenance("true");
  run(kRestore + " oplog --follow --out dump.bson --uri " + quoted(member) + " --since " +
      print_timestamp(since) + " >out 2>told & echo $! >pid");
  EXPECT_EQ(run(await("trying", "told")).status, 0) << content("told");
  maintenance("false");
  EXPECT_EQ(run(await("first-one", "dump.bson")).status, 0) << content("told");
  EXPECT_EQ(run("kill -TERM $(cat pid); " + await("added", "out")).status, 0) << content("told");
}

TEST_F(OplogCommands, AnOplogIsReadWhileThereIsNoPrimary) {
  servers::MongoSet set({.members = 2});
  const std::string all = set.url("");
  Timestamp last{};
  {
    Production production(all);
    production.run("shop", R"({"insert":"orders","documents":[{}],"writeConcern":{"w":2}})");
    e2e::fs::create_directories(folder_ / "base/shop");
    production.dump_oplog(production.now(), (folder_ / "base/oplog.bson").string());
    last = production.now();
    for (std::size_t i = 0; i < 2; ++i) await_majority(set.direct(i), last);
  }
  set.member(set.primary()).kill();
  const std::string of = quoted(all);
  output(kRestore + " oplog --out dump.bson --uri " + of);
  output(kRestore + " find --oplog " + of);
  output(kRestore + " show --oplog " + of + " --since " + print_timestamp(last));
  output(kRestore + " ready --base base --uri " + of);
}

TEST_F(OplogCommands, ShowGoesOnPastEachEntryOfALiveOplogThatIsNone) {
  servers::MongoSet set({.members = 1});
  Production production(set.url(""));
  // The server gives the next ordinals of this second to writes of its own, and dies of an entry
  // that has its timestamp already.
  Timestamp at = production.now();
  at.ordinal += 1000;
  for (int i = 0; i < 2; ++i) {
    ++at.ordinal;
    production.run("admin", R"({"applyOps":[{"op":"i","ns":"local.oplog.rs","o":{"_id":)" +
                                std::to_string(i) + R"(,"ts":)" + OplogBuilder::json(at) +
                                R"(,"v":2,"op":""}}],"allowAtomic":false})");
  }
  while (production.now().seconds == at.seconds) std::this_thread::yield();
  production.run("shop", R"({"insert":"orders","documents":[{"_id":"last"}]})");
  await_majority(set.url(""), production.now());
  const Ended shown = run(kRestore + " show --oplog " + quoted(set.url("")));
  EXPECT_EQ(shown.status, 10) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr(R"("_id" : "last")"));
  EXPECT_EQ(e2e::lines_of(shown.err).size(), 2U) << shown.err;
}

// --since may be a time at which nothing was written.
TEST_F(OplogCommands, ADumpSinceATimeIsGoneOnWith) {
  Production production(uri());
  const Timestamp since = settle(production);
  const std::string dump = kRestore + " oplog --out dump.bson --uri " + quoted(uri()) + " --since ";
  output(dump + print_timestamp(since));
  output(dump + print_timestamp(since));
  Member member = member_of(uri());
  const Result<OplogWindow> window = oplog_window(member);
  ASSERT_TRUE(window);
  const Ended earlier = run(dump + print_timestamp(window->first));
  EXPECT_EQ(earlier.status, 5);
  EXPECT_THAT(earlier.err, HasSubstr("name another file"));
  production.insert("shop.orders", R"({"text":"x"})");
  const Timestamp gap = settle(production);
  const std::string second = print_timestamp({.seconds = gap.seconds + 1, .ordinal = 0});
  for (Timestamp last = gap; last.seconds <= gap.seconds;) last = settle(production);
  const std::string anew = kRestore + " oplog --out anew.bson --uri " + quoted(uri());
  output(anew + " --since " + second);
  output(anew + " --since " + second);
}

TEST_F(OplogCommands, ADumpBeginsAtTheFirstEntryOfABase) {
  Production production(uri());
  const Timestamp at = settle(production);
  production.insert("shop.orders", R"({"text":"while the base was taken"})");
  settle(production);
  e2e::fs::create_directories(folder_ / "base/shop");
  production.dump_oplog(at, (folder_ / "base/oplog.bson").string());
  const std::string dump = kRestore + " oplog --uri " + quoted(uri()) + " --base base --out ";
  EXPECT_EQ(json::parse(output(dump + "dump.bson --json"))["first"], print_timestamp(at));
  output(dump + "dump.bson");
  const Timestamp later = settle(production);
  output(kRestore + " oplog --uri " + quoted(uri()) + " --out later.bson --since " +
         print_timestamp(later));
  const Ended misses = run(dump + "later.bson");
  EXPECT_EQ(misses.status, 5);
  EXPECT_THAT(misses.err, HasSubstr("name another file"));

  std::string other = content("base/oplog.bson");
  other.replace(other.find("a test"), 6, "b test");
  write("base/oplog.bson", other);
  const Ended foreign = run(dump + "new.bson");
  EXPECT_EQ(foreign.status, 5);
  EXPECT_THAT(foreign.err, HasSubstr("of another replica set"));
  const Ended old = run(kRestore + " oplog --uri " + quoted(uri()) + " --out new.bson --base " +
                        quoted(IDMINT_FIXTURES "/s2_wrong_inc_ordinal/base-dump"));
  EXPECT_EQ(old.status, 6);
  EXPECT_THAT(old.err, HasSubstr("has rolled over"));
  e2e::fs::remove(folder_ / "base/oplog.bson");
  EXPECT_EQ(run(dump + "new.bson").status, 3);
}

TEST_F(OplogCommands, AFileOfAnotherSetIsRefused) {
  Production production(uri());
  const Timestamp at = settle(production);
  production.dump_oplog(at, (folder_ / "dump.bson").string());
  std::string other = content("dump.bson");
  // Its last entry has another text.
  other.replace(other.rfind("a test"), 6, "b test");
  write("dump.bson", other);
  const Ended ended = run(kRestore + " oplog --uri " + quoted(uri()) + " --out dump.bson");
  EXPECT_EQ(ended.status, 5);
  EXPECT_THAT(ended.err, HasSubstr("it is of another replica set"));
  EXPECT_EQ(content("dump.bson"), other);
}

TEST_F(OplogCommands, FindAndShowReadALiveOplog) {
  Production production(uri());
  const Timestamp since = settle(production);
  production.insert("mistakes.orders", R"({"_id":1},{"_id":2})");
  production.run("mistakes", R"({"dropDatabase":1,"writeConcern":{"w":3}})");
  settle(production);
  for (const std::string& member : {uri(), secondary()}) {
    const json found = json::parse(output(kRestore + " find --json --oplog " + quoted(member) +
                                          " --since " + print_timestamp(since)));
    const json& suspect = found["suspects"][0];
    EXPECT_EQ(suspect["reason"], "drop_database");
    EXPECT_EQ(suspect["operations"], 2);
    EXPECT_EQ(found["notices"], json::array());
    const json early =
        json::parse(output(kRestore + " find --json --since 1:1 --oplog " + quoted(member)));
    EXPECT_THAT(early["notices"].dump(), HasSubstr("after --since"));
    const std::string shown = output(kRestore + " show --oplog " + quoted(member) + " --since " +
                                     suspect["limit"].get<std::string>() + " --until " +
                                     suspect["last"].get<std::string>());
    EXPECT_THAT(e2e::lines_of(shown).front(), HasSubstr(R"("drop" : "orders")"));
    EXPECT_THAT(e2e::lines_of(shown).back(), HasSubstr(R"("dropDatabase" : 1)"));
  }
}

TEST_F(OplogCommands, ReadySaysWhetherTheOplogReachesBack) {
  Production production(uri());
  const Timestamp at = settle(production);
  e2e::fs::create_directories(folder_ / "base/shop");
  production.dump_oplog(at, (folder_ / "base/oplog.bson").string());
  const std::string ready = kRestore + " ready --uri " + quoted(uri()) + " --base base";
  EXPECT_THAT(output(ready), HasSubstr("base ends     " + print_timestamp(at)));
  const json told = json::parse(output(ready + " --json"));
  EXPECT_EQ(told["reaches_back"], true);
  EXPECT_GT(told["bytes_per_second"], 0);
  EXPECT_GT(told["hours_left"], 0);

  const Ended little = run(ready + " --warn-below 30000d");
  EXPECT_EQ(little.status, 8);
  EXPECT_THAT(little.err, HasSubstr("make a new base"));

  std::string other = content("base/oplog.bson");
  other.replace(other.rfind("a test"), 6, "b test");
  write("base/oplog.bson", other);
  const Ended foreign = run(ready);
  EXPECT_EQ(foreign.status, 5);
  EXPECT_THAT(foreign.err, HasSubstr("of another replica set"));

  EXPECT_EQ(run(kRestore + " ready --base nothing --base-at 1:1 --uri " + quoted(uri())).status, 3);
  EXPECT_EQ(run(ready + " --base-at 1:1").status, 2);

  const Ended old = run(kRestore + " ready --json --uri " + quoted(uri()) + " --base " +
                        quoted(IDMINT_FIXTURES "/s2_wrong_inc_ordinal/base-dump"));
  EXPECT_EQ(old.status, 6);
  EXPECT_EQ(json::parse(old.out)["reaches_back"], false);
}

TEST_F(OplogCommands, AStandaloneHasNoOplog) {
  const std::string alone = quoted(servers::mongo_standalone().url(""));
  for (const std::string& command :
       {"find --oplog " + alone, "show --oplog " + alone, "oplog --out dump.bson --uri " + alone}) {
    const Ended ended = run(kRestore + " " + command);
    EXPECT_EQ(ended.status, 3) << command;
    EXPECT_THAT(ended.err, HasSubstr("only the members of a replica set have one"));
  }
}

TEST_F(OplogCommands, ARolledOverOplogIsRefused) {
  MongoServer server({"--replSet", "small", "--oplogSize", "1", "--syncdelay", "1"});
  const std::string direct = server.url("?directConnection=true");
  servers::mongo_command(direct, "admin",
                         R"({"replSetInitiate":{"_id":"small","members":[{"_id":0,"host":")" +
                             server.host() + R"("}]}})");
  while (servers::mongo_command(direct, "admin", R"({"hello":1})")
             .find(R"("isWritablePrimary" : true)") == std::string::npos) {
  }
  Production production(direct);
  const Timestamp since = production.now();
  await_majority(direct, since);
  const std::string dump =
      kRestore + " oplog --uri " + quoted(direct) + " --since " + print_timestamp(since);
  output(dump + " --out dump.bson");
  e2e::fs::create_directories(folder_ / "base");
  production.dump_oplog(since, (folder_ / "base/oplog.bson").string());
  const std::string dumped = content("dump.bson");

  Member member = member_of(direct);
  const std::string large(100'000, 'x');
  for (;;) {  // each tenth of the oplog makes way at once
    production.insert("shop.files", R"({"text":")" + large + "\"}");
    const Result<OplogWindow> window = oplog_window(member);
    ASSERT_TRUE(window);
    if (window->first > since) break;
  }
  for (const char* const out : {"dump.bson", "new.bson"}) {
    const Ended ended = run(dump + " --out " + out);
    EXPECT_EQ(ended.status, 6) << out;
    EXPECT_THAT(ended.err, HasSubstr("rolled over"));
  }
  EXPECT_EQ(content("dump.bson"), dumped);
  const Ended ready = run(kRestore + " ready --uri " + quoted(direct) + " --base base");
  EXPECT_EQ(ready.status, 6);
  EXPECT_THAT(ready.err, HasSubstr("make a new base now"));
}

}  // namespace
}  // namespace idmint::restore
