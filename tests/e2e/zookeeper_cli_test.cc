// The command over a store of ZooKeeper, and what a host knows of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/store_cli.h"
#include "tests/servers/zookeeper.h"

namespace idmint::e2e {
namespace {

TEST_F(StoreCli, EveryStrategyButGaplessWorksOverZookeeper) {
  expect_every_strategy_but_gapless(servers::zookeeper_ensemble().url("shop"));
}

TEST_F(StoreCli, LibzookeeperIsLoadedOnlyWhenAUrlAsksForIt) {
  const std::string url = servers::zookeeper_ensemble().url("loaded");
  output("idmint create orders --store '" + url + "'");
  EXPECT_EQ(loads("libzookeeper", "idmint next uuid7"), "0\n");
  EXPECT_EQ(loads("libzookeeper", "idmint next orders --store '" + url + "'"), "1\n");
}

TEST_F(StoreCli, WhatThisHostWasGivenIsComparedInZookeeper) {
  const servers::ZookeeperEnsemble& ensemble = servers::zookeeper_ensemble();
  const servers::ZookeeperClient client(ensemble.host(0));
  expect_record_is_compared(ensemble.url("compared"), [&] {
    const std::string shard = "/compared/counter/" + client.children("/compared/counter").front();
    const std::string path = shard + "/" + client.children(shard).front();
    std::string counter = client.get(path);
    const std::size_t next = counter.find("41");
    ASSERT_NE(next, std::string::npos) << counter;
    client.set(path, counter.replace(next, 2, "11"));
  });
}

}  // namespace
}  // namespace idmint::e2e
