#include "restore/namespaces.h"

#include <gtest/gtest.h>

namespace idmint::restore {
namespace {

NamespaceFilter filter(std::vector<std::string> include, std::vector<std::string> exclude = {}) {
  return *NamespaceFilter::of(std::move(include), std::move(exclude));
}

TEST(NamespaceFilter, IncludesAllButOwnDatabases) {
  const NamespaceFilter all;
  EXPECT_TRUE(all.includes("d.c"));
  EXPECT_TRUE(all.includes("d.system.views"));
  for (const char* const ns :
       {"admin.c", "config.c", "local.c", "idmint_restore.c", "__mdb_internal_search.c"})
    EXPECT_FALSE(all.includes(ns)) << ns;
  EXPECT_FALSE(filter({"*"}).includes("admin.c"));
  EXPECT_FALSE(all.narrows());
}

TEST(NamespaceFilter, TakesPatterns) {
  const NamespaceFilter some = filter({"shop", "log*.*2026", "d.c"}, {"shop.secret*"});
  EXPECT_TRUE(some.includes("shop.orders"));
  EXPECT_TRUE(some.includes("shop.a.b"));
  EXPECT_FALSE(some.includes("shop.secrets"));
  EXPECT_TRUE(some.includes("logs.of.2026"));
  EXPECT_FALSE(some.includes("logs.of.2025"));
  EXPECT_TRUE(some.includes("d.c"));
  EXPECT_FALSE(some.includes("d.cc"));
  EXPECT_FALSE(some.includes("e.c"));
  EXPECT_TRUE(some.includes_database("d"));
  EXPECT_TRUE(some.includes_database("logbook"));
  EXPECT_FALSE(some.includes_database("e"));
  EXPECT_FALSE(filter({}, {"shop"}).includes_database("shop"));
  EXPECT_TRUE(filter({}, {"shop.a"}).includes_database("shop"));
  EXPECT_TRUE(filter({"*"}).includes("any.thing"));
}

TEST(NamespaceFilter, AStarIsNotTheDotAfterTheDatabase) {
  const NamespaceFilter some = filter({"shop*.orders"});
  EXPECT_TRUE(some.includes("shop.orders"));
  EXPECT_TRUE(some.includes("shops.orders"));
  EXPECT_FALSE(some.includes("shop.archive.orders"));
  EXPECT_TRUE(filter({"*.orders"}).includes("shop.orders"));
  EXPECT_FALSE(filter({"*.orders"}).includes("shop.archive.orders"));
  EXPECT_TRUE(filter({"shop.*.orders"}).includes("shop.archive.orders"));
  EXPECT_TRUE(filter({}, {"shop*.orders"}).includes("shop.archive.orders"));
  EXPECT_TRUE(filter({}, {"shop.a.*"}).includes_database("shop"));
}

TEST(NamespaceFilter, BucketsGoWithTheirCollection) {
  const NamespaceFilter some = filter({"d.rates"});
  EXPECT_TRUE(some.includes("d.system.buckets.rates"));
  EXPECT_FALSE(some.includes("d.system.buckets.other"));
  EXPECT_TRUE(some.includes("d.system.views"));
  EXPECT_FALSE(some.includes("e.system.views"));
}

TEST(NamespaceFilter, UsersAreIncludedOnRequest) {
  EXPECT_FALSE(NamespaceFilter().includes("admin.system.users"));
  EXPECT_FALSE(filter({"admin"}).includes("admin.system.users"));
  for (NamespaceFilter some : {NamespaceFilter(), filter({"shop"}), filter({}, {"admin.c"})}) {
    some.include_users();
    EXPECT_TRUE(some.includes("admin.system.users"));
    EXPECT_TRUE(some.includes("admin.system.roles"));
    EXPECT_FALSE(some.includes("admin.system.version"));
    EXPECT_FALSE(some.includes_database("admin")) << "nothing drops all of it";
  }
  NamespaceFilter none = filter({}, {"admin.*roles"});
  none.include_users();
  EXPECT_FALSE(none.includes("admin.system.roles"));
}

TEST(NamespaceFilter, TextIsTheSameForTheSamePatterns) {
  EXPECT_EQ(filter({"b", "a.c"}, {"x"}).text(), filter({"a.c", "b"}, {"x"}).text());
  EXPECT_NE(filter({"a"}).text(), filter({}, {"a"}).text());
  EXPECT_FALSE(NamespaceFilter::of({""}, {}));
  EXPECT_FALSE(NamespaceFilter::of({".c"}, {}));
}

}  // namespace
}  // namespace idmint::restore
