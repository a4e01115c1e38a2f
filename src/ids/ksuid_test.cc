#include "idmint/ksuid.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
using std::chrono::seconds;

constexpr std::string_view kLargestKsuid = "aWgEPTl1tmebfsQzFP4bxwgy80V";

std::string hex(const Ksuid& id) {
  std::string text;
  for (const std::uint8_t byte : id.bytes()) {
    text += "0123456789ABCDEF"[byte >> 4];
    text += "0123456789ABCDEF"[byte & 15];
  }
  return text;
}

TEST(Ksuid, TheVectorsOfTheSpecification) {
  const Result<Ksuid> first = Ksuid::parse("0ujtsYcgvSTl8PAuAdqWYSMnLOv");
  ASSERT_TRUE(first);
  EXPECT_EQ(hex(*first), "0669F7EFB5A1CD34B5F99D1154FB6853345C9735");
  EXPECT_EQ(first->timestamp(), 107608047U);
  EXPECT_EQ(first->time(), Instant{seconds{1507608047}});  // 2017-10-10T04:00:47Z
  EXPECT_EQ(first->to_string(), "0ujtsYcgvSTl8PAuAdqWYSMnLOv");
  const Result<Ksuid> second = Ksuid::parse("0ujzPyRiIAffKhBux4PvQdDqMHY");
  ASSERT_TRUE(second);
  EXPECT_EQ(hex(*second), "066A029C73FC1AA3B2446246D6E89FCD909E8FE8");
  EXPECT_EQ(second->timestamp(), 107610780U);
}

TEST(Ksuid, SmallestAndLargest) {
  EXPECT_EQ(Ksuid{}.to_string(), "000000000000000000000000000");
  Ksuid::Bytes bytes;
  bytes.fill(0xff);
  EXPECT_EQ(Ksuid{bytes}.to_string(), kLargestKsuid);
  EXPECT_EQ(Ksuid::parse(kLargestKsuid), Ksuid{bytes});
  EXPECT_EQ(Ksuid::parse("000000000000000000000000000"), Ksuid{});
}

TEST(Ksuid, RefusesWhatIsNotOne) {
  for (const std::string_view text :
       {"", "aWgEPTl1tmebfsQzFP4bxwgy80W", "aaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzz", "aWgEPTl1tmebfsQzFP4bxwgy80!", "0ujtsYcgvSTl8PAuAdqWYSMnLO",
        "0ujtsYcgvSTl8PAuAdqWYSMnLOv0", "0ujtsYcgvSTl8PAuAdqWYSMnLO ",
        " ujtsYcgvSTl8PAuAdqWYSMnLOv", "0ujtsYcgvSTl-PAuAdqWYSMnLOv"}) {
    const Result<Ksuid> refused = Ksuid::parse(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(refused.error().message().starts_with("not a KSUID: "))
        << refused.error().message();
  }
}

RC_GTEST_PROP(Ksuid, PrintingAndReadingAreInverse, (const Ksuid::Bytes& bytes)) {
  RC_ASSERT(*Ksuid::parse(Ksuid{bytes}.to_string()) == Ksuid{bytes});
}

RC_GTEST_PROP(Ksuid, TheOrderOfTextsIsTheOrderOfIds,
              (const Ksuid::Bytes& a, const Ksuid::Bytes& b)) {
  RC_ASSERT((Ksuid{a} < Ksuid{b}) == (Ksuid{a}.to_string() < Ksuid{b}.to_string()));
}

constexpr Instant kVectorsTime{seconds{1507608047}};
const std::vector<std::uint8_t> kVectorsPayload = {0xB5, 0xA1, 0xCD, 0x34, 0xB5, 0xF9, 0x9D, 0x11,
                                                   0x54, 0xFB, 0x68, 0x53, 0x34, 0x5C, 0x97, 0x35};

TEST(KsuidGenerator, MakesTheVectorOfTimeAndRandomBytes) {
  fakes::ManualClock clock(kVectorsTime + 999'999'999ns);
  fakes::ScriptedEntropy entropy(kVectorsPayload);
  KsuidGenerator generator(clock, entropy);
  EXPECT_EQ(generator.next()->to_string(), "0ujtsYcgvSTl8PAuAdqWYSMnLOv");
  const Ksuid another = *generator.next();
  EXPECT_EQ(another.timestamp(), 107608047U);
  EXPECT_NE(another.to_string(), "0ujtsYcgvSTl8PAuAdqWYSMnLOv");
}

TEST(KsuidGenerator, BulkHasTheTimeAndFreshBytesInEach) {
  fakes::ManualClock clock(kVectorsTime);
  KsuidGenerator generator(clock);
  std::vector<Ksuid> ids(1000);
  ASSERT_TRUE(generator.next(ids));
  for (const Ksuid& id : ids) EXPECT_EQ(id.timestamp(), 107608047U);
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
  EXPECT_TRUE(generator.next({}));
}

TEST(KsuidGenerator, RefusesTimesThatDoNotFit) {
  fakes::ManualClock clock(Instant{seconds{Ksuid::kEpochSeconds}});
  KsuidGenerator generator(clock);
  std::vector<Ksuid> ids(2);
  EXPECT_EQ(generator.next()->timestamp(), 0U);
  clock.advance(-1ns);
  EXPECT_EQ(generator.next().error().code, Code::kOutOfRange);
  EXPECT_EQ(generator.next(ids).error().code, Code::kOutOfRange);
  clock.set(Instant{seconds{Ksuid::kEpochSeconds + (std::int64_t{1} << 32)}} - 1ns);
  EXPECT_EQ(generator.next()->timestamp(), 0xffffffffU);
  clock.advance(1ns);
  EXPECT_EQ(generator.next().error().code, Code::kOutOfRange);
  for (const Instant at : {Instant::min(), Instant{}, Instant::max()}) {
    clock.set(at);
    EXPECT_EQ(generator.next().error().code, Code::kOutOfRange);
    EXPECT_EQ(ksuid_bounds(at).error().code, Code::kInvalidArgument);
  }
}

TEST(Ksuid, BoundsHoldEveryIdOfTheirSecond) {
  const Bounds<Ksuid> bounds = *ksuid_bounds(kVectorsTime + 999'999'999ns);
  EXPECT_EQ(hex(bounds.smallest), "0669F7EF00000000000000000000000000000000");
  EXPECT_EQ(hex(bounds.largest), "0669F7EFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF");
  EXPECT_EQ(ksuid_bounds(Instant{seconds{Ksuid::kEpochSeconds}})->smallest, Ksuid{});
  EXPECT_EQ(ksuid_bounds(Instant{seconds{Ksuid::kEpochSeconds + 0xffffffffLL}} + 999ms)
                ->largest.to_string(),
            kLargestKsuid);
}

}  // namespace
}  // namespace idmint
