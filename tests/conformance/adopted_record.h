// Every store counts in a record that other programs count in, while they go on. A test program of
// a store includes it and names the records:
//
//   INSTANTIATE_TEST_SUITE_P(Each, AdoptedRecords, testing::ValuesIn(ways()), name_of_way);
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/adoption.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/servers/plain_clients.h"

namespace idmint::conformance {

using fakes::code_of;
using servers::PlainClients;

// A record in a database of its own.
struct AdoptedPlace {
  std::string url;                              // of a store that is not made yet, beside it
  std::string record;                           // as in NewCounter
  std::function<PlainClients::Next()> connect;  // one more of the programs
  std::function<void()> doubt =
      {};  // puts the store in doubt; empty: it never is, whatever happens
  // The next value by what idmint keeps of its own beside the record; empty: it keeps none.
  std::function<std::string()> own_next = {};
  // Each sets the record back, so that the next value is 3; empty: no floor is kept beside it.
  std::vector<std::function<void()>> set_backs{};
};

// How programs count.
struct AdoptedWay {
  std::string name;
  std::function<AdoptedPlace(std::int64_t last)> make;  // `last` was the latest value
};

inline std::string name_of_way(const testing::TestParamInfo<AdoptedWay>& way) {
  return way.param.name;
}

// The name of the test that runs, for a database: lower-case letters, digits and _.
inline std::string name_of_test() {
  std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  for (char& c : name) c = c == '/' ? '_' : static_cast<char>(std::tolower(c));
  return "a_" + name.substr(0, 50);
}

class AdoptedRecords : public testing::TestWithParam<AdoptedWay> {
 protected:
  void make(std::int64_t last) {
    place_ = GetParam().make(last);
    store_ = open();
  }
  [[nodiscard]] std::unique_ptr<Store> open() const { return fakes::opened(place_.url); }
  auto adopt(CounterBounds bounds = {1, 1'000'000'000}, const std::string& counter = "c") {
    const NewCounter one{counter, bounds, place_.record};
    return counters().create(std::span(&one, 1));
  }
  Result<Range> take(std::int64_t count = 1, Take take = Take::kAll) {
    return counters().advance("c", count, take);
  }
  CounterStore& counters() { return *store_->counters(); }

  AdoptedPlace place_;
  std::unique_ptr<Store> store_;
};

inline void append(std::vector<std::int64_t>& values, const Range& range) {
  for (std::int64_t i = 0; i < range.count; ++i) values.push_back(range.at(i));
}

TEST_P(AdoptedRecords, IsGoneOnWithByAllInTurn) {
  make(3);
  const PlainClients::Next next = place_.connect();
  ASSERT_EQ(next(), 4);
  const auto adopted = adopt();
  ASSERT_TRUE(adopted) << fakes::why(adopted);
  EXPECT_EQ(counters().peek("c"), (CounterState{"c", {1, 1'000'000'000}, 5, false}));
  const auto first = take();
  EXPECT_EQ(first, (Range{5, 1, 1})) << fakes::why(first);
  EXPECT_EQ(take(10), (Range{6, 1, 10}));
  EXPECT_EQ(take(2, Take::kTail), (Range{16, 1, 2}));
  EXPECT_EQ(next(), 18);
  EXPECT_EQ(take(), (Range{19, 1, 1}));
  EXPECT_EQ(counters().list("c")->front().next, 20);
  if (place_.own_next) {
    EXPECT_EQ(place_.own_next(), "20") << "the floor";
  }
  ASSERT_TRUE(adopt()) << "again is fine";
  EXPECT_EQ(code_of(adopt({1, 99})), Code::kAlreadyExists);
  place_.record.clear();
  EXPECT_EQ(code_of(adopt()), Code::kAlreadyExists) << "it is no counter of idmint's own";
  EXPECT_EQ(open()->counters()->advance("c", 1, Take::kAll), (Range{20, 1, 1}));
}

TEST_P(AdoptedRecords, EndsWithinItsBoundsAndForAll) {
  make(1);
  ASSERT_TRUE(adopt({1, 9}));
  ASSERT_EQ(take(), (Range{2, 1, 1}));
  EXPECT_EQ(code_of(take(9)), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c")->next, 3) << "nothing moved";
  EXPECT_EQ(take(20, Take::kTail), (Range{3, 1, 7}));
  EXPECT_EQ(code_of(take(1, Take::kTail)), Code::kOutOfRange);
  const PlainClients::Next next = place_.connect();
  EXPECT_EQ(next(), 10) << "it obeys nobody";
  EXPECT_EQ(next(), 11);
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c")->left(), 0);
  EXPECT_EQ(counters().extend("c", 20), (CounterBounds{1, 20}));
  EXPECT_EQ(take(), (Range{12, 1, 1}));
  ASSERT_TRUE(counters().close("c"));
  EXPECT_EQ(code_of(take()), Code::kFailedPrecondition);
  EXPECT_EQ(next(), 13);
}

TEST_P(AdoptedRecords, IsTakenFromByManyAtOnceWithoutARepeat) {
  make(1);
  ASSERT_TRUE(adopt());
  PlainClients programs(8, place_.connect);
  std::vector<std::int64_t> values;
  std::mutex mutex;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      std::vector<std::int64_t> ours;
      for (int i = 0; i < 40; ++i) {
        const std::int64_t count = thread % 2 == 0 ? 1 : 20;
        const auto range = take(count, thread < 2 ? Take::kAll : Take::kTail);
        ASSERT_TRUE(range) << fakes::why(range);
        EXPECT_TRUE(range->count == count || thread >= 2) << "all, or as many as came in one run";
        append(ours, *range);
      }
      const std::lock_guard lock(mutex);
      values.insert(values.end(), ours.begin(), ours.end());
    });
  threads.clear();
  for (const std::int64_t theirs : programs.stop()) values.push_back(theirs);
  servers::expect_no_repeat(values);
}

// It never goes back, whoever moves it meanwhile.
TEST_P(AdoptedRecords, IsRaisedWhileOthersTakeFromIt) {
  make(1);
  ASSERT_TRUE(adopt());
  PlainClients programs(8, place_.connect);
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t floor = counters().peek("c")->next + (i % 3 == 0 ? 0 : 50);
    const auto raised = counters().raise("c", floor);
    ASSERT_TRUE(raised) << fakes::why(raised);
    EXPECT_GE(*raised, floor);
    const auto range = take(3);
    ASSERT_TRUE(range) << fakes::why(range);
    EXPECT_GE(range->first, floor);
    append(values, *range);
  }
  for (const std::int64_t theirs : programs.stop()) values.push_back(theirs);
  servers::expect_no_repeat(values);
  const std::int64_t next = counters().peek("c")->next;
  EXPECT_EQ(counters().raise("c", 1), next) << "it was past that";
  EXPECT_EQ(counters().raise("c", 2'000'000'000), 1'000'000'001) << "to its end at most";
  EXPECT_EQ(code_of(take(1, Take::kTail)), Code::kOutOfRange);
}

// Its own program sets it back: neither this process nor another goes on from there.
TEST_P(AdoptedRecords, SetBackItGivesNothing) {
  make(10);
  if (place_.set_backs.empty()) return;
  ASSERT_TRUE(adopt());
  for (std::size_t i = 0; i < place_.set_backs.size(); ++i) {
    const PlainClients::Next next = place_.connect();
    if (i > 0) {  // otherwise the floor is that of the adoption
      ASSERT_TRUE(take(5));
      ASSERT_GT(next(), 10);
      ASSERT_TRUE(take(2, Take::kTail));
    }
    const std::int64_t floor = counters().peek("c")->next;
    place_.set_backs[i]();
    const auto expect_refused = [&](const auto& result) {
      EXPECT_EQ(code_of(result), Code::kDataLoss) << i;
      EXPECT_THAT(fakes::why(result),
                  testing::AllOf(testing::HasSubstr("was set back: its next value is 3, and was " +
                                                    std::to_string(floor) + " when"),
                                 testing::HasSubstr("adopt the record under another name")));
    };
    expect_refused(take());
    expect_refused(take(3, Take::kTail));
    expect_refused(open()->counters()->advance("c", 1, Take::kAll));
    const auto seen = counters().peek("c");
    ASSERT_TRUE(seen && seen->set_back) << fakes::why(seen);
    expect_refused(Result<void>(std::unexpected(*seen->set_back)));
    EXPECT_EQ(seen->next, floor);
    EXPECT_EQ(place_.connect()(), 3) << "nothing was taken from it";
    EXPECT_EQ(counters().raise("c", 1), floor);
    EXPECT_EQ(take(), (Range{floor, 1, 1}));
  }
  place_.set_backs[0]();
  ASSERT_TRUE(counters().close("c"));
  EXPECT_EQ(code_of(take()), Code::kFailedPrecondition);
  EXPECT_TRUE(counters().peek("c")->closed);
  ASSERT_TRUE(adopt({1, 99}, "d"));
  EXPECT_EQ(counters().advance("d", 2, Take::kAll), (Range{3, 1, 2})) << "it was on purpose";
}

// Two sequences that do not know of each other's values would each go on from a record that was set
// back to between them.
TEST_P(AdoptedRecords, IsThatOfOneSequence) {
  make(10);
  SequenceDefinition one{.name = "one", .last = 1'000'000'000, .adopted = place_.record};
  const auto adopted = create_sequence(*store_, one);
  ASSERT_TRUE(adopted) << fakes::why(adopted);
  EXPECT_TRUE(create_sequence(*store_, one)) << "it is there";
  SequenceDefinition two = one;
  two.name = "two";
  const auto both = create_sequence(*store_, two);
  if (counters().adoption()->shares_floors()) {
    EXPECT_TRUE(both) << fakes::why(both);
    return;
  }
  EXPECT_EQ(code_of(both), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(both), testing::HasSubstr("adopted already, by the sequence \"one\""));
  EXPECT_EQ(code_of(peek_sequence(*store_, "two")), Code::kNotFound);
  ASSERT_TRUE(retire_sequence(*store_, "one"));
  const auto other = create_sequence(*store_, two);
  EXPECT_TRUE(other) << fakes::why(other);
}

TEST_P(AdoptedRecords, InAStoreInDoubtItGivesNothing) {
  make(1);
  ASSERT_TRUE(adopt());
  ASSERT_EQ(take(), (Range{2, 1, 1}));
  if (!place_.doubt) {
    EXPECT_EQ(store_->doubt(), std::nullopt);
    return;
  }
  place_.doubt();
  EXPECT_EQ(code_of(take()), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(adopt({1, 9}, "d")), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(open()->counters()->advance("c", 1, Take::kTail)), Code::kFailedPrecondition);
  EXPECT_EQ(counters().peek("c")->next, 3) << "nothing moved";
  EXPECT_EQ(counters().raise("c", 100), 100);
  ASSERT_TRUE(store_->settle());
  EXPECT_EQ(take(), (Range{100, 1, 1}));
}

}  // namespace idmint::conformance
