// The loads that the benchmarks put on what mints, and what they find.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "idmint/result.h"
#include "idmint/sequence.h"

namespace idmint::bench {

using Steady = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

[[noreturn]] inline void fail(const std::string& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::exit(1);
}

// The value, or the end of the benchmark.
template <class T>
T checked(Result<T> result) {
  if (!result) fail(result.error().message());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

struct Figures {
  double ids_per_second = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double p999_ms = 0;
};

inline Figures figures(std::vector<float>& latencies_ms, double ids, Steady::duration took) {
  const auto percentile = [&](double share) {
    if (latencies_ms.empty()) return 0.0;
    const auto at =
        latencies_ms.begin() +
        static_cast<std::ptrdiff_t>(share * static_cast<double>(latencies_ms.size() - 1));
    std::ranges::nth_element(latencies_ms, at);
    return static_cast<double>(*at);
  };
  return {ids / std::chrono::duration<double>(took).count(), percentile(0.5), percentile(0.99),
          percentile(0.999)};
}

// So many threads, each of which calls what `caller` made for it, one call after the other, for
// `ids` ids each. A thread begins to count when the first calls of all are under way.
inline Figures blocking(std::size_t callers, Steady::duration duration,
                        const std::function<std::function<void()>()>& caller, double ids = 1) {
  std::vector<std::vector<float>> latencies(callers);
  std::atomic<bool> stop{false};
  std::barrier start(static_cast<std::ptrdiff_t>(callers) + 1);
  std::vector<std::thread> threads;
  for (std::vector<float>& mine : latencies) {
    threads.emplace_back([&] {
      const std::function<void()> call = caller();
      start.arrive_and_wait();
      while (!stop.load(std::memory_order_relaxed)) {
        const auto begin = Steady::now();
        call();
        mine.push_back(static_cast<float>(Milliseconds(Steady::now() - begin).count()));
      }
    });
  }
  start.arrive_and_wait();
  const auto begin = Steady::now();
  std::this_thread::sleep_for(duration);
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  const auto took = Steady::now() - begin;
  std::vector<float> all;
  for (const std::vector<float>& some : latencies) all.insert(all.end(), some.begin(), some.end());
  const auto calls = static_cast<double>(all.size());
  return figures(all, calls * ids, took);
}

inline Figures blocking(Sequence& sequence, std::size_t callers, Steady::duration duration) {
  return blocking(callers, duration, [&] {
    return [&] {
      std::int64_t value = 0;
      checked(sequence.next(std::span(&value, 1)));
    };
  });
}

// Each answer asks for the next id; one in eight has its latency measured.
class Requester {
 public:
  Requester(CounterSequence& sequence, const std::atomic<bool>& stop)
      : sequence_(sequence), stop_(stop) {}

  void ask() {
    const Result<void> queued = sequence_.submit(1, [this](const Result<Range>& result) {
      if (!result || stop_.load(std::memory_order_relaxed)) return;
      if (++answers_ % 8 == 0) {
        const auto now = Steady::now();
        if (asked_ != Steady::time_point{}) {
          latencies_ms_.push_back(static_cast<float>(Milliseconds(now - asked_).count()));
        }
      }
      asked_ = answers_ % 8 == 7 ? Steady::now() : Steady::time_point{};
      ask();
    });
    if (!queued && !stop_.load(std::memory_order_relaxed)) checked(queued);
  }

  [[nodiscard]] std::uint64_t answers() const { return answers_; }
  [[nodiscard]] const std::vector<float>& latencies_ms() const { return latencies_ms_; }

 private:
  CounterSequence& sequence_;
  const std::atomic<bool>& stop_;
  std::uint64_t answers_ = 0;
  Steady::time_point asked_;
  std::vector<float> latencies_ms_;
};

// So many requests outstanding at any time. Closes the sequence.
inline Figures asynchronous(CounterSequence& sequence, std::size_t outstanding,
                            Steady::duration duration) {
  std::atomic<bool> stop{false};
  std::vector<Requester> requesters(outstanding, Requester(sequence, stop));
  const auto begin = Steady::now();
  for (Requester& requester : requesters) requester.ask();
  std::this_thread::sleep_for(duration);
  stop.store(true);
  const auto took = Steady::now() - begin;
  sequence.close();
  double ids = 0;
  std::vector<float> all;
  for (const Requester& requester : requesters) {
    ids += static_cast<double>(requester.answers());
    all.insert(all.end(), requester.latencies_ms().begin(), requester.latencies_ms().end());
  }
  return figures(all, ids, took);
}

// One id is due every microsecond, of all threads together; a thread that is late makes up for it.
// Each call is timed, with the two clock reads it takes. Microseconds, in rising order.
inline std::vector<float> a_million_a_second(std::size_t threads, Steady::duration warm_up,
                                             Steady::duration duration,
                                             const std::function<void()>& call) {
  const auto every = std::chrono::nanoseconds{1000} * threads;
  std::vector<std::vector<float>> all(threads);
  std::vector<std::thread> running;
  const auto start = Steady::now();
  for (std::vector<float>& mine : all) {
    mine.reserve(static_cast<std::size_t>(duration / every) * 2);
    running.emplace_back([&] {
      auto due = Steady::now();
      const auto measured = start + warm_up;
      const auto end = measured + duration;
      while (due < end) {
        auto begin = Steady::now();
        while (begin < due) begin = Steady::now();
        call();
        const auto took = Steady::now() - begin;
        if (begin >= measured) mine.push_back(static_cast<float>(took.count()) / 1000);
        due += every;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  std::vector<float> sorted;
  for (const auto& some : all) sorted.insert(sorted.end(), some.begin(), some.end());
  std::ranges::sort(sorted);
  return sorted;
}

}  // namespace idmint::bench
