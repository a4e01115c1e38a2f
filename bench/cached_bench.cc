// The cost of an id that comes from a range in memory, and of one that a permutation hides.
//
//   cached_bench [SECONDS]     for each row, 1
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "distant_store.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "load.h"
#include "sequences/permutation.h"

namespace {

using namespace idmint;
using namespace bench;
using Nanoseconds = std::chrono::duration<double, std::nano>;

template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// ---- per id

double thread_cpu_ns() {
  timespec t;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// Nanoseconds for each id of all threads together, the median of seven runs: by the wall clock, and
// by the time in which the threads had a processor, as if each had one of its own. If the two
// differ, the machine was busy. `ids(n)` makes n ids.
void per_id(const char* row, std::size_t threads, Steady::duration duration,
            const std::function<void(int)>& ids) {
  constexpr std::size_t kRuns = 7;
  constexpr int kBlock = 100'000;
  std::vector<double> wall;
  std::vector<double> cpu;
  for (std::size_t run = 0; run <= kRuns; ++run) {  // the first one warms up
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> made{0};
    std::atomic<double> cpu_ns{0};
    std::barrier start(static_cast<std::ptrdiff_t>(threads) + 1);
    std::vector<std::thread> all;
    for (std::size_t t = 0; t < threads; ++t) {
      all.emplace_back([&] {
        start.arrive_and_wait();
        const double began = thread_cpu_ns();
        std::uint64_t mine = 0;
        for (; !stop.load(std::memory_order_relaxed); mine += kBlock) ids(kBlock);
        made.fetch_add(mine);
        cpu_ns.fetch_add(thread_cpu_ns() - began);
      });
    }
    start.arrive_and_wait();
    const auto begin = Steady::now();
    std::this_thread::sleep_for(duration / kRuns);
    stop.store(true);
    for (std::thread& thread : all) thread.join();
    const double ns = Nanoseconds(Steady::now() - begin).count();
    if (run == 0) continue;
    wall.push_back(ns / static_cast<double>(made.load()));
    cpu.push_back(cpu_ns.load() / static_cast<double>(threads) / static_cast<double>(made.load()));
  }
  std::ranges::sort(wall);
  std::ranges::sort(cpu);
  std::printf("%-52s %2zu %9.2f %9.2f\n", row, threads, wall[kRuns / 2], cpu[kRuns / 2]);
  std::fflush(stdout);
}

void cached_rows(Steady::duration duration) {
  for (const std::int64_t step : {1000, 0}) {
    for (const std::size_t threads : {1U, 2U}) {
      const auto store = checked(Store::open("memory:"));
      checked(
          create_sequence(*store, {.name = "bench", .strategy = Strategy::kCached, .step = step}));
      const auto sequence = checked(CachedSequence::open(*store, "bench"));
      per_id(step == 0 ? "cached, step adapts" : "cached, step 1000", threads, duration,
             [&](int count) {
               for (int i = 0; i < count; ++i) keep(sequence->next().value());
             });
    }
  }
  for (const std::size_t threads : {1U, 2U}) {
    std::atomic<std::int64_t> shared{0};
    per_id("limit: shared fetch_add", threads, duration, [&](int count) {
      for (int i = 0; i < count; ++i) keep(shared.fetch_add(1, std::memory_order_relaxed));
    });
  }
}

void permuted_rows(Steady::duration duration) {
  constexpr std::uint64_t kTrillion = 1'000'000'000'000;
  const Permutation permutation =
      checked(Permutation::make("000102030405060708090a0b0c0d0e0f", kTrillion));
  std::uint64_t index = 0;
  per_id("permutation, 12 digits", 1, duration, [&](int count) {
    for (int i = 0; i < count; ++i) keep(permutation.permuted(index++ % kTrillion));
  });
  std::array<std::int64_t, 1000> bulk{};
  per_id("permutation, 12 digits, bulk", 1, duration, [&](int count) {
    for (std::size_t done = 0; done < static_cast<std::size_t>(count); done += bulk.size()) {
      for (std::int64_t& each : bulk) each = static_cast<std::int64_t>(index++ % kTrillion);
      permutation.permute(bulk);
      keep(bulk);
    }
  });
}

// ---- a store far away

void latencies(CachedSequence& sequence, std::size_t threads, Steady::duration warm_up,
               Steady::duration duration) {
  const std::vector<float> sorted =
      a_million_a_second(threads, warm_up, duration, [&] { keep(checked(sequence.next())); });
  const auto at = [&](double share) {
    return static_cast<double>(
        sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))]);
  };
  const SequenceStatistics is = sequence.statistics();
  std::printf("%2zu %10zu %9.2f %9.2f %9.2f %9.1f %8llu %12lld\n", threads, sorted.size(), at(0.5),
              at(0.99), at(0.999), at(1), static_cast<unsigned long long>(is.rounds),
              static_cast<long long>(sequence.held()));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const auto duration =
      std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  std::printf("%-52s %2s %9s %9s\n", "ns for an id of all threads together", "", "wall", "cpu");
  cached_rows(duration);
  permuted_rows(duration);
  std::printf(
      "\na store that takes 25 ms, 1 M ids a second demanded, after %.1f s to warm up: "
      "microseconds for an id\n%2s %10s %9s %9s %9s %9s %8s %12s\n",
      seconds, "", "ids", "p50", "p99", "p99.9", "max", "fetches", "held at end");
  for (const std::size_t threads : {1U, 2U}) {
    const auto store = checked(Store::open("memory:"));
    DistantStore distant(*store, std::chrono::milliseconds{25});
    checked(create_sequence(distant, {.name = "bench", .strategy = Strategy::kCached}));
    const auto sequence = checked(CachedSequence::open(distant, "bench"));
    latencies(*sequence, threads, duration, 5 * duration);
  }
}
