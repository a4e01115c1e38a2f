// What a counter "c" does that is kept in a record of other programs, whatever the store.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "stores/spi/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/servers/plain_clients.h"

namespace idmint::servers {

inline void append(std::vector<std::int64_t>& values, const Range& range) {
  for (std::int64_t i = 0; i < range.count; ++i) values.push_back(range.at(i));
}

// REQUIRES: the bounds {1, 1'000'000'000}. `next` is another program, and `latest` the value that
// somebody took last. The next one afterwards is latest + 16.
inline void expect_all_go_on_in_turn(CounterStore& counters, const PlainClients::Next& next,
                                     std::int64_t latest) {
  EXPECT_EQ(counters.peek("c"), (CounterState{"c", {1, 1'000'000'000}, latest + 1, false}));
  const auto first = counters.advance("c", 1, Take::kAll);
  EXPECT_EQ(first, (Range{latest + 1, 1, 1})) << fakes::why(first);
  EXPECT_EQ(counters.advance("c", 10, Take::kAll), (Range{latest + 2, 1, 10}));
  EXPECT_EQ(counters.advance("c", 2, Take::kTail), (Range{latest + 12, 1, 2}));
  EXPECT_EQ(next(), latest + 14);
  EXPECT_EQ(counters.advance("c", 1, Take::kAll), (Range{latest + 15, 1, 1}));
  EXPECT_EQ(counters.list("c")->front().next, latest + 16);
}

// REQUIRES: the bounds {1, 9}, of which a few are left. `next` is another program.
inline void expect_an_end_within_the_bounds(CounterStore& counters,
                                            const PlainClients::Next& next) {
  const auto take = [&](std::int64_t count, Take how = Take::kAll) {
    return counters.advance("c", count, how);
  };
  ASSERT_TRUE(take(1));
  const std::int64_t at = counters.peek("c")->next;
  EXPECT_EQ(fakes::code_of(take(9)), Code::kOutOfRange);
  EXPECT_EQ(counters.peek("c")->next, at) << "nothing moved";
  EXPECT_EQ(take(20, Take::kTail), (Range{at, 1, 10 - at}));
  EXPECT_EQ(fakes::code_of(take(1, Take::kTail)), Code::kOutOfRange);
  EXPECT_EQ(next(), 10) << "it obeys nobody";
  EXPECT_EQ(next(), 11);
  EXPECT_EQ(fakes::code_of(take(1)), Code::kOutOfRange);
  EXPECT_EQ(counters.peek("c")->left(), 0);
  EXPECT_EQ(counters.extend("c", 20), (CounterBounds{1, 20}));
  EXPECT_EQ(take(1), (Range{12, 1, 1}));
  ASSERT_TRUE(counters.close("c"));
  EXPECT_EQ(fakes::code_of(take(1)), Code::kFailedPrecondition);
  EXPECT_EQ(next(), 13);
}

// Four threads take 40 times beside other programs.
inline void expect_no_repeat_beside(PlainClients& others, CounterStore& counters) {
  std::vector<std::int64_t> values;
  std::mutex mutex;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      std::vector<std::int64_t> ours;
      for (int i = 0; i < 40; ++i) {
        const std::int64_t count = thread % 2 == 0 ? 1 : 20;
        const auto range = counters.advance("c", count, thread < 2 ? Take::kAll : Take::kTail);
        ASSERT_TRUE(range) << fakes::why(range);
        EXPECT_TRUE(range->count == count || thread >= 2) << "all, or as many as came in one run";
        append(ours, *range);
      }
      const std::lock_guard lock(mutex);
      values.insert(values.end(), ours.begin(), ours.end());
    });
  threads.clear();
  for (const std::int64_t theirs : others.stop()) values.push_back(theirs);
  expect_no_repeat(values);
}

// It never goes back, whoever moves it meanwhile. REQUIRES: the bounds {1, 1'000'000'000}.
inline void expect_raises_beside(PlainClients& others, CounterStore& counters) {
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t floor = counters.peek("c")->next + (i % 3 == 0 ? 0 : 50);
    const auto raised = counters.raise("c", floor);
    ASSERT_TRUE(raised) << fakes::why(raised);
    EXPECT_GE(*raised, floor);
    const auto range = counters.advance("c", 3, Take::kAll);
    ASSERT_TRUE(range) << fakes::why(range);
    EXPECT_GE(range->first, floor);
    append(values, *range);
  }
  for (const std::int64_t theirs : others.stop()) values.push_back(theirs);
  expect_no_repeat(values);
  const std::int64_t next = counters.peek("c")->next;
  EXPECT_EQ(counters.raise("c", 1), next) << "it was past that";
  EXPECT_EQ(counters.raise("c", 2'000'000'000), 1'000'000'001) << "to its end at most";
  EXPECT_EQ(fakes::code_of(counters.advance("c", 1, Take::kTail)), Code::kOutOfRange);
}

}  // namespace idmint::servers
