// idmint-restore reports on the sequences and pools after a restore, for each strategy. Following
// the report leaves every counter where production left it: nothing repeats, and no value is passed
// over that was not handed out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/worker_pool.h"
#include "ids/lease_table.h"
#include "restore/tests/production.h"
#include "store/counter_store.h"
#include "tests/e2e/cli.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kDatabase = "shop";

class Minted : public e2e::Cli {
 protected:
  e2e::Ended follow(const std::string& commands) {
    return run("set -e\nexport MONGOC_DISABLE_SHM=1 PATH=$PATH:$(dirname \"$(" IDMINT_MONGOD
               ")\")\n" +
               commands);
  }
  // Ids of a pool, or values of any other sequence.
  void mint(Store& store, const std::string& name, int count) {
    std::set<std::int64_t>& all = given_[name];
    if (name == "web") {
      auto generator = SnowflakeGenerator::open(store, name);
      ASSERT_TRUE(generator) << generator.error().message();
      std::vector<Snowflake> ids(static_cast<std::size_t>(count));
      ASSERT_TRUE((*generator)->next(ids));
      for (const Snowflake& id : ids)
        EXPECT_TRUE(all.insert(static_cast<std::int64_t>(id.value())).second) << name;
      return;
    }
    const auto sequence = Sequence::open(store, name);
    ASSERT_TRUE(sequence) << sequence.error().message();
    for (int i = 0; i < count; ++i) {
      std::int64_t value = 0;
      ASSERT_TRUE((*sequence)->next({&value, 1}));
      EXPECT_TRUE(all.insert(value).second) << name << " gave " << value << " twice";
    }
  }

  servers::MongoSet set_{{.members = 1, .election_timeout = std::chrono::minutes{10}}};
  std::map<std::string, std::set<std::int64_t>> given_{};
};

// Those that the output says to run, one a line.
std::vector<std::string> commands_in(const std::string& out) {
  std::vector<std::string> commands;
  for (const std::string& line : e2e::lines_of(out))
    if (line.starts_with("  idmint raise ") || line.starts_with("  idmint workers ") ||
        line.starts_with("  idmint alter ") || line.starts_with("  idmint retire "))
      commands.push_back(line.substr(2));
  return commands;
}

std::map<std::string, std::int64_t> next_values(Store& store) {
  std::map<std::string, std::int64_t> all;
  const auto counters = store.counters()->list("");
  EXPECT_TRUE(counters);
  for (const CounterState& each : *counters) all[each.name] = each.next;
  return all;
}

TEST_F(Minted, TheAdviceBringsEachStrategyToWhereProductionWas) {
  const std::string url = set_.url(kDatabase);
  Production production(set_.url("admin"));
  const auto opened = Store::open(url);
  ASSERT_TRUE(opened) << opened.error().message();
  Store& store = **opened;
  const std::vector<SequenceDefinition> definitions = {
      {.name = "adopted", .adopted = "ids/a:last=n", .make_adopted = true},
      {.name = "blocks", .strategy = Strategy::kStriped, .last = 999'999'999'999, .stripes = 200},
      {.name = "cached", .strategy = Strategy::kCached, .step = 10},
      {.name = "cards", .strategy = Strategy::kPermuted, .last = 999'999'999'999},
      {.name = "codes", .strategy = Strategy::kRandom, .last = 999'999'999},
      {.name = "counter", .first = 1000},
      {.name = "few", .strategy = Strategy::kStriped, .last = 2'000'000'000, .stripes = 2},
      {.name = "idle"},
      {.name = "invoices", .strategy = Strategy::kGapless},
      {.name = "old"},
      {.name = "small", .last = 10},
      {.name = "turns", .strategy = Strategy::kInterleaved, .last = 999'999'999, .stripes = 3},
  };
  for (const SequenceDefinition& definition : definitions) {
    const auto created = create_sequence(store, definition);
    ASSERT_TRUE(created) << created.error().message();
  }
  const auto made = create_pool(store, {.name = "web", .workers = 4});
  ASSERT_TRUE(made) << made.error().message();
  const std::vector<std::string> minting = {"adopted", "blocks", "cached", "cards", "codes",
                                            "counter", "few",    "turns",  "web"};
  const auto mint_some = [&] {
    for (const std::string& name : minting) mint(store, name, name == "blocks" ? 200 : 6);
  };
  mint_some();
  mint(store, "idle", 3);
  const std::string environment = "PRODUCTION='" + set_.url("") + "'\n";
  const e2e::Ended dumped =
      follow(environment + "idmint-restore dump --uri \"$PRODUCTION\" --out base");
  ASSERT_EQ(dumped.status, 0) << dumped.err;
  mint_some();
  const std::string limit = print_timestamp(production.now());
  // A restore takes this work back, and clients have seen it.
  mint_some();
  ASSERT_TRUE(alter_sequence(store, "small", 1000));
  mint(store, "small", 20);
  ASSERT_TRUE(retire_sequence(store, "old"));
  ASSERT_TRUE(create_sequence(store, {.name = "later"}));
  production.run(kDatabase, R"({"update":"idmint.counters","updates":[
      {"q":{"_id":"invoices"},"u":{"$inc":{"next":{"$numberLong":"4"}}}}]})");

  const e2e::Ended restored = follow(
      environment +
      "idmint-restore oplog --uri \"$PRODUCTION\" --base base --out oplog.bson >kept\n" +
      "idmint-restore run --base base --oplog oplog.bson --spare spare --yes --limit " + limit);
  ASSERT_EQ(restored.status, 0) << restored.out << restored.err;
  const std::string& out = restored.out;
  EXPECT_THAT(out, HasSubstr("shop: idle: nothing came from it after the limit"));
  EXPECT_THAT(out, HasSubstr("shop: codes: 6 of its values were claimed after the limit"));
  EXPECT_THAT(out, HasSubstr("shop: invoices: its numbers 1 to 4 were given to documents"));
  EXPECT_THAT(out, HasSubstr("shop: later: it was made after the limit"));
  EXPECT_THAT(out, HasSubstr("shop: blocks: its commands are long: idmint-restore verify --spare"));
  EXPECT_THAT(out, AllOf(HasSubstr("idmint raise few --past-each "),
                         HasSubstr("idmint alter small --max 1000 "),
                         HasSubstr("idmint retire old --store"), Not(HasSubstr("--past N"))));

  const std::string spare_url = out.substr(out.find("mongodb://127.0.0.1"));
  const std::string host = spare_url.substr(0, spare_url.find('/', 10));
  const auto spare = Store::open(host + "/" + kDatabase + "?directConnection=true");
  ASSERT_TRUE(spare) << spare.error().message();
  auto expected = next_values(store);
  EXPECT_NE(next_values(**spare), expected);
  // The option --yes answers the question that is asked on a terminal.
  std::string script;
  for (const std::string& command : commands_in(out))
    script += command + (command.starts_with("idmint retire") ? " --yes\n" : "\n");
  const e2e::Ended followed = follow(script);
  ASSERT_EQ(followed.status, 0) << script << followed.err;
  const e2e::Ended long_one = follow(
      "idmint-restore verify --spare spare --oplog oplog.bson --raise raise.sh\n"
      "grep '^idmint raise blocks' raise.sh > blocks.sh; sh blocks.sh");
  ASSERT_EQ(long_one.status, 0) << long_one.err;
  EXPECT_THAT(long_one.out, HasSubstr("Counts agree; documents were not compared."));

  expected.erase("later");
  expected["invoices"] = 1;  // as its documents are gone, too
  EXPECT_EQ(next_values(**spare), expected) << "as in production: no value is passed over";
  const auto bounds = [](Store& of) {
    const auto workers = of.leases()->workers("web");
    return workers ? std::ranges::max(*workers, {}, &LeaseState::minted_until).minted_until : 0;
  };
  EXPECT_EQ(bounds(**spare), bounds(store));
  // The claims of codes are for mongorestore to bring over, and web waits for its bound to pass.
  for (const std::string& name : minting)
    if (name != "codes" && name != "web") mint(**spare, name, 20);
  mint(**spare, "idle", 3);
  mint(**spare, "small", 3);
  EXPECT_FALSE(Sequence::open(**spare, "old"));
  const e2e::Ended ended = follow("kill \"$(head -n 1 spare/mongod.lock)\"");
  EXPECT_EQ(ended.status, 0) << ended.err;
}

}  // namespace
}  // namespace idmint::restore
