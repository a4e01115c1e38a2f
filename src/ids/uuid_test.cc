#include "idmint/uuid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <thread>
#include <unordered_set>
#include <vector>

#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// RFC 9562, appendix A.
constexpr std::string_view kVersion4 = "919108f7-52d1-4320-9bac-f847db4148a8";
constexpr std::string_view kVersion7 = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
constexpr std::int64_t kVersion7Milliseconds = 0x017F22E279B0;

static_assert(Uuid::parse(kVersion7)->version() == 7);
static_assert(Uuid::parse(kVersion4)->has_rfc_variant());
static_assert(Uuid::nil() < Uuid::max());
static_assert([] {
  char text[Uuid::kChars];
  return Uuid::parse(kVersion4)->to_chars(text) == text + 36 &&
         std::string_view(text, 36) == kVersion4;
}());

TEST(Uuid, ReadsEverySpellingAndPrintsTheCanonicalOne) {
  const Uuid id = *Uuid::parse(kVersion7);
  for (const std::string_view spelling :
       {"017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
        "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "URN:UUID:017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "017f22e279b07cc398c4dc0c0c07398f"}) {
    ASSERT_TRUE(Uuid::parse(spelling)) << spelling;
    EXPECT_EQ(*Uuid::parse(spelling), id) << spelling;
  }
  EXPECT_EQ(id.to_string(), kVersion7);
  EXPECT_EQ(Uuid::nil().to_string(), "00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(Uuid::max().to_string(), "ffffffff-ffff-ffff-ffff-ffffffffffff");
}

TEST(Uuid, RefusesWhatIsNotOne) {
  for (const std::string_view text :
       {"", " ", "017f22e2-79b0-7cc3-98c4-dc0c0c07398", "017f22e2-79b0-7cc3-98c4-dc0c0c07398ff",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g", " 017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "017f22e279b0-7cc3-98c4-dc0c-0c07398f", "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "(017f22e2-79b0-7cc3-98c4-dc0c0c07398f)", "urn:guid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "{017f22e279b07cc398c4dc0c0c07398f}", "017f22e2_79b0_7cc3_98c4_dc0c0c07398f",
        "+17f22e2-79b0-7cc3-98c4-dc0c0c07398f"}) {
    const Result<Uuid> refused = Uuid::parse(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
}

RC_GTEST_PROP(Uuid, PrintingAndReadingAreInverse, (const Uuid::Bytes& bytes)) {
  const Uuid id{bytes};
  const std::string text = id.to_string();
  RC_ASSERT(*Uuid::parse(text) == id);
  std::string bare;
  std::copy_if(text.begin(), text.end(), std::back_inserter(bare), [](char c) { return c != '-'; });
  RC_ASSERT(*Uuid::parse(bare) == id);
  RC_ASSERT(*Uuid::parse("{" + text + "}") == id);
}

RC_GTEST_PROP(Uuid, TheOrderOfTextsIsTheOrderOfIds, (const Uuid::Bytes& a, const Uuid::Bytes& b)) {
  RC_ASSERT((Uuid{a} < Uuid{b}) == (Uuid{a}.to_string() < Uuid{b}.to_string()));
}

TEST(Uuid, PrintsEverySpelling) {
  const Uuid id = *Uuid::parse(kVersion7);
  EXPECT_EQ(id.to_string(UuidSpelling::kCanonical), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  EXPECT_EQ(id.to_string(UuidSpelling::kUpper), "017F22E2-79B0-7CC3-98C4-DC0C0C07398F");
  EXPECT_EQ(id.to_string(UuidSpelling::kBraces), "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}");
  EXPECT_EQ(id.to_string(UuidSpelling::kUpperBraces), "{017F22E2-79B0-7CC3-98C4-DC0C0C07398F}");
  EXPECT_EQ(id.to_string(UuidSpelling::kUrn), "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  EXPECT_EQ(id.to_string(UuidSpelling::kNoDashes), "017f22e279b07cc398c4dc0c0c07398f");
}

RC_GTEST_PROP(Uuid, EverySpellingReadsAsTheSame, (const Uuid::Bytes& bytes)) {
  for (int i = 0; i <= static_cast<int>(UuidSpelling::kNoDashes); ++i) {
    const auto spelling = static_cast<UuidSpelling>(i);
    RC_ASSERT(*Uuid::parse(Uuid{bytes}.to_string(spelling)) == Uuid{bytes});
    RC_ASSERT(Uuid{bytes}.to_string(spelling).size() <= Uuid::kMaxChars);
  }
}

// The drivers' common vector, and its bytes as C# and Java saved them: subtype 3.
constexpr Uuid kBsonVector = *Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");

TEST(Uuid, MicrosoftsBytes) {
  EXPECT_EQ(kBsonVector.microsoft_bytes(),
            (Uuid::Bytes{0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66,  //
                         0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}));
  EXPECT_EQ(Uuid::from_microsoft_bytes(kBsonVector.microsoft_bytes()), kBsonVector);
}

TEST(Uuid, BsonIsBinarySubtype4) {
  EXPECT_EQ(kBsonVector.bson(),
            (Uuid::Bson{16,   0,    0,    0,    4,    0x00, 0x11, 0x22, 0x33, 0x44, 0x55,
                        0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}));
  EXPECT_EQ(Uuid::from_bson(kBsonVector.bson()), kBsonVector);
}

TEST(Uuid, OtherBsonIsRefusedAndWhyIsSaid) {
  const auto refusal = [](auto change) {
    const Uuid::Bson whole = kBsonVector.bson();
    std::vector<std::uint8_t> payload(whole.begin(), whole.end());
    change(payload);
    const Result<Uuid> id = Uuid::from_bson(payload);
    if (id) return std::string("none");
    EXPECT_EQ(id.error().code, Code::kInvalidArgument);
    return id.error().message();
  };
  EXPECT_THAT(refusal([](auto& p) { p[4] = 3; }), HasSubstr("depends on the driver"));
  EXPECT_THAT(refusal([](auto& p) { p[4] = 0; }), HasSubstr("subtype is 0"));
  EXPECT_THAT(refusal([](auto& p) { p[0] = 15; }), HasSubstr("not 16 bytes"));
  EXPECT_THAT(refusal([](auto& p) { p[3] = 1; }), HasSubstr("not 16 bytes"));
  EXPECT_THAT(refusal([](auto& p) { p.push_back(0); }), HasSubstr("got 22"));
  EXPECT_THAT(refusal([](auto& p) { p.pop_back(); }), HasSubstr("got 20"));
  EXPECT_THAT(refusal([](auto& p) { p.clear(); }), HasSubstr("got 0"));
}

RC_GTEST_PROP(Uuid, MicrosoftsBytesAndBsonAreInverse, (const Uuid::Bytes& bytes)) {
  const Uuid id{bytes};
  RC_ASSERT(Uuid::from_microsoft_bytes(id.microsoft_bytes()) == id);
  RC_ASSERT(Uuid{id.microsoft_bytes()}.microsoft_bytes() == bytes);
  RC_ASSERT(*Uuid::from_bson(id.bson()) == id);
}

TEST(UuidOfName, VectorsOfTheRfc) {
  EXPECT_EQ(uuid3(kUuidNamespaceDns, "www.example.com")->to_string(),
            "5df41881-3aed-3515-88a7-2f4a814cf09e");
  EXPECT_EQ(uuid5(kUuidNamespaceDns, "www.example.com")->to_string(),
            "2ed6657d-e927-568b-95e1-2665a8aea6a2");
}

TEST(UuidOfName, NamespacesOfTheRfc) {
  EXPECT_EQ(uuid_namespace("dns")->to_string(), "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
  EXPECT_EQ(uuid_namespace("url")->to_string(), "6ba7b811-9dad-11d1-80b4-00c04fd430c8");
  EXPECT_EQ(uuid_namespace("oid")->to_string(), "6ba7b812-9dad-11d1-80b4-00c04fd430c8");
  EXPECT_EQ(uuid_namespace("x500")->to_string(), "6ba7b814-9dad-11d1-80b4-00c04fd430c8");
  EXPECT_EQ(uuid_namespace(kVersion7), *Uuid::parse(kVersion7));
  for (const std::string_view none : {"", "DNS", "dns ", "017f22e2"}) {
    EXPECT_EQ(uuid_namespace(none).error().code, Code::kInvalidArgument) << none;
  }
}

RC_GTEST_PROP(UuidOfName, DependsOnEveryByteAndOnTheNamespace,
              (const std::string& name, const Uuid::Bytes& other)) {
  for (const auto make : {uuid3, uuid5}) {
    const Uuid id = *make(kUuidNamespaceUrl, name);
    RC_ASSERT(id.version() == (make == uuid3 ? 3 : 5) && id.has_rfc_variant());
    RC_ASSERT(*make(kUuidNamespaceUrl, name) == id);
    RC_ASSERT(*make(Uuid{other}, name) != id);
    RC_ASSERT(*make(kUuidNamespaceUrl, name + '\0') != id);
  }
}

// RFC 9562, appendix B: version and variant lie in what the caller gives, and are set over it.
static_assert(uuid8(Uuid::parse("2489e9ad-2ee2-0e00-0ec9-32d5f69181c0")->bytes()) ==
              *Uuid::parse("2489e9ad-2ee2-8e00-8ec9-32d5f69181c0"));
static_assert(uuid8(Uuid::parse("5c146b14-3c52-4afd-938a-375d0df1fbf6")->bytes()) ==
              *Uuid::parse("5c146b14-3c52-8afd-938a-375d0df1fbf6"));

RC_GTEST_PROP(Uuid8, KeepsAllBitsButVersionAndVariant, (const Uuid::Bytes& bits)) {
  const Uuid id = uuid8(bits);
  RC_ASSERT(id.version() == 8 && id.has_rfc_variant());
  for (std::size_t i = 0; i < 16; ++i) {
    const int free = i == 6 ? 0x0f : i == 8 ? 0x3f : 0xff;
    RC_ASSERT((id.bytes()[i] & free) == (bits[i] & free));
  }
}

TEST(Uuid4, IsItsRandomBitsWithVersionAndVariant) {
  fakes::ScriptedEntropy entropy({0x91, 0x91, 0x08, 0xf7, 0x52, 0xd1, 0x33, 0x20,  //
                                  0x5b, 0xac, 0xf8, 0x47, 0xdb, 0x41, 0x48, 0xa8});
  Uuid4Generator generator(entropy);
  EXPECT_EQ(generator.next().to_string(), kVersion4);
}

TEST(Uuid4, InBulkAllAreVersion4AndDiffer) {
  Uuid4Generator generator;
  std::vector<Uuid> ids(10'001);
  generator.next(ids);
  std::unordered_set<Uuid> distinct;
  for (const Uuid& id : ids) {
    EXPECT_EQ(id.version(), 4);
    EXPECT_TRUE(id.has_rfc_variant());
    distinct.insert(id);
  }
  EXPECT_EQ(distinct.size(), ids.size());
}

TEST(Uuid7, VectorOfTheRfcDecodes) {
  const std::optional<Uuid7Parts> parts = decode_uuid7(*Uuid::parse(kVersion7));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->time, Instant{milliseconds{kVersion7Milliseconds}});
  EXPECT_EQ(parts->rand_a, 0xCC3);
  EXPECT_EQ(parts->rand_b, 0x18C4DC0C0C07398FU);
  EXPECT_FALSE(decode_uuid7(*Uuid::parse(kVersion4)));
  EXPECT_FALSE(decode_uuid7(Uuid::max()));
  EXPECT_FALSE(decode_uuid7(*Uuid::parse("ffffffff-ffff-7cc3-98c4-dc0c0c07398f"))) << "year 10889";
}

TEST(Uuid7, IsMadeOfTimeCounterAndRandomTail) {
  // The clock and the draws that give the vector of the RFC: counter 0xCC3 << 11 | 0x18C4... >> 51.
  constexpr std::uint64_t rand_b = 0x18C4DC0C0C07398F;
  const std::uint32_t counter =
      (0xCC3U << 11 | static_cast<std::uint32_t>(rand_b >> 51)) & 0x3fffff;
  fakes::ManualClock clock(Instant{milliseconds{kVersion7Milliseconds}});
  fakes::ScriptedEntropy entropy;
  std::vector<std::uint8_t> draws;
  for (int i = 0; i < 8; ++i) {
    draws.push_back(static_cast<std::uint8_t>(std::uint64_t{counter} >> (8 * i)));
  }
  for (int i = 0; i < 8; ++i) draws.push_back(static_cast<std::uint8_t>(rand_b >> (8 * i)));
  entropy.push(draws);
  Uuid7Generator generator({}, clock, entropy);
  const Uuid id = *generator.next();
  const Uuid7Parts parts = *decode_uuid7(id);
  EXPECT_EQ(parts.time, Instant{milliseconds{kVersion7Milliseconds}});
  EXPECT_EQ(parts.rand_a, 0xCC3 & 0x7ff) << "the guard bit of a fresh counter is 0";
  EXPECT_EQ(parts.rand_b, rand_b);
  const Uuid7Parts next = *decode_uuid7(*generator.next());
  EXPECT_EQ((std::uint32_t{next.rand_a} << 11 | static_cast<std::uint32_t>(next.rand_b >> 51)),
            counter + 1);
}

TEST(Uuid7, IncreasesAcrossMillisecondsStepsBackAndBulk) {
  fakes::ManualClock clock(Instant{milliseconds{kVersion7Milliseconds}});
  Uuid7Generator generator({}, clock);
  Uuid previous = *generator.next();
  std::vector<Uuid> bulk(700);
  for (const int step : {0, 1, 0, -5000, 0, 5001, -19'999, 0}) {
    clock.advance(milliseconds{step});
    const Uuid one = *generator.next();
    EXPECT_LT(previous, one);
    ASSERT_TRUE(generator.next(bulk));
    EXPECT_LT(one, bulk.front());
    EXPECT_EQ(std::adjacent_find(bulk.begin(), bulk.end(), std::greater_equal<>{}), bulk.end());
    previous = bulk.back();
  }
}

TEST(Uuid7, PastMaxDriftItStartsAfreshOrRefusesWhenStrict) {
  fakes::ManualClock clock(Instant{milliseconds{kVersion7Milliseconds}});
  Uuid7Generator practical({}, clock);
  Uuid7Generator strict({.strict = true}, clock);
  const Uuid first = *practical.next();
  ASSERT_TRUE(strict.next());
  clock.advance(-std::chrono::hours{1});
  const Uuid second = *practical.next();
  EXPECT_LT(second, first);
  EXPECT_EQ(decode_uuid7(second)->time, clock.now());
  const Result<Uuid> refused = strict.next();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
}

TEST(Uuid7, BeforeTheEpochIsAnError) {
  fakes::ManualClock clock(Instant{milliseconds{-1}});
  Uuid7Generator generator({}, clock);
  EXPECT_EQ(generator.next().error().code, Code::kOutOfRange);
  EXPECT_EQ(uuid7_bounds(clock.now()).error().code, Code::kInvalidArgument);
}

TEST(Uuid7, BoundsHoldEveryIdOfTheirMillisecond) {
  const Instant at{milliseconds{kVersion7Milliseconds}};
  const Bounds<Uuid> bounds = *uuid7_bounds(at + std::chrono::nanoseconds{999'999});
  EXPECT_EQ(bounds.smallest.to_string(), "017f22e2-79b0-7000-8000-000000000000");
  EXPECT_EQ(bounds.largest.to_string(), "017f22e2-79b0-7fff-bfff-ffffffffffff");
  const Uuid id = *Uuid::parse(kVersion7);
  EXPECT_LE(bounds.smallest, id);
  EXPECT_LE(id, bounds.largest);
  EXPECT_LT(bounds.largest, uuid7_bounds(at + milliseconds{1})->smallest);
}

TEST(Uuid7, ThreadsOfOneGeneratorNeverRepeatAndEachSeesThemIncrease) {
  Uuid7Generator generator;
  std::vector<std::vector<Uuid>> ids(4, std::vector<Uuid>(50'000));
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) {
      threads.emplace_back([&generator, &mine] {
        for (std::size_t i = 0; i < mine.size() / 2; ++i) mine[i] = *generator.next();
        const Result<void> filled = generator.next(std::span(mine).subspan(mine.size() / 2));
        EXPECT_TRUE(filled);
      });
    }
  }
  std::vector<Uuid> all;
  for (const auto& mine : ids) {
    EXPECT_EQ(std::adjacent_find(mine.begin(), mine.end(), std::greater_equal<>{}), mine.end());
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(Uuid7, AChildOfForkStartsAfresh) {
  fakes::ManualClock clock(Instant{milliseconds{kVersion7Milliseconds}});
  Uuid7Generator generator({}, clock);
  ASSERT_TRUE(generator.next());
  const auto thousand = [&] {
    std::vector<Uuid> ids(1000);
    EXPECT_TRUE(generator.next(ids));
    return ids;
  };
  const std::vector<Uuid> childs = fakes::in_child(thousand);
  ASSERT_EQ(childs.size(), 1000U);
  std::vector<Uuid> mine = thousand();
  std::sort(mine.begin(), mine.end());
  for (const Uuid& id : childs) EXPECT_FALSE(std::binary_search(mine.begin(), mine.end(), id));
}

}  // namespace
}  // namespace idmint
