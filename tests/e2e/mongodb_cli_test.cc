// The command over a store of MongoDB.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/cli.h"
#include "tests/servers/mongo.h"

namespace idmint::e2e {
namespace {

using testing::HasSubstr;

TEST_F(Cli, EveryStrategyWorksOverAReplicaSet) {
  const std::string store = "export IDMINT_STORE='" + servers::mongo_set().url("shop") + "'\n";
  output(store + R"(
      idmint create orders --start 1000 --max 5000
      idmint create accounts --strategy striped --stripes 100 --max 100000
      idmint create parts --strategy interleaved --stripes 7
      idmint create tickets --strategy cached
      idmint create cards --strategy random --max 999999
      idmint create codes --strategy permuted --max 999999)");
  EXPECT_EQ(output(store + "idmint next orders -n 3"), "1000\n1001\n1002\n");
  EXPECT_EQ(output(store + "idmint next orders"), "1003\n");
  for (const char* const name : {"accounts", "parts", "tickets", "cards", "codes"}) {
    const std::string ten = output(store + "idmint next " + name + " -n 5; idmint next " + name +
                                   " -n 5 | sort | uniq");
    EXPECT_EQ(lines_of(ten).size(), 10U) << name;
  }
  EXPECT_EQ(lines_of(output(store + "idmint list")).size(), 7U);
  output(store + "idmint raise orders --past 4999; idmint alter orders --max 5001");
  EXPECT_EQ(output(store + "idmint next orders -n 2"), "5000\n5001\n");
  EXPECT_EQ(run(store + "idmint next orders").status, 6);
  output(store + "idmint retire orders");
  EXPECT_EQ(run(store + "idmint next orders").status, 5);
  const Ended weak = run("idmint list --store 'mongodb://localhost/shop?w=1'");
  EXPECT_EQ(weak.status, 2);
  EXPECT_THAT(weak.err, HasSubstr("w=1 cannot be had"));
}

}  // namespace
}  // namespace idmint::e2e
