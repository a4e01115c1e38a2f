// The command over a store of ZooKeeper, and what a host knows of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/blocks_of.h"
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

TEST_F(StoreCli, WhatYourArticleShowsForZookeeperWorks) {
  const std::vector<std::string> blocks = blocks_of(
      IDMINT_YOUR_ARTICLE, [](std::string_view block) { return block.contains("zookeeper:"); });
  ASSERT_EQ(blocks.size(), 1U) << "a new one needs a check here";
  const std::string placeholder = "zookeeper://zk1,zk2,zk3/ids";
  std::string block = blocks[0];
  ASSERT_THAT(block, testing::HasSubstr(placeholder));
  block.replace(block.find(placeholder), placeholder.size(),
                servers::zookeeper_ensemble().url("article"));
  EXPECT_THAT(lines_of(output(block)).back(), testing::MatchesRegex("[0-9]{18,19}"));
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
