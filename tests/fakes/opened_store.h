// A store of a test, with one counter; for stores whose database is a server.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "idmint/store.h"
#include "stores/spi/counter_store.h"
#include "tests/fakes/code_of.h"

namespace idmint::fakes {

// Longer than anything takes on a machine that is busy.
inline constexpr std::chrono::milliseconds kPatient = std::chrono::minutes{1};

// Ends the program if it cannot be opened.
inline std::unique_ptr<Store> opened(const std::string& url,
                                     std::chrono::milliseconds deadline = kPatient) {
  Result<std::unique_ptr<Store>> store = Store::open(url, {.deadline = deadline});
  if (!store) {
    ADD_FAILURE() << store.error().message;
    std::abort();
  }
  return *std::move(store);
}

// With a counter "c" that begins with 1.
inline std::unique_ptr<Store> with_counter(const std::string& url,
                                           std::chrono::milliseconds deadline = kPatient) {
  std::unique_ptr<Store> store = opened(url, deadline);
  const Result<void> made = store->counters()->create("c", {1, kLargestValue});
  EXPECT_TRUE(made) << why(made);
  return store;
}

inline Result<Range> take(Store& store) { return store.counters()->advance("c", 1, Take::kAll); }

// Eight threads take 20 values each.
inline void take_at_once(Store& store) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto taken = take(store);
        EXPECT_TRUE(taken) << why(taken);
      }
    });
}

// Whether the condition came within kPatient.
inline bool eventually(const std::function<bool()>& condition) {
  using Clock = std::chrono::steady_clock;
  for (const auto until = Clock::now() + kPatient; Clock::now() < until;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return false;
}

}  // namespace idmint::fakes
