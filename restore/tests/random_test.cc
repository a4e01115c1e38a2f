// Random work on a live set, and back to a random moment of it.
// IDMINT_RANDOM_ROUNDS sets how often, IDMINT_RANDOM_SEED repeats a round.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "restore/tests/program.h"
#include "restore/tests/random_work.h"
#include "restore/timestamp.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using servers::MongoServer;
using servers::MongoSet;

// The documents of the capped collections, in their order.
std::string in_order(Server& server, const State& state) {
  std::string text;
  for (const auto& [ns, facts] : state) {
    if (facts.options.find("capped") == std::string::npos) continue;
    const std::size_t dot = ns.find('.');
    text += ns + ":";
    const Bson find = Bson("find", ns.substr(dot + 1), "batchSize", 100'000);
    const Result<Bson> found = server.command(ns.substr(0, dot), find);
    EXPECT_TRUE(found) << found.error().message();
    if (found) text += to_relaxed_json(found->view().document("cursor").array("firstBatch"));
    text += "\n";
  }
  return text;
}

TEST(RandomWork, IsRestoredToAnyMoment) {
  const unsigned rounds = number_given("IDMINT_RANDOM_ROUNDS", 2);
  const unsigned first = number_given("IDMINT_RANDOM_SEED", std::random_device{}());
  MongoSet set({.members = 1});
  MongoServer spare({"--setParameter", "ttlMonitorSleepSecs=1"});
  Production production(set.url(""));
  Production target(spare.url("?directConnection=true"));
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned seed = first + round;
    SCOPED_TRACE("IDMINT_RANDOM_SEED=" + std::to_string(seed));
    std::cout << "round " << round << ", seed " << seed << '\n' << std::flush;
    std::mt19937 random(seed);
    fakes::TempFolder folder;
    empty_server(production.server());
    empty_server(target.server());
    target.run("admin", R"({"setParameter":1,"ttlMonitorEnabled":true})");
    RandomWork work(production, random);
    work.steps(random() % 200);

    const std::array<std::vector<std::string>, 4> forms = {
        {{}, {"--gzip"}, {"--archive"}, {"--archive", "--gzip"}}};
    const std::string base = folder.path("base");
    work.renames = false;
    work.open_transactions();
    const Timestamp from = production.now();
    {
      Program dump(folder,
                   with({"dump", "--uri", set.url(""), "--out", base}, forms[seed % forms.size()]));
      while (dump.runs()) work.step();
      const Ended dumped = dump.end();
      ASSERT_EQ(dumped.status, 0) << dumped.err;
    }
    work.renames = true;
    work.steps(random() % 400);
    State should = state_of(production.server());
    for (auto& [ns, facts] : should) make_permanent(facts.options);
    const std::string should_order = in_order(production.server(), should);
    Timestamp limit = production.now();
    limit.ordinal += static_cast<std::uint32_t>(random() % 2);
    work.steps(20);
    production.now();  // the limit is in the dump, whatever was done
    const std::string oplog = folder.path("oplog.bson");
    production.dump_oplog(from, oplog);

    const Ended ended =
        Program(folder, {"run", "--base", base, "--oplog", oplog, "--limit", print_timestamp(limit),
                         "--target", spare.url("?directConnection=true"), "--yes", "--writers",
                         std::to_string(1 + random() % 5)})
            .end();
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.out.find("found no document"), std::string::npos) << ended.out;
    const State is = state_of(target.server());
    EXPECT_EQ(in_lines(differences(is, should)), "");
    EXPECT_EQ(in_order(target.server(), is), should_order);
    const Ended verified =
        Program(folder, {"verify", "--target", spare.url("?directConnection=true")}).end();
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    if (HasFailure()) return;  // the seed says how to come back
  }
}

}  // namespace
}  // namespace idmint::restore
