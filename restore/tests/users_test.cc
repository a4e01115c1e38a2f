// run --users: users and roles of a set with access control, as they were at a moment; and who can
// log in to what was restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "restore/backup/dump.h"
#include "restore/namespaces.h"
#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "restore/tests/program.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using servers::mongo_command;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// With access control, and the user root of it. Started when first asked for.
servers::MongoSet& guarded_set() {
  static servers::MongoSet set({.users = true, .members = 1});
  return set;
}

std::string as(const std::string& host, const std::string& user, const std::string& password,
               const std::string& database) {
  return "mongodb://" + user + ":" + password + "@" + host +
         "/?directConnection=true&authSource=" + database;
}

class Users : public testing::Test {
 protected:
  Users() : production_(guarded_set().url("admin")) {
    production_.run("shop", R"({"dropDatabase":1})");
    for (const char* const database : {"shop", "depot"}) {
      production_.run(database, R"({"dropAllUsersFromDatabase":1})");
      production_.run(database, R"({"dropAllRolesFromDatabase":1})");
    }
    production_.insert("shop.orders", R"({"_id":1},{"_id":2})");
    production_.run("shop", R"({"createRole":"clerk","privileges":[{"resource":
        {"db":"shop","collection":"orders"},"actions":["find"]}],"roles":[]})");
    production_.run("shop", R"({"createRole":"idle","privileges":[],"roles":["read"]})");
    for (const char* const user : {"early", "changed", "sliced", "dropped"})
      production_.run(
          "shop", R"({"createUser":")" + std::string(user) +
                      R"(","pwd":"old","roles":["clerk","idle"],"mechanisms":["SCRAM-SHA-256"]})");
    production_.run("depot", R"({"createUser":"other","pwd":"old","roles":["readWrite"]})");
  }

  Ended restore_tool(const std::vector<std::string>& given) {
    return Program(folder_, given).end();
  }
  // The second password, and the end of another user, while the base is made.
  Result<void> change_in_slice() {
    production_.run("shop", R"({"updateUser":"changed","pwd":"new"})");
    production_.run("shop", R"({"dropUser":"sliced"})");
    return {};
  }
  void change_after_base() {
    production_.run("shop", R"({"createUser":"late","pwd":"old","roles":["clerk"]})");
    production_.run("shop", R"({"dropUser":"dropped"})");
    production_.run("shop", R"({"dropRole":"idle"})");  // a transaction
    production_.run("depot", R"({"createRole":"keeper","privileges":[],"roles":["readWrite"]})");
    production_.run("depot", R"({"grantRolesToUser":"other","roles":["keeper"]})");
    production_.insert("shop.orders", R"({"_id":3})");
  }
  // After the moment.
  void make_mistake() {
    production_.run("shop", R"({"updateUser":"early","pwd":"new"})");
    production_.run("shop", R"({"createUser":"after","pwd":"old","roles":["clerk"]})");
    production_.run("shop", R"({"dropAllUsersFromDatabase":1})");
    production_.run("shop", R"({"dropAllRolesFromDatabase":1})");
    production_.now();
  }

  // All, byte for byte.
  static State all_of(Server& server) {
    Result<State> state = read_state(server, {.users = true, .wanted = [](std::string_view ns) {
                                                return ns.starts_with("shop.") || is_users(ns);
                                              }});
    EXPECT_TRUE(state) << state.error().message();
    return state ? *std::move(state) : State{};
  }
  // Expects that a run with --users has restored the state and the logins.
  static void expect_restored(const Ended& run, const State& should) {
    ASSERT_EQ(run.status, 0) << run.out << run.err;
    const std::string host = host_in(run.out);
    Result<Server> server = Server::connect(uri_of(host));
    ASSERT_TRUE(server) << server.error().message();
    EXPECT_EQ(in_lines(differences(all_of(*server), should)), "");
    expect_logins(host);
  }
  // With access control or without: passwords are checked where one is given.
  static void expect_logins(const std::string& host) {
    const auto tries = [&](const std::string& user, const std::string& password,
                           const std::string& database = "shop") {
      return mongo_command(as(host, user, password, database), "shop",
                           R"({"find":"orders","filter":{"_id":3}})");
    };
    for (const char* const user : {"early", "late"})
      EXPECT_THAT(tries(user, "old"), HasSubstr("\"_id\" : 3")) << user;
    EXPECT_THAT(tries("changed", "new"), HasSubstr("\"_id\" : 3"));
    EXPECT_THAT(tries("root", "r", "admin"), HasSubstr("\"_id\" : 3"));
    EXPECT_THAT(tries("early", "new"), HasSubstr("Authentication failed"));
    for (const char* const user : {"changed", "sliced", "dropped", "after"})
      EXPECT_THAT(tries(user, "old"), HasSubstr("Authentication failed")) << user;
    EXPECT_THAT(tries("other", "old", "depot"), Not(HasSubstr("Authentication failed")));
  }
  // Only with access control.
  static void expect_rights(const std::string& host) {
    EXPECT_THAT(mongo_command(as(host, "early", "old", "shop"), "shop", R"({"find":"bills"})"),
                HasSubstr("not authorized"));
    EXPECT_THAT(mongo_command(as(host, "other", "old", "depot"), "shop", R"({"find":"orders"})"),
                HasSubstr("not authorized"));
    EXPECT_THAT(mongo_command(as(host, "other", "old", "depot"), "depot",
                              R"({"insert":"shelves","documents":[{"_id":1}]})"),
                HasSubstr("\"n\" : 1"));
  }
  static std::string host_in(const std::string& out) {
    const std::string uri = out.substr(out.find("mongodb://") + 10);
    return uri.substr(0, uri.find('/'));
  }
  static std::string uri_of(const std::string& host) {
    return "mongodb://" + host + "/?directConnection=true";
  }

  fakes::TempFolder folder_;
  Production production_;
};

struct Form {
  const char* name;
  BackupForm form;
};
class UsersOfEachBase : public Users, public testing::WithParamInterface<Form> {};

TEST_P(UsersOfEachBase, AreThoseOfTheMoment) {
  bool changed = false;
  const std::string base = folder_.path("base");
  Result<Server> from = Server::connect(guarded_set().url("admin"));
  ASSERT_TRUE(from);
  const Result<DumpFacts> dumped = dump(
      *std::move(from), {.path = base, .form = GetParam().form}, [&](std::int64_t, std::int64_t) {
        return std::exchange(changed, true) ? Result<void>{} : change_in_slice();
      });
  ASSERT_TRUE(dumped) << dumped.error().message();
  change_after_base();
  const State should = all_of(production_.server());
  const Timestamp limit = production_.now();
  make_mistake();
  const std::string oplog = folder_.path("oplog.bson");
  production_.dump_oplog(dumped->first, oplog);

  servers::MongoServer target;
  const std::vector<std::string> words = {"run",
                                          "--base",
                                          base,
                                          "--oplog",
                                          oplog,
                                          "--limit",
                                          print_timestamp(limit),
                                          "--target",
                                          target.url("?directConnection=true"),
                                          "--report",
                                          folder_.path("report"),
                                          "--yes"};
  const Ended run = restore_tool(with(words, {"--users"}));
  ASSERT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("left out: admin.system.users")));
  Result<Server> server = Server::connect(target.url("?directConnection=true"));
  ASSERT_TRUE(server) << server.error().message();
  EXPECT_EQ(in_lines(differences(all_of(*server), should)), "");
  expect_logins(target.host());

  const std::vector<std::string> verify = {"verify", "--target",
                                           target.url("?directConnection=true"), "--restore-report",
                                           folder_.path("report")};
  const Ended verified = restore_tool(verify);
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, AllOf(HasSubstr("admin.system.users"), HasSubstr("Counts agree")));
  EXPECT_THAT(restore_tool(with(verify, {"--include", "shop"})).out,
              Not(HasSubstr("admin.system.users")));
  const Ended against =
      restore_tool(with(verify, {"--against", guarded_set().url("admin"), "--exclude", "probe"}));
  EXPECT_EQ(against.status, 10);
  EXPECT_THAT(against.out,
              AllOf(HasSubstr("document \"shop.early\""), Not(HasSubstr("storedKey"))));
  const Ended without = restore_tool(words);
  EXPECT_EQ(without.status, 4) << "not mixed: " << without.out << without.err;

  target.kill();
  target.restart({"--auth"});
  EXPECT_THAT(mongo_command(target.url(""), "shop", R"({"find":"orders"})"),
              HasSubstr("requires authentication"));
  expect_logins(target.host());
  expect_rights(target.host());
}

INSTANTIATE_TEST_SUITE_P(Users, UsersOfEachBase,
                         testing::Values(Form{"Folder", BackupForm::kFolder},
                                         Form{"Archive", BackupForm::kArchive}),
                         [](const auto& each) { return each.param.name; });

TEST_F(Users, AreThoseOfTheMomentInKeptBackups) {
  const std::string kept = folder_.path("kept");
  const std::vector<std::string> keep = {"keep", "--uri", guarded_set().url("admin"),
                                         "--to", kept,    "--once"};
  ASSERT_EQ(restore_tool(keep).status, 0);
  ASSERT_TRUE(change_in_slice());
  change_after_base();
  const State should = all_of(production_.server());
  const Timestamp limit = production_.now();
  make_mistake();
  ASSERT_EQ(restore_tool(keep).status, 0);
  const std::vector<std::string> words = {"run",  "--from", kept, "--limit", print_timestamp(limit),
                                          "--yes"};
  const SpareServer spare;
  const Ended run = restore_tool(with(with(words, spare.words()), {"--users"}));
  ASSERT_NO_FATAL_FAILURE(expect_restored(run, should));
  Result<Server> server = Server::connect(uri_of(host_in(run.out)));
  ASSERT_TRUE(server) << server.error().message();

  // The users and roles that production lost by mistake are carried over, as docs/restore.md says.
  for (const auto& [name, to] :
       {std::pair("system.roles", "temproles"), std::pair("system.users", "tempusers")}) {
    Result<void> copied = for_each_document(*server, "admin", name, [&](Document each) {
      if (text_of(each, "db") != "shop") return Result<void>{};
      const Bson insert = Bson("insert", to, "documents", array(each));
      const Result<Bson> reply = production_.server().command("admin", insert);
      EXPECT_TRUE(reply) << reply.error().message();
      return Result<void>{};
    });
    EXPECT_TRUE(copied) << copied.error().message();
  }
  production_.run("admin", R"({"_mergeAuthzCollections":1,"tempUsersCollection":"admin.tempusers",
      "tempRolesCollection":"admin.temproles","db":"","drop":false})");
  for (const char* const each : {"tempusers", "temproles"})
    production_.run("admin", R"({"drop":")" + std::string(each) + R"("})");
  EXPECT_EQ(in_lines(differences(all_of(production_.server()), should)), "");
  const std::string member = guarded_set().member(0).host();
  expect_logins(member);

  const SpareServer plain;
  const Ended without = restore_tool(with(with(words, plain.words()), {"--json"}));
  ASSERT_EQ(without.status, 0) << without.out << without.err;
  EXPECT_THAT(without.out, AllOf(HasSubstr("--users restores users and roles"),
                                 HasSubstr("--users applies them")));
  Result<Server> empty = Server::connect(uri_of(host_in(without.out)));
  ASSERT_TRUE(empty);
  EXPECT_FALSE(all_of(*empty).contains("admin.system.users"));
}

TEST_F(Users, AreThoseOfTheMomentInADataCopy) {
  ASSERT_TRUE(change_in_slice());
  const Timestamp from = production_.now();
  const SpareServer spare;
  const std::string copy = spare.path();
  guarded_set().member(0).kill();
  fs::copy(guarded_set().member(0).folder(), copy, fs::copy_options::recursive);
  guarded_set().member(0).restart();
  guarded_set().primary();
  production_ = Production(guarded_set().url("admin"));  // the other's server was killed
  change_after_base();
  const State should = all_of(production_.server());
  const Timestamp limit = production_.now();
  make_mistake();
  const std::string oplog = folder_.path("oplog.bson");
  production_.dump_oplog(from, oplog);
  const std::vector<std::string> words = with(run_of_copy(copy, oplog, limit), {"--users"});
  const Ended run = restore_tool(words);
  ASSERT_NO_FATAL_FAILURE(expect_restored(run, should));
}

// As mongodump --db shop --dumpDbUsersAndRoles writes them.
TEST_F(Users, OfOneDatabaseAlone) {
  const std::string base = folder_.path("base");
  Result<Server> from = Server::connect(guarded_set().url("admin"));
  ASSERT_TRUE(from);
  ASSERT_TRUE(dump(*std::move(from), {.path = base},
                   [](std::int64_t, std::int64_t) { return Result<void>{}; }));
  for (const char* const name : {"users", "roles"})
    fs::rename(base + "/admin/system." + name + ".bson",
               base + "/shop/$admin.system." + name + ".bson");
  for (const char* const needless : {"admin", "depot", "probe", "oplog.bson", "checksums.json"})
    fs::remove_all(base + "/" + needless);
  const SpareServer spare;
  const std::vector<std::string> words =
      with({"run", "--base", base, "--users", "--yes"}, spare.words());
  const std::string oplog = folder_.path("oplog.bson");
  production_.dump_oplog({}, oplog);
  const Ended refused = restore_tool(with(words, {"--oplog", oplog, "--all", "--base-at", "1:1"}));
  EXPECT_EQ(refused.status, 5) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("users and roles of the database shop alone"));
  const Ended run = restore_tool(words);
  ASSERT_EQ(run.status, 0) << run.out << run.err;
  Result<Server> server = Server::connect(uri_of(host_in(run.out)));
  ASSERT_TRUE(server) << server.error().message();
  EXPECT_EQ(in_lines(differences(all_of(*server), all_of(production_.server()))), "");
}

// Nobody is locked out.
TEST_F(Users, ATargetThatHasSomeIsRefused) {
  const std::string base = folder_.path("base");
  ASSERT_EQ(restore_tool({"dump", "--uri", guarded_set().url("admin"), "--out", base}).status, 0);
  servers::MongoServer target;
  const std::string uri = target.url("?directConnection=true");
  ASSERT_THAT(mongo_command(uri, "depot", R"({"createUser":"here","pwd":"h","roles":[]})"),
              HasSubstr("\"ok\" : 1"));
  const std::vector<std::string> words = {
      "run", "--base", base, "--target", uri, "--report", folder_.path("report"), "--yes"};
  const Ended refused = restore_tool(with(words, {"--users"}));
  EXPECT_EQ(refused.status, 4) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("such as depot.here"), HasSubstr("--spare DIR")));
  EXPECT_THAT(mongo_command(uri, "admin", R"({"listDatabases":1,"nameOnly":true})"),
              AllOf(Not(HasSubstr("shop")), Not(HasSubstr("idmint"))));
  ASSERT_THAT(mongo_command(uri, "depot", R"({"dropUser":"here"})"), HasSubstr("\"ok\" : 1"));
  const Ended run = restore_tool(with(words, {"--users"}));
  EXPECT_EQ(run.status, 0) << "the collection is there and empty: " << run.out << run.err;
  EXPECT_THAT(mongo_command(as(target.host(), "early", "old", "shop"), "shop", R"({"ping":1})"),
              HasSubstr("\"ok\" : 1"));
}

}  // namespace
}  // namespace idmint::restore
