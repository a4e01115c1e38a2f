#include "idmint/testing.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "idmint/uuid.h"

namespace idmint {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ManualClock, StandsUntilItIsTold) {
  ManualClock clock(Instant{seconds{100}});
  EXPECT_EQ(clock.now(), Instant{seconds{100}});
  EXPECT_EQ(clock.now(), Instant{seconds{100}});
  clock.advance(seconds{-1});
  EXPECT_EQ(clock.now(), Instant{seconds{99}});
  clock.set(Instant{seconds{7}});
  EXPECT_EQ(clock.now(), Instant{seconds{7}});
}

TEST(ManualClock, SleepsWithoutWaiting) {
  ManualClock clock(Instant{seconds{100}});
  clock.sleep_until(Instant{seconds{3700}}, seconds{100});
  EXPECT_EQ(clock.now(), Instant{seconds{3700}});
  clock.sleep_until(Instant{seconds{3600}}, seconds{0});
  EXPECT_EQ(clock.now(), Instant{seconds{3700}});
  EXPECT_EQ(clock.sleeps(), 2);
}

TEST(ScriptedEntropy, GivesTheScriptThenAStreamThatIsAlwaysTheSame) {
  ScriptedEntropy one({1, 2, 3});
  ScriptedEntropy other;
  other.push(std::array<std::uint8_t, 3>{1, 2, 3});
  std::array<std::byte, 16> a{};
  std::array<std::byte, 16> b{};
  one.fill(a);
  other.fill(std::span(b).first(5));
  other.fill(std::span(b).subspan(5));
  EXPECT_EQ(a, b);
  EXPECT_EQ(a[0], std::byte{1});
  EXPECT_EQ(a[2], std::byte{3});
}

TEST(ScriptedEntropy, RepeatsACallThatWasNamed) {
  ScriptedEntropy plain;
  ScriptedEntropy entropy;
  entropy.repeat(2, 0);
  entropy.repeat(4, 2);
  std::vector<std::uint64_t> drawn;
  for (int i = 0; i < 6; ++i) drawn.push_back(entropy.draw());
  EXPECT_EQ(entropy.calls(), 6U);
  EXPECT_EQ(drawn[2], drawn[0]);
  EXPECT_EQ(drawn[4], drawn[0]);
  // The others are the stream, with nothing left out.
  EXPECT_EQ(drawn[0], plain.draw());
  EXPECT_EQ(drawn[1], plain.draw());
  EXPECT_EQ(drawn[3], plain.draw());
  EXPECT_EQ(drawn[5], plain.draw());
}

TEST(ScriptedEntropy, ARepeatMayBeLongerOrShorter) {
  ScriptedEntropy plain;
  ScriptedEntropy entropy;
  entropy.repeat(1, 0);
  entropy.repeat(2, 0);
  std::array<std::byte, 4> first{};
  std::array<std::byte, 6> longer{};
  std::array<std::byte, 2> shorter{};
  entropy.fill(first);
  entropy.fill(longer);
  entropy.fill(shorter);
  std::array<std::byte, 6> stream{};
  plain.fill(stream);
  EXPECT_TRUE(std::ranges::equal(longer, stream));
  EXPECT_TRUE(std::ranges::equal(std::span(longer).first(4), first));
  EXPECT_TRUE(std::ranges::equal(shorter, std::span(first).first(2)));
}

// A user's test: a generator of random ids is made to collide, at the id of the user's choice.
TEST(ScriptedEntropy, MakesAGeneratorCollide) {
  ScriptedEntropy entropy;
  entropy.repeat(3, 1);
  Uuid4Generator generator(entropy);
  std::array<Uuid, 4> ids;
  for (Uuid& id : ids) id = generator.next();
  EXPECT_EQ(ids[3], ids[1]);
  EXPECT_NE(ids[2], ids[1]);
}

}  // namespace
}  // namespace idmint
