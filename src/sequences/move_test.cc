// Moving a sequence to another store, cut off in every place, and while others take from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/worker_pool.h"
#include "sequences/life_cycle.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/gated_store.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::GatedStore;
using testing::AllOf;
using testing::HasSubstr;

// Each pair has stores of its own, as the process remembers what it was given.
std::uint16_t pairs_made = 0;

Uuid numbered(std::uint8_t number) {
  Uuid::Bytes bytes{};
  bytes[0] = static_cast<std::uint8_t>(pairs_made >> 8);
  bytes[1] = static_cast<std::uint8_t>(pairs_made);
  bytes.back() = number;
  return Uuid(bytes);
}

// Two stores, each of which can fail at any call.
struct Pair {
  const std::uint16_t pair = ++pairs_made;
  GatedStore from{numbered(1), "gated:from"};
  GatedStore to{numbered(2), "gated:to"};
};

SequenceDefinition movable(Strategy strategy) {
  SequenceDefinition definition{.name = "orders", .strategy = strategy, .last = 1000};
  if (strategy == Strategy::kStriped || strategy == Strategy::kInterleaved) definition.stripes = 3;
  if (strategy == Strategy::kPermuted) definition.key = std::string(32, '7');
  return definition;
}
constexpr std::array kMovable = {Strategy::kCounter, Strategy::kStriped, Strategy::kInterleaved,
                                 Strategy::kCached, Strategy::kPermuted};

SequenceDefinition with(SequenceDefinition definition, Move::Stage stage, std::uint8_t store) {
  definition.move = {stage, numbered(store), store == 1 ? "gated:from" : "gated:to"};
  definition.retired = stage == Move::Stage::kGone;
  return definition;
}

// The calls of the source that mark it and that close a single counter: find, peek, a replace that
// changes nothing, replace, close.
constexpr std::size_t kMark = 4;
constexpr std::size_t kClose = 5;

std::vector<std::int64_t> values_of(Store& store, std::size_t count,
                                    const std::string& name = "orders") {
  const auto sequence = Sequence::open(store, name);
  std::vector<std::int64_t> values(count);
  if (!sequence || !(*sequence)->next(values)) return {};
  return values;
}

const SequenceDefinition& defined(Store& store, Result<Definition>& into) {
  into = store.catalog()->find("orders");
  return as_sequence(into.value());
}

// The error alone.
template <class T>
Result<void> outcome_of(const Result<T>& result) {
  if (result) return {};
  return std::unexpected(result.error());
}

// Whether all values are different.
bool are_different(std::vector<std::int64_t> values) {
  std::ranges::sort(values);
  return std::ranges::adjacent_find(values) == values.end();
}

TEST(Move, GoesOnWhereTheSequenceWasWithoutAGap) {
  for (const Strategy strategy : kMovable) {
    Pair stores;
    ASSERT_TRUE(create_sequence(stores.from, movable(strategy)));
    std::vector<std::int64_t> values = values_of(stores.from, 300);
    const Result<Moved> moved = move_sequence(stores.from, stores.to, "orders");
    ASSERT_TRUE(moved) << name(strategy) << ": " << moved.error().message();
    EXPECT_EQ(moved->definition, movable(strategy));
    EXPECT_FALSE(moved->was_begun);
    EXPECT_FALSE(moved->was_done);
    for (std::int64_t k = 0; k < moved->counters; ++k) {
      const std::string counter = moved->counters == 1 ? "orders" : "orders/" + std::to_string(k);
      const CounterState source = stores.from.counters()->peek(counter).value();
      EXPECT_TRUE(source.closed);
      EXPECT_EQ(stores.to.counters()->peek(counter)->next, source.next);
    }
    Result<Definition> found;
    EXPECT_EQ(defined(stores.to, found), movable(strategy));
    EXPECT_TRUE(defined(stores.from, found).retired);
    const std::vector<std::int64_t> later = values_of(stores.to, 500);
    ASSERT_EQ(later.size(), 500);
    values.insert(values.end(), later.begin(), later.end());
    EXPECT_TRUE(are_different(values)) << name(strategy);
  }
}

TEST(Move, LeavesNothingOfAUsedUpSequence) {
  for (const std::int64_t stride : {1, 10}) {
    for (const Strategy strategy : kMovable) {
      Pair stores;
      SequenceDefinition definition = movable(strategy);
      definition.stride = stride;
      ASSERT_TRUE(create_sequence(stores.from, definition));
      const auto size = static_cast<std::size_t>(definition.size());
      ASSERT_EQ(values_of(stores.from, size).size(), size);
      ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
      EXPECT_EQ(code_of((*Sequence::open(stores.to, "orders"))->next()), Code::kOutOfRange)
          << name(strategy);
    }
  }
}

TEST(Move, TakesOverTheNextValueOfAStride) {
  for (const Strategy strategy : kMovable) {
    Pair stores;
    SequenceDefinition definition = movable(strategy);
    definition.stride = 10;
    definition.first = 3;
    ASSERT_TRUE(create_sequence(stores.from, definition));
    std::vector<std::int64_t> values = values_of(stores.from, 40);
    const std::int64_t left = peek_sequence(stores.from, "orders").value().left;
    ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
    EXPECT_EQ(peek_sequence(stores.to, "orders").value().left, left) << name(strategy);
    const std::vector<std::int64_t> later = values_of(stores.to, static_cast<std::size_t>(left));
    ASSERT_EQ(std::ssize(later), left);
    values.insert(values.end(), later.begin(), later.end());
    EXPECT_TRUE(are_different(values)) << name(strategy);
    for (const std::int64_t value : values) EXPECT_EQ(value % 10, 3);
  }
}

TEST(Move, AnOpenSequenceIsToldWhereItWentAndAnOpeningToo) {
  for (const Strategy strategy : kMovable) {
    Pair stores;
    ASSERT_TRUE(create_sequence(stores.from, movable(strategy)));
    const auto open = Sequence::open(stores.from, "orders").value();
    ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
    const Advice follow{Remedy::kFollowMove, "orders", {"gated:to"}};
    for (const Result<void>& told :
         {outcome_of(open->next()), outcome_of(Sequence::open(stores.from, "orders"))}) {
      ASSERT_EQ(code_of(told), Code::kFailedPrecondition) << name(strategy);
      EXPECT_THAT(told.error().message(), HasSubstr("it was moved to gated:to")) << name(strategy);
      EXPECT_EQ(told.error().advice, follow);
    }
  }
}

// A move that was cut off after the close: nothing comes in either store, and both say why.
TEST(Move, SaysThatItIsUnderWay) {
  Pair stores;
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  const auto open = Sequence::open(stores.from, "orders").value();
  stores.from.fail_call(kClose, {{Code::kUnknown, "no reply"}, true});
  ASSERT_EQ(code_of(move_sequence(stores.from, stores.to, "orders")), Code::kUnknown);
  const Advice finish{Remedy::kFinishMove, "orders", {"gated:from", "gated:to"}};
  for (const Result<void>& told :
       {outcome_of(open->next()), outcome_of(Sequence::open(stores.to, "orders")),
        outcome_of(raise_sequence(stores.from, "orders", 10)),
        outcome_of(raise_sequence(stores.to, "orders", 10)),
        outcome_of(alter_sequence(stores.from, "orders", 2000)),
        outcome_of(alter_sequence(stores.to, "orders", 2000)),
        outcome_of(retire_sequence(stores.from, "orders")),
        outcome_of(create_sequence(stores.to, movable(Strategy::kCounter)))}) {
    ASSERT_EQ(code_of(told), Code::kUnavailable);
    EXPECT_EQ(told.error().advice, finish);
  }
  for (Store* const store : {static_cast<Store*>(&stores.from), static_cast<Store*>(&stores.to)}) {
    const SequenceStatus status = peek_sequence(*store, "orders").value();
    ASSERT_TRUE(status.error);
    EXPECT_EQ(status.error->advice, finish);
  }
  EXPECT_TRUE(move_sequence(stores.from, stores.to, "orders").value().was_begun);
  EXPECT_EQ(values_of(stores.to, 1).front(), 1);
  EXPECT_TRUE(move_sequence(stores.from, stores.to, "orders").value().was_done);
}

// Each call of either store is the last one of a process that is killed there, before or after the
// store applied it, with values taken before and after. The same call again completes the move.
TEST(Move, IsCompletedByTheSameCallWhereverItWasCutOff) {
  for (const Strategy strategy : kMovable) {
    for (const bool in_target : {false, true}) {
      for (const bool applied : {false, true}) {
        for (std::size_t call = 1;; ++call) {
          Pair stores;
          ASSERT_TRUE(create_sequence(stores.from, movable(strategy)));
          const auto early = Sequence::open(stores.from, "orders").value();
          std::vector<std::int64_t> values(100);
          ASSERT_TRUE(early->next(values));
          GatedStore& failing = in_target ? stores.to : stores.from;
          failing.fail_call(call, {{Code::kUnknown, "cut off"}, applied});
          const Result<Moved> first = move_sequence(stores.from, stores.to, "orders");
          failing.fail_call(1'000'000, {});  // later calls are not cut off
          const std::string where = std::string(name(strategy)) + ", call " + std::to_string(call) +
                                    (in_target ? " there" : " here") + (applied ? ", applied" : "");
          // A cached one would wait for the end of the move.
          const auto soon = [] {
            return std::chrono::steady_clock::now() + std::chrono::milliseconds{1};
          };
          std::int64_t one = 0;
          for (int i = 0; i < 5; ++i)
            if (early->next({&one, 1}, soon())) values.push_back(one);
          for (const std::int64_t value : values_of(stores.to, 3)) values.push_back(value);
          const Result<Moved> again = move_sequence(stores.from, stores.to, "orders");
          ASSERT_TRUE(again) << where << ": " << again.error().message();
          for (int i = 0; i < 5; ++i)
            if (early->next({&one, 1}, soon())) values.push_back(one);
          const std::vector<std::int64_t> later = values_of(stores.to, 300);
          ASSERT_EQ(later.size(), 300) << where;
          values.insert(values.end(), later.begin(), later.end());
          EXPECT_TRUE(are_different(values)) << where;
          Result<Definition> found;
          EXPECT_EQ(defined(stores.from, found).move->stage, Move::Stage::kGone) << where;
          EXPECT_FALSE(defined(stores.to, found).move) << where;
          if (first) break;  // it has no such call
          ASSERT_LT(call, 100);
        }
      }
    }
  }
}

// While the move is under way, another process changes the definition in the source.
TEST(Move, IsOfTheDefinitionAsItIsWhenItBegins) {
  for (std::size_t call = 1; call < 40; ++call) {
    Pair stores;
    ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kInterleaved)));
    stores.from.meanwhile(call, [](GatedStore::Definitions& definitions) {
      auto& orders = std::get<SequenceDefinition>(definitions.at("orders"));
      if (!orders.move) orders.last = 5000;  // alter_sequence() refuses one that moves
    });
    ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
    Result<Definition> found;
    const std::int64_t last = defined(stores.from, found).last;
    EXPECT_EQ(defined(stores.to, found).last, last);
    const auto values = values_of(stores.to, static_cast<std::size_t>(last));
    EXPECT_EQ(std::ranges::max(values), last) << "call " << call;
  }
}

// ... or another call of the move came after that, and reserved the name for more values.
TEST(Move, TakesNothingBackOfALaterReservation) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kInterleaved}) {
    for (std::size_t call = 1; call <= 6; ++call) {  // up to the mark
      Pair stores;
      ASSERT_TRUE(create_sequence(stores.from, movable(strategy)));
      stores.to.before(call, [&] {
        ASSERT_TRUE(alter_sequence(stores.from, "orders", 5000));
        stores.from.fail_call(kMark, {{Code::kUnavailable, "away"}, false});
        ASSERT_FALSE(move_sequence(stores.from, stores.to, "orders"));
      });
      const Result<Moved> moved = move_sequence(stores.from, stores.to, "orders");
      ASSERT_TRUE(moved) << name(strategy) << ", call " << call << ": " << moved.error().message();
      EXPECT_EQ(moved->definition.last, 5000);
      EXPECT_EQ(values_of(stores.to, 5000).size(), 5000);
    }
  }
}

// A move was cut off while it created the counters, and then the sequence was extended.
TEST(Move, CreatesTheCountersThatAnEarlierCallDidNot) {
  Pair stores;
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kInterleaved)));
  stores.from.fail_call(kMark, {{Code::kUnavailable, "away"}, false});
  ASSERT_FALSE(move_sequence(stores.from, stores.to, "orders"));
  stores.to.lose("orders/1");
  ASSERT_TRUE(alter_sequence(stores.from, "orders", 5000));
  const Result<Moved> moved = move_sequence(stores.from, stores.to, "orders");
  ASSERT_TRUE(moved) << moved.error().message();
  EXPECT_EQ(values_of(stores.to, 5000).size(), 5000);
}

// The source was restored to before an alter, and forgot the mark.
TEST(Move, OfASourceThatForgotAnAlterIsRefusedWithTheReason) {
  Pair stores;
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  stores.to.put(with({.name = "orders", .last = 5000}, Move::Stage::kArriving, 1));
  const Result<Moved> refused = move_sequence(stores.from, stores.to, "orders");
  ASSERT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_EQ(refused.error().advice, (Advice{Remedy::kAlterSequence, "orders", {"5000"}}));
  ASSERT_TRUE(alter_sequence(stores.from, "orders", 5000));
  EXPECT_TRUE(move_sequence(stores.from, stores.to, "orders"));
}

// ... or retires it, before the move has begun. The rest of the move can be retired, too.
TEST(Move, OfASequenceThatIsRetiredMeanwhileIsRefused) {
  for (std::size_t call = 1; call <= kMark; ++call) {
    Pair stores;
    ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
    stores.from.meanwhile(call, [](GatedStore::Definitions& definitions) {
      std::get<SequenceDefinition>(definitions.at("orders")).retired = true;
    });
    EXPECT_EQ(code_of(move_sequence(stores.from, stores.to, "orders")), Code::kFailedPrecondition);
    const bool is_reserved = call == kMark;
    EXPECT_EQ(code_of(Sequence::open(stores.to, "orders")),
              is_reserved ? Code::kUnavailable : Code::kNotFound);
    if (!is_reserved) continue;
    EXPECT_TRUE(retire_sequence(stores.to, "orders"));
    EXPECT_EQ(code_of(Sequence::open(stores.to, "orders")), Code::kFailedPrecondition);
  }
}

// The reservation is all that there is of a move: it can be given up, and the source goes on.
TEST(Move, CanBeGivenUpBeforeTheSourceIsMarked) {
  Pair stores;
  GatedStore third{numbered(3), "gated:third"};
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  stores.from.fail_call(kMark, {{Code::kUnavailable, "away"}, false});
  ASSERT_FALSE(move_sequence(stores.from, stores.to, "orders"));
  EXPECT_EQ(values_of(stores.from, 1).front(), 1);
  ASSERT_TRUE(retire_sequence(stores.to, "orders"));
  EXPECT_THAT(move_sequence(stores.from, stores.to, "orders").error().message(),
              HasSubstr("a retired sequence has the name"));
  ASSERT_TRUE(move_sequence(stores.from, third, "orders"));
  EXPECT_EQ(values_of(third, 1).front(), 2);
}

// A retire of the reservation that was cut off has closed its counter.
TEST(Move, ClosesNothingWhereTheTargetIsClosed) {
  Pair stores;
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  stores.from.fail_call(kMark, {{Code::kUnavailable, "away"}, false});
  ASSERT_FALSE(move_sequence(stores.from, stores.to, "orders"));
  const std::array<std::string, 1> counter = {"orders"};
  ASSERT_TRUE(stores.to.counters()->close(counter));
  const Result<Moved> refused = move_sequence(stores.from, stores.to, "orders");
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_EQ(refused.error().advice.remedy, Remedy::kRetireSequence);
  EXPECT_EQ(values_of(stores.from, 1).front(), 1);
}

// ---- stores that went back, as after a restore

// Cut off between the opening of the target and the end of the move in the source.
void leave_unfinished(Pair& stores) {
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  ASSERT_EQ(values_of(stores.from, 10).back(), 10);
  stores.from.fail_call(kClose + 2, {{Code::kUnavailable, "away"}, false});
  ASSERT_FALSE(move_sequence(stores.from, stores.to, "orders"));
  ASSERT_EQ(values_of(stores.to, 10).back(), 20);
}

TEST(Move, ATargetThatWentBackToItsReservationIsRaisedToo) {
  for (const bool finished : {false, true}) {
    Pair stores;
    leave_unfinished(stores);
    if (finished) {
      ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
    }
    stores.to.put(with(movable(Strategy::kCounter), Move::Stage::kArriving, 1));
    stores.to.set_next("orders", 1);
    stores.to.be_doubted(Error{Code::kDataLoss, "restored"});
    EXPECT_EQ(code_of(move_sequence(stores.from, stores.to, "orders")), Code::kDataLoss);
    const auto rows = raise_all(stores.to, 500);
    ASSERT_TRUE(rows && rows->size() == 1);
    ASSERT_FALSE(rows->front().error) << rows->front().error->message();
    EXPECT_EQ(rows->front().raised.next, 501);
    stores.to.be_doubted(std::nullopt);
    const Result<Moved> moved = move_sequence(stores.from, stores.to, "orders");
    ASSERT_TRUE(moved) << moved.error().message();
    EXPECT_EQ(moved->next, 501);
    EXPECT_EQ(values_of(stores.to, 1).front(), 501);
  }
}

TEST(Move, ATargetThatHasNothingOfItAnyMoreIsReported) {
  Pair stores;
  leave_unfinished(stores);
  GatedStore emptied{numbered(2), "gated:to"};
  EXPECT_EQ(code_of(move_sequence(stores.from, emptied, "orders")), Code::kDataLoss);
  ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
  EXPECT_EQ(code_of(move_sequence(stores.from, emptied, "orders")), Code::kDataLoss);
  GatedStore another{numbered(4), "gated:to"};
  const Result<Moved> replaced = move_sequence(stores.from, another, "orders");
  EXPECT_EQ(code_of(replaced), Code::kDataLoss);
  EXPECT_THAT(replaced.error().message(), HasSubstr("another one is in its place"));
}

// The newer store had begun the move, or ended it: the restored one hands out nothing.
TEST(Move, ASourceThatWentBackBeforeItStaysClosed) {
  for (const bool finished : {false, true}) {
    Pair stores;
    leave_unfinished(stores);
    if (finished) {
      ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
    }
    GatedStore restored{numbered(1), "gated:restored"};
    ASSERT_TRUE(create_sequence(restored, movable(Strategy::kCounter)));
    restored.set_next("orders", 5);
    const Result<Raised> by_name = raise_sequence(restored, "orders", stores.from);
    ASSERT_EQ(code_of(by_name), Code::kFailedPrecondition);
    EXPECT_THAT(by_name.error().message(), HasSubstr("it went to gated:to"));
    const auto rows = raise_all(restored, stores.from);
    ASSERT_TRUE(rows && rows->size() == 1);
    ASSERT_FALSE(rows->front().error) << rows->front().error->message();
    EXPECT_EQ(rows->front().retired, finished);
    EXPECT_TRUE(values_of(restored, 1).empty());
    EXPECT_EQ(restored.counters()->peek("orders")->next, 11);
    const Result<Moved> moved = move_sequence(restored, stores.to, "orders");
    ASSERT_TRUE(moved) << moved.error().message();
    EXPECT_EQ(moved->was_done, finished);
    EXPECT_EQ(values_of(stores.to, 1).front(), 21);
    EXPECT_EQ(code_of(retire_sequence(restored, "orders")), Code::kFailedPrecondition)
        << "it goes on in the other store";
  }
}

// The backup is of the time between the mark and the close.
TEST(Move, ASourceThatWentBackToItsMarkIsRaisedAndClosed) {
  Pair stores;
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  stores.from.fail_call(kClose, {{Code::kUnavailable, "away"}, false});
  ASSERT_FALSE(move_sequence(stores.from, stores.to, "orders"));
  const auto rows = raise_all(stores.from, 100);
  ASSERT_TRUE(rows && rows->size() == 1);
  ASSERT_FALSE(rows->front().error) << rows->front().error->message();
  EXPECT_TRUE(stores.from.counters()->peek("orders")->closed);
  ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
  EXPECT_EQ(values_of(stores.to, 1).front(), 101);
}

// A raise that begins before the move and ends after it has read the counters would be lost.
TEST(Move, ARaiseThatAMoveOvertookIsReported) {
  for (std::size_t call = 1; call <= 4; ++call) {
    Pair stores;
    ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
    stores.from.meanwhile(call, [](GatedStore::Definitions& definitions) {
      std::get<SequenceDefinition>(definitions.at("orders")).move = {Move::Stage::kLeaving,
                                                                     numbered(2), "gated:to"};
    });
    EXPECT_EQ(code_of(raise_sequence(stores.from, "orders", 500)), Code::kUnavailable)
        << "call " << call;
  }
}

TEST(Move, TwoAtATimeAreOne) {
  for (std::size_t call = 1; call < 30; ++call) {
    Pair stores;
    ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
    std::vector<std::int64_t> values = values_of(stores.from, 10);
    // The first one stands still before this call while the second one completes the move.
    stores.from.before(call, [&] {
      ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
      const auto some = values_of(stores.to, 10);
      values.insert(values.end(), some.begin(), some.end());
    });
    ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders")) << "call " << call;
    const auto later = values_of(stores.to, 10);
    ASSERT_EQ(later.size(), 10);
    values.insert(values.end(), later.begin(), later.end());
    EXPECT_TRUE(are_different(values)) << "call " << call;
  }
}

// The first one stands still while the second one completes the move, and the sequence lives on.
TEST(Move, WhoeverWakesUpAfterItsEndFindsItDone) {
  using Act = void (*)(Pair& stores, GatedStore& third);
  const std::array<Act, 3> acts = {
      [](Pair& stores, GatedStore&) { ASSERT_TRUE(alter_sequence(stores.to, "orders", 3000)); },
      [](Pair& stores, GatedStore&) { ASSERT_TRUE(retire_sequence(stores.to, "orders")); },
      [](Pair& stores, GatedStore& third) {
        ASSERT_TRUE(move_sequence(stores.to, third, "orders"));
      }};
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kInterleaved}) {
    for (const Act act : acts) {
      for (const bool in_target : {false, true}) {
        for (std::size_t call = 1; call < 40; ++call) {
          Pair stores;
          GatedStore third{numbered(3), "gated:third"};
          ASSERT_TRUE(create_sequence(stores.from, movable(strategy)));
          std::vector<std::int64_t> values = values_of(stores.from, 10);
          bool acted = false;
          (in_target ? stores.to : stores.from).before(call, [&] {
            acted = true;
            ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
            const auto some = values_of(stores.to, 10);
            values.insert(values.end(), some.begin(), some.end());
            act(stores, third);
          });
          const Result<Moved> moved = move_sequence(stores.from, stores.to, "orders");
          EXPECT_TRUE(moved) << name(strategy) << ", call " << call
                             << (in_target ? " there: " : " here: ") << moved.error().message();
          for (Store* const store : std::array<Store*, 3>{&stores.from, &stores.to, &third}) {
            const auto later = values_of(*store, 10);
            values.insert(values.end(), later.begin(), later.end());
          }
          EXPECT_TRUE(are_different(values)) << "call " << call;
          if (!acted) break;
        }
      }
    }
  }
}

TEST(Move, CannotGoToTwoStores) {
  Pair stores;
  GatedStore third{numbered(3), "gated:third"};
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  stores.from.fail_call(kClose, {{Code::kUnavailable, "away"}, false});
  ASSERT_FALSE(move_sequence(stores.from, stores.to, "orders"));
  const Result<Moved> elsewhere = move_sequence(stores.from, third, "orders");
  EXPECT_EQ(code_of(elsewhere), Code::kUnavailable);
  EXPECT_THAT(elsewhere.error().message(), HasSubstr("it is being moved to gated:to"));
  ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
  EXPECT_EQ(code_of(move_sequence(stores.from, third, "orders")), Code::kFailedPrecondition);
  // Nor back, where its tombstone has the name; but on.
  const Result<Moved> back = move_sequence(stores.to, stores.from, "orders");
  EXPECT_EQ(code_of(back), Code::kFailedPrecondition);
  EXPECT_THAT(back.error().message(), HasSubstr("does not take a name twice"));
  EXPECT_TRUE(move_sequence(stores.to, third, "orders"));
}

TEST(Move, IsRefusedWhereTheNameIsTaken) {
  Pair stores;
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  ASSERT_TRUE(create_sequence(stores.to, movable(Strategy::kCounter)));
  for (const MoveMode mode : {MoveMode::kPreview, MoveMode::kCarryOut}) {
    const Result<Moved> refused = move_sequence(stores.from, stores.to, "orders", mode);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
    EXPECT_THAT(refused.error().message(), HasSubstr("another sequence has the name"));
  }
  EXPECT_EQ(values_of(stores.from, 1).front(), 1) << "the source gives values as before";
  ASSERT_TRUE(retire_sequence(stores.to, "orders"));
  EXPECT_THAT(move_sequence(stores.from, stores.to, "orders").error().message(),
              HasSubstr("a retired sequence has the name"));
}

// A `create --adopt` that was cut off before its definition: other programs count in that record.
TEST(Move, TakesOverNoCounterInARecordOfOthers) {
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kStriped}) {
    for (const std::int64_t last : {1000, 700}) {
      Pair stores;
      ASSERT_TRUE(create_sequence(stores.from, movable(strategy)));
      SequenceDefinition left = movable(strategy);
      left.last = last;
      ASSERT_TRUE(make_counters(stores.to, left));
      const std::string counter = strategy == Strategy::kStriped ? "orders/2" : "orders";
      stores.to.adopt(counter);
      const CounterState there = stores.to.counters()->peek(counter).value();
      const Result<Moved> refused = move_sequence(stores.from, stores.to, "orders");
      EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << name(strategy) << ' ' << last;
      EXPECT_EQ(stores.to.counters()->peek(counter), there) << "neither raised nor extended";
      EXPECT_EQ(values_of(stores.from, 1).size(), 1) << "the source gives values as before";
      GatedStore third{numbered(3), "gated:third"};
      EXPECT_TRUE(move_sequence(stores.from, third, "orders"));
    }
  }
}

// A database may grant the counters and not the definitions, or a new definition and not another.
TEST(Move, ClosesNothingWhereTheTargetCannotBeOpened) {
  for (const std::size_t call : {4U, 5U, 6U}) {  // find, define, create, raise, peek, replace
    Pair stores;
    ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
    stores.to.fail_call(call, {{Code::kPermissionDenied, "no right to"}, false});
    EXPECT_EQ(code_of(move_sequence(stores.from, stores.to, "orders")), Code::kPermissionDenied);
    Result<Definition> found;
    EXPECT_FALSE(defined(stores.from, found).move) << "call " << call;
    EXPECT_EQ(values_of(stores.from, 1).front(), 1);
    ASSERT_TRUE(move_sequence(stores.from, stores.to, "orders"));
    EXPECT_EQ(values_of(stores.to, 1).front(), 2);
  }
}

// The name was reserved, so a definition that is gone was lost, and values with it.
TEST(Move, ATargetThatWentBackIsNotUsed) {
  Pair stores;
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
  stores.from.fail_call(kClose, {{Code::kUnavailable, "away"}, false});
  ASSERT_FALSE(move_sequence(stores.from, stores.to, "orders"));
  GatedStore older{numbered(2), "gated:to"};
  EXPECT_EQ(code_of(move_sequence(stores.from, older, "orders")), Code::kDataLoss);
}

TEST(Move, OfWhatCannotBeMovedIsRefusedWithTheReason) {
  const auto from = Store::open("memory:").value();
  const auto to = Store::open("memory:").value();
  ASSERT_TRUE(create_sequence(*from, movable(Strategy::kRandom)));
  ASSERT_TRUE(create_pool(*from, {.name = "web", .workers = 4}));
  ASSERT_TRUE(from->catalog()->define(
      SequenceDefinition{.name = "bills", .strategy = Strategy::kGapless, .last = 1000}));
  ASSERT_TRUE(from->catalog()->define(SequenceDefinition{.name = "old", .adopted = "counters"}));
  for (const auto& [name, reason] :
       {std::pair("orders", "it is random"), std::pair("web", "leases of a pool"),
        std::pair("bills", "gapless"), std::pair("old", "other programs count")}) {
    for (const MoveMode mode : {MoveMode::kPreview, MoveMode::kCarryOut}) {
      const Result<Moved> refused = move_sequence(*from, *to, name, mode);
      EXPECT_EQ(code_of(refused), Code::kUnimplemented);
      EXPECT_THAT(refused.error().message(),
                  AllOf(HasSubstr("cannot be moved"), HasSubstr(reason)));
    }
    EXPECT_EQ(code_of(to->catalog()->find(name)), Code::kNotFound);
  }
  const auto another = Store::open("memory:").value();
  const std::array<Store*, 2> stores = {from.get(), another.get()};
  ASSERT_TRUE(create_sequence(
      stores, {.name = "tickets", .strategy = Strategy::kInterleaved, .last = 1000}));
  for (const MoveMode mode : {MoveMode::kPreview, MoveMode::kCarryOut}) {
    for (Store* const store : stores) {
      const Result<Moved> refused = move_sequence(*store, *to, "tickets", mode);
      EXPECT_EQ(code_of(refused), Code::kUnimplemented);
      EXPECT_THAT(refused.error().message(),
                  AllOf(HasSubstr("cannot be moved"), HasSubstr("over several stores")));
    }
  }
  EXPECT_EQ(code_of(move_sequence(*from, *from, "orders")), Code::kInvalidArgument);
  EXPECT_EQ(code_of(move_sequence(*from, *to, "none")), Code::kNotFound);
  ASSERT_TRUE(create_sequence(*from, {.name = "done"}));
  ASSERT_TRUE(from->counters()->close("done"));
  EXPECT_EQ(code_of(move_sequence(*from, *to, "done")), Code::kFailedPrecondition);
  ASSERT_TRUE(retire_sequence(*from, "done"));
  EXPECT_EQ(code_of(move_sequence(*from, *to, "done")), Code::kFailedPrecondition);
}

TEST(Move, APreviewChangesNothing) {
  Pair stores;
  ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kStriped)));
  ASSERT_EQ(values_of(stores.from, 30).size(), 30);
  const Moved seen = move_sequence(stores.from, stores.to, "orders", MoveMode::kPreview).value();
  EXPECT_EQ(seen.counters, 3);
  EXPECT_EQ(seen.left, 970);
  EXPECT_EQ(code_of(stores.to.catalog()->find("orders")), Code::kNotFound);
  EXPECT_EQ(values_of(stores.from, 30).size(), 30);
}

TEST(Move, AStoreInDoubtTakesNoPartInIt) {
  for (const bool in_target : {false, true}) {
    Pair stores;
    ASSERT_TRUE(create_sequence(stores.from, movable(Strategy::kCounter)));
    (in_target ? stores.to : stores.from).be_doubted(Error{Code::kDataLoss, "a copy"});
    EXPECT_EQ(code_of(move_sequence(stores.from, stores.to, "orders")), Code::kDataLoss);
  }
}

// Processes take values all the while, and the mover is killed and run again any number of times.
RC_GTEST_PROP(Move, NoValueComesTwice, ()) {
  const auto strategy = *rc::gen::elementOf(kMovable);
  const auto kills =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 14));
  Pair stores;
  RC_ASSERT(create_sequence(stores.from, movable(strategy)).has_value());
  std::array<std::vector<std::int64_t>, 3> taken;
  std::vector<std::jthread> takers;
  for (std::vector<std::int64_t>& its : taken) {
    takers.emplace_back([&stores, &its] {
      std::unique_ptr<Sequence> sequence;
      const auto open_in = [&](Store& store) {
        if (auto opened = Sequence::open(store, "orders")) sequence = *std::move(opened);
      };
      while (its.size() < 60) {
        if (sequence == nullptr) open_in(stores.from);
        if (sequence == nullptr) open_in(stores.to);
        if (sequence == nullptr) continue;
        if (const Result<std::int64_t> value = sequence->next(); value) {
          its.push_back(*value);
        } else if (value.error().code == Code::kFailedPrecondition) {
          open_in(stores.to);
        }
      }
    });
  }
  for (std::size_t i = 0; i < kills.size(); ++i) {
    (i % 2 == 0 ? stores.from : stores.to)
        .fail_call(kills[i], {{Code::kUnknown, "cut off"}, i % 3 != 0});
    // A taker may meet the fault instead; then this call completes the move.
    [[maybe_unused]] const auto cut_off = move_sequence(stores.from, stores.to, "orders");
  }
  while (!move_sequence(stores.from, stores.to, "orders")) {
  }
  takers.clear();
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& its : taken) all.insert(all.end(), its.begin(), its.end());
  RC_ASSERT(all.size() == 180U);
  RC_ASSERT(are_different(all));
  stores.to.fail_call(0, {});  // a fault that nobody met
  Result<Definition> found;
  RC_ASSERT(!defined(stores.to, found).move.has_value());
}

}  // namespace
}  // namespace idmint
