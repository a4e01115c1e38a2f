// The command over a store of etcd, and what an operator does after a snapshot was restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/store_cli.h"
#include "tests/servers/etcd.h"

namespace idmint::e2e {
namespace {

using servers::EtcdCluster;

TEST_F(StoreCli, EveryStrategyButGaplessWorksOverEtcd) {
  const EtcdCluster cluster;
  expect_every_strategy_but_gapless(cluster.url("shop"));
}

TEST_F(StoreCli, LibcurlIsLoadedOnlyWhenAUrlAsksForIt) {
  const EtcdCluster cluster;
  output("idmint create orders --store '" + cluster.url() + "'");
  EXPECT_EQ(loads("libcurl", "idmint next uuid7"), "0\n");
  EXPECT_EQ(loads("libcurl", "idmint next orders --store '" + cluster.url() + "'"), "1\n");
}

TEST_F(StoreCli, AfterASnapshotWasRestoredNothingIsGivenUntilAllIsRaised) {
  EtcdCluster cluster(3);
  const std::string url = cluster.url();
  const std::string store = naming(url);
  output(store + "idmint create orders; idmint next orders");
  const std::string snapshot = cluster.save();
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "2\n3\n4\n");
  cluster.restore(snapshot);
  expect_nothing_until_raised(url, "restored from a snapshot");
}

TEST_F(StoreCli, WhatThisHostWasGivenIsComparedInEtcd) {
  const EtcdCluster cluster;
  const std::string key = "ids/counter/c";
  expect_record_is_compared(cluster.url(), [&] {
    std::string counter = cluster.ctl("get --print-value-only " + key);
    counter.erase(counter.find_last_not_of("\n") + 1);
    const std::size_t next = counter.find("41");
    ASSERT_NE(next, std::string::npos) << counter;
    counter.replace(next, 2, "11");
    cluster.ctl("put " + key + " '" + counter + "'");
  });
}

}  // namespace
}  // namespace idmint::e2e
