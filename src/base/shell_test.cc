#include "base/shell.h"

#include <gtest/gtest.h>

namespace idmint {
namespace {

TEST(ShellWord, IsQuotedWhereAShellWouldReadItOtherwise) {
  EXPECT_EQ(shell_word("app.orders:_id"), "app.orders:_id");
  EXPECT_EQ(shell_word("mongodb://h1,h2/app%20"), "mongodb://h1,h2/app%20");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("my orders"), "'my orders'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
  EXPECT_EQ(shell_word("a&b?c"), "'a&b?c'");
  EXPECT_EQ(shell_word("~/ids.db"), "'~/ids.db'");
}

}  // namespace
}  // namespace idmint
