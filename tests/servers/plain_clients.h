// Programs that take ids in the way of a recipe, without idmint, while a test does something else.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

namespace idmint::servers {

// One thread for each client, until stop().
class PlainClients {
 public:
  // connect() returns a function that takes one value on a connection of its own, or a negative
  // number.
  using Next = std::function<std::int64_t()>;
  PlainClients(int clients, const std::function<Next()>& connect) {
    for (int i = 0; i < clients; ++i)
      threads_.emplace_back([this, next = connect()](const std::stop_token& stopped) {
        std::vector<std::int64_t> values;
        while (!stopped.stop_requested()) {
          values.push_back(next());
          ++taken_;
        }
        const std::lock_guard lock(mutex_);
        values_.insert(values_.end(), values.begin(), values.end());
      });
    while (taken_ < 2 * clients) std::this_thread::yield();
  }

  // Ends them and returns the values that they took.
  std::vector<std::int64_t> stop() {
    for (std::jthread& thread : threads_) thread.request_stop();
    threads_.clear();
    return values_;
  }
  // Waits until they took so many more.
  void go_on(int values) const {
    for (const int end = taken_ + values; taken_ < end;) std::this_thread::yield();
  }

 private:
  std::mutex mutex_;
  std::vector<std::int64_t> values_;
  std::atomic<int> taken_ = 0;
  std::vector<std::jthread> threads_;
};

// Fails where a value is there twice, or is none.
inline void expect_no_repeat(std::vector<std::int64_t> values) {
  ASSERT_FALSE(values.empty());
  std::ranges::sort(values);
  EXPECT_GE(values.front(), 0) << "a client was refused";
  const auto twice = std::ranges::adjacent_find(values);
  EXPECT_TRUE(twice == values.end()) << *twice << " came twice";
}

}  // namespace idmint::servers
