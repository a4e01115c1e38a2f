#include "mint/down_stores.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/scripted.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

TEST(DownStores, AreRememberedForAWhileByTheirPlace) {
  const fakes::TempFolder folder;
  fakes::ManualClock clock{Instant{std::chrono::seconds{1'000'000'000}}};
  const std::filesystem::path data = folder.path("data");
  const DownStores stores(data, clock);
  const std::string url = "redis://minter:geheim@db1/0";
  EXPECT_FALSE(stores.has(url));
  stores.add(url);
  EXPECT_TRUE(stores.has(url));
  EXPECT_TRUE(stores.has("redis://db1/0")) << "the place counts";
  EXPECT_FALSE(stores.has("redis://db2/0"));
  EXPECT_TRUE(DownStores(data, clock).has(url)) << "the next command knows";
  for (const auto& file : std::filesystem::directory_iterator(data))
    EXPECT_EQ(file.file_size(), 0U) << "nothing of the URL is written";
  clock.advance(DownStores::kRemembered - std::chrono::seconds{1});
  EXPECT_TRUE(stores.has(url));
  clock.advance(std::chrono::seconds{1});
  EXPECT_FALSE(stores.has(url));
  stores.add(url);
  clock.advance(-std::chrono::seconds{1});
  EXPECT_FALSE(stores.has(url)) << "the clock was set back";
  stores.add(url);
  EXPECT_TRUE(stores.has(url));
  stores.remove(url);
  EXPECT_FALSE(stores.has(url));
}

TEST(DownStores, WhatCannotBeWrittenIsNotRemembered) {
  const fakes::TempFolder folder;
  fakes::ManualClock clock{Instant{std::chrono::seconds{1'000'000'000}}};
  const DownStores none({}, clock);
  none.add("redis://db1/0");
  EXPECT_FALSE(none.has("redis://db1/0"));
  std::ofstream(folder.path("file")) << "no folder";
  const DownStores nowhere(folder.path("file"), clock);
  nowhere.add("redis://db1/0");
  EXPECT_FALSE(nowhere.has("redis://db1/0"));
}

}  // namespace
}  // namespace idmint
