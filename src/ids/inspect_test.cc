#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "idmint/encoding.h"
#include "idmint/id.h"
#include "ids/readings.h"

namespace idmint {
namespace {

using namespace std::chrono;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Instant kNow = sys_days{year{2026} / November / 21};

std::vector<std::string> formats_of(std::string_view text) {
  std::vector<std::string> formats;
  for (const Reading& reading : inspect(text, kNow)) formats.push_back(reading.format);
  return formats;
}

// "name=value name=value" of one reading; "none" when the text has no such reading.
std::string fields_of(std::string_view text, std::string_view format) {
  for (const Reading& reading : inspect(text, kNow)) {
    if (reading.format != format) continue;
    std::string fields;
    for (const auto& [name, value] : reading.fields) {
      fields += (fields.empty() ? "" : " ") + name + "=" + value;
    }
    return fields;
  }
  return "none";
}

TEST(Inspect, TheSequenceGeneratorVector) {
  EXPECT_EQ(formats_of("454947766275222906")[0], "snowflake");
  EXPECT_EQ(fields_of("454947766275222906", "snowflake"),
            "layout=sequence-generator time=2018-06-09T10:00:00.000Z worker=786 sequence=3450");
  EXPECT_EQ(fields_of("454947766275219456", "snowflake"),
            "layout=sequence-generator time=2018-06-09T10:00:00.000Z worker=786 sequence=0");
}

TEST(Inspect, NumbersByThePlausibilityOfTheirTime) {
  EXPECT_THAT(formats_of("1000"), ElementsAre("integer", "snowflake"));
  EXPECT_THAT(formats_of("0"), ElementsAre("integer", "snowflake"));
  EXPECT_THAT(formats_of("1528538400"), ElementsAre("integer", "unix-seconds", "snowflake"));
  EXPECT_THAT(formats_of("1528538400000"),
              ElementsAre("integer", "unix-milliseconds", "snowflake"));
  EXPECT_EQ(fields_of("1528538400000", "unix-milliseconds"), "time=2018-06-09T10:00:00.000Z");
  EXPECT_THAT(formats_of("18446744073709551615"), ElementsAre("integer"));
  EXPECT_THAT(formats_of("18446744073709551616"), ElementsAre("digits"));  // more than 64 bits
  // In 2080, a time that has not come: of the layouts only our own is read all the same.
  const std::vector<Reading> future = inspect("8656000000000000001", kNow);
  EXPECT_EQ(future.back().format, "snowflake");
  EXPECT_EQ(future.back().fields[0].value, "sequence-generator");
}

TEST(Inspect, TheVectorsOfRfc9562) {
  EXPECT_THAT(formats_of("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), ElementsAre("uuid7"));
  EXPECT_EQ(fields_of("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "uuid7"),
            "time=2022-02-22T19:22:22.000Z version=7: Unix time rand_a=cc3 variant=RFC 9562 "
            "rand_b=18c4dc0c0c07398f");
  EXPECT_EQ(fields_of("919108f7-52d1-4320-9bac-f847db4148a8", "uuid4"),
            "random_a=919108f752d1 version=4: random random_b=320 variant=RFC 9562 "
            "random_c=1bacf847db4148a8");
  const std::string clock_and_node = " variant=RFC 9562 clock_seq=13256 node=9f6bdeced846";
  EXPECT_EQ(fields_of("C232AB00-9414-11EC-B3C8-9F6BDECED846", "uuid1"),
            "time=2022-02-22T19:22:22.000Z version=1: time and node" + clock_and_node);
  EXPECT_EQ(fields_of("1EC9414C-232A-6B00-B3C8-9F6BDECED846", "uuid6"),
            "time=2022-02-22T19:22:22.000Z version=6: time and node, in order" + clock_and_node);
  EXPECT_EQ(fields_of("5df41881-3aed-3515-88a7-2f4a814cf09e", "uuid3"),
            "version=3: MD5 of a name variant=RFC 9562");
  EXPECT_EQ(fields_of("2ed6657d-e927-568b-95e1-2665a8aea6a2", "uuid5"),
            "version=5: SHA-1 of a name variant=RFC 9562");
  EXPECT_EQ(fields_of("2489E9AD-2EE2-8E00-8EC9-32D5F69181C0", "uuid8"),
            "custom_a=2489e9ad2ee2 version=8: custom custom_b=e00 variant=RFC 9562 "
            "custom_c=0ec932d5f69181c0");
  EXPECT_THAT(formats_of("00000000-0000-0000-0000-000000000000"), ElementsAre("uuid-nil"));
  EXPECT_THAT(formats_of("ffffffff-ffff-ffff-ffff-ffffffffffff"), ElementsAre("uuid-max"));
}

TEST(Inspect, UuidsOutsideTheRfc) {
  EXPECT_EQ(fields_of("017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", "uuid"),
            "version=7 variant=Microsoft");
  EXPECT_EQ(fields_of("017f22e2-79b0-7cc3-18c4-dc0c0c07398f", "uuid"), "version=7 variant=NCS");
  EXPECT_EQ(fields_of("017f22e2-79b0-fcc3-98c4-dc0c0c07398f", "uuid"),
            "version=15 variant=RFC 9562");
}

TEST(Inspect, TimesThatAnInstantCannotHold) {
  for (const std::string_view text :
       {"ffffffff-ffff-7000-8000-000000000000", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "ffffffff-ffff-6fff-8000-000000000000"}) {
    const std::vector<Reading> readings = inspect(text, kNow);
    ASSERT_FALSE(readings.empty()) << text;
    EXPECT_FALSE(readings[0].time) << text;
    EXPECT_EQ(readings[0].fields[0].value, "outside the years 1677 to 2262") << text;
  }
  EXPECT_EQ(fields_of("00000000-0000-1000-8000-000000000000", "uuid1").substr(0, 35),
            "time=outside the years 1677 to 2262");
}

TEST(Inspect, Ulid) {
  EXPECT_THAT(formats_of("01ARZ3NDEKTSV4RRFFQ69G5FAV"), ElementsAre("ulid"));
  // In lower case the suffix of a TypeID looks like that, whose UUID is seldom no version 7.
  EXPECT_THAT(formats_of("01arz3ndektsv4rrffq69g5fav"), ElementsAre("ulid", "typeid"));
  EXPECT_EQ(fields_of("01ARZ3NDEKTSV4RRFFQ69G5FAV", "ulid"),
            "time=2016-07-30T23:54:10.259Z random=d6764c61efb99302bd5b "
            "uuid=01563e3a-b5d3-d676-4c61-efb99302bd5b");
  EXPECT_EQ(inspect("01arz3ndektsv4rrffq69g5fav", kNow)[0].canonical, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
}

TEST(Inspect, ObjectIdInBothLayoutsTheLikelierByItsYear) {
  EXPECT_THAT(formats_of("6553f100a1b2c3d4e5000001"),
              ElementsAre("object-id", "object-id-classic"));  // 2023
  EXPECT_THAT(formats_of("507f1f77bcf86cd799439011"),
              ElementsAre("object-id-classic", "object-id"));  // 2012
  EXPECT_EQ(fields_of("507f1f77bcf86cd799439011", "object-id"),
            "time=2012-10-17T21:13:27.000Z random=bcf86cd799 counter=4427793");
  EXPECT_EQ(fields_of("507f1f77bcf86cd799439011", "object-id-classic"),
            "time=2012-10-17T21:13:27.000Z machine=bcf86c pid=55193 counter=4427793");
  EXPECT_EQ(inspect("ObjectId(\"507f1f77bcf86cd799439011\")", kNow)[0].canonical,
            "507f1f77bcf86cd799439011");
}

TEST(Inspect, WhatIsNoId) {
  for (const std::string_view text : {"",
                                      " ",
                                      "-1",
                                      "1.5",
                                      "orders",
                                      "0x10",
                                      "1000 ",
                                      "g53f100a1b2c3d4e5000001",
                                      "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
                                      "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
                                      "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f)",
                                      "ObjectId(507f1f77bcf86cd799439011)",
                                      "aWgEPTl1tmebfsQzFP4bxwgy80!",
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                      "User_01h455vb4pex5vsknk084sn02q",
                                      "user_81h455vb4pex5vsknk084sn02q",
                                      "9m4e2mr0ui3e8a215n4h",
                                      "zzzzzzzzzzzzzzzzzzzzzz",
                                      "zzzzzzzzzzz",
                                      "\xff\xfe"}) {
    EXPECT_THAT(formats_of(text), IsEmpty()) << text;
  }
  EXPECT_THAT(formats_of(std::string(1'000'000, '7')), IsEmpty());
}

TEST(Inspect, PlausibilityIsMeasuredAgainstNow) {
  const Instant minted{milliseconds{1528538400000}};
  const auto likelihood = [](Instant now) {
    for (const Reading& reading : inspect("454947766275222906", now)) {
      if (reading.format == "snowflake" && reading.fields[0].value == "sequence-generator") {
        return reading.likelihood;
      }
    }
    return 0.0;
  };
  EXPECT_GT(likelihood(minted), 0.5);
  EXPECT_GT(likelihood(minted - 24h), 0.5);
  EXPECT_LT(likelihood(minted - 24h - 1ms), 0.2);
  EXPECT_GT(likelihood(Instant::max()), 0.5);
}

// ---- every format, by examples from the world

struct Example {
  std::string_view text;
  std::string_view first;   // the likeliest reading
  std::string_view fields;  // a part of its fields
};

class FirstReading : public ::testing::TestWithParam<Example> {};

TEST_P(FirstReading, IsTheRightOne) {
  const std::vector<Reading> readings = inspect(GetParam().text, kNow);
  ASSERT_FALSE(readings.empty());
  EXPECT_EQ(readings[0].format, GetParam().first);
  EXPECT_THAT(fields_of(GetParam().text, GetParam().first), HasSubstr(GetParam().fields));
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, FirstReading,
    ::testing::Values(
        // RFC 9562, and DCE 1.1
        Example{"C232AB00-9414-11EC-B3C8-9F6BDECED846", "uuid1", "time=2022-02-22T19:22:22.000Z"},
        Example{"000003e8-cb80-21ed-8300-9f6bdeced846", "uuid2",
                "local_id=1000 time=2023-03-26T02:43:33.460Z version=2: DCE security "
                "variant=RFC 9562 clock_seq=3 domain=0: person node=9f6bdeced846"},
        Example{"000003e8-cb80-21ed-837f-9f6bdeced846", "uuid2", "domain=127 node"},
        Example{"fffffffe-cb80-21ed-8300-9f6bdeced846", "uuid2",
                "local_id=4294967294 time=2023-03-26T02:43:33.460Z"},
        Example{"5df41881-3aed-3515-88a7-2f4a814cf09e", "uuid3", "MD5"},
        Example{"919108f7-52d1-4320-9bac-f847db4148a8", "uuid4", "random_a=919108f752d1"},
        Example{"2ed6657d-e927-568b-95e1-2665a8aea6a2", "uuid5", "SHA-1"},
        Example{"1EC9414C-232A-6B00-B3C8-9F6BDECED846", "uuid6", "time=2022-02-22T19:22:22.000Z"},
        Example{"017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "uuid7", "time=2022-02-22T19:22:22.000Z"},
        Example{"{017F22E2-79B0-7CC3-98C4-DC0C0C07398F}", "uuid7", "rand_a=cc3"},
        Example{"urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "uuid7", "rand_a=cc3"},
        Example{"017f22e279b07cc398c4dc0c0c07398f", "uuid7", "rand_a=cc3"},
        Example{"5c146b14-3c52-8afd-938a-375d0df1fbf6", "uuid8", "custom_a=5c146b143c52"},
        // ULID, KSUID, xid, TypeID
        Example{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "ulid", "time=2016-07-30T23:54:10.259Z"},
        Example{"0ujtsYcgvSTl8PAuAdqWYSMnLOv", "ksuid",
                "time=2017-10-10T04:00:47.000Z payload=b5a1cd34b5f99d1154fb6853345c9735"},
        Example{"0ujzPyRiIAffKhBux4PvQdDqMHY", "ksuid", "time=2017-10-10T04:46:20.000Z"},
        Example{"9m4e2mr0ui3e8a215n4g", "xid",
                "time=2011-03-22T17:50:19.000Z machine=60f486 pid=58408 counter=4271561"},
        Example{"prefix_01h455vb4pex5vsknk084sn02q", "typeid",
                "prefix=prefix time=2023-06-30T03:34:18.518Z "
                "uuid=01890a5d-ac96-774b-bcce-b302099a8057"},
        Example{"01h455vb4pex5vsknk084sn02q", "typeid",
                "uuid=01890a5d-ac96-774b-bcce-b302099a8057"},
        Example{"prefix_0123456789abcdefghjkmnpqrs", "typeid",
                "prefix=prefix uuid=0110c853-1d09-52d8-d73e-1194e95b5f19"},
        Example{"a_b_c_01h455vb4pex5vsknk084sn02q", "typeid", "prefix=a_b_c time"},
        // ObjectIds of today and from before 2018
        Example{"6553f100a1b2c3d4e5000001", "object-id", "random=a1b2c3d4e5"},
        Example{"507f1f77bcf86cd799439011", "object-id-classic", "machine=bcf86c pid=55193"},
        // Snowflakes
        Example{"454947766275222906", "snowflake",
                "layout=sequence-generator time=2018-06-09T10:00:00.000Z worker=786 sequence=3450"},
        // of a time that only Twitter's epoch makes past
        Example{"1987654321098765432", "snowflake", "layout=twitter time=2025-11-09T"},
        // with the times of several layouts: it is the one whose worker and sequence are small
        Example{"1754490704442171392", "snowflake",
                "layout=baidu time=2018-01-01T00:00:00.000Z worker=1 sequence=0"},
        Example{"1754490706899767200", "snowflake", "layout=twitter time=2024-02-05T"},
        // Numbers that somebody counted, times, digits
        Example{"1000", "integer", ""}, Example{"123456789012", "integer", ""},
        Example{"1528538400", "integer", ""}, Example{"0001000", "digits", "digits=7"},
        Example{"007", "digits", "digits=3"},
        Example{"123456789012345678901234567890123456", "digits", "digits=36"},
        // 128 and 64 bits in other alphabets
        Example{"1BzmjTFLHWXwiSK4y3H5iW", "uuid7", "encoding=base58 time=2023-06-30T"},
        Example{"02tcRIyrxLXTR81B3dqdOx", "uuid7", "encoding=base62 time=2023-06-30T"},
        Example{"039srkj01e44uynszf2f2njh3", "uuid7", "encoding=base36 time=2023-06-30T"}));

TEST(Inspect, EveryLayoutHasItsReading) {
  for (const SnowflakePreset& preset : snowflake_presets()) {
    const SnowflakeParts parts{.time = preset.layout.epoch + days{200}, .worker = 3, .sequence = 1};
    const std::string text = preset.layout.encode(parts).value().to_string();
    bool found = false;
    for (const Reading& reading : inspect(text, kNow)) {
      found |= reading.format == "snowflake" && reading.fields[0].value == preset.name &&
               reading.time == parts.time;
    }
    EXPECT_TRUE(found) << preset.name << " " << text;
  }
}

// For UndefinedBehaviorSanitizer above all: the time lies 317 years after the epoch.
TEST(Inspect, ALayoutWhoseEpochIsLongPast) {
  const SnowflakeLayout layout = parse_snowflake_layout("62t1w1s epoch 1700-01-01").value();
  const Snowflake id{40'000'000'000'000};
  detail::Reader reader(kNow);
  reader.read_only_in("mine", layout);
  const auto readings = reader.read(id.to_string());
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].time, layout.decode(id).value().time);
  EXPECT_EQ(format_time(readings[0].time.value()), "2016-11-20T17:46:40.000Z");
}

TEST(Inspect, ALayoutIsKnownByItsSmallNumbers) {
  // Discord's ids are those of sequence-generator with other names, and of sonyflake-v1 those of a
  // small machine number are as regular there.
  for (const std::string_view name :
       {"sequence-generator", "twitter", "instagram", "sonyflake", "baidu", "js-safe"}) {
    const SnowflakeLayout layout = snowflake_layout(name).value();
    const Instant last = layout.epoch + layout.max_tick() * layout.unit;  // baidu's: 2024
    const Instant made = std::min(last, kNow) - days{30} - 21h - 7min - 13s - 370ms;
    const std::string text =
        layout.encode({.time = made, .worker = 3, .sequence = 0}).value().to_string();
    const Reading first = inspect(text, kNow)[0];
    EXPECT_EQ(first.format, "snowflake") << name << " " << text;
    EXPECT_EQ(first.fields[0].value, name) << text;
  }
}

// Layouts whose times and bits below the time are the same ones cannot be told apart.
bool reads_alike(const SnowflakeLayout& a, const SnowflakeLayout& b) {
  return a.epoch == b.epoch && a.unit == b.unit &&
         a.worker_bits + a.sequence_bits == b.worker_bits + b.sequence_bits;
}

// The ids of the last 10 s, of any worker.
TEST(Inspect, AFreshIdOfAPresetIsReadAsThatPresetFirst) {
  // The same numbers each time (SplitMix64).
  auto random = [state = std::uint64_t{11}]() mutable {
    std::uint64_t z = state += 0x9e37'79b9'7f4a'7c15;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11eb;
    return z ^ z >> 31;
  };
  for (const SnowflakePreset& preset : snowflake_presets()) {
    const SnowflakeLayout& layout = preset.layout;
    const Instant ends = layout.epoch + (layout.max_tick() + 1) * layout.unit;
    for (const sys_days now : {sys_days{2022y / April / 4}, sys_days{2023y / November / 21},
                               sys_days{2026y / November / 21}, sys_days{2031y / January / 7}}) {
      if (now < layout.epoch + days{30} || now > ends) continue;
      detail::Reader reader(now);
      for (int i = 0; i < 500; ++i) {
        const SnowflakeParts parts{
            .time = now - nanoseconds{random() % 10'000'000'000},
            .worker = static_cast<std::uint32_t>(random()) & layout.max_worker(),
            // A sequence begins at 0 in each unit.
            .sequence =
                static_cast<std::uint32_t>(i % 2 == 0 ? 0 : random() & layout.max_sequence())};
        const std::string id = layout.encode(parts)->to_string();
        const detail::FoundReading& first = reader.read(id).front();
        ASSERT_EQ(first.format, "snowflake") << id << " of " << preset.name;
        const auto* name = std::get_if<std::string_view>(&reader.fields(first).front().value);
        ASSERT_TRUE(reads_alike(*snowflake_layout(*name), layout))
            << id << " of " << preset.name << " at " << format_time(now) << " is read as " << *name;
      }
    }
  }
}

TEST(Inspect, OfTwoReadingsTheOneNearerToNowIsFirst) {
  // The id is from the article's generator, a week ago; in Twitter's layout it is from 2022, and
  // both parts of its worker id are small.
  const SnowflakeLayout article = *snowflake_layout("sequence-generator");
  const std::string id =
      article.encode({.time = kNow - days{7}, .worker = 33, .sequence = 0})->to_string();
  EXPECT_THAT(fields_of(id, "snowflake"), HasSubstr("layout=sequence-generator"));
}

TEST(Inspect, WorkersThatAreTwoNumbers) {
  const auto fields = [](std::string_view text, std::string_view layout) {
    std::string all;
    for (const Reading& reading : inspect(text, kNow)) {
      if (reading.format != "snowflake" || reading.fields[0].value != layout) continue;
      for (const Field& field : reading.fields) all += field.name + "=" + field.value + " ";
    }
    return all;
  };
  EXPECT_EQ(fields("90339695967350784", "discord"),
            "layout=discord time=2015-09-07T06:57:41.949Z worker=0 process=3 sequence=0 ");
  EXPECT_EQ(fields("937847820382261308", "discord"),
            "layout=discord time=2022-01-31T23:12:24.749Z worker=1 process=5 sequence=60 ");
  EXPECT_THAT(fields("1212092628029698048", "twitter"), HasSubstr("datacenter="));
}

TEST(Inspect, CheckDigitsThatANumberSatisfies) {
  EXPECT_EQ(fields_of("79927398713", "digits"), "digits=11 check=luhn");
  EXPECT_THAT(fields_of("5724", "digits"), HasSubstr("damm"));
  EXPECT_THAT(fields_of("79444", "digits"), HasSubstr("mod97-10"));
  EXPECT_THAT(fields_of("794623", "digits"), HasSubstr("mod11-10"));
  EXPECT_THAT(fields_of("2363", "digits"), HasSubstr("verhoeff"));
  EXPECT_EQ(fields_of("79927398710", "digits"), "none");  // says nothing that integer does not
  // One number in ten has a right check digit: the integer stays likelier.
  EXPECT_EQ(formats_of("79927398713")[0], "integer");
}

TEST(Inspect, UnixTimesInEveryUnit) {
  EXPECT_EQ(fields_of("1528538400123", "unix-milliseconds"), "time=2018-06-09T10:00:00.123Z");
  EXPECT_EQ(fields_of("1528538400123456", "unix-microseconds"), "time=2018-06-09T10:00:00.123Z");
  EXPECT_EQ(fields_of("1528538400123456789", "unix-nanoseconds"), "time=2018-06-09T10:00:00.123Z");
}

// A UUID in some encoding is read, and never rated likelier than one that is spelled as an id.
RC_GTEST_PROP(Inspect, EncodedUuidsAreAmongTheReadings, (std::uint64_t high, std::uint64_t low)) {
  Uuid::Bytes bytes;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::uint8_t>(high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::uint8_t>(low >> (56 - 8 * i));
  }
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 15) | 0x40);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 63) | 0x80);
  for (const Encoding encoding :
       {Encoding::kHex, Encoding::kBase32, Encoding::kBase32Lower, Encoding::kBase32Hex,
        Encoding::kBase36, Encoding::kBase58, Encoding::kBase62}) {
    char room[kMaxEncodedChars];
    const std::string_view text(room, encode(encoding, bytes, room));
    if (text.find_first_not_of("0123456789") == std::string_view::npos) continue;  // a number
    const std::vector<Reading> readings = inspect(text, kNow);
    RC_ASSERT(std::ranges::any_of(readings, [&](const Reading& reading) {
      return reading.format == "uuid4" && reading.canonical == Uuid{bytes}.to_string();
    }));
  }
}

RC_GTEST_PROP(Inspect, EncodedNumbersAreAmongTheReadings, (std::uint64_t value)) {
  std::array<std::uint8_t, 8> bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (56 - 8 * i));
  for (const Encoding encoding :
       {Encoding::kHex, Encoding::kBase32, Encoding::kBase32Lower, Encoding::kBase32Hex,
        Encoding::kBase36, Encoding::kBase58, Encoding::kBase62}) {
    char room[kMaxEncodedChars];
    const std::string_view text(room, encode(encoding, bytes, room));
    if (text.find_first_not_of("0123456789") == std::string_view::npos) continue;  // a number
    const std::vector<Reading> readings = inspect(text, kNow);
    RC_ASSERT(std::ranges::any_of(readings, [&](const Reading& reading) {
      return reading.format == "integer" && reading.canonical == std::to_string(value) &&
             reading.fields[0].value == name(encoding);
    }));
  }
}

// Texts of the characters and lengths that ids have, which random ones seldom are.
std::string id_like() {
  const auto alphabet = *rc::gen::element<std::string>(
      "0123456789", "0123456789abcdef", "0123456789abcdef-", "0123456789abcdefghijklmnopqrstuv",
      "0123456789ABCDEFGHJKMNPQRSTVWXYZ", "0123456789abcdefghjkmnpqrstvwxyz_",
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
  const auto size = *rc::gen::inRange<std::size_t>(1, 48);
  return *rc::gen::container<std::string>(size, rc::gen::elementOf(alphabet));
}

RC_GTEST_PROP(Inspect, ReadingsAreInOrderAndReadThemselves, ()) {
  const std::string text =
      *rc::gen::oneOf(rc::gen::arbitrary<std::string>(), rc::gen::exec(id_like));
  double last = 1;
  for (const Reading& reading : inspect(text, kNow)) {
    RC_ASSERT(reading.likelihood > 0);
    RC_ASSERT(reading.likelihood <= last);
    last = reading.likelihood;
    RC_ASSERT(fields_of(reading.canonical, reading.format) != "none");
  }
}

RC_GTEST_PROP(Inspect, EverySnowflakeHasItsFields, (std::uint64_t bits)) {
  const Snowflake id{bits >> 1};
  const SnowflakeParts parts = snowflake_layout("sequence-generator")->decode(id).value();
  const std::vector<Reading> readings = inspect(id.to_string(), kNow);
  RC_ASSERT(std::ranges::any_of(readings, [&](const Reading& reading) {
    return reading.format == "snowflake" && reading.fields[0].value == "sequence-generator" &&
           reading.time == parts.time && reading.fields[2].value == std::to_string(parts.worker) &&
           reading.fields[3].value == std::to_string(parts.sequence);
  }));
}

}  // namespace
}  // namespace idmint
