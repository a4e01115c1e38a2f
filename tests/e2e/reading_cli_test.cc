// The commands that read ids: inspect, bounds, convert, check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/cli.h"

namespace {

using namespace idmint::e2e;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr auto kVector = "01890a5d-ac96-774b-bcce-b302099a8057";  // a version 7 UUID

// ---- inspect

TEST_F(Cli, InspectTellsEveryReading) {
  EXPECT_THAT(output("idmint inspect 454947766275222906"),
              AllOf(StartsWith("454947766275222906\n"
                               "  snowflake (sequence-generator)\n"
                               "    time      2018-06-09T10:00:00.000Z\n"
                               "    worker    786\n"
                               "    sequence  3450\n"),
                    HasSubstr("  snowflake (twitter)\n"
                              "    time        2014-04-12T11:42:54.657Z\n"
                              "    datacenter  24\n"
                              "    worker      18\n"
                              "    sequence    3450\n")));
  EXPECT_EQ(output("idmint inspect '{919108F7-52D1-4320-9BAC-F847DB4148A8}'"),
            "{919108F7-52D1-4320-9BAC-F847DB4148A8}\n"
            "  uuid4  919108f7-52d1-4320-9bac-f847db4148a8\n"
            "    random_a  919108f752d1\n"
            "    version   4: random\n"
            "    random_b  320\n"
            "    variant   RFC 9562\n"
            "    random_c  1bacf847db4148a8\n");
  EXPECT_EQ(output("printf ' 12 \\r\\n\\n12' | idmint inspect -"), output("idmint inspect 12 12"));
  const Ended some = run("idmint inspect 12 nonsense 13");
  EXPECT_EQ(some.status, 3);
  EXPECT_THAT(some.out, HasSubstr("13\n"));
  EXPECT_THAT(some.err, HasSubstr("\"nonsense\" is no id"));
  EXPECT_EQ(run("idmint inspect - <.").status, 2);
  const Ended bad = run("printf 'x\\n12\\n\\ny\\n' | idmint inspect -");
  EXPECT_EQ(bad.status, 3);
  ASSERT_EQ(lines_of(bad.err).size(), 2u);
  EXPECT_THAT(lines_of(bad.err)[0], HasSubstr("line 1: \"x\""));
  EXPECT_THAT(lines_of(bad.err)[1], HasSubstr("line 4: \"y\""));
  // A line is answered while the input pauses.
  EXPECT_THAT(output("mkfifo in out; idmint inspect - <in >out & exec 4>in 5<out; echo 12 >&4; "
                     "read -r line <&5; echo $line; exec 4>&-; wait"),
              StartsWith("12\n"));
}

TEST_F(Cli, InspectReadsEveryLineOfLongInput) {
  // Lines of many lengths, so that they end anywhere in a block of input and of output.
  output(
      "idmint next uuid7 -n 20000 > ids; seq 1 7 200000 >> ids; idmint next ulid -n 20000 >> ids");
  EXPECT_EQ(output("idmint inspect - < ids | grep -v '^  ' | cmp - ids"), "");
  EXPECT_EQ(output("idmint inspect - --json < ids | python3 -c '"
                   "import json, sys\n"
                   "for line in sys.stdin: print(json.loads(line)[\"text\"])' | cmp - ids"),
            "");
}

TEST_F(Cli, InputThatIsNoTextEndsWithAnError) {
  for (const std::string words :
       {"inspect", "inspect --json", "check", "check --as integer", "convert --to hex",
        "convert --from uuid --to hex", "name dns -"}) {
    for (const std::string input :
         {"</dev/zero", "< <(yes | tr -d '\n')", "< <(printf '1\n' | iconv -f UTF-8 -t UTF-16)"}) {
      const Ended ended = run("idmint " + words + " " + input);
      const bool is_long = input != "</dev/zero";
      EXPECT_EQ(ended.status, 2) << words << input;
      EXPECT_EQ(ended.out, "") << words << input;
      EXPECT_THAT(ended.err, HasSubstr(input.contains("iconv") ? "standard input: it is UTF-16"
                                       : is_long ? "standard input, line 1: it is longer than "
                                                 : "standard input, line 1: it has a NUL"))
          << words << input;
    }
  }
  // The lines before it are read.
  const Ended later = run("printf '1\n2\n\\0003\n' | idmint check");
  EXPECT_EQ(later.status, 2);
  EXPECT_EQ(later.out, "1: valid (integer)\n2: valid (integer)\n");
  EXPECT_THAT(later.err, HasSubstr("line 3: it has a NUL"));
  EXPECT_EQ(run("idmint apply - </dev/zero").status, 2);
}

TEST_F(Cli, AByteOrderMarkBeforeInputIsSkipped) {
  const std::string mark = "printf '\\xEF\\xBB\\xBF";
  EXPECT_EQ(output(mark + "17\r\n18\r\n' | idmint check"),
            "17: valid (integer)\n18: valid (integer)\n");
  EXPECT_EQ(output(mark + "' | idmint check"), "");
  EXPECT_EQ(output("(printf '\\xEF'; printf '\\xBB\\xBF17') | idmint convert --to decimal"),
            "17\n");
  EXPECT_EQ(output(mark + "www.example.com' | idmint name dns -"),
            output("idmint name dns www.example.com"));
  output(mark + "[sequence.a]\n' >a.toml; idmint apply a.toml >/dev/null");
  EXPECT_EQ(
      run("printf '[sequence.a]\n' | iconv -f UTF-8 -t UTF-16 >b.toml; idmint apply b.toml").err,
      "idmint: b.toml: it is UTF-16: convert it with iconv -f UTF-16 -t UTF-8\n");
  // The URL of a store in a variable or a file.
  output("idmint create orders --store sqlite:ids.db");
  EXPECT_EQ(
      output(mark + "sqlite:ids.db\r\n' >url; chmod 600 url; idmint next orders --store file:url"),
      "1\n");
}

TEST_F(Cli, InspectAsJsonIsOneObjectALine) {
  const std::string parse = " | python3 -c 'import json, sys; print(json.load(sys.stdin)";
  EXPECT_EQ(output("idmint inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f --json"),
            R"({"text":"017f22e2-79b0-7cc3-98c4-dc0c0c07398f","readings":[{"format":"uuid7",)"
            R"("canonical":"017f22e2-79b0-7cc3-98c4-dc0c0c07398f",)"
            R"("time":"2022-02-22T19:22:22.000Z","likelihood":0.95,"fields":{)"
            R"("time":"2022-02-22T19:22:22.000Z","version":7,"rand_a":"cc3",)"
            R"("variant":"RFC 9562","rand_b":"18c4dc0c0c07398f"}}]})"
            "\n");
  EXPECT_EQ(output("idmint inspect 'ObjectId(\"507f1f77bcf86cd799439011\")' --json" + parse +
                   "[\"text\"])'"),
            "ObjectId(\"507f1f77bcf86cd799439011\")\n");
  EXPECT_EQ(output("idmint inspect 000003e8-cb80-21ed-8300-9f6bdeced846 --json" + parse +
                   "[\"readings\"][0][\"fields\"][\"local_id\"])'"),
            "1000\n");
  const Ended none = run("idmint inspect $'a\\xff\"\\x01' --json");
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.out, EndsWith("\"readings\":[]}\n"));
  EXPECT_EQ(run("printf '%s' '" + none.out + "'" + parse + "[\"readings\"])'").out, "[]\n");
}

TEST_F(Cli, InspectInALayoutGivesOneReadingWithItsFields) {
  EXPECT_EQ(output("idmint inspect --layout twitter 1593572310593806338"),
            "1593572310593806338\n  snowflake (twitter)\n"
            "    time        2022-11-18T11:50:20.644Z\n    datacenter  11\n    worker      26\n"
            "    sequence    2\n");
  for (const auto& [layout, fields] :
       {std::pair("discord", "worker process sequence"), std::pair("instagram", "worker sequence"),
        std::pair("sonyflake", "sequence worker"),
        std::pair("twitter", "datacenter worker sequence"), std::pair("baidu", "worker sequence"),
        std::pair("js-safe", "worker sequence")}) {
    const std::string script =
        "import json, sys; r, = json.load(sys.stdin)[\"readings\"]; f = list(r[\"fields\"]); "
        "print(r[\"fields\"][\"layout\"], *f[2:])";
    EXPECT_EQ(output("idmint inspect --json --layout " + std::string(layout) +
                     " 1593572310593806 | python3 -c '" + script + "'"),
              layout + std::string(" ") + fields + "\n");
  }
  const Ended none = run("idmint inspect --layout js-safe 18446744073709551615");
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("is no id of this layout"));
}

// A number of 64 bits is an integer to all that read one, and one of more bits to none.
TEST_F(Cli, TheReadingCommandsAgreeOnLargeNumbers) {
  for (const auto& [number, base32, hex] :
       {std::tuple("9223372036854775806", "7ZZZZZZZZZZZY", "7ffffffffffffffe"),
        std::tuple("9223372036854775807", "7ZZZZZZZZZZZZ", "7fffffffffffffff"),
        std::tuple("9223372036854775808", "8000000000000", "8000000000000000"),
        std::tuple("18446744073709551615", "FZZZZZZZZZZZZ", "ffffffffffffffff")}) {
    const std::string decimal(number);
    EXPECT_THAT(output("idmint inspect " + decimal), HasSubstr("\n  integer\n"));
    EXPECT_THAT(output("idmint check " + decimal), HasSubstr(": valid ("));
    EXPECT_EQ(output("idmint check --as integer " + decimal), decimal + ": valid (integer)\n");
    for (const auto& [encoding, text] : {std::pair("base32", base32), std::pair("hex", hex)}) {
      EXPECT_EQ(
          output(std::string("idmint check --as integer --encoding ") + encoding + " " + text),
          std::string(text) + ": valid (integer)\n");
      EXPECT_EQ(output(std::string("idmint convert --from integer:") + encoding + " --to integer " +
                       text),
                decimal + "\n");
      EXPECT_EQ(
          output(std::string("idmint convert --from integer --to ") + encoding + " " + decimal),
          std::string(text) + "\n");
    }
    for (const std::string encoding : {"base32-lower", "base32hex", "base36", "base58", "base62"}) {
      const std::string text = output("idmint convert --to " + encoding + " " + decimal);
      EXPECT_EQ(output("idmint convert --from integer:" + encoding + " --to integer " + text),
                decimal + "\n");
      EXPECT_THAT(output("idmint check --as integer --encoding " + encoding + " " + text),
                  HasSubstr(": valid (integer)\n"));
    }
  }
  for (const std::string none : {"18446744073709551616", "100000000000000000000", "-5", "1,000"}) {
    EXPECT_THAT(run("idmint inspect -- " + none).out, Not(HasSubstr("integer")));
    EXPECT_THAT(run("idmint check --as integer -- " + none).out,
                HasSubstr(": not valid: expected a decimal number without leading zeros, at most "
                          "18446744073709551615"));
    EXPECT_EQ(run("idmint convert --from integer --to hex -- " + none).status, 2) << none;
  }
}

TEST_F(Cli, InspectInALayoutOfYourOwn) {
  // The example of Baidu's uid-generator, in the layout that its page has.
  EXPECT_THAT(output("idmint inspect 180363646902239241 --layout "
                     "'29t21w13s epoch 2016-09-20 unit 1s'"),
              StartsWith("180363646902239241\n"
                         "  snowflake (29t21w13s epoch 2016-09-20 unit 1s)\n"
                         "    time      2017-01-19T12:15:46.000Z\n"
                         "    worker    4\n"
                         "    sequence  9\n"));
  EXPECT_EQ(run("idmint inspect 12 --layout 1x").status, 2);
}

// ---- bounds

TEST_F(Cli, BoundsOfAnInstantAndOfASpan) {
  EXPECT_EQ(output("idmint bounds uuid7 --at 2022-02-22T19:22:22Z"),
            "017f22e2-79b0-7000-8000-000000000000\n017f22e2-79b0-7fff-bfff-ffffffffffff\n");
  EXPECT_EQ(output("idmint bounds ulid --at @1469922850259ms"),
            "01ARZ3NDEK0000000000000000\n01ARZ3NDEKZZZZZZZZZZZZZZZZ\n");
  EXPECT_EQ(output("idmint bounds xid --at @1300816219"),
            "9m4e2mo0000000000000\n9m4e2mvvvvvvvvvvvvvg\n");
  EXPECT_EQ(output("idmint bounds snowflake --at 2018-06-09T10:00:00Z"),
            "454947766272000000\n454947766276194303\n");
  // The end is not part of it: both ids are of January.
  EXPECT_EQ(output("idmint bounds object-id --at 2026-01-01 --until 2026-02-01"),
            "6955b9000000000000000000\n697e977fffffffffffffffff\n");
  EXPECT_EQ(output("idmint bounds object-id --at 2026-01-01 --until 2026-02-01 --json"),
            R"({"format":"object-id","smallest":"6955b9000000000000000000",)"
            R"("largest":"697e977fffffffffffffffff"})"
            "\n");
  EXPECT_EQ(output("idmint bounds snowflake --layout '40t1w1s' --at 1970-01-01T00:00:00.002Z"),
            "8\n11\n");
}

TEST_F(Cli, BoundsThatThereAreNot) {
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const Ended ended = run("idmint bounds " + arguments);
    EXPECT_EQ(ended.status, 2) << arguments;
    EXPECT_EQ(ended.out, "") << arguments;
    EXPECT_THAT(ended.err, HasSubstr(why)) << arguments;
  };
  refused("uuid4 --at 2026-01-01", "there is no time in it");
  refused("uuid1 --at 2026-01-01", "do not lie together");
  refused("orders --at 2026-01-01", "give one of uuid");
  refused("uuid7 --at yesterday", "--at is \"yesterday\"");
  refused("uuid7 --at 1969-12-31", "before 1970");
  refused("uuid7 --at 2026-01-01 --until 2026-01-01", "is empty");
  refused("uuid7 --at 2026-01-01 --layout discord", "snowflake only");
  refused("snowflake --at 2014-12-31", "before the epoch of the Snowflake layout, 2015-01-01T");
  refused("snowflake --at 2100-01-01",
          "past the last one of the Snowflake layout, 2084-09-06T15:47:35.551Z");
  refused("snowflake --at 2026-01-01 --until 2100-01-01", "Snowflake layout, 2084-09-06T");
  EXPECT_NE(run("idmint bounds ksuid --at 2000-01-01").status, 0);
  EXPECT_EQ(output("idmint bounds object-id-classic --at 2026-01-01"),
            output("idmint bounds object-id --at 2026-01-01"));
}

TEST_F(Cli, ALayoutThatIsNoneIsWrongUsage) {
  for (const std::string command :
       {"next snowflake --worker 1", "inspect 5", "bounds snowflake --at 2026-01-01"}) {
    const Ended ended = run("idmint " + command + " --layout bogus");
    EXPECT_EQ(ended.status, 2) << command;
    EXPECT_THAT(ended.err, HasSubstr("--layout: no Snowflake layout is named \"bogus\""));
  }
}

TEST_F(Cli, CheckTakesAWidthForThatOfAnInteger) {
  EXPECT_EQ(output("idmint check 03D7 --encoding base62 --width 4"), "03D7: valid (integer)\n");
  EXPECT_EQ(run("idmint check 03D --encoding base62 --width 4").status, 3);
}

// ---- convert

TEST_F(Cli, ConvertIntoEveryEncodingAndBack) {
  for (const std::string encoding : {"decimal", "hex", "base32", "base32-lower", "base32hex",
                                     "base36", "base58", "base62", "canonical"}) {
    const std::string to = output("idmint convert " + std::string(kVector) + " --to " + encoding);
    const std::string text = to.substr(0, to.size() - 1);
    EXPECT_EQ(output("idmint convert " + text + " --from uuid:" + encoding + " --to uuid"),
              std::string(kVector) + "\n");
    if (encoding != "canonical") {
      EXPECT_EQ(output("idmint convert " + text + " --from " + encoding + " --to uuid"),
                std::string(kVector) + "\n");
    }
  }
  EXPECT_EQ(output(std::string("idmint convert ") + kVector + " --to base58"),
            "1BzmjTFLHWXwiSK4y3H5iW\n");
  EXPECT_EQ(output("idmint convert 454947766275222906 --to hex"), "06504c9540312d7a\n");
  EXPECT_EQ(output("idmint convert 06504c9540312d7a --from hex --to decimal"),
            "454947766275222906\n");
}

TEST_F(Cli, ConvertIntoEverySpelling) {
  const std::vector<std::pair<std::string, std::string>> spellings = {
      {"upper", "01890A5D-AC96-774B-BCCE-B302099A8057"},
      {"braces", "{01890a5d-ac96-774b-bcce-b302099a8057}"},
      {"urn", "urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057"},
      {"bare", "01890a5dac96774bbcceb302099a8057"},
      {"ulid", "01H455VB4PEX5VSKNK084SN02Q"},
      {"typeid --prefix user", "user_01h455vb4pex5vsknk084sn02q"},
      {"bson", R"({"$binary":{"base64":"AYkKXayWd0u8zrMCCZqAVw==","subType":"04"}})"}};
  for (const auto& [spelling, text] : spellings) {
    EXPECT_EQ(output(std::string("idmint convert ") + kVector + " --to " + spelling), text + "\n");
    // Each is read again without being told what it is.
    EXPECT_EQ(output("idmint convert '" + text + "' --to uuid"), std::string(kVector) + "\n");
  }
  // The vector of MongoDB's specification, as C# drivers keep it.
  EXPECT_EQ(output("idmint convert 00112233-4455-6677-8899-aabbccddeeff --to microsoft"),
            "33221100-5544-7766-8899-aabbccddeeff\n");
  EXPECT_EQ(
      output("idmint convert 33221100-5544-7766-8899-aabbccddeeff --from microsoft --to uuid"),
      "00112233-4455-6677-8899-aabbccddeeff\n");
  EXPECT_EQ(output("idmint convert 507f1f77bcf86cd799439011 --to bson"),
            R"({"$oid":"507f1f77bcf86cd799439011"})"
            "\n");
  EXPECT_EQ(output("idmint convert 507f1f77bcf86cd799439011 --to xid"), "a1vhuttsv1mdf6a3i08g\n");
  EXPECT_EQ(output("idmint convert 12 --to bson"), "{\"$numberLong\":\"12\"}\n");
}

TEST_F(Cli, ConvertSaysWhatIsAmbiguousOrImpossible) {
  const auto refused = [&](const std::string& arguments, const std::string& why, int status = 2) {
    const Ended ended = run("idmint convert " + arguments);
    EXPECT_EQ(ended.status, status) << arguments;
    EXPECT_EQ(ended.out, "") << arguments;
    EXPECT_THAT(ended.err, HasSubstr(why)) << arguments;
  };
  refused("Abcdefghijk --to decimal", "--from snowflake:base58 or --from snowflake:base62");
  refused("nonsense --to hex", "is no id of a known format", 3);
  refused("12 --to base99", "give one of uuid, ulid");
  refused("12 --to ulid", "not as many bits");
  refused("12 --to upper --prefix x", "takes no --prefix");
  refused("0ujtsYcgvSTl8PAuAdqWYSMnLOv --to bson", "BSON has no type for it");
  refused("12 --from uuid --to hex", "not a UUID");
  refused("12 --from uuid:base99 --to hex", "base58");
  refused("123 --from base58 --to hex", "say which with --from FORMAT:base58");
  refused(std::string(kVector) + " --to typeid --prefix User", "prefix");
  refused("'{\"$binary\":{\"base64\":\"AYkKXayWd0u8zrMCCZqAVx==\",\"subType\":\"04\"}}' --to uuid",
          "base64");
}

TEST_F(Cli, ConvertKeepsThePrefixOfATypeId) {
  const std::string convert = "idmint convert user_01h455vb4pex5vsknk084sn02q --to typeid";
  EXPECT_EQ(output(convert), "user_01h455vb4pex5vsknk084sn02q\n");
  EXPECT_EQ(output(convert + " --from typeid"), "user_01h455vb4pex5vsknk084sn02q\n");
  EXPECT_EQ(output(convert + " --prefix order"), "order_01h455vb4pex5vsknk084sn02q\n");
  EXPECT_EQ(output(convert + " --prefix ''"), "01h455vb4pex5vsknk084sn02q\n");
  EXPECT_EQ(output(std::string("idmint convert ") + kVector + " --to typeid"),
            "01h455vb4pex5vsknk084sn02q\n");
  EXPECT_EQ(output("idmint convert user_01h455vb4pex5vsknk084sn02q --to base58"),
            "1BzmjTFLHWXwiSK4y3H5iW\n")
      << "an encoding prints what is asked for only";
}

TEST_F(Cli, ConvertPrintsIntegersInAWidth) {
  EXPECT_EQ(output("idmint convert 12345 --to base62"), "000000003D7\n");
  EXPECT_EQ(output("idmint convert 12345 --to base62 --width 4"), "03D7\n");
  EXPECT_EQ(output("idmint convert 12345 --to base62 --width 4 --prefix x-"), "x-03D7\n");
  EXPECT_EQ(output("idmint convert 03D7 --from integer:base62 --to decimal"), "12345\n");
  EXPECT_EQ(output("idmint convert 454947766275222906 --from snowflake --to base62 --width 11"),
            "0XbfGYCuLKE\n");
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const Ended ended = run("idmint convert " + arguments);
    EXPECT_EQ(ended.status, 2) << arguments;
    EXPECT_EQ(ended.out, "") << arguments;
    EXPECT_THAT(ended.err, HasSubstr(why)) << arguments;
  };
  refused("12345 --to base62 --width 2", "give a larger --width");
  refused("12345 --to base62 --width 12", "take 1 to 11");
  refused("12345 --to decimal --width 9", "leave it out");
  refused("12345 --to integer --width 9", "leave it out");
  refused(std::string(kVector) + " --to base62 --width 9", "leave it out");
  refused("18446744073709551615 --to hex --width 16", "no integer of a sequence");
  refused("12345 --to base62 --width 0", "give a whole number");
  refused("12345 --to base62 --width 17", "take 1 to 11");
}

TEST_F(Cli, ConvertReadsStandardInput) {
  EXPECT_EQ(output("idmint next uuid7 -n 3000 > ids; idmint convert - --to base62 < ids | "
                   "idmint convert - --from uuid:base62 --to uuid | cmp - ids"),
            "");
  const Ended some = run("printf '12\\nx\\n13\\n' | idmint convert - --to hex");
  EXPECT_EQ(some.status, 3);
  EXPECT_EQ(some.out, "000000000000000c\n000000000000000d\n");
  EXPECT_THAT(some.err, HasSubstr("standard input, line 2: \"x\""));
  EXPECT_EQ(output("idmint convert 12 --to hex --json"),
            "{\"text\":\"12\",\"result\":\"000000000000000c\"}\n");
}

TEST_F(Cli, ConvertPrintsPrefixAndCheck) {
  const std::string made =
      output(std::string("idmint convert ") + kVector + " --to base32 --prefix u- --check mod37");
  EXPECT_THAT(made, StartsWith("u-01H455VB4PEX5VSKNK084SN02Q"));
  EXPECT_EQ(output("idmint check '" + made.substr(0, made.size() - 1) +
                   "' --as uuid --encoding base32 --prefix u- --check mod37"),
            made.substr(0, made.size() - 1) + ": valid (uuid)\n");
}

// ---- check

TEST_F(Cli, CheckTellsValidFromNotValid) {
  const auto valid = [&](const std::string& arguments) {
    const Ended ended = run("idmint check " + arguments);
    EXPECT_EQ(ended.status, 0) << arguments << "\n" << ended.out;
    EXPECT_THAT(ended.out, HasSubstr(": valid (")) << arguments;
  };
  const auto invalid = [&](const std::string& arguments, const std::string& why) {
    const Ended ended = run("idmint check " + arguments);
    EXPECT_EQ(ended.status, 3) << arguments;
    EXPECT_THAT(ended.out, ContainsRegex(": not valid: .*" + why)) << arguments;
    EXPECT_THAT(ended.err, IsEmpty()) << arguments;
  };
  valid("79927398713 --check luhn");
  invalid("79927398710 --check luhn", "luhn");
  valid("5724 --check damm");
  invalid("5727 --check damm", "damm");
  valid("2363 --check verhoeff");
  valid("794623 --check mod11-10");
  valid("79444 --check mod97-10");
  valid("000794623 --digits 9");
  invalid("00794623 --digits 9", "8 digits instead of 9");
  invalid("1679927398713 --check luhn --prefix 17", "prefix");
  valid("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  valid("017f22e2-79b0-7cc3-98c4-dc0c0c07398f --as uuid7");
  invalid("919108f7-52d1-4320-9bac-f847db4148a8 --as uuid7", "version 4 instead of 7");
  invalid("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "canonical spelling, which is 017f22e2");
  invalid("017F22E2-79B0-7CC3-98C4-DC0C0C07398F --as uuid", "printed as 017f22e2");
  invalid("nonsense", "no id of a known format");
  valid("user_01h455vb4pex5vsknk084sn02q --as typeid --prefix user");
  invalid("user_01h455vb4pex5vsknk084sn02q --as typeid --prefix order", "prefix is .user.");
  valid("1BzmjTFLHWXwiSK4y3H5iW --as uuid --encoding base58");
  invalid("1BzmjTFLHWXwiSK4y3H5i --as uuid --encoding base58", "uuid");
  EXPECT_EQ(run("idmint check 12 --check md5").status, 2);
  EXPECT_EQ(run("idmint check 12 --encoding base58").status, 2);
  for (const std::string option : {"--check luhn", "--encoding hex", "--digits 3"})
    EXPECT_EQ(run("idmint check user_01h455vb4pex5vsknk084sn02q --as typeid " + option).status, 2)
        << "a typeid has one form";
  EXPECT_EQ(run("idmint check 12 --as nonsense").status, 3);
}

TEST_F(Cli, CheckReadsDigitsAsPeopleTypeThem) {
  const auto verdicts = [&](const std::string& arguments) {
    return run("idmint check " + arguments).out;
  };
  EXPECT_EQ(verdicts("'4111 1111 1111 1111' 4111-1111-1111-1111 --check luhn"),
            "4111 1111 1111 1111: valid (digits)\n4111-1111-1111-1111: valid (digits)\n");
  EXPECT_EQ(verdicts("'4111 1111 1111 1111' --check luhn --prefix 4111 --digits 16"),
            "4111 1111 1111 1111: valid (digits)\n");
  EXPECT_EQ(verdicts("2024-79927398713 --check luhn --prefix 2024-"),
            "2024-79927398713: valid (digits)\n")
      << "a dash of the prefix is none between groups";
  EXPECT_THAT(verdicts("'4111 1111 1111 1112' --check luhn"), HasSubstr("it is mistyped"));
  EXPECT_THAT(verdicts("'4111  1111 1111 1111' --check luhn"), HasSubstr("character 5 is none"));
  EXPECT_THAT(verdicts("' 4111111111111111' --check luhn"), HasSubstr("character 1 is none"));
  EXPECT_THAT(verdicts("'4111111111111111 ' --check luhn"), HasSubstr("character 17 is none"));
  EXPECT_THAT(verdicts("'4111 1111 1111 1111' --check luhn --as digits"),
              HasSubstr("character 5 is none of its digits"));
}

TEST_F(Cli, CheckReadsTheWidthOfASequence) {
  output("idmint create codes --max 999999999 --encoding base62 --start 999999998");
  EXPECT_EQ(output("idmint next codes -n 2"), "15ftgE\n15ftgF\n");
  EXPECT_EQ(output("idmint check 15ftgE 15ftgF --as codes"),
            "15ftgE: valid (integer)\n15ftgF: valid (integer)\n");
  EXPECT_EQ(run("idmint check 000015ftgE --as codes").status, 3);
  EXPECT_EQ(run("idmint check 15ftgG --as codes").status, 3) << "past the last value";
  EXPECT_EQ(run("idmint check 15ftgE --as codes --width 6").status, 2);
  EXPECT_EQ(output("idmint check 03D7 --as integer --encoding base62 --width 4"),
            "03D7: valid (integer)\n");
  // The existing values stay as wide as they are.
  EXPECT_EQ(output("idmint alter codes --max 56800235583"), "");
  EXPECT_EQ(output("idmint next codes"), "15ftgG\n");
  const Ended wider = run("idmint alter codes --max 56800235584");
  EXPECT_EQ(wider.status, 2);
  EXPECT_THAT(wider.err, HasSubstr("width 6 in base62 has room for values up to 56800235583"));
  EXPECT_EQ(output("idmint create links --max 9 --encoding base62 --width 8; idmint next links; "
                   "idmint alter links --max 1000000; idmint next links"),
            "00000001\n00000002\n");
}

TEST_F(Cli, InspectHintsAtTheSequencesThatPrintSo) {
  const Ended ended = run("idmint inspect INV-000001");
  EXPECT_EQ(ended.status, 3);
  EXPECT_THAT(ended.err, HasSubstr("idmint check ID --as SEQUENCE"));
}

TEST_F(Cli, CheckKnowsTheFormAndTheRangeOfASequence) {
  output("idmint create cards --digits 16 --strategy permuted --check luhn --prefix 4");
  EXPECT_THAT(output("idmint next cards -n 100 | idmint check - --as cards"),
              Not(HasSubstr("not valid")));
  output("idmint create small --start 10 --max 20");
  const Ended outside = run("idmint check 9 10 20 21 --as small");
  EXPECT_EQ(outside.status, 3);
  EXPECT_THAT(outside.out,
              HasSubstr("9: not valid: its value is 9, and those of small are 10 to 20"));
  EXPECT_THAT(outside.out, HasSubstr("10: valid"));
  EXPECT_THAT(outside.out, HasSubstr("20: valid"));
  EXPECT_THAT(outside.out, HasSubstr("21: not valid"));
  EXPECT_EQ(run("idmint check 4000 --as cards").status, 3);
  EXPECT_EQ(run("idmint check 9 --as nothing").status, 3);
  EXPECT_THAT(run("idmint check 9 --as uuidx").err, HasSubstr("no sequence or pool \"uuidx\""));
  for (const std::string digits : {"0", "37", "x", "''"}) {
    EXPECT_THAT(run("idmint check 12 --digits " + digits).err, HasSubstr("1 to 36")) << digits;
  }
  EXPECT_EQ(run("idmint check 9 --as small --digits 3").status, 2);
}

TEST_F(Cli, CheckKnowsTheLayoutAndTheWorkerIdsOfAPool) {
  output("idmint create web --kind pool --layout twitter --workers 4 --prefix w-");
  const std::string id = "idmint next snowflake --layout twitter --prefix w- --worker ";
  const std::string check = " 2>/dev/null | idmint check - --as web";
  EXPECT_THAT(output(id + "3" + check), HasSubstr(": valid (snowflake)\n"));
  const Ended other = run(id + "4" + check);
  EXPECT_EQ(other.status, 3);
  EXPECT_THAT(other.out, HasSubstr("its worker id is 4, and those of web are 0 to 3"));
  EXPECT_EQ(run("idmint check 5 --as web").status, 3) << "the prefix";
  EXPECT_EQ(run("idmint check w-9223372036854775808 --as web").status, 3) << "a bit above";
}

TEST_F(Cli, NamesHaveUuids) {
  EXPECT_EQ(output("idmint name dns www.example.com"), "2ed6657d-e927-568b-95e1-2665a8aea6a2\n");
  EXPECT_EQ(output("idmint name dns www.example.com --version 3"),
            "5df41881-3aed-3515-88a7-2f4a814cf09e\n");
  EXPECT_EQ(output("printf 'a\nwww.example.com\n' | idmint name "
                   "6ba7b810-9dad-11d1-80b4-00c04fd430c8 - | tail -n 1"),
            "2ed6657d-e927-568b-95e1-2665a8aea6a2\n");
  EXPECT_THAT(output("idmint name dns www.example.com --json"),
              HasSubstr("\"result\":\"2ed6657d-e927-568b-95e1-2665a8aea6a2\""));
  // Blanks belong to a name, and an empty line is the empty name.
  EXPECT_EQ(output("printf ' a \\n\\n\\tb\\r\\nc' | idmint name dns -"),
            output("idmint name dns ' a ' '' $'\\tb\\r' c"));
  EXPECT_EQ(run("idmint name nowhere x").status, 2);
  EXPECT_EQ(run("idmint name dns x --version 4").status, 2);
  EXPECT_EQ(run("idmint name dns x --version 7").status, 2);
}

TEST_F(Cli, BoundsOfVersion6) {
  // The id of RFC 9562's example lies between the bounds of its 100 ns, and of no others.
  const std::string id = "1ec9414c-232a-6b00-b3c8-9f6bdeced846";
  const std::vector<std::string> ends =
      lines_of(output("idmint bounds uuid6 --at 2022-02-22T19:22:22Z"));
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_LE(ends[0], id);
  EXPECT_GE(ends[1], id);
  EXPECT_GT(lines_of(output("idmint bounds uuid6 --at 2022-02-22T19:22:22.0000001Z"))[0], id);
}

TEST_F(Cli, CheckReadsStandardInputAndPrintsJson) {
  const Ended mixed = run("printf '79927398713\\n79927398714\\n' | idmint check - --check luhn");
  EXPECT_EQ(mixed.status, 3);
  EXPECT_THAT(mixed.out, StartsWith("79927398713: valid (digits)\n79927398714: not valid: "));
  EXPECT_EQ(output("idmint check 12 --json"),
            "{\"text\":\"12\",\"valid\":true,\"format\":\"integer\",\"problem\":null}\n");
  for (const std::string format : {"uuid4", "uuid7", "ulid", "object-id"}) {
    EXPECT_EQ(output("idmint next " + format + " -n 200 | idmint check - | grep -c ': valid ('"),
              "200\n");
  }
}

}  // namespace
