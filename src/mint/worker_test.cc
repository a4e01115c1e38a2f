#include "mint/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::ScriptedEntropy;
using testing::HasSubstr;
using From = Worker::From;

detail::HostFacts pod() {
  return {.addresses = {{0x00, 0x1b, 0x21, 0x3c, 0x4d, 0x5d}, {0x00, 0x1b, 0x21, 0x3c, 0x4d, 0x5e}},
          .java_addresses = {{0x00, 0x1b, 0x21, 0x3c, 0x4d, 0x5e}},
          .ip_addresses = {{"eth0", {10, 0, 3, 7}, 24}},
          .host_name = "web-3"};
}

Result<ChosenWorker> choose(const Worker& worker, int bits = 10) {
  ScriptedEntropy entropy({0x34, 0x12, 0, 0, 0, 0, 0, 0});
  return choose_worker(worker, {.worker_bits = bits}, entropy, pod);
}

TEST(ChooseWorker, TakesTheIdFromWhereItIsSaidToCome) {
  ASSERT_EQ(::setenv("IDMINT_TEST_POD", "42", 1), 0);
  EXPECT_EQ(choose({.id = 5})->id, 5U);
  EXPECT_EQ(choose({.from = From::kEnvironment, .name = "IDMINT_TEST_POD"})->id, 42U);
  EXPECT_EQ(choose({.from = From::kOrdinal})->id, 3U);
  EXPECT_EQ(choose({.from = From::kAddress})->id, 3U * 256 + 7);
  EXPECT_EQ(choose({.from = From::kAddress, .name = "eth0"}, 8)->id, 7U);
  EXPECT_EQ(choose({.from = From::kHardware})->id, detail::java_hash_code("001B213C4D5E") & 1023);
  EXPECT_EQ(choose({.from = From::kRandom})->id, 0x234U);
}

TEST(ChooseWorker, RefusesWhatDoesNotFitTheLayoutAndCutsNothing) {
  ASSERT_EQ(::setenv("IDMINT_TEST_POD", "4", 1), 0);
  EXPECT_EQ(choose({.id = 4}, 2).error().code, Code::kInvalidArgument);
  EXPECT_EQ(choose({.from = From::kEnvironment, .name = "IDMINT_TEST_POD"}, 2).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(choose({.from = From::kOrdinal}, 1).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(choose({.from = From::kAddress}, 7).error().code, Code::kFailedPrecondition);
}

TEST(ChooseWorker, SaysWhatIsPromisedOnWhichConditionOrWithWhichOdds) {
  ASSERT_EQ(::setenv("IDMINT_TEST_POD", "42", 1), 0);
  struct Row {
    Worker worker;
    Guarantee guarantee;
    const char* notes;
  };
  const Row rows[] = {
      {{.id = 5}, Guarantee::kUniqueIfConfigured, "no other generator is given"},
      {{.from = From::kEnvironment, .name = "IDMINT_TEST_POD"},
       Guarantee::kUniqueIfConfigured,
       "no other generator's variable"},
      {{.from = From::kOrdinal}, Guarantee::kUniqueIfConfigured, "one StatefulSet"},
      {{.from = From::kAddress},
       Guarantee::kUniqueIfConfigured,
       "of the address 10.0.3.7/24: if all generators are on hosts in 10.0.0.0/22"},
      {{.from = From::kHardware}, Guarantee::kPractical, "it changes when such an interface comes"},
      {{.from = From::kHardware},
       Guarantee::kPractical,
       "share one with odds of 0.043 to 0.16, of 100 with 0.99 to 1; the more"},
      {{.from = From::kRandom}, Guarantee::kPractical, "share one with odds of 0.043"},
  };
  for (const Row& row : rows) {
    const auto chosen = choose(row.worker);
    ASSERT_TRUE(chosen) << chosen.error().message();
    EXPECT_EQ(chosen->guarantee, row.guarantee) << row.notes;
    EXPECT_THAT(chosen->notes, HasSubstr(row.notes));
  }
  EXPECT_EQ(std::size(rows), worker_origins().size() + 1);
}

TEST(WorkerOrigins, OfAnAddressNameTheSubnetThatSoManyBitsTellApart) {
  const WorkerOrigin& address = worker_origins()[static_cast<std::size_t>(From::kAddress)];
  EXPECT_THAT(address.terms(10), HasSubstr("prefix 22 or longer (IPv6: 118)"));
  EXPECT_THAT(address.terms(16), HasSubstr("prefix 16 or longer"));
}

}  // namespace
}  // namespace idmint
