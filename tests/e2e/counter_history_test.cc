// The check of histories finds what is wrong with one. Each history here is short enough to be
// read.
#include "tests/e2e/counter_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace idmint::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

Note call(std::int64_t invoked, std::int64_t answered, std::int64_t first, std::int64_t count = 1) {
  return {.invoked = invoked,
          .answered = answered,
          .longest = kNoLimit,
          .first = first,
          .count = count,
          .outcome = Outcome::kTaken,
          .caller = 0};
}
Note unknown(std::int64_t invoked, std::int64_t count = 1) {
  Note note = call(invoked, invoked + 1, 0, count);
  note.outcome = Outcome::kUnknown;
  return note;
}
Note refused(std::int64_t invoked, std::int64_t count = 1) {
  Note note = call(invoked, invoked + 1, 0, count);
  note.outcome = Outcome::kRefused;
  return note;
}

TEST(CounterHistory, OfACounterNothingIsWrong) {
  EXPECT_THAT(judge({}, 1).wrong, IsEmpty());
  // One after the other, and then at once, in any order.
  const std::vector<Note> notes = {call(0, 1, 1), call(2, 3, 2, 4), call(4, 9, 7), call(5, 8, 6),
                                   call(10, 11, 8)};
  const Verdict verdict = judge(notes, 1);
  EXPECT_THAT(verdict.wrong, IsEmpty());
  EXPECT_EQ(verdict.taken, 5);
  EXPECT_EQ(verdict.values, 8);
  EXPECT_EQ(verdict.missing, 0);
  // One begins at the moment at which the other is answered.
  EXPECT_THAT(judge({call(0, 9, 2), call(9, 19, 1)}, 1).wrong, IsEmpty());
}

TEST(CounterHistory, WhatNobodyGotIsOfCallsOfUnknownOutcome) {
  // 2 and 3 were taken by the call that began at 2; 5 was taken by one that was told nothing before
  // 6 was answered.
  const std::vector<Note> notes = {call(0, 1, 1),  unknown(2, 2), call(6, 7, 4), unknown(8),
                                   call(9, 10, 6), unknown(11),   refused(12),   call(13, 14, 7)};
  const Verdict verdict = judge(notes, 1);
  EXPECT_THAT(verdict.wrong, IsEmpty());
  EXPECT_EQ(verdict.missing, 3);
  EXPECT_EQ(verdict.unknown, 4);
  EXPECT_EQ(verdict.unknowns, 3);
  EXPECT_EQ(verdict.refused, 1);
}

struct Wrong {
  const char* what;  // is part of what is said of it
  std::vector<Note> notes;
};

TEST(CounterHistory, EachThingThatIsWrongIsFound) {
  Note late = call(0, 10, 1);
  late.longest = 9;
  Note strange = call(0, 1, 1);
  strange.outcome = Outcome::kWrong;
  const std::vector<Wrong> all = {
      {"handed out twice", {call(0, 1, 1), call(2, 3, 1)}},
      {"handed out twice", {call(0, 9, 1, 3), call(1, 8, 3)}},
      {"handed out twice", {call(0, 9, 0)}},  // below where the counter began
      // Later calls get larger values, whoever made them.
      {"below 2, which was answered before it was asked", {call(0, 1, 2), call(2, 3, 1)}},
      {"below 3", {call(0, 9, 1), call(0, 1, 2, 2), call(2, 3, 4), call(2, 3, 0)}},
      // Acknowledged, lost, and handed out again.
      {"below 4", {call(0, 9, 1, 2), call(10, 19, 3, 2), call(20, 29, 3)}},
      // Nobody got 2: by a call that was told that it took nothing, or after an answer was lost.
      {"1 values below are missing", {call(0, 1, 1), refused(2), call(4, 5, 3)}},
      {"2 values below are missing", {call(0, 1, 1), unknown(2), call(4, 5, 4)}},
      // The call of unknown outcome began after 3 was answered.
      {"had asked for 0", {call(0, 1, 1), call(2, 3, 3), unknown(4), call(6, 7, 4)}},
      {"had asked for 0", {call(0, 1, 1), call(2, 9, 3), call(2, 3, 4), unknown(4)}},
      {"answered too late", {late}},
      {"an answer that no fault explains", {strange}},
  };
  for (const Wrong& each : all) {
    const Verdict verdict = judge(each.notes, 1);
    EXPECT_THAT(verdict.wrong, testing::Contains(HasSubstr(each.what))) << each.what;
  }
  EXPECT_THAT(judge(all[0].notes, 1, Promise::kUnique).wrong,
              ElementsAre(HasSubstr("handed out twice")));
  EXPECT_THAT(judge(all[3].notes, 1, Promise::kUnique).wrong, IsEmpty());
}

// A counter that is taken from in the middle of each call, by many callers; and what becomes of its
// history when two of the values are exchanged between calls of which one was over before the other
// began.
TEST(CounterHistory, OfAHistoryInWhichOneValueIsExchangedOneIsFound) {
  std::mt19937 random(20);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same history each time
  constexpr std::size_t kCalls = 300;
  std::vector<Note> notes;
  std::int64_t next = 1;
  for (std::size_t i = 0; i < kCalls; ++i) {
    const auto at = static_cast<std::int64_t>(10 * i);  // when it takes
    const auto before = std::uniform_int_distribution<std::int64_t>(1, 60)(random);
    const auto after = std::uniform_int_distribution<std::int64_t>(1, 60)(random);
    Note note = call(at - before, at + after, next, 1 + static_cast<std::int64_t>(i % 3));
    if (i % 5 == 2) note.outcome = Outcome::kUnknown;
    next += note.count;
    notes.push_back(note);
  }
  ASSERT_THAT(judge(notes, 1).wrong, IsEmpty());
  for (std::size_t i = 0; i < kCalls; ++i) {
    for (std::size_t j = i + 1; j < kCalls; ++j) {
      const bool both = notes[i].outcome == Outcome::kTaken && notes[j].outcome == Outcome::kTaken;
      if (!both || notes[i].count != notes[j].count || notes[i].answered >= notes[j].invoked)
        continue;
      std::vector<Note> exchanged = notes;
      std::swap(exchanged[i].first, exchanged[j].first);
      ASSERT_THAT(judge(exchanged, 1).wrong, Not(IsEmpty())) << i << " and " << j;
      break;
    }
  }
}

}  // namespace
}  // namespace idmint::e2e
