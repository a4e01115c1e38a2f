// Keys of Redis that other programs count in with INCR at the same time.
#include "engines/redis/adoption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"
#include "store/backend.h"
#include "store/counter_store.h"
#include "tests/conformance/adopted_record.h"
#include "tests/fakes/code_of.h"
#include "tests/servers/plain_clients.h"
#include "tests/servers/redis.h"

namespace idmint {
namespace {

using conformance::AdoptedPlace;
using conformance::AdoptedRecords;
using conformance::AdoptedWay;
using fakes::code_of;
using servers::PlainClients;
using servers::redis_server;
using servers::RedisServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<AdoptedWay> every_way() {
  return {{"Key", [](std::int64_t last) {
             const std::string url = redis_server().database(conformance::name_of_test());
             const int database = std::stoi(url.substr(url.rfind('/') + 1));
             redis_server().run({"SET", "orders", std::to_string(last)}, database);
             return AdoptedPlace{
                 .url = url,
                 .record = "key:orders",
                 .connect =
                     [database] {
                       return [database] {
                         return std::int64_t{
                             std::stoll(redis_server().run({"INCR", "orders"}, database))};
                       };
                     },
                 .doubt =
                     [database] {
                       redis_server().run({"HSET", "{idmint}:store", "replid", std::string(40, 'a'),
                                           "replicas", "1"},
                                          database);
                     },
                 // The largest value that idmint took, as the key has the last one.
                 .own_next =
                     [database] {
                       return std::to_string(
                           1 + std::stoll(redis_server().run(
                                   {"HGET", "{idmint}:counter:c", "taken"}, database)));
                     }};
           }}};
}

INSTANTIATE_TEST_SUITE_P(Redis, AdoptedRecords, testing::ValuesIn(every_way()),
                         conformance::name_of_way);

class RedisAdoption : public testing::Test {
 protected:
  RedisAdoption() {
    url_ = redis_server().database(testing::UnitTest::GetInstance()->current_test_info()->name());
    database_ = std::stoi(url_.substr(url_.rfind('/') + 1));
    store_ = open();
  }

  [[nodiscard]] std::unique_ptr<Store> open() const {
    return Store::open(url_, {.deadline = std::chrono::minutes{1}}).value();
  }
  std::string redis(const std::vector<std::string>& words) const {
    return redis_server().run(words, database_);
  }
  void set(const std::string& value) const { EXPECT_EQ(redis({"SET", "orders", value}), "OK"); }
  [[nodiscard]] PlainClients::Next plain() const {
    return [this] { return std::int64_t{std::stoll(redis({"INCR", "orders"}))}; };
  }
  auto adopt(CounterBounds bounds = {1, 1'000'000'000}, const std::string& record = "key:orders",
             const std::string& name = "c") {
    const NewCounter one{name, bounds, record};
    return counters().create(std::span(&one, 1));
  }
  Result<Range> take(std::int64_t count = 1, Take take = Take::kAll) {
    return counters().advance("c", count, take);
  }
  CounterStore& counters() { return *store_->counters(); }

  std::string url_;
  int database_ = 0;
  std::unique_ptr<Store> store_;
};

// ---- beside INCR

// The largest numbers, which Lua has not.
TEST_F(RedisAdoption, CountsExactlyUpToTheLargestValue) {
  set(std::to_string(kLargestValue - 3));
  ASSERT_TRUE(adopt({1, kLargestValue}));
  EXPECT_EQ(take(), (Range{kLargestValue - 2, 1, 1}));
  EXPECT_EQ(code_of(take(3)), Code::kOutOfRange);
  EXPECT_EQ(code_of(take(kLargestValue)), Code::kOutOfRange) << "more than Redis can add";
  EXPECT_EQ(take(3, Take::kTail), (Range{kLargestValue - 1, 1, 2}));
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
  set(std::to_string(kLargestValue + 1));
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
  EXPECT_EQ(counters().peek("c")->left(), 0);
}

TEST_F(RedisAdoption, IsRaisedAndNeverGoesBack) {
  set("5");
  ASSERT_TRUE(adopt({1, 99}));
  EXPECT_EQ(counters().raise("c", 50), 50);
  EXPECT_EQ(redis({"GET", "orders"}), "49");
  EXPECT_EQ(counters().raise("c", 3), 50);
  EXPECT_EQ(plain()(), 50);
  EXPECT_EQ(take(), (Range{51, 1, 1}));
  EXPECT_EQ(counters().raise("c", 1000), 100);
  EXPECT_EQ(code_of(take()), Code::kOutOfRange);
  set("60");
  EXPECT_EQ(code_of(take()), Code::kDataLoss) << "it was raised past that";
}

// ---- what others do to the key

TEST_F(RedisAdoption, AKeyThatWasSetBackGivesNothingUntilItIsSetAgain) {
  set("10");
  ASSERT_TRUE(adopt());
  ASSERT_EQ(take(90), (Range{11, 1, 90}));
  set("99");
  const auto refused = take();
  EXPECT_EQ(code_of(refused), Code::kDataLoss);
  EXPECT_THAT(fakes::why(refused),
              AllOf(HasSubstr("the key \"orders\", which counter \"c\" was adopted from"),
                    HasSubstr("it was set back to 99, and it had 100"),
                    HasSubstr("SET it to the largest value in use")));
  EXPECT_EQ(code_of(counters().peek("c")), Code::kDataLoss);
  EXPECT_EQ(code_of(counters().raise("c", 500)), Code::kDataLoss);
  set("-7");
  EXPECT_EQ(code_of(take()), Code::kDataLoss);
  EXPECT_EQ(redis({"DEL", "orders"}), "1");
  EXPECT_THAT(fakes::why(take()), HasSubstr("it is not there, and it had 100"));
  EXPECT_EQ(redis({"EXISTS", "orders"}), "0") << "it is not made again";
  EXPECT_EQ(plain()(), 1);
  EXPECT_EQ(code_of(open()->counters()->advance("c", 1, Take::kAll)), Code::kDataLoss);
  set("100");
  EXPECT_EQ(take(), (Range{101, 1, 1}));
}

TEST_F(RedisAdoption, AKeyThatGoesAwayByItselfIsRefused) {
  set("10");
  redis({"EXPIRE", "orders", "1000"});
  const auto refused = adopt();
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("PERSIST it"));
  EXPECT_EQ(redis({"PERSIST", "orders"}), "1");
  ASSERT_TRUE(adopt());
  redis({"EXPIRE", "orders", "1000"});
  EXPECT_EQ(code_of(take()), Code::kDataLoss);
  EXPECT_EQ(redis({"GET", "orders"}), "10");
  redis({"PERSIST", "orders"});
  EXPECT_EQ(take(), (Range{11, 1, 1}));
}

TEST_F(RedisAdoption, WhatIsNoIntegerGivesNothing) {
  set("10");
  ASSERT_TRUE(adopt());
  for (const std::string value : {"", "x", "12 ", " 12", "012", "+12", "12.5", "1e3", "-",
                                  "9223372036854775808", "99999999999999999999"}) {
    set(value);
    const auto refused = take();
    EXPECT_EQ(code_of(refused), Code::kDataLoss) << value;
    EXPECT_THAT(fakes::why(refused), HasSubstr("it holds no integer of 64 bits")) << value;
    EXPECT_EQ(redis({"GET", "orders"}), value) << "it was left as it is";
  }
  set(std::string(1'000'000, '1'));
  EXPECT_EQ(code_of(take()), Code::kDataLoss);
  redis({"DEL", "orders"});
  redis({"RPUSH", "orders", "12"});
  EXPECT_THAT(fakes::why(take()), HasSubstr("it is a list"));
  EXPECT_TRUE(counters().close("c"));
}

TEST_F(RedisAdoption, WhatCannotBeCountedInIsRefusedAndLeftAsItIs) {
  redis({"SET", "word", "x"});
  redis({"SET", "five", "5"});
  redis({"HSET", "hash", "n", "5"});
  struct Refusal {
    std::string record;
    std::string why;
  };
  for (const auto& [record, why] :
       std::vector<Refusal>{{"key:orders", "it is not there: name the key that your programs INCR"},
                            {"key:word", "it holds no integer"},
                            {"key:hash", "it is a hash"},
                            {"key:five", "it holds 5, and the sequence begins further above"}}) {
    const auto refused = adopt({7, 99}, record);
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << record;
    EXPECT_THAT(fakes::why(refused), AllOf(HasSubstr(why), HasSubstr("left as it is"))) << record;
    EXPECT_EQ(code_of(counters().peek("c")), Code::kNotFound) << record;
  }
  EXPECT_EQ(redis({"EXISTS", "orders"}), "0");
  for (const auto& [record, why] : std::vector<Refusal>{{"orders", "write key:NAME"},
                                                        {"key:", "1 to 200 ASCII"},
                                                        {"key:a\"b", "1 to 200 ASCII"},
                                                        {"key:{idmint}:store", "idmint's own"},
                                                        {"row:t/k=one:next=n", "write key:NAME"}}) {
    const auto refused = adopt({1, 99}, record);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << record;
    EXPECT_THAT(fakes::why(refused), HasSubstr(why)) << record;
  }
  EXPECT_THAT(fakes::why(adopt({0, 99}, "key:five")), HasSubstr("begin at 1 or above"));
  EXPECT_THAT(fakes::why(adopt({1, 99, 2}, "key:five")), HasSubstr("count by one"));
  EXPECT_TRUE(adopt({6, 99}, "key:five"));
}

TEST(RedisKeyAdoption, ASequenceIsCheckedBeforeAStoreIsAsked) {
  const Adoption& adoption = *stores::adoption_of("redis://h/0");
  EXPECT_EQ(stores::adoption_of("rediss://h"), &adoption);
  const auto read = adoption.read("key:shop:orders/id", false);
  ASSERT_TRUE(read) << fakes::why(read);
  EXPECT_EQ(read->record, "key:shop:orders/id");
  EXPECT_EQ(read->first, 1);
  EXPECT_EQ(adoption.place_of(read->record), "shop:orders/id");
  EXPECT_THAT(fakes::why(adoption.read("key:a", true)), HasSubstr("a validator is for"));
  EXPECT_THAT(fakes::why(adoption.read("orders", false)), HasSubstr("write key:NAME"));
  SequenceDefinition orders{.name = "orders", .adopted = "key:a"};
  EXPECT_TRUE(adoption.check(orders));
  orders.first = 0;
  EXPECT_THAT(fakes::why(adoption.check(orders)), HasSubstr("begin at 1"));
  orders = {.name = "orders", .first = 2, .stride = 2, .adopted = "key:a"};
  EXPECT_THAT(fakes::why(adoption.check(orders)), HasSubstr("count by one"));
  orders = {.name = "orders", .strategy = Strategy::kStriped, .stripes = 2, .adopted = "key:{k}"};
  EXPECT_THAT(fakes::why(adoption.check(orders)), HasSubstr("counts for one"));
}

TEST_F(RedisAdoption, WhoMintsNeedsTheRightsOfTheProgramsToo) {
  set("1");
  ASSERT_TRUE(adopt());
  redis({"ACL", "SETUSER", "lesser", "reset", "on", ">geheim", "~{idmint}:*", "allcommands"});
  const auto store = Store::open(redis_server().url(database_, "lesser:geheim")).value();
  CounterStore& counters = *store->counters();
  const auto refused = counters.advance("c", 1, Take::kAll);
  EXPECT_EQ(code_of(refused), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(refused), HasSubstr("for a key that it adopts also ~KEY"));
  redis({"ACL", "SETUSER", "lesser", "~orders", "nocommands", "+eval", "+evalsha", "+select",
         "+info", "+config|get", "+@hash", "+@string", "+type", "+ttl"});
  EXPECT_EQ(counters.advance("c", 2, Take::kAll), (Range{2, 1, 2}));
  EXPECT_EQ(counters.raise("c", 9), 9);
}

// A create that was cut off before its definition: the programs go on in the key, not in the
// sequence.
TEST_F(RedisAdoption, NoMoveTakesOverACounterThatACreateLeft) {
  set("5");
  ASSERT_TRUE(adopt({1, 1'000'000'000}, "key:orders", "moved"));
  const auto from = Store::open("memory:").value();
  ASSERT_TRUE(create_sequence(*from, {.name = "moved", .last = 1'000'000'000}));
  const Result<Moved> refused = move_sequence(*from, *store_, "moved");
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("exists and is in key:orders, not idmint's own"));
  EXPECT_EQ(redis({"GET", "orders"}), "5");
  EXPECT_EQ((*Sequence::open(*from, "moved"))->next(), 1);
}

// INCRBY is done when the script ends: the values are lost, and the error does not deny it.
TEST_F(RedisAdoption, ARightThatEndsAScriptAfterItsFirstWriteLeavesAGap) {
  set("1");
  ASSERT_TRUE(adopt());
  redis({"ACL", "SETUSER", "lesser", "reset", "on", ">geheim", "allkeys", "allcommands", "-hset"});
  const auto store = Store::open(redis_server().url(database_, "lesser:geheim")).value();
  const auto refused = store->counters()->advance("c", 2, Take::kAll);
  EXPECT_EQ(code_of(refused), Code::kPermissionDenied);
  EXPECT_THAT(fakes::why(refused), AllOf(HasSubstr("a part of it may have been done"),
                                         Not(HasSubstr("nothing was changed"))));
  EXPECT_EQ(redis({"GET", "orders"}), "3");
  EXPECT_EQ(take(), (Range{4, 1, 1}));
}

// ---- in doubt, and after a crash

TEST(RedisAdoptionCrash, AValueThatWasHandedOutDoesNotComeAgain) {
  RedisServer server;
  server.run({"SET", "orders", "0"});
  std::int64_t largest = 0;
  for (int round = 0; round < 3; ++round) {
    // Waits until the server has read its file.
    const auto store = Store::open(server.url(), {.deadline = std::chrono::minutes{1}}).value();
    const NewCounter one{"c", {1, 1'000'000}, "key:orders"};
    ASSERT_TRUE(store->counters()->create(std::span(&one, 1)));
    EXPECT_EQ(server.run({"INCR", "orders"}), std::to_string(++largest));
    const auto taken = store->counters()->advance("c", 3, Take::kAll);
    ASSERT_TRUE(taken) << fakes::why(taken);
    EXPECT_EQ(taken->first, largest + 1);
    largest = taken->last();
    server.kill();
    server.restart();
  }
}

// ---- a sequence of idmint over it

TEST_F(RedisAdoption, ACachedSequenceTakesItsRangesFromIt) {
  set("41");
  ASSERT_TRUE(create_sequence(
      *store_,
      {.name = "orders", .strategy = Strategy::kCached, .step = 10, .adopted = "key:orders"}));
  const auto sequence = Sequence::open(*store_, "orders");
  ASSERT_TRUE(sequence) << fakes::why(sequence);
  EXPECT_EQ((*sequence)->next(), 42);
  EXPECT_GE(plain()(), 52) << "the range is idmint's";
  EXPECT_EQ((*sequence)->next(), 43);
}

}  // namespace
}  // namespace idmint
