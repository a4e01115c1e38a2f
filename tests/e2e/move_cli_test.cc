// move as people run it: what is asked, what is printed, and a mover that is killed again and again
// while programs take values. From SQLite to SQLite, or to a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idmint/mint.h"
#include "idmint/source.h"
#include "tests/e2e/cli.h"
#if defined(IDMINT_MOVE_ETCD)
#include "tests/servers/etcd.h"
#elif defined(IDMINT_MOVE_MARIADB)
#include "tests/servers/mariadb.h"
#elif defined(IDMINT_MOVE_MONGODB)
#include "tests/servers/mongo.h"
#elif defined(IDMINT_MOVE_POSTGRESQL)
#include "tests/servers/postgresql.h"
#elif defined(IDMINT_MOVE_REDIS)
#include "tests/servers/redis.h"
#elif defined(IDMINT_MOVE_ZOOKEEPER)
#include "tests/servers/zookeeper.h"
#endif

namespace idmint::e2e {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

class MoveCli : public Cli {
 protected:
  std::string from() { return "sqlite:" + (folder_ / "old.db").string(); }
  // The other store; each name is another one.
  std::string to(const std::string& name) {
#if defined(IDMINT_MOVE_ETCD)
    return servers::etcd_cluster().url(name);
#elif defined(IDMINT_MOVE_MARIADB)
    return servers::mariadb_server().database(name);
#elif defined(IDMINT_MOVE_MONGODB)
    return servers::mongo_set().url(name);
#elif defined(IDMINT_MOVE_POSTGRESQL)
    return servers::postgresql_server().database(name);
#elif defined(IDMINT_MOVE_REDIS)
    return servers::redis_server().database(name);
#elif defined(IDMINT_MOVE_ZOOKEEPER)
    return servers::zookeeper_ensemble().url(name);
#else
    return "sqlite:" + (folder_ / name).string() + ".db";
#endif
  }
  // With the options that name both stores.
  std::string move(const std::string& sequence, const std::string& name) {
    return "idmint move " + sequence + " --from '" + from() + "' --to '" + to(name) + "'";
  }
  // With this answer typed at a terminal.
  Ended answer(const std::string& typed, const std::string& command) {
    return run("printf '" + typed + "\\n' | script -qefc \"" + command + "\" /dev/null");
  }
  std::string next(const std::string& sequence, const std::string& more = "") {
    return "idmint next " + sequence + " --store '" + from() + "' " + more;
  }
};

TEST_F(MoveCli, AsksAndThenTheSequenceGoesOnThere) {
  output("idmint create orders --start 1000 --max 1099 --store '" + from() + "'");
  EXPECT_EQ(output(next("orders", "-n 2")), "1000\n1001\n");
  const Ended refused = run(move("orders", "asks"));
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("nothing was changed"), HasSubstr("add --yes")));
  EXPECT_EQ(run(move("orders", "asks") + " --json").status, 5);
  const Ended no = answer("n", move("orders", "asks"));
  EXPECT_EQ(no.status, 5);
  EXPECT_THAT(no.out, AllOf(HasSubstr("1002 comes next, and 98 values are left"),
                            HasSubstr("Move? [y/N]")));
  EXPECT_THAT(output(move("orders", "asks") + " --dry-run"),
              AllOf(HasSubstr("orders would be moved: in "), HasSubstr("1002 comes next")));
  EXPECT_EQ(output(next("orders")), "1002\n") << "nothing was changed";
  const Ended yes = answer("y", move("orders", "asks"));
  EXPECT_EQ(yes.status, 0) << yes.out;
  EXPECT_THAT(yes.out, HasSubstr("orders was moved: in "));
  EXPECT_EQ(output("idmint next orders --store '" + to("asks") + "'"), "1003\n");

  const Ended told = run(next("orders"));
  EXPECT_EQ(told.status, 5);
  EXPECT_THAT(told.err, AllOf(HasSubstr("it was moved to "), HasSubstr("--also ")));
  EXPECT_EQ(output(next("orders", "--also sqlite:absent.db --also '" + to("asks") + "'")),
            "1004\n");
  EXPECT_EQ(output("export IDMINT_ALSO=\"sqlite:absent.db " + to("asks") + "\"; " + next("orders")),
            "1005\n");
  EXPECT_THAT(output("idmint list --store '" + from() + "'"),
              ContainsRegex("orders +counter +- +- +- +moved\n"));
  EXPECT_THAT(output("idmint list --toml --store '" + from() + "'"),
              StartsWith("# Moved to another store, so left out here:\n#   orders, to "));
  EXPECT_THAT(output("idmint peek orders --store '" + from() + "'"), HasSubstr("to        "));
  EXPECT_THAT(output("idmint peek orders --json --store '" + from() + "'"),
              AllOf(HasSubstr(R"("state":"moved")"), HasSubstr(R"("moved_to":")")));
  EXPECT_THAT(run("idmint doctor --store '" + from() + "'").out, HasSubstr("moved to "));
  // Again is fine, and asks nothing.
  EXPECT_THAT(output(move("orders", "asks")),
              AllOf(HasSubstr("was moved before"), HasSubstr("1006 comes next")));
  EXPECT_THAT(output(move("orders", "asks") + " --json"),
              AllOf(HasSubstr(R"("was_done":true)"), HasSubstr(R"("next":"1006")"),
                    HasSubstr(R"("left":"94")")));
  // On to a third one, and the program of before follows all the way.
  const std::string third = "sqlite:third.db";
  output("idmint move orders --from '" + to("asks") + "' --to " + third + " --yes");
  EXPECT_EQ(output(next("orders", "--also '" + to("asks") + "' --also " + third)), "1006\n");
}

TEST_F(MoveCli, RefusesWhatCannotBeMoved) {
  output("idmint create codes --strategy random --digits 6 --store '" + from() + "'");
  output("idmint create web --kind pool --layout sequence-generator --store '" + from() + "'");
  for (const std::string name : {"codes", "web"}) {
    const Ended refused = run(move(name, "refuses") + " --yes");
    EXPECT_EQ(refused.status, 12) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("it cannot be moved: "));
  }
  EXPECT_EQ(run("idmint move codes --from '" + from() + "' --to memory: --yes").status, 2);
  EXPECT_EQ(run("idmint move codes --from sqlite:absent.db --to '" + from() + "'").status, 3);
  EXPECT_EQ(run("idmint move codes --from '" + from() + "' --to '" + from() + "'").status, 2);
  EXPECT_EQ(run("idmint move codes --to '" + from() + "'").status, 2);
}

// Four threads of one program take values all the while; it was given the other store.
TEST_F(MoveCli, AMoverThatIsKilledIsRunAgainAndNoValueComesTwice) {
  output("idmint create orders --store '" + from() + "'");
  output("idmint create accounts --strategy striped --digits 9 --stripes 40 --store '" + from() +
         "'");
  for (const std::string sequence : {"orders", "accounts"}) {
    MintOptions options{.store = from(), .also = {to("kills")}};
    const std::string trust = (folder_ / "trust").string();
    options.store_options.deadline = std::chrono::minutes{2};
    options.store_options.trust_folder = trust;
    output("idmint create first --store '" + to("kills") + "'");
    Mint mint(std::move(options));
    const auto source = mint.source(sequence).value();
    std::atomic<bool> moved = false;
    std::atomic<int> begun = 0;
    std::vector<std::vector<std::int64_t>> taken(4);
    std::vector<std::jthread> takers;
    for (std::vector<std::int64_t>& its : taken) {
      takers.emplace_back([&] {
        for (int later = 0; later < 20; later += moved ? 1 : 0) {
          Id id;
          const Result<void> filled = source->next({&id, 1});
          if (!filled) {
            ADD_FAILURE() << filled.error().message();
            break;
          }
          its.push_back(std::get<std::int64_t>(id));
          if (its.size() == 3) ++begun;
        }
      });
    }
    while (begun < 4) std::this_thread::yield();
    int status = 137;
    for (int ms = 5; status == 137; ms += 5)
      status = run("timeout -s KILL 0." + std::string(ms < 100 ? ms < 10 ? "00" : "0" : "") +
                   std::to_string(ms) + " " + move(sequence, "kills") + " --yes")
                   .status;
    EXPECT_EQ(status, 0);
    moved = true;
    takers.clear();
    std::vector<std::int64_t> all;
    for (const auto& its : taken) std::ranges::copy(its, std::back_inserter(all));
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << sequence;
    if (sequence == "orders") {
      EXPECT_EQ(all.back(), std::ssize(all)) << "and none was skipped";
    }
    EXPECT_EQ(run("idmint next " + sequence + " --store '" + to("kills") + "'").status, 0);
  }
}

}  // namespace
}  // namespace idmint::e2e
