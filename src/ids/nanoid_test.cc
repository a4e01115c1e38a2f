#include "idmint/nanoid.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ids/format.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;

// The example of its documentation.
constexpr std::string_view kExample = "V1StGXR8_Z5jdHi6B-myT";

TEST(Nanoid, ReadsTheExampleOfItsDocumentation) {
  const Result<Nanoid> id = Nanoid::parse(kExample);
  ASSERT_TRUE(id) << id.error().message();
  EXPECT_EQ(id->to_string(), kExample);
}

TEST(Nanoid, EachCharacterIsItsPlaceInTheAlphabet) {
  EXPECT_EQ(Nanoid{}.to_string(), "uuuuuuuuuuuuuuuuuuuuu");
  Nanoid::Bytes bytes{};
  bytes.back() = 1;
  EXPECT_EQ(Nanoid::from_bytes(bytes)->to_string(), "uuuuuuuuuuuuuuuuuuuus");
  bytes.back() = 63;
  EXPECT_EQ(Nanoid::from_bytes(bytes)->to_string(), "uuuuuuuuuuuuuuuuuuuut");
  bytes.fill(0xff);
  EXPECT_EQ(Nanoid::from_random(bytes).to_string(), "ttttttttttttttttttttt");
  const Result<Nanoid> refused = Nanoid::from_bytes(bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(std::set(Nanoid::kAlphabet.begin(), Nanoid::kAlphabet.end()).size(), 64U);
}

TEST(Nanoid, RefusesWhatIsNotOne) {
  for (const std::string_view text :
       {"", "V1StGXR8_Z5jdHi6B-my", "V1StGXR8_Z5jdHi6B-myTT", "V1StGXR8_Z5jdHi6B-my ",
        "V1StGXR8_Z5jdHi6B+myT", "V1StGXR8/Z5jdHi6B-myT", "V1StGXR8_Z5jdHi6B-my\xff"}) {
    const Result<Nanoid> refused = Nanoid::parse(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(refused.error().message().starts_with("not a NanoID: "))
        << refused.error().message();
  }
}

RC_GTEST_PROP(Nanoid, PrintingAndReadingAreInverse, (const Nanoid::Bytes& bytes)) {
  const Nanoid id = Nanoid::from_random(bytes);
  RC_ASSERT(*Nanoid::parse(id.to_string()) == id);
  RC_ASSERT(*Nanoid::from_bytes(id.bytes()) == id);
}

// As the original does it: each character takes the low six bits of a random byte; here they take
// six bits of 128 one after the other, so that none is drawn twice.
TEST(Nanoid, ItsBitsAreThoseOfTheEntropy) {
  std::vector<std::uint8_t> script(16);
  for (std::size_t i = 0; i < script.size(); ++i) script[i] = static_cast<std::uint8_t>(0xc0 + i);
  fakes::ScriptedEntropy entropy(script);
  Nanoid::Bytes expected;
  std::ranges::copy(script, expected.begin());
  expected[0] = 0;
  EXPECT_EQ(NanoidGenerator(entropy).next().bytes(), expected);
}

TEST(Nanoid, OneByOneAndInBulkNoneRepeatsAndEachCharacterComes) {
  NanoidGenerator generator;
  std::vector<Nanoid> ids(20'000);
  generator.next(ids);
  for (int i = 0; i < 20'000; ++i) ids.push_back(generator.next());
  std::set<char> characters;
  for (const Nanoid& id : ids) {
    const std::string text = id.to_string();
    characters.insert(text.begin(), text.end());
  }
  EXPECT_EQ(characters.size(), 64U);
  std::ranges::sort(ids);
  EXPECT_TRUE(std::ranges::adjacent_find(ids) == ids.end());
}

TEST(Nanoid, HasItsRowInTheListOfFormats) {
  const Format* const format = find_format("nanoid");
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(find_kind("nanoid"), format);
  EXPECT_EQ(format->bounds, nullptr);
  const Id id{Nanoid::parse(kExample).value()};
  EXPECT_EQ(format_of(id), "nanoid");
  EXPECT_EQ(format->from_bytes(bytes_of(id).span()), id);
}

TEST(Nanoid, IsRecognisedByItsFormAlone) {
  const Instant now{1'800'000'000s};
  const auto likelihood = [&](std::string_view text) {
    for (const Reading& reading : inspect(text, now)) {
      if (reading.format == "nanoid") return reading.likelihood;
    }
    return 0.0;
  };
  const std::vector<Reading> readings = inspect(kExample, now);
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].format, "nanoid");
  EXPECT_EQ(readings[0].time, std::nullopt);
  EXPECT_EQ(likelihood(kExample), 0.5);
  EXPECT_LT(likelihood("internationalisations"), 0.5);
  EXPECT_LT(likelihood("123456789012345678901"), likelihood("internationalisations"));
  EXPECT_EQ(inspect("123456789012345678901", now)[0].format, "digits");
  EXPECT_EQ(likelihood("V1StGXR8_Z5jdHi6B-my"), 0.0);
}

}  // namespace
}  // namespace idmint
