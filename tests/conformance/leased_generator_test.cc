// Generators on the lease tables of all stores: two in one process, and in a child of fork().
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "idmint/snowflake.h"
#include "tests/conformance/store_conformance.h"
#include "tests/fakes/in_child.h"

namespace idmint {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class LeasedGenerators : public StoreConformance {
 protected:
  static SnowflakeLayout layout() { return snowflake_layout("sequence-generator").value(); }

  static Result<std::unique_ptr<SnowflakeGenerator>> try_open(Store& store, milliseconds window) {
    return open_leased(*store.leases(), "p",
                       {.layout = layout(),
                        .holder = "me",
                        .max_drift = hours{3},
                        .window = window,
                        .max_skew = hours{1}});
  }
  static std::unique_ptr<SnowflakeGenerator> open_in(Store& store, milliseconds window) {
    auto generator = try_open(store, window);
    if (!generator) {
      ADD_FAILURE() << generator.error().message();
      std::abort();
    }
    return *std::move(generator);
  }
  std::int64_t owned() {
    const auto rows = leases().workers("p").value();
    return std::ranges::count(rows, "me", &LeaseState::holder);
  }
};

// Two generators of one handle, and one of another handle of the same store.
TEST_P(LeasedGenerators, InOneProcessEachHasAWorkerIdOfItsOwn) {
  ASSERT_TRUE(leases().create_pool("p", 4));
  const std::unique_ptr<Store> second = GetParam().persists ? open() : nullptr;
  std::array<std::unique_ptr<SnowflakeGenerator>, 4> generators;
  for (std::size_t i = 0; i < generators.size(); ++i)
    generators.at(i) = open_in(second && i % 2 == 1 ? *second : *store_, hours{1});
  EXPECT_EQ(code_of(try_open(*store_, hours{1})), Code::kResourceExhausted);
  std::array<std::vector<Snowflake>, 4> ids;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ids.size(); ++i)
      threads.emplace_back([&, i] {
        ids.at(i).resize(20'000);
        EXPECT_TRUE(generators.at(i)->next(ids.at(i)));
      });
  }
  std::set<std::uint32_t> workers;
  std::vector<Snowflake> all;
  for (const std::vector<Snowflake>& mine : ids) {
    for (const Snowflake id : {mine.front(), mine.back()})
      workers.insert(layout().decode(id)->worker);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  EXPECT_EQ(workers.size(), 4U);
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// The store is asked at every instant, so that each child begins in the midst of something.
TEST_P(LeasedGenerators, AChildOfForkMintsNothingWhateverThreadsOfItsParentDo) {
  ASSERT_TRUE(leases().create_pool("p", 2));
  auto generator = open_in(*store_, milliseconds{2});
  std::atomic<bool> stop{false};
  std::array<std::vector<Snowflake>, 2> ids;
  std::vector<std::jthread> threads;
  for (std::vector<Snowflake>& mine : ids)
    threads.emplace_back([&] {
      while (!stop) {
        const auto id = generator->next();
        if (id) mine.push_back(*id);
      }
    });
  for (int i = 0; i < 8; ++i) {
    fakes::in_child([&] {
      EXPECT_EQ(fakes::code_of(generator->next()), Code::kFailedPrecondition);
      generator.reset();
    });
  }
  stop = true;
  threads.clear();
  const auto last = generator->next();
  ASSERT_TRUE(last) << "the parent goes on: " << last.error().message();
  EXPECT_EQ(owned(), 1);
  const auto rows = leases().workers("p").value();
  EXPECT_TRUE(std::ranges::all_of(rows, [](const LeaseState& row) { return row.generation < 2; }))
      << "a child has given the worker id back";
  generator.reset();
  EXPECT_EQ(owned(), 0);
  std::vector<Snowflake> all{*last};
  for (const std::vector<Snowflake>& mine : ids) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

INSTANTIATE_TEST_SUITE_P(Stores, LeasedGenerators, testing::ValuesIn(kStores),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace idmint
