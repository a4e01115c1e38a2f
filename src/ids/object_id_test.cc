#include "idmint/object_id.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using std::chrono::seconds;

static_assert(ObjectId::parse("507f1f77bcf86cd799439011")->seconds() == 0x507f1f77);
static_assert([] {
  char text[ObjectId::kChars];
  return ObjectId::parse("507F1F77BCF86CD799439011")->to_chars(text) == text + 24 &&
         std::string_view(text, 24) == "507f1f77bcf86cd799439011";
}());

std::uint64_t random40(const ObjectId& id) {
  std::uint64_t value = 0;
  for (std::size_t i = 4; i < 9; ++i) value = value << 8 | id.bytes()[i];
  return value;
}

std::uint32_t counter(const ObjectId& id) {
  return std::uint32_t{id.bytes()[9]} << 16 | std::uint32_t{id.bytes()[10]} << 8 | id.bytes()[11];
}

TEST(ObjectId, ReadsItsSpellings) {
  const ObjectId id = *ObjectId::parse("507f1f77bcf86cd799439011");
  for (const std::string_view text :
       {"507F1F77BCF86CD799439011", "ObjectId(\"507f1f77bcf86cd799439011\")",
        "ObjectId('507f1f77bcf86cd799439011')"}) {
    ASSERT_TRUE(ObjectId::parse(text)) << text;
    EXPECT_EQ(*ObjectId::parse(text), id);
  }
  for (const std::string_view text :
       {"", "507f1f77bcf86cd7994390111", "507f1f77bcf86cd79943901g",
        "ObjectId(507f1f77bcf86cd799439011)", "ObjectId(\"507f1f77bcf86cd799439011')",
        "objectid('507f1f77bcf86cd799439011')"}) {
    EXPECT_EQ(ObjectId::parse(text).error().code, Code::kInvalidArgument) << text;
  }
}

// The specification: the time is unsigned.
TEST(ObjectId, TimesAreUnsignedSeconds) {
  EXPECT_EQ(ObjectId::parse("7fffffff0000000000000000")->seconds(), 2147483647U);
  EXPECT_EQ(ObjectId::parse("800000000000000000000000")->seconds(), 2147483648U);
  EXPECT_EQ(ObjectId::parse("ffffffff0000000000000000")->seconds(), 4294967295U);
  fakes::ManualClock clock(Instant{seconds{0x80000000}});
  ObjectIdGenerator generator(clock);
  EXPECT_EQ(generator.next()->seconds(), 0x80000000U);
  clock.set(Instant{seconds{0x100000000}});
  EXPECT_EQ(generator.next().error().code, Code::kOutOfRange);
  clock.set(Instant{seconds{0}} - std::chrono::nanoseconds{1});
  EXPECT_EQ(generator.next().error().code, Code::kOutOfRange);
}

RC_GTEST_PROP(ObjectId, PrintingAndReadingAreInverse, (const ObjectId::Bytes& bytes)) {
  RC_ASSERT(*ObjectId::parse(ObjectId{bytes}.to_string()) == ObjectId{bytes});
}

TEST(ObjectId, KeepsItsRandomValueAndCountsUpThroughTheWrap) {
  fakes::ManualClock clock(Instant{seconds{1'700'000'000}});
  // As a number, low byte first: counter 0xfffffe, random 0x1122334455.
  fakes::ScriptedEntropy entropy({0xfe, 0xff, 0xff, 0x55, 0x44, 0x33, 0x22, 0x11});
  ObjectIdGenerator generator(clock, entropy);
  std::vector<ObjectId> ids(4);
  ASSERT_TRUE(generator.next(ids));
  const std::vector<std::uint32_t> expected{0xfffffe, 0xffffff, 0x000000, 0x000001};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(counter(ids[i]), expected[i]);
    EXPECT_EQ(random40(ids[i]), 0x1122334455U);
    EXPECT_EQ(ids[i].seconds(), 1'700'000'000U);
  }
}

TEST(ObjectId, Past24BitsOfCounterInOneSecondItDrawsANewRandomValue) {
  fakes::ManualClock clock(Instant{seconds{1'700'000'000}});
  ObjectIdGenerator generator(clock);
  std::vector<ObjectId> ids((1U << 24) + 5);
  ASSERT_TRUE(generator.next(ids));
  // Not sorted: that takes minutes under a sanitizer.
  std::vector<bool> seen(1U << 24);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(random40(ids[i]), random40(ids[0]));
    seen[counter(ids[i])] = true;
  }
  EXPECT_EQ(std::ranges::count(seen, true), std::ssize(seen)) << "each counter once";
  std::set<std::uint32_t> more;
  for (std::size_t i = seen.size(); i < ids.size(); ++i) {
    EXPECT_NE(random40(ids[i]), random40(ids[0]));
    EXPECT_EQ(random40(ids[i]), random40(ids.back()));
    more.insert(counter(ids[i]));
  }
  EXPECT_EQ(more.size(), 5U);
}

TEST(ObjectId, AClockSetBackRepeatsNothing) {
  fakes::ManualClock clock(Instant{seconds{1'700'000'000}});
  ObjectIdGenerator generator(clock);
  std::set<ObjectId> ids;
  for (int i = 0; i < 1000; ++i) {
    clock.advance(seconds{i % 3 - 1});
    EXPECT_TRUE(ids.insert(*generator.next()).second);
  }
}

TEST(ObjectId, BoundsHoldEveryIdOfTheirSecond) {
  const Bounds<ObjectId> bounds =
      *object_id_bounds(Instant{seconds{0x507f1f77}} + std::chrono::nanoseconds{999'999'999});
  EXPECT_EQ(bounds.smallest.to_string(), "507f1f770000000000000000");
  EXPECT_EQ(bounds.largest.to_string(), "507f1f77ffffffffffffffff");
  EXPECT_EQ(object_id_bounds(Instant{seconds{-1}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(object_id_bounds(Instant{seconds{0x100000000}}).error().code, Code::kInvalidArgument);
}

TEST(ObjectId, ThreadsOfOneGeneratorNeverRepeat) {
  ObjectIdGenerator generator;
  std::vector<std::vector<ObjectId>> ids(4, std::vector<ObjectId>(100'000));
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) {
      threads.emplace_back([&generator, &mine] {
        for (std::size_t i = 0; i < mine.size() / 2; ++i) mine[i] = *generator.next();
        EXPECT_TRUE(generator.next(std::span(mine).subspan(mine.size() / 2)));
      });
    }
  }
  std::vector<ObjectId> all;
  for (const auto& mine : ids) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(ObjectId, AChildOfForkDrawsItsOwnRandomValue) {
  ObjectIdGenerator generator;
  const ObjectId before = *generator.next();
  const ObjectId childs = fakes::in_child([&] { return generator.next().value(); });
  EXPECT_EQ(random40(*generator.next()), random40(before));
  EXPECT_NE(random40(childs), random40(before));
}

}  // namespace
}  // namespace idmint
