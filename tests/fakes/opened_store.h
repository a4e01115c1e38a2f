// A store of a test, with one counter; for stores whose database is a server.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "idmint/store.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"

namespace idmint::fakes {

// Longer than anything takes on a machine that is busy.
inline constexpr std::chrono::milliseconds kPatient = std::chrono::minutes{1};

// Whether the condition came within kPatient.
inline bool eventually(const std::function<bool()>& condition) {
  using Clock = std::chrono::steady_clock;
  for (const auto until = Clock::now() + kPatient; Clock::now() < until;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return false;
}

// Ends the program if it cannot be opened. With a short deadline it is tried until a busy machine
// keeps that.
inline std::unique_ptr<Store> opened(const std::string& url,
                                     std::chrono::milliseconds deadline = kPatient) {
  Result<std::unique_ptr<Store>> store = Store::open(url, {.deadline = deadline});
  if (!store && deadline < kPatient)
    eventually([&] { return (store = Store::open(url, {.deadline = deadline})).has_value(); });
  if (!store) {
    ADD_FAILURE() << store.error().message();
    std::abort();
  }
  return *std::move(store);
}

// Why the store is not opened within the deadline: tried until that is said, as a busy machine does
// not come so far each time.
inline Error refusal_that_says(const std::string& what, const std::string& url,
                               std::chrono::milliseconds deadline) {
  Error refusal;
  EXPECT_TRUE(eventually([&] {
    const Result<std::unique_ptr<Store>> store = Store::open(url, {.deadline = deadline});
    refusal = store ? Error{} : store.error();
    return refusal.message().contains(what);
  })) << refusal.message();
  return refusal;
}

// With a counter "c" that begins with 1.
inline std::unique_ptr<Store> with_counter(const std::string& url) {
  std::unique_ptr<Store> store = opened(url);
  const auto made = store->counters()->create("c", {1, kLargestValue});
  EXPECT_TRUE(made) << why(made);
  return store;
}
inline std::unique_ptr<Store> with_counter(const std::string& url,
                                           std::chrono::milliseconds deadline) {
  with_counter(url);
  return opened(url, deadline);
}

inline Result<Range> take(Store& store) { return store.counters()->advance("c", 1, Take::kAll); }

// Eight threads take 20 values each, the first of the counter.
inline void take_at_once(Store& store) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto taken = take(store);
        EXPECT_TRUE(taken) << why(taken);
      }
    });
  threads.clear();
  EXPECT_EQ(store.counters()->peek("c")->next, 161);
}

// Each result of hold() keeps a connection while it lives. When none is left, a call that opens the
// store gets an error with the setting, and a store that has a connection goes on with it.
void expect_all_go_on_without_a_connection_left(const std::string& url, const std::string& setting,
                                                const auto& hold) {
  const auto store = opened(url);
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  std::vector<decltype(hold())> held;
  Result<std::unique_ptr<Store>> refused;
  ASSERT_TRUE(eventually([&] {
    held.push_back(hold());
    refused = Store::open(url, {.deadline = std::chrono::milliseconds{300}});
    return code_of(refused) == Code::kResourceExhausted;
  }));
  EXPECT_THAT(why(refused),
              testing::AllOf(testing::HasSubstr("not within 300 ms"), testing::HasSubstr(setting)));
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  held.clear();
  EXPECT_EQ(take(*opened(url)), (Range{3, 1, 1}));
}

}  // namespace idmint::fakes
