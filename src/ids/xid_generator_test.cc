// The two formats that are made of a SecondCounter, which has tests of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>
#include <vector>

#include "idmint/object_id.h"
#include "idmint/xid.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using std::chrono::seconds;

// The example of rs/xid: 4d88e15b 60f486 e428 412dc9.
constexpr Instant kTime{seconds{1300816219}};
constexpr ProcessIdentity kIdentity{.machine = 0x60f486, .process = 0xe428};
constexpr std::array<std::uint8_t, 12> kBytes = {0x4d, 0x88, 0xe1, 0x5b, 0x60, 0xf4,
                                                 0x86, 0xe4, 0x28, 0x41, 0x2d, 0xc9};
const std::vector<std::uint8_t> kCounter = {0xc9, 0x2d, 0x41, 0, 0, 0, 0, 0};  // low byte first

static_assert(Xid{kBytes}.seconds() == 1300816219);
static_assert(Xid{kBytes}.machine() == 0x60f486);
static_assert(Xid{kBytes}.process() == 0xe428);
static_assert(Xid{kBytes}.counter() == 4271561);

template <class G, class I>
struct Format {
  using Generator = G;
  using Id = I;
};

template <class F>
class MachineFormats : public testing::Test {
 protected:
  using Generator = typename F::Generator;
  using Id = typename F::Id;
};

using Formats =
    testing::Types<Format<XidGenerator, Xid>, Format<ClassicObjectIdGenerator, ObjectId>>;
TYPED_TEST_SUITE(MachineFormats, Formats);

TYPED_TEST(MachineFormats, MakeThePublishedIdAndTheOnesAfterIt) {
  fakes::ManualClock clock(kTime);
  fakes::ScriptedEntropy entropy(kCounter);
  typename TestFixture::Generator generator(kIdentity, clock, entropy);
  EXPECT_EQ(generator.next()->bytes(), kBytes);
  auto expected = kBytes;
  std::array<typename TestFixture::Id, 5000> ids;
  ASSERT_TRUE(generator.next(ids));
  for (const auto& id : ids) {
    if (++expected[11] == 0) ++expected[10];
    EXPECT_EQ(id.bytes(), expected);
  }
}

TYPED_TEST(MachineFormats, OutsideTheirTimesThereIsNone) {
  fakes::ManualClock clock(Instant{seconds{0x100000000}});
  typename TestFixture::Generator generator(kIdentity, clock);
  EXPECT_EQ(generator.next().error().code, Code::kOutOfRange);
  std::array<typename TestFixture::Id, 2> ids;
  EXPECT_EQ(generator.next(ids).error().code, Code::kOutOfRange);
  clock.set(kTime);
  EXPECT_TRUE(generator.next());
}

TYPED_TEST(MachineFormats, PastTheCountersOfASecondTheyWaitForTheNext) {
  fakes::ManualClock clock(kTime);
  typename TestFixture::Generator generator(kIdentity, clock);
  constexpr std::size_t kAll = 1U << 24;
  std::vector<typename TestFixture::Id> ids(kAll + 2);
  ASSERT_TRUE(generator.next(ids));
  EXPECT_EQ(clock.now(), kTime + seconds{1});
  std::vector<bool> seen(kAll);
  for (std::size_t i = 0; i < kAll; ++i) {
    const auto& b = ids[i].bytes();
    ASSERT_EQ(ids[i].seconds(), 1300816219U);
    seen[std::size_t{b[9]} << 16 | std::size_t{b[10]} << 8 | b[11]] = true;
  }
  EXPECT_EQ(std::ranges::count(seen, true), kAll) << "each counter once";
  EXPECT_EQ(ids[kAll].seconds(), 1300816220U);
}

TYPED_TEST(MachineFormats, AreRefusedInAChildOfFork) {
  typename TestFixture::Generator generator;
  ASSERT_TRUE(generator.next());
  fakes::in_child([&] {
    std::array<typename TestFixture::Id, 2> ids;
    EXPECT_EQ(fakes::code_of(generator.next()), Code::kFailedPrecondition);
    EXPECT_EQ(fakes::code_of(generator.next(ids)), Code::kFailedPrecondition);
  });
  EXPECT_TRUE(generator.next());
}

// The counter of an id.
std::uint32_t counter_of(const auto& id) {
  const auto& b = id.bytes();
  return std::uint32_t{b[9]} << 16 | std::uint32_t{b[10]} << 8 | b[11];
}

TYPED_TEST(MachineFormats, OfOneProcessShareItsCounter) {
  typename TestFixture::Generator one;
  typename TestFixture::Generator other;
  const std::uint32_t first = counter_of(*one.next());
  EXPECT_EQ(counter_of(*other.next()), (first + 1) & 0xff'ffff);
  EXPECT_EQ(counter_of(*one.next()), (first + 2) & 0xff'ffff);
  EXPECT_EQ(counter_of(*typename TestFixture::Generator().next()), (first + 3) & 0xff'ffff)
      << "one that is made when others have minted goes on";
}

TYPED_TEST(MachineFormats, OverAClockOfItsOwnHasItsOwnCounter) {
  fakes::ManualClock clock(kTime);
  fakes::ScriptedEntropy entropy(kCounter);
  typename TestFixture::Generator generator(kIdentity, clock, entropy);
  EXPECT_EQ(counter_of(*generator.next()), 0x412dc9U);
}

TYPED_TEST(MachineFormats, AChildOfForkMakesItsOwn) {
  typename TestFixture::Generator inherited;
  const auto before = inherited.next();
  ASSERT_TRUE(before);
  fakes::in_child([&] {
    typename TestFixture::Generator own;
    typename TestFixture::Generator shares;
    const auto first = own.next();
    const auto second = shares.next();
    ASSERT_TRUE(first && second);
    EXPECT_EQ(counter_of(*second), (counter_of(*first) + 1) & 0xff'ffff);
    EXPECT_EQ(fakes::code_of(inherited.next()), Code::kFailedPrecondition);
  });
  EXPECT_EQ(counter_of(*inherited.next()), (counter_of(*before) + 1) & 0xff'ffff);
}

TYPED_TEST(MachineFormats, OfOneGeneratorAreDistinctInAllItsThreads) {
  typename TestFixture::Generator generator;
  std::vector<std::vector<typename TestFixture::Id>> ids(
      3, std::vector<typename TestFixture::Id>(100'000));
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) {
      threads.emplace_back([&generator, &mine] {
        for (std::size_t i = 0; i < mine.size() / 2; ++i) mine[i] = *generator.next();
        EXPECT_TRUE(generator.next(std::span(mine).subspan(mine.size() / 2)));
      });
    }
  }
  std::vector<typename TestFixture::Id> all;
  for (const auto& mine : ids) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST(XidBounds, HoldEveryIdOfTheirSecond) {
  const auto bounds = xid_bounds(kTime + std::chrono::nanoseconds{999'999'999});
  ASSERT_TRUE(bounds);
  EXPECT_EQ(bounds->smallest, (Xid{{0x4d, 0x88, 0xe1, 0x5b}}));
  EXPECT_EQ(bounds->largest,
            (Xid{{0x4d, 0x88, 0xe1, 0x5b, 255, 255, 255, 255, 255, 255, 255, 255}}));
  EXPECT_EQ(xid_bounds(Instant{} - std::chrono::nanoseconds{1}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(xid_bounds(Instant{seconds{0x100000000}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(xid_bounds(Instant{seconds{0xffffffff}})->largest.bytes()[0], 255);
}

TEST(Identity, IsThatOfThisProcessUnlessGiven) {
  const ProcessIdentity xid = xid_identity();
  const Result<Xid> id = XidGenerator().next();
  ASSERT_TRUE(id);
  EXPECT_EQ(id->machine(), xid.machine);
  EXPECT_EQ(id->process(), xid.process);
  const ProcessIdentity classic = classic_object_id_identity();
  const auto object_id = ClassicObjectIdGenerator().next();
  ASSERT_TRUE(object_id);
  const ObjectId::Bytes& b = object_id->bytes();
  EXPECT_EQ(std::uint32_t{b[4]} << 16 | std::uint32_t{b[5]} << 8 | b[6], classic.machine);
  EXPECT_EQ(b[7] << 8 | b[8], classic.process);
}

}  // namespace
}  // namespace idmint
