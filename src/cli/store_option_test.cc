#include "cli/store_option.h"

#include <gtest/gtest.h>

namespace idmint::cli {
namespace {

TEST(StoreOption, WhatIsMadeInMemoryIsGoneSoAdviceNamesAnother) {
  EXPECT_EQ(lasting_store("memory:"), "sqlite:ids.db");
  EXPECT_EQ(lasting_store("sqlite:a.db"), "sqlite:a.db");
  EXPECT_EQ(lasting_store(""), "");
  EXPECT_EQ(lasting_store("no:store"), "no:store");
}

}  // namespace
}  // namespace idmint::cli
