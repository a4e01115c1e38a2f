#include "mint/definitions_toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"

namespace idmint {
namespace {

using fakes::code_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(std::string_view text) {
  const Result<std::vector<Definition>> read = definitions_from_toml(text);
  EXPECT_FALSE(read) << text;
  if (read) return "";
  EXPECT_EQ(read.error().code, Code::kInvalidArgument) << text;
  EXPECT_EQ(read.error().message().find('\n'), std::string::npos) << text;
  return read.error().message();
}

TEST(DefinitionsToml, InTheOrderOfTheFile) {
  const auto read = definitions_from_toml(R"(
[sequence.orders]
start = 1000

[sequence.accounts]
digits = 12
stripes = 1000

[sequence."a.b"]
strategy = "cached"
max = 10_000
step = 100
)");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ(as_sequence((*read)[0]), (SequenceDefinition{.name = "orders", .first = 1000}));
  EXPECT_EQ(as_sequence((*read)[1]), (SequenceDefinition{.name = "accounts",
                                                         .strategy = Strategy::kStriped,
                                                         .first = 0,
                                                         .last = 999'999'999'999,
                                                         .stripes = 1000,
                                                         .form = {.digits = 12}}));
  EXPECT_EQ(as_sequence((*read)[2]),
            (SequenceDefinition{
                .name = "a.b", .strategy = Strategy::kCached, .last = 10'000, .step = 100}));
  EXPECT_TRUE(definitions_from_toml("")->empty());
  EXPECT_TRUE(definitions_from_toml("\xef\xbb\xbf")->empty());
}

TEST(DefinitionsToml, ChecksAndPrefixesTakeDigits) {
  const auto read = definitions_from_toml(
      "[sequence.cards]\nstrategy = 'permuted'\ndigits = 16\nprefix = '4'\ncheck = 'luhn'\n");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(as_sequence(read->front()).last, 99'999'999'999'999);  // 14 are left of the 16
  EXPECT_EQ(as_sequence(read->front()).form.check, Check::kLuhn);
}

TEST(DefinitionsToml, DigitsThatAnIntegerCannotFillWantAnEnd) {
  EXPECT_EQ(as_sequence(definitions_from_toml("[sequence.a]\ndigits = 18\n")->front()).last,
            999'999'999'999'999'999);
  EXPECT_THAT(refusal("[sequence.a]\ndigits = 19\n"), HasSubstr("give digits 18 at most"));
  EXPECT_THAT(refusal("[sequence.a]\ndigits = 24\nprefix = '42'\ncheck = 'luhn'\n"),
              HasSubstr("give digits 21 at most"));
  const auto padded = definitions_from_toml("[sequence.a]\ndigits = 20\nmax = 5000\n");
  ASSERT_TRUE(padded) << padded.error().message();
  EXPECT_EQ(as_sequence(padded->front()).last, 5000);
  EXPECT_THAT(refusal("[sequence.a]\ndigits = 12\nencoding = 'base58'\n"),
              HasSubstr("digits counts decimal digits, and base58 has others: leave out the "
                        "encoding; or give width"));
  EXPECT_TRUE(definitions_from_toml("[sequence.a]\ndigits = 12\nencoding = 'decimal'\n"));
}

TEST(DefinitionsToml, AValidatorIsWishedForWithWhatIsAdopted) {
#ifdef IDMINT_MONGODB
  const std::string counters =
      "uniqueIdentifierCounter/COUNTER DOCUMENT NUMBER {k}:next=COUNT,max=MAX_VALUE";
  const auto read = definitions_from_toml("[sequence.a]\nadopt = 'counters'\nvalidator = true\n",
                                          "mongodb://h/shop");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(as_sequence(read->front()).adopted, counters + ",validator");
  const auto none = definitions_from_toml("[sequence.a]\nadopt = 'counters'\nvalidator = false\n",
                                          "mongodb://h/shop");
  EXPECT_EQ(as_sequence(none->front()).adopted, counters);
  const auto wrong =
      definitions_from_toml("\n[sequence.a]\nadopt = 'public.a_id_seq'\n", "mongodb://h/shop");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), StartsWith("line 2: cannot adopt \"public.a_id_seq\": write "
                                                  "COLLECTION/ID:next=FIELD"));
#endif
  EXPECT_THAT(refusal("[sequence.a]\nvalidator = true\n"), HasSubstr("adopted documents"));
  EXPECT_THAT(refusal("[sequence.a]\nadopt = 'counters'\nvalidator = 'yes'\n"),
              StartsWith("line 3: validator is neither true nor false"));
}

TEST(DefinitionsToml, APoolIsOfItsKind) {
  const auto read = definitions_from_toml(
      "[sequence.web]\nkind = 'pool'\n[sequence.jobs]\nkind = 'pool'\nlayout = '39t8s4w epoch "
      "2025-01-01 unit 10ms'\nworkers = 16\nencoding = 'base62'\n[sequence.orders]\nkind = "
      "'sequence'\n");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ(as_pool((*read)[0]), PoolDefinition{.name = "web"});
  EXPECT_EQ(as_pool((*read)[1]).workers, 16);
  EXPECT_EQ(to_string(as_pool((*read)[1]).layout), "39t8s4w epoch 2025-01-01T00:00:00Z unit 10ms");
  EXPECT_EQ(as_sequence((*read)[2]), SequenceDefinition{.name = "orders"});
  for (const char* unused : {"strategy = 'pool'", "start = 0", "max = 9", "stripes = 2", "step = 1",
                             "key = 'x'", "digits = 9", "width = 9", "no_leading_zeros = true",
                             "adopt = 'counter'", "validator = true"}) {
    const std::string key = std::string(unused).substr(0, std::string(unused).find(' '));
    EXPECT_THAT(refusal("[sequence.a]\nkind = 'pool'\n" + std::string(unused) + "\n"),
                StartsWith("line 1: a pool of worker ids takes no " + key));
  }
  EXPECT_THAT(refusal("[sequence.a]\nkind = 'pool'\nworkers = 0\n"), HasSubstr("1 to 65536"));
  EXPECT_THAT(refusal("[sequence.a]\nkind = 'pool'\nworkers = 1025\n"), HasSubstr("room for 1024"));
  EXPECT_THAT(refusal("[sequence.a]\nkind = 'pool'\nworkers = 65537\n"), HasSubstr("1 to 65536"));
  EXPECT_THAT(refusal("[sequence.a]\nkind = 'pool'\nlayout = 'x'\n"), HasSubstr("layout: "));
  EXPECT_THAT(refusal("[sequence.a]\nkind = 'pond'\n"), HasSubstr("give sequence or pool"));
  EXPECT_THAT(refusal("[sequence.a]\nstrategy = 'pool'\n"), HasSubstr("give kind pool"));
  EXPECT_THAT(refusal("[sequence.a]\nlayout = 'twitter'\n"), HasSubstr("kind pool"));
  EXPECT_THAT(refusal("[sequence.a]\nworkers = 5\n"), HasSubstr("kind pool"));
}

TEST(DefinitionsToml, ErrorsNameTheLine) {
  EXPECT_THAT(refusal("[sequence.a]\nstart = 5\ncolour = 7\n"),
              StartsWith("line 3: there is no key \"colour\": use one of start, max"));
  EXPECT_THAT(refusal("[sequence.a]\n\nstart = \"5\"\n"),
              StartsWith("line 3: start is not a whole"));
  EXPECT_THAT(refusal("[sequence.a]\nstrategy = 5\n"),
              StartsWith("line 2: strategy is not a text"));
  EXPECT_THAT(refusal("[sequence.a]\nstart = 1.5\n"), StartsWith("line 2: "));
  EXPECT_THAT(refusal("\n[sequence.a]\nstrategy = 'quick'\n"), StartsWith("line 2: no strategy"));
  EXPECT_THAT(refusal("\n\n[sequence.a]\nstart = 5\nmax = 4\n"), StartsWith("line 3: "));
  EXPECT_THAT(refusal("[sequence.a]\n[sequence.a]\n"), StartsWith("line 2: no TOML"));
  EXPECT_THAT(refusal("[sequence.a]\nstart = \n"), HasSubstr("no TOML"));
  EXPECT_THAT(refusal("[.b\"]\nstrategy = 'permuted'\n"), StartsWith("line 1: no TOML"));
  EXPECT_THAT(refusal("colour = 5\n"), StartsWith("line 1: there is no \"colour\" here"));
  EXPECT_THAT(refusal("[sequences.a]\n"), StartsWith("line 1: there is no \"sequences\" here"));
  EXPECT_THAT(refusal("[sequence]\na = 5\n"), StartsWith("line 2: \"a\" is no table"));
  EXPECT_THAT(refusal("[[sequence]]\nname = 'a'\n"), StartsWith("line 1: "));
  EXPECT_THAT(refusal("[sequence.\"a b\"]\n"), HasSubstr("not allowed"));
  EXPECT_THAT(refusal("[sequence.a]\nstep = 5\n"), HasSubstr("does not use a step"));
  EXPECT_THAT(refusal("[sequence.a]\ndigits = 0\n"), StartsWith("line 1: digits is 0"));
  EXPECT_THAT(refusal("[sequence.a]\ndigits = 5000000000\n"), StartsWith("line 1: digits is 5"));
  EXPECT_THAT(refusal("[sequence.a]\ncheck = 'sum'\n"), HasSubstr("luhn"));
  EXPECT_THAT(refusal(std::string(kLongestToml + 1, '\n')), HasSubstr("split it"));
  EXPECT_TRUE(definitions_from_toml(std::string(kLongestToml, '\n')));
}

// Each of them would be a table within a table: too many to be destroyed on a stack.
TEST(DefinitionsToml, WhatIsNestedWithoutEndIsRefused) {
  const auto repeated = [](std::string_view part, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += part;
    return all;
  };
  constexpr std::size_t kMany = 500'000;
  EXPECT_THAT(refusal("\n" + repeated("a.", kMany) + "a = 1\n"),
              StartsWith("line 2: it has 500000 dots, of 256 at most"));
  EXPECT_THAT(refusal("[" + repeated("a.", kMany) + "a]\n"), StartsWith("line 1: it has 500000 "));
  EXPECT_THAT(refusal("x = " + repeated("[", kMany)), HasSubstr("maximum nested value depth"));
  EXPECT_THAT(refusal(repeated("a={", 300'000)), HasSubstr("maximum nested value depth"));
  // Line by line, as deep as it can be made.
  const std::string dots = repeated("a.", 256) + "a";
  EXPECT_THAT(refusal("[[" + dots + "]]\n" + dots + " = " + repeated("[\n{" + dots + " = ", 20)),
              HasSubstr("maximum nested value depth"));
  EXPECT_THAT(refusal("[[" + dots + "]]\n" + dots + " = [\n{" + dots + " = [\n{" + dots +
                      " = [\n{" + dots + " = 1}]}]}]\n"),
              StartsWith("line 1: there is no \"a\" here"));
  EXPECT_TRUE(definitions_from_toml("sequence = {a = {start = 5}}"));
}

TEST(DefinitionsToml, WhatIsWrittenReadsAsTheSame) {
  const std::vector<Definition> all = {
      SequenceDefinition{.name = "orders", .first = 0, .last = kLargestValue},
      SequenceDefinition{.name = "a.b", .strategy = Strategy::kStriped, .last = 5000, .stripes = 5},
      SequenceDefinition{
          .name = "x", .strategy = Strategy::kInterleaved, .last = 5000, .stripes = 7},
      SequenceDefinition{.name = "third", .first = 1002, .last = 5000, .stride = 3},
      SequenceDefinition{.name = "adopted",
                         .strategy = Strategy::kCached,
                         .first = 1000,
                         .step = 10,
                         .adopted = "ids/my orders:next=index"},
      SequenceDefinition{.name = "quoted", .adopted = R"(sequence "public"."a\b")"},
      SequenceDefinition{
          .name = "c", .strategy = Strategy::kCached, .step = 9, .largest_count = 50},
      SequenceDefinition{.name = "p",
                         .strategy = Strategy::kPermuted,
                         .last = 999'999,
                         .key = "0123456789abcdef0123456789abcdef",
                         .form = {.prefix = "7", .check = Check::kDamm, .digits = 8}},
      SequenceDefinition{
          .name = "r", .strategy = Strategy::kRandom, .form = {.encoding = Encoding::kBase58}},
      SequenceDefinition{.name = "w", .last = 99, .form = {.encoding = Encoding::kHex, .width = 4}},
      PoolDefinition{.name = "web",
                     .layout = *snowflake_layout("sonyflake"),
                     .workers = 16,
                     .largest_count = 100,
                     .form = {.prefix = "e-", .encoding = Encoding::kBase62}},
      PoolDefinition{.name = "open", .layout = *snowflake_layout("sequence-generator")}};
  const std::string text = to_toml(all);
  const auto read = definitions_from_toml(text);
  ASSERT_TRUE(read) << read.error().message() << "\n" << text;
  EXPECT_EQ(*read, all);
  EXPECT_THAT(text, StartsWith("# A sequence is of one store."));
  EXPECT_THAT(text, HasSubstr("\n# In another store this key gives the same values again: leave it "
                              "out there.\nkey = \"0123"));
  SequenceDefinition retired{.name = "old"};
  retired.retired = true;
  const std::string comment =
      "# Retired, so left out here; in the store that they are of, these names cannot be given "
      "again:\n#   old\n";
  EXPECT_EQ(to_toml(std::vector<Definition>{retired}), comment);
  EXPECT_TRUE(to_toml(std::vector<Definition>{all.front(), retired}).ends_with("\n\n" + comment));
}

TEST(DefinitionsToml, AFileNamesNoStores) {
  SequenceDefinition multi_store{.name = "tickets", .strategy = Strategy::kInterleaved};
  multi_store.stripes = 2;
  multi_store.over = {{.id = {}, .url = "sqlite:/a.db"}, {.id = {}, .url = "sqlite:/b.db"}};
  const std::string text = to_toml(std::vector<Definition>{multi_store});
  EXPECT_EQ(text,
            "# Over several stores, which a file does not name, so left out here:\n#   tickets\n");
  EXPECT_TRUE(definitions_from_toml(text).value().empty());
  const auto refused = definitions_from_toml("[sequence.tickets]\nover = [\"sqlite:a.db\"]\n");
  ASSERT_EQ(code_of(refused), Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), StartsWith("line 2: a file does not name stores"));
  EXPECT_EQ(refused.error().advice, (Advice{.remedy = Remedy::kSetOption, .values = {"over"}}));
}

// Applied to another store, a table of one would make it a second time.
TEST(DefinitionsToml, SequencesThatMoveAreNamedWithTheOtherStore) {
  const auto moving = [](std::string name, Move::Stage stage) {
    SequenceDefinition sequence{.name = std::move(name)};
    sequence.move = Move{.stage = stage, .url = "sqlite:/b.db"};
    sequence.retired = stage == Move::Stage::kGone;
    return sequence;
  };
  EXPECT_EQ(to_toml(std::vector<Definition>{moving("a", Move::Stage::kGone),
                                            moving("b", Move::Stage::kArriving),
                                            moving("c", Move::Stage::kLeaving)}),
            "# Being moved from one store to another, so left out until that is done:\n"
            "#   b, from sqlite:/b.db\n"
            "#   c, to sqlite:/b.db\n"
            "\n"
            "# Moved to another store, so left out here:\n"
            "#   a, to sqlite:/b.db\n");
}

}  // namespace
}  // namespace idmint
