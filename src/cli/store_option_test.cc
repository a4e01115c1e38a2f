#include "cli/store_option.h"

#include <gtest/gtest.h>

namespace idmint::cli {
namespace {

TEST(StoreOption, AHintNamesTheStoreAsItWasTypedAndNoSecret) {
  EXPECT_EQ(store_in_hints("", "mongodb://u:p@h/d"), "") << "of IDMINT_STORE, or the default";
  EXPECT_EQ(store_in_hints("sqlite:a.db", "sqlite:a.db"), "sqlite:a.db");
  EXPECT_EQ(store_in_hints("env:IDS", "mongodb://u:p@h/d"), "env:IDS");
  EXPECT_EQ(store_in_hints("file:a@b", "mongodb://u:p@h/d"), "file:a@b");
  EXPECT_EQ(store_in_hints("mongodb://u@h/d", "mongodb://u:p@h/d"), "mongodb://u@h/d")
      << "the password was asked for";
  EXPECT_EQ(store_in_hints("mongodb://u:p@h/d", "mongodb://u:p@h/d"), "mongodb://u:***@h/d");
  EXPECT_EQ(store_in_hints("no:store", "no:store"), "***");
}

TEST(StoreOption, WhatIsMadeInMemoryIsGoneSoAHintNamesAnother) {
  EXPECT_EQ(store_in_hints("memory:", "memory:"), "sqlite:ids.db");
  EXPECT_EQ(store_in_hints("", "memory:"), "sqlite:ids.db");
}

}  // namespace
}  // namespace idmint::cli
