// Work that is done side by side, and waited for as long as it is of use.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "base/given_up.h"
#include "idmint/clock.h"

namespace idmint {

// Calls work(i) for each i below `count`, each in a thread of its own, and returns when all have
// returned. patience() says, after each of them, until when the others are waited for; what it is
// given says which have returned. Those that are late are given up (given_up.h), and return soon.
// SteadyTime::max(): nobody is given up yet. patience() may read what those wrote that have
// returned. Neither function may throw.
inline void side_by_side(
    std::size_t count, const std::function<void(std::size_t)>& work,
    const std::function<SteadyTime(std::span<const char> returned)>& patience) {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::vector<char> returned(count, 0);
  std::size_t left = count;
  std::atomic<bool> given_up{false};
  const auto run = [&](std::size_t i) {
    work(i);
    const std::lock_guard lock(mutex);
    returned[i] = 1;
    --left;
    changed.notify_all();
  };
  std::vector<std::jthread> threads;  // joined before the rest ends
  for (std::size_t i = 0; i < count; ++i) {
    try {
      threads.emplace_back([&, i] {
        const MayBeGivenUp scope(given_up);
        run(i);
      });
    } catch (const std::system_error&) {
      run(i);  // no thread is to be had: one after the other
    }
  }
  std::unique_lock lock(mutex);
  while (left > 0) {
    const SteadyTime until = patience(returned);
    if (until == SteadyTime::max()) {
      changed.wait(lock);
    } else if (std::chrono::steady_clock::now() >= until) {
      given_up = true;
      break;
    } else {
      changed.wait_until(lock, until);
    }
  }
}

}  // namespace idmint
