// docs/your-article.md: the commands that need MongoDB, as the page has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/blocks_of.h"
#include "tests/e2e/cli.h"
#include "tests/servers/mongo.h"

namespace idmint::e2e {
namespace {

using testing::HasSubstr;

TEST_F(Cli, WhatYourArticleShowsForMongodbWorks) {
  std::vector<std::string> blocks = blocks_of(IDMINT_YOUR_ARTICLE, [](std::string_view block) {
    return !block.contains("restore") && !block.contains("zookeeper:");
  });
  ASSERT_EQ(blocks.size(), 4U) << "a new one needs a check here";
  const std::string& server = servers::mongo_set().direct(0);
  servers::mongo_command(server, "article", R"({"insert":"uniqueIdentifierCounter","documents":[
      {"_id":"UNIQUE COUNT DOCUMENT IDENTIFIER","COUNT":41,"NOTES":"of the article"}]})");
  const std::string placeholder = "mongodb://db1,db2,db3/shop?replicaSet=prod";
  const std::string url = servers::mongo_set().url("article");
  ASSERT_THAT(blocks[0], HasSubstr(placeholder));
  blocks[0].replace(blocks[0].find(placeholder), placeholder.size(), url);
  EXPECT_THAT(output(blocks[0]), HasSubstr("41\n")) << "the value before the increment";
  EXPECT_THAT(servers::mongo_command(server, "article", R"({"find":"uniqueIdentifierCounter",
      "filter":{"_id":"UNIQUE COUNT DOCUMENT IDENTIFIER"}})"),
              HasSubstr("42"));

  const std::string store = "export IDMINT_STORE='" + url + "'\n";
  const std::string adopt = "--adopt counters";
  ASSERT_THAT(blocks[1], HasSubstr(adopt));
  EXPECT_THAT(run(store + blocks[1] + "true").err, HasSubstr("it is not there"));
  blocks[1].insert(blocks[1].find(adopt), "--make ");
  // A loaded host may not make all documents in time; the same command finishes it.
  Ended hundred;
  std::string said;
  for (int attempt = 0; attempt < 20 && lines_of(hundred.out).size() < 100; ++attempt) {
    hundred = run(store + blocks[1] + "true");
    said += hundred.err;
  }
  EXPECT_EQ(hundred.status, 0) << said;
  EXPECT_GE(lines_of(hundred.out).size(), 100U) << said;
  EXPECT_THAT(said, HasSubstr("accounts begins at 0: ")) << "--make adds missing ones";
  output(R"(printf '{"name":"a"}\n{"name":"b"}\n{"name":"c"}\n' >documents.ndjson)");
  output(store + blocks[2]);
  EXPECT_EQ(output("sort -u ids | wc -l; grep -cE '^[0-9]{12}$' ids"), "3\n3\n");
  output(store + blocks[3]);
  EXPECT_THAT(servers::mongo_command(server, "article", R"({"count":"users"})"), HasSubstr("3"));
}

}  // namespace
}  // namespace idmint::e2e
