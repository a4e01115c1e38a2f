// The command line of idmintd, and what it says of its settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/cli.h"

namespace idmint::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

using DaemonCli = Cli;

TEST_F(DaemonCli, ACheckFailsWhereNoStoreCanBeMade) {
  const Ended refused = run("idmintd --check --store sqlite:none/x.db");
  EXPECT_EQ(refused.status, 3);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(refused.err,
            "idmintd: no folder ./none to hold ./none/x.db; make it first, or give the path of a "
            "store\n");
  const Ended empty = run("mkdir none; idmintd --check --store sqlite:none/x.db");
  EXPECT_EQ(empty.status, 0) << "it may be made later";
  EXPECT_THAT(empty.err, HasSubstr("no sequences yet: no store at ./none/x.db"));
}

}  // namespace
}  // namespace idmint::e2e
