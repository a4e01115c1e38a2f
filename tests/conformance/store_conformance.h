// The stores that the conformance suite runs on. A new store adds a row to kStores and nothing
// else; what it cannot do is a trait in its row, stated in docs/stores.md, never an exemption in a
// test.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/temp_folder.h"
#ifdef IDMINT_CONFORMANCE_MONGODB
#include "tests/servers/mongo.h"
#endif
#ifdef IDMINT_CONFORMANCE_MARIADB
#include "tests/servers/mariadb.h"
#endif
#ifdef IDMINT_CONFORMANCE_ETCD
#include "tests/servers/etcd.h"
#endif
#ifdef IDMINT_CONFORMANCE_POSTGRESQL
#include "tests/servers/postgresql.h"
#endif
#ifdef IDMINT_CONFORMANCE_REDIS
#include "tests/servers/redis.h"
#endif
#ifdef IDMINT_CONFORMANCE_ZOOKEEPER
#include "tests/servers/zookeeper.h"
#endif

namespace idmint {

struct StoreUnderTest {
  const char* name;
  std::string (*url)(const fakes::TempFolder& folder);
  // Opened again under one URL it is the same store, in the same process and after all are closed.
  bool persists;
};

// Each folder stands for a database of its name.
inline std::string database(const fakes::TempFolder& folder) {
  return std::filesystem::path(folder.path("x")).parent_path().filename();
}

#if defined(IDMINT_CONFORMANCE_MONGODB)

inline const std::array kStores = {
    StoreUnderTest{
        "mongodb_set",
        [](const fakes::TempFolder& folder) { return servers::mongo_set().url(database(folder)); },
        true},
    StoreUnderTest{"mongodb_standalone",
                   [](const fakes::TempFolder& folder) {
                     return servers::mongo_standalone().url(database(folder));
                   },
                   true},
};

#elif defined(IDMINT_CONFORMANCE_MARIADB)

inline const std::array kStores = {
    StoreUnderTest{"mysql",
                   [](const fakes::TempFolder& folder) {
                     return servers::mariadb_server().database(database(folder));
                   },
                   true},
};

#elif defined(IDMINT_CONFORMANCE_ETCD)

inline const std::array kStores = {
    StoreUnderTest{"etcd",
                   [](const fakes::TempFolder& folder) {
                     return servers::etcd_cluster().url(database(folder));
                   },
                   true},
};

#elif defined(IDMINT_CONFORMANCE_ZOOKEEPER)

inline const std::array kStores = {
    StoreUnderTest{"zookeeper",
                   [](const fakes::TempFolder& folder) {
                     return servers::zookeeper_ensemble().url(database(folder));
                   },
                   true},
};

#elif defined(IDMINT_CONFORMANCE_POSTGRESQL)

inline const std::array kStores = {
    StoreUnderTest{"postgresql",
                   [](const fakes::TempFolder& folder) {
                     return servers::postgresql_server().database(database(folder));
                   },
                   true},
};

#elif defined(IDMINT_CONFORMANCE_REDIS)

inline const std::array kStores = {
    StoreUnderTest{"redis",
                   [](const fakes::TempFolder& folder) {
                     return servers::redis_server().database(database(folder));
                   },
                   true},
};

#else

inline const std::array kStores = {
    StoreUnderTest{"memory", [](const fakes::TempFolder&) { return std::string("memory:"); },
                   false},
    StoreUnderTest{
        "sqlite", [](const fakes::TempFolder& folder) { return "sqlite:" + folder.path("ids.db"); },
        true},
};

#endif

using fakes::code_of;

class StoreConformance : public testing::TestWithParam<StoreUnderTest> {
 protected:
  StoreConformance() : url_(GetParam().url(folder_)) { store_ = open(); }

  std::unique_ptr<Store> open() {
    // So long that no disk, however slow, fails a test in which many threads take turns.
    Result<std::unique_ptr<Store>> store = Store::open(url_, {.deadline = std::chrono::minutes{1}});
    if (!store) {
      ADD_FAILURE() << store.error().message();
      std::abort();
    }
    return *std::move(store);
  }
  CounterStore& counters() { return *store_->counters(); }
  Catalog& catalog() { return *store_->catalog(); }
  UniqueIndex& claims() { return *store_->unique_index(); }
  LeaseTable& leases() { return *store_->leases(); }

  // All values of a counter that is not shared, taken `count` at a time.
  std::vector<std::int64_t> drain(std::string_view counter, std::int64_t count) {
    std::vector<std::int64_t> values;
    for (;;) {
      const auto range = counters().advance(counter, count, Take::kTail);
      if (!range) {
        EXPECT_EQ(range.error().code, Code::kOutOfRange);
        return values;
      }
      for (std::int64_t i = 0; i < range->count; ++i) values.push_back(range->at(i));
    }
  }

  std::vector<Definition> definitions() {
    std::vector<Definition> all;
    const auto entries = catalog().list();
    EXPECT_TRUE(entries.has_value());
    if (entries)
      for (const CatalogEntry& entry : *entries) all.push_back(entry.definition.value());
    return all;
  }

  fakes::TempFolder folder_;
  std::string url_;
  std::unique_ptr<Store> store_;
};

}  // namespace idmint
