// The command over a store of etcd, and what an operator does after a snapshot was restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/cli.h"
#include "tests/servers/etcd.h"

namespace idmint::e2e {
namespace {

using servers::EtcdCluster;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Cli, EveryStrategyButGaplessWorksOverEtcd) {
  const EtcdCluster cluster;
  const std::string store = "export IDMINT_STORE='" + cluster.url("shop") + "'\n";
  output(store + R"(
      idmint create orders --start 1000 --max 5000
      idmint create accounts --strategy striped --stripes 100 --max 100000
      idmint create parts --strategy interleaved --stripes 7
      idmint create tickets --strategy cached
      idmint create cards --strategy random --max 999999
      idmint create codes --strategy permuted --max 999999
      idmint create web --kind pool --layout twitter --workers 16)");
  EXPECT_EQ(output(store + "idmint next orders -n 3; idmint next orders"),
            "1000\n1001\n1002\n1003\n");
  for (const char* const name : {"accounts", "parts", "tickets", "cards", "codes", "web"}) {
    const std::string ten =
        output(store + "(idmint next " + name + " -n 5; idmint next " + name + " -n 5) | sort -u");
    EXPECT_EQ(lines_of(ten).size(), 10U) << name;
  }
  EXPECT_EQ(run(store + "idmint create bills --strategy gapless").status, 12);
  output(store + "idmint raise orders --past 4999 --yes; idmint alter orders --max 5001");
  EXPECT_EQ(output(store + "idmint next orders -n 2"), "5000\n5001\n");
  EXPECT_EQ(run(store + "idmint next orders").status, 6);
  output(store + "idmint retire orders --yes");
  EXPECT_EQ(run(store + "idmint next orders").status, 5);
}

TEST_F(Cli, LibcurlIsLoadedOnlyWhenAUrlAsksForIt) {
  const EtcdCluster cluster;
  output("idmint create orders --store '" + cluster.url() + "'");
  const auto loads = [&](const std::string& command) {
    return output("rm -f loader.*\nLD_DEBUG=files LD_DEBUG_OUTPUT=loader " + command +
                  " >/dev/null\ncat loader.* | grep -c 'calling init: .*libcurl' || true");
  };
  EXPECT_EQ(loads("idmint next uuid7"), "0\n");
  EXPECT_EQ(loads("idmint next orders --store '" + cluster.url() + "'"), "1\n");
}

TEST_F(Cli, AfterASnapshotWasRestoredNothingIsGivenUntilAllIsRaised) {
  EtcdCluster cluster(3);
  const std::string store = "export IDMINT_STORE='" + cluster.url() + "'\n";
  output(store + "idmint create orders; idmint next orders");
  const std::string snapshot = cluster.save();
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "2\n3\n4\n");
  cluster.restore(snapshot);
  const Ended refused = run(store + "idmint next orders");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("restored from a snapshot"),
                                 HasSubstr("idmint raise --all --past N")));
  EXPECT_EQ(run(store + "idmint create more").status, 5);
  const Ended doctor = run(store + "idmint doctor");
  EXPECT_NE(doctor.status, 0);
  EXPECT_THAT(doctor.out, HasSubstr("restored from a snapshot"));
  EXPECT_EQ(run(store + "idmint raise --all --past 100").status, 0);
  EXPECT_EQ(output(store + "idmint next orders"), "101\n");
}

}  // namespace
}  // namespace idmint::e2e
