// kill -9 of the primary of a replica set, again and again, while threads take values and claims:
// every call answers within its deadline, no value twice, nothing acknowledged lost, and what is
// said not to have been done was not. IDMINT_KILL_ROUNDS sets the number of rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "idmint/store.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/servers/mongo.h"

namespace idmint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kThreads = 8;
constexpr std::chrono::seconds kDeadline{20};
// Before each kill, and after the fail-over, so many values must be acknowledged, or nothing is
// tried.
constexpr std::int64_t kValues = 200;
constexpr std::int64_t kClaims = 10;

struct Log {
  std::vector<std::int64_t> values{};
  std::int64_t unknown = 0;  // how many values may have been taken by calls that failed
  int refused = 0;
  Clock::duration longest{};
  std::string error{};
};

TEST(MongodbKill, OfThePrimaryUnderLoadRepeatsAndLosesNothing) {
  const char* const wanted = std::getenv("IDMINT_KILL_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 4;
  ASSERT_GT(rounds, 0);
  servers::MongoSet set;
  const auto store = Store::open(set.url("ids"), {.deadline = kDeadline});
  ASSERT_TRUE(store) << store.error().message();
  CounterStore& counters = *(*store)->counters();
  UniqueIndex& claims = *(*store)->unique_index();
  ASSERT_TRUE(counters.create("c", {1, kLargestValue}));
  ASSERT_TRUE(claims.create_space("s"));

  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> values{0};
  std::atomic<std::int64_t> claims_won{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::array<Log, kThreads> taken;
  std::array<Log, 2> won;
  int kills = 0;
  int changes = 0;
  {
    const auto note = [&](Log& log, Clock::time_point begin, const auto& result,
                          std::int64_t count) {
      log.longest = std::max(log.longest, Clock::now() - begin);
      if (result) {
        values += count;
        const std::lock_guard lock(mutex);
        changed.notify_all();
        return true;
      }
      const Code code = result.error().code;
      log.error = result.error().message();
      if (code == Code::kUnknown || code == Code::kDeadlineExceeded) {
        log.unknown += count;
      } else if (code == Code::kUnavailable) {
        ++log.refused;
      } else {
        ADD_FAILURE() << log.error;
        return false;
      }
      return true;
    };
    std::vector<std::jthread> threads;
    for (Log& log : taken)
      threads.emplace_back([&] {
        for (std::int64_t i = 0; !stop; ++i) {
          const auto begin = Clock::now();
          const auto range = counters.advance("c", 1 + i % 3, Take::kAll);
          if (!note(log, begin, range, 1 + i % 3)) return;
          if (range)
            for (std::int64_t at = 0; at < range->count; ++at) log.values.push_back(range->at(at));
        }
      });
    // Both want the same numbers.
    for (Log& log : won)
      threads.emplace_back([&] {
        for (std::int64_t key = 0; !stop; key += 2) {
          const std::array<std::int64_t, 2> keys{key, key + 1};
          const auto begin = Clock::now();
          const auto ours = claims.insert("s", keys);
          if (!note(log, begin, ours, 0)) return;
          for (std::size_t at = 0; ours && at < keys.size(); ++at) {
            if (!(*ours)[at]) continue;
            log.values.push_back(keys[at]);
            ++claims_won;
          }
        }
      });

    for (int round = 0; round < rounds; ++round) {
      const std::size_t primary = set.primary();
      const auto wait_for_more = [&] {
        std::unique_lock lock(mutex);
        const std::int64_t enough = values + kValues;
        const std::int64_t enough_claims = claims_won + kClaims;
        return changed.wait_for(lock, std::chrono::minutes{3},
                                [&] { return values >= enough && claims_won >= enough_claims; });
      };
      EXPECT_TRUE(wait_for_more());
      set.member(primary).kill();
      ++kills;
      EXPECT_TRUE(wait_for_more()) << "nobody went on after kill " << kills;
      if (set.primary() != primary) ++changes;
      set.member(primary).restart();
    }
    stop = true;
  }

  std::vector<std::int64_t> all;
  std::int64_t unknown = 0;
  int refused = 0;
  Clock::duration longest{};
  for (const Log& log : taken) {
    EXPECT_TRUE(std::ranges::is_sorted(log.values)) << "a thread's values go up";
    std::ranges::copy(log.values, std::back_inserter(all));
    unknown += log.unknown;
    refused += log.refused;
    longest = std::max(longest, log.longest);
  }
  std::ranges::sort(all);
  const auto repeat = std::ranges::adjacent_find(all);
  ASSERT_EQ(repeat, all.end()) << *repeat << " was handed out twice";
  const auto state = counters.peek("c");
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_GT(state->next, all.back()) << "an acknowledged value was lost";
  const std::int64_t missing = state->next - 1 - static_cast<std::int64_t>(all.size());
  EXPECT_GE(missing, 0);
  EXPECT_LE(missing, unknown) << "something was taken by a call that said it had taken nothing";

  std::vector<std::int64_t> claimed;
  for (const Log& log : won) {
    std::ranges::copy(log.values, std::back_inserter(claimed));
    longest = std::max(longest, log.longest);
  }
  std::ranges::sort(claimed);
  EXPECT_EQ(std::ranges::adjacent_find(claimed), claimed.end()) << "a claim was given twice";
  constexpr std::size_t kAtOnce = 10'000;
  for (std::size_t from = 0; from < claimed.size(); from += kAtOnce) {
    const auto some = std::span(claimed).subspan(from, std::min(kAtOnce, claimed.size() - from));
    const auto again = claims.insert("s", some);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(std::ranges::count(*again, true), 0) << "a claim that was acknowledged was lost";
  }

  EXPECT_LT(longest, kDeadline + std::chrono::seconds{5});
  std::printf(
      "%d kills, %d fail-overs, %zu values, %zu claims, %lld of unknown fate, %lld missing, "
      "%d calls refused, longest %lld ms\n",
      kills, changes, all.size(), claimed.size(), static_cast<long long>(unknown),
      static_cast<long long>(missing), refused,
      static_cast<long long>(std::chrono::ceil<std::chrono::milliseconds>(longest).count()));
  // With less than this nothing was tried.
  EXPECT_EQ(changes, rounds);
  EXPECT_GE(std::ssize(all), rounds * kValues);
  EXPECT_GE(std::ssize(claimed), rounds * kClaims);
}

}  // namespace
}  // namespace idmint
