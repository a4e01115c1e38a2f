#include "idmint/definition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <string>
#include <vector>

#include "idmint/snowflake.h"
#include "ids/lease_table.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"

namespace idmint {
namespace {

using fakes::code_of;

const Definition kOrders = SequenceDefinition{"orders", Strategy::kCounter, 1000, 9999};
constexpr const char* kOrdersJson =
    R"({"name":"orders","strategy":"counter","first":1000,"last":9999})";

TEST(DefinitionTest, IsOneLineOfJson) {
  EXPECT_EQ(to_json(kOrders), kOrdersJson);
  EXPECT_EQ(definition_from_json(kOrdersJson), kOrders);
  EXPECT_EQ(name(Strategy::kCounter), "counter");
}

TEST(RangeTest, IsOneOfValues) {
  std::vector<std::int64_t> values;
  for (const std::int64_t value : Range{5, 3, 4}) values.push_back(value);
  EXPECT_EQ(values, (std::vector<std::int64_t>{5, 8, 11, 14}));
  for (const std::int64_t value : Range{5, 3, 0}) ADD_FAILURE() << value;
  constexpr Range last{kLargestValue, 1, 1};
  EXPECT_EQ(*last.begin(), kLargestValue);
  EXPECT_EQ(std::ranges::distance(last), 1);
  static_assert(std::ranges::forward_range<Range>);
  EXPECT_EQ(std::ranges::max(Range{1, 2, 3} | std::views::transform([](auto v) { return -v; })),
            -1);
  const Range range{1, 1, 3};
  EXPECT_EQ(std::vector<std::int64_t>(range.begin(), range.end()).back(), 3);
}

TEST(DefinitionTest, ValidateSaysWhatToChange) {
  EXPECT_TRUE(validate(SequenceDefinition{"a"}).has_value());
  EXPECT_TRUE(validate(SequenceDefinition{"0.A_z-9", Strategy::kCounter, 0, 0}).has_value());
  EXPECT_TRUE(validate(SequenceDefinition{std::string(120, 'x')}).has_value());
  const auto refusal = [](const SequenceDefinition& definition) {
    const Result<void> result = validate(definition);
    EXPECT_EQ(code_of(result), Code::kInvalidArgument);
    return result ? "" : result.error().message();
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal({""}), HasSubstr("empty"));
  EXPECT_THAT(refusal({std::string(121, 'x')}), HasSubstr("120"));
  for (const char* bad : {".a", "-a", "_a", "a b", "a/b", "ä", "a\n"})
    EXPECT_THAT(refusal({bad}), HasSubstr("begin with a letter or digit")) << bad;
  EXPECT_THAT(refusal({"a", Strategy::kCounter, -1, 5}), HasSubstr("begin at 0"));
  EXPECT_THAT(refusal({"a", Strategy::kCounter, 6, 5}), HasSubstr("larger end"));
  EXPECT_THAT(refusal({"a", Strategy::kCounter, 1, kLargestValue + 1}),
              HasSubstr("9223372036854775806"));
}

const SequenceDefinition kCards{.name = "cards",
                                .strategy = Strategy::kPermuted,
                                .first = 0,
                                .last = 999'999,
                                .key = "0123456789abcdef0123456789abcdef",
                                .largest_count = 50,
                                .form = {.prefix = "C-", .check = Check::kLuhn, .digits = 9},
                                .retired = true};
constexpr const char* kCardsJson =
    R"({"name":"cards","strategy":"permuted","first":0,"last":999999,)"
    R"("key":"0123456789abcdef0123456789abcdef","largest_count":50,"prefix":"C-","check":"luhn",)"
    R"("digits":9,"retired":true})";

TEST(DefinitionTest, WritesOnlyWhatIsNotAsUsual) {
  EXPECT_EQ(to_json(kCards), kCardsJson);
  EXPECT_EQ(definition_from_json(kCardsJson), Definition(kCards));
  const SequenceDefinition accounts{
      .name = "a", .strategy = Strategy::kInterleaved, .last = 99, .stripes = 7};
  EXPECT_EQ(to_json(accounts),
            R"({"name":"a","strategy":"interleaved","first":1,"last":99,"stripes":7})");
  const SequenceDefinition tickets{.name = "t",
                                   .strategy = Strategy::kCached,
                                   .last = 99,
                                   .step = 10,
                                   .form = {.encoding = Encoding::kBase58}};
  EXPECT_EQ(
      to_json(tickets),
      R"({"name":"t","strategy":"cached","first":1,"last":99,"step":10,"encoding":"base58"})");
  const SequenceDefinition narrow{
      .name = "w", .last = 99, .form = {.encoding = Encoding::kBase58, .width = 2}};
  EXPECT_EQ(
      to_json(narrow),
      R"({"name":"w","strategy":"counter","first":1,"last":99,"encoding":"base58","width":2})");
  EXPECT_EQ(definition_from_json(to_json(narrow)), Definition(narrow));
  const SequenceDefinition every_third{.name = "e", .first = 2, .last = 99, .stride = 3};
  EXPECT_EQ(to_json(every_third),
            R"({"name":"e","strategy":"counter","first":2,"last":99,"stride":3})");
  EXPECT_EQ(definition_from_json(to_json(every_third)), Definition(every_third));
  EXPECT_EQ(code_of(definition_from_json(
                R"({"name":"e","strategy":"counter","first":2,"last":99,"stride":0})")),
            Code::kDataLoss);
  EXPECT_EQ(definition_from_json(to_json(tickets)), Definition(tickets));
}

// As every release has written them.
TEST(DefinitionTest, WhatIsAdoptedIsStoredAsItIs) {
  for (const std::string json :
       {R"({"name":"a","strategy":"striped","first":0,"last":99,"stripes":10,)"
        R"("adopted":"shop.counters/a/b: NUMBER {k}:next=COUNT,max=MAX_VALUE,validator"})",
        R"({"name":"u","strategy":"counter","first":0,"last":9007199254740990,)"
        R"("adopted":"uniqueIdentifierCounter/UNIQUE COUNT DOCUMENT IDENTIFIER:next=COUNT"})",
        R"({"name":"o","strategy":"cached","first":1000,"last":9007199254740990,"step":10,)"
        R"("digits":16,"retired":true,"adopted":"ids/my orders:last=index"})"}) {
    const Result<Definition> read = definition_from_json(json);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(to_json(*read), json);
  }
  const Result<Definition> accounts = definition_from_json(
      R"({"name":"a","strategy":"striped","first":0,"last":99,"stripes":10,)"
      R"("adopted":"shop.counters/a/b: NUMBER {k}:next=COUNT,max=MAX_VALUE,validator"})");
  EXPECT_EQ(accounts, Definition(SequenceDefinition{
                          .name = "a",
                          .strategy = Strategy::kStriped,
                          .first = 0,
                          .last = 99,
                          .stripes = 10,
                          .adopted = "shop.counters/a/b: NUMBER {k}:next=COUNT,max=MAX_VALUE,"
                                     "validator"}));
}

TEST(DefinitionTest, AMoveIsStoredAsItIs) {
  const std::string id = "00000000-0000-4000-8000-000000000001";
  SequenceDefinition orders{.name = "o", .last = 9};
  orders.move = {Move::Stage::kLeaving, Uuid::parse(id).value(), "sqlite:/b.db"};
  const std::string start = R"({"name":"o","strategy":"counter","first":1,"last":9)";
  const std::string other = R"("move_store":")" + id + R"(","move_url":"sqlite:/b.db"})";
  EXPECT_EQ(to_json(orders), start + R"(,"move":"leaving",)" + other);
  EXPECT_EQ(definition_from_json(to_json(orders)), Definition(orders));
  orders.move->stage = Move::Stage::kArriving;
  EXPECT_EQ(definition_from_json(to_json(orders)), Definition(orders));
  EXPECT_EQ(code_of(definition_from_json(start + R"(,"retired":true,"move":"leaving",)" + other)),
            Code::kDataLoss);
  EXPECT_EQ(code_of(definition_from_json(start + R"(,"move":"gone",)" + other)), Code::kDataLoss);
  orders.move->stage = Move::Stage::kGone;
  orders.retired = true;
  EXPECT_EQ(definition_from_json(to_json(orders)), Definition(orders));
  EXPECT_EQ(code_of(definition_from_json(start + R"(,"move":"later",)" + other)),
            Code::kUnimplemented);
  EXPECT_EQ(code_of(definition_from_json(start + "," + other)), Code::kDataLoss);
  orders.move->url = "sqlite:a\nb";
  EXPECT_EQ(code_of(validate(orders)), Code::kInvalidArgument);
  orders.move->url = "sqlite:b.db";
  orders.move->store = {};
  EXPECT_EQ(code_of(validate(orders)), Code::kInvalidArgument);
}

// Each kind of store has its own words.
TEST(DefinitionTest, OnlyTheStoreReadsWhatIsAdopted) {
  const auto adopting = [](std::string adopted) {
    return SequenceDefinition{.name = "a", .first = 0, .last = 9, .adopted = std::move(adopted)};
  };
  for (const std::string text :
       {"c", R"(sequence "public"."a\b")", "schl\u00fcssel:orders", "c/i:last=f", "{k}"}) {
    EXPECT_TRUE(validate(adopting(text))) << text;
    EXPECT_EQ(definition_from_json(to_json(adopting(text))), Definition(adopting(text))) << text;
  }
  EXPECT_TRUE(validate(adopting(std::string(1000, 'x'))));
  using namespace std::string_literals;
  for (const std::string& bad : {std::string(1001, 'x'), "a\nb"s, "a\0b"s, "\x7f"s, "\xff"s,
                                 "\x1b[2J"s, "\u0085"s, "\u202e"s}) {
    EXPECT_EQ(code_of(validate(adopting(bad))), Code::kInvalidArgument) << bad;
    EXPECT_EQ(code_of(definition_from_json(to_json(adopting(bad)))),
              bad == "\xff" ? Code{} : Code::kDataLoss)
        << bad;
  }
  for (const std::string bad : {R"("")", "1", "null", "{}", R"(["c/i:next=f"])"})
    EXPECT_EQ(code_of(definition_from_json(
                  R"({"name":"a","strategy":"counter","first":0,"last":9,"adopted":)" + bad + "}")),
              Code::kDataLoss)
        << bad;
}

// Other programs count an adopted record by one, so its values must come in that order.
TEST(DefinitionTest, OnlySomeStrategiesCanAdopt) {
  const auto valid = [](Strategy strategy, std::int64_t stripes) {
    return validate({.name = "a",
                     .strategy = strategy,
                     .first = 0,
                     .last = 99,
                     .stripes = stripes,
                     .adopted = "c/i{k}:next=f"})
        .has_value();
  };
  EXPECT_TRUE(valid(Strategy::kCounter, 1));
  EXPECT_TRUE(valid(Strategy::kCached, 1));
  EXPECT_TRUE(valid(Strategy::kStriped, 2));
  EXPECT_FALSE(valid(Strategy::kInterleaved, 2));
  EXPECT_FALSE(valid(Strategy::kPermuted, 1));
  EXPECT_FALSE(valid(Strategy::kRandom, 1));
  EXPECT_FALSE(valid(Strategy::kGapless, 1));
}

TEST(DefinitionTest, EachStrategyHasItsNameAndItsPromise) {
  const struct {
    Strategy strategy;
    const char* name;
    Guarantee guarantee;
    const char* order;
  } rows[] = {{Strategy::kCounter, "counter", Guarantee::kLinearizable, "all"},
              {Strategy::kStriped, "striped", Guarantee::kUnique, "none"},
              {Strategy::kInterleaved, "interleaved", Guarantee::kUnique, "none"},
              {Strategy::kCached, "cached", Guarantee::kUnique, "per thread"},
              {Strategy::kRandom, "random", Guarantee::kUnique, "none"},
              {Strategy::kPermuted, "permuted", Guarantee::kUnique, "none"},
              {Strategy::kGapless, "gapless", Guarantee::kGapless, "all"}};
  for (const auto& row : rows) {
    EXPECT_EQ(name(row.strategy), row.name);
    EXPECT_EQ(strategy_named(row.name), row.strategy);
    EXPECT_EQ(guarantee(row.strategy), row.guarantee);
    EXPECT_EQ(name(order(row.strategy)), row.order);
    const Definition definition = SequenceDefinition{.name = "a", .strategy = row.strategy};
    EXPECT_EQ(strategy_name(definition), row.name);
    EXPECT_EQ(guarantee(definition), row.guarantee);
    EXPECT_EQ(name(order(definition)), row.order);
  }
  const Definition pool = PoolDefinition{.name = "a"};
  EXPECT_EQ(std::get<PoolDefinition>(pool).layout, snowflake_layout("sequence-generator").value());
  EXPECT_EQ(strategy_name(pool), "pool");
  EXPECT_EQ(guarantee(pool), Guarantee::kUnique);
  EXPECT_EQ(order(pool), Order::kPerProcess);
  EXPECT_EQ(code_of(strategy_named("pool")), Code::kInvalidArgument);
  const auto none = strategy_named("Counter");
  ASSERT_EQ(code_of(none), Code::kInvalidArgument);
  EXPECT_THAT(none.error().message(), testing::HasSubstr("cached, random, permuted or gapless"));
}

const PoolDefinition kWeb{
    .name = "web",
    .layout = {.epoch = Instant{std::chrono::sys_days{std::chrono::year{2025} / 1 / 1}},
               .unit = std::chrono::milliseconds{10},
               .time_bits = 39,
               .worker_bits = 4,
               .sequence_bits = 8,
               .order = SnowflakeLayout::Order::kSequenceThenWorker},
    .workers = 16,
    .form = {.encoding = Encoding::kBase62}};
constexpr const char* kWebJson =
    R"({"name":"web","strategy":"pool","first":0,"last":15,"encoding":"base62",)"
    R"("layout":"39t8s4w epoch 2025-01-01T00:00:00Z unit 10ms"})";

// Two processes that read another layout would mint the same ids.
TEST(DefinitionTest, APoolKeepsItsLayout) {
  EXPECT_TRUE(validate(kWeb));
  EXPECT_EQ(to_json(kWeb), kWebJson);
  EXPECT_EQ(definition_from_json(kWebJson), Definition(kWeb));
  for (const SnowflakePreset& preset : snowflake_presets()) {
    const Definition pool = PoolDefinition{.name = "p", .layout = preset.layout, .workers = 1};
    EXPECT_EQ(definition_from_json(to_json(pool)), pool) << preset.name;
  }
}

TEST(DefinitionTest, APoolHasTheWorkerIdsOfItsLayout) {
  const auto refusal = [](auto change) {
    PoolDefinition pool = kWeb;
    change(pool);
    const Result<void> result = validate(pool);
    EXPECT_EQ(code_of(result), Code::kInvalidArgument);
    return result ? "" : result.error().message();
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.layout.time_bits = 0; }), HasSubstr("time"));
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.workers = 17; }), HasSubstr("has room for 16"));
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.workers = -1; }), HasSubstr("would have -1"));
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.largest_count = -1; }), HasSubstr("no limit"));
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.name = "a b"; }), HasSubstr("is not allowed"));
  EXPECT_THAT(refusal([](PoolDefinition& d) {
                d.layout = SnowflakeLayout{.time_bits = 31, .worker_bits = 20};
                d.workers = LeaseTable::kMaxWorkers + 1;
              }),
              HasSubstr("a pool for 65536"));
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.form = {.digits = 20}; }), HasSubstr("digits"));
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.form.check = Check::kDamm; }), HasSubstr("damm"));
  PoolDefinition open = kWeb;
  open.workers = 0;
  EXPECT_TRUE(validate(open)) << "create_pool() sets it";
  EXPECT_EQ(code_of(definition_from_json(to_json(open))), Code::kDataLoss);
}

TEST(DefinitionTest, OfASequenceOverSeveralStoresAllAreNamed) {
  const std::string text =
      R"({"name":"t","strategy":"interleaved","first":1,"last":99,"stripes":2,"over":[)"
      R"({"id":"11111111-1111-4111-8111-111111111111","url":"sqlite:/a.db"},)"
      R"({"id":"22222222-2222-4222-8222-222222222222","url":"postgresql://u@h/d"}],"stripe":1})";
  const Result<Definition> read = definition_from_json(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(to_json(*read), text);
  EXPECT_EQ(as_sequence(*read).over[1].url, "postgresql://u@h/d");
  EXPECT_EQ(as_sequence(*read).stripe, 1);
  SequenceDefinition adopting = as_sequence(*read);
  adopting.adopted = "c/i:next=f";
  EXPECT_EQ(definition_from_json(to_json(adopting)), Definition(adopting)) << "each its own record";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return changed.replace(at, from.size(), to);
  };
  for (const auto& [from, to] :
       {std::pair(R"("stripe":1)", R"("stripe":2)"), std::pair(R"("stripe":1)", R"("stripe":-1)"),
        std::pair(R"("stripes":2)", R"("stripes":3)"), std::pair("interleaved", "striped"),
        std::pair("22222222-2222-4222-8222-222222222222", "11111111-1111-4111-8111-111111111111"),
        std::pair("22222222-2222-4222-8222-222222222222", "2"),
        std::pair("22222222-2222-4222-8222-222222222222", "00000000-0000-0000-0000-000000000000"),
        std::pair(R"("url":"sqlite:/a.db")", R"("url":7)"),
        std::pair(R"(,"url":"sqlite:/a.db")", ""), std::pair("sqlite:/a.db", "sqlite:/\n.db")})
    EXPECT_EQ(code_of(definition_from_json(with(from, to))), Code::kDataLoss) << to;
  SequenceDefinition many = as_sequence(*read);
  many.over[0].url = std::string(2500, 'a');
  EXPECT_EQ(code_of(validate(many)), Code::kInvalidArgument);
  many.over[0].url.resize(2400);
  EXPECT_EQ(definition_from_json(to_json(many)), Definition(many));
  many.move = {Move::Stage::kLeaving, many.over[0].id, "sqlite:/b.db"};
  EXPECT_EQ(code_of(validate(many)), Code::kInvalidArgument) << "it is not moved";
}

// The types cannot hold such a definition, but a damaged store can.
TEST(DefinitionTest, APoolHasNoFieldOfASequenceNorASequenceOneOfAPool) {
  const std::string layout = R"("layout":"39t8s4w epoch 2025-01-01T00:00:00Z unit 10ms"})";
  for (const std::string of_a_pool :
       {R"("first":0,"last":15,"stripes":2,)", R"("first":0,"last":15,"step":2,)",
        R"("first":0,"last":15,"key":"0123456789abcdef0123456789abcdef",)",
        R"("first":0,"last":15,"move":"leaving",)",
        R"("first":0,"last":15,"adopted":"c/i:next=f",)", R"("first":0,"last":15,"stride":2,)",
        R"("first":0,"last":15,"stripe":1,)", R"("first":1,"last":15,)", R"("first":0,"last":-1,)",
        R"("first":0,"last":16,)"})
    EXPECT_EQ(
        code_of(definition_from_json(R"({"name":"web","strategy":"pool",)" + of_a_pool + layout)),
        Code::kDataLoss)
        << of_a_pool;
  EXPECT_EQ(
      code_of(definition_from_json(R"({"name":"web","strategy":"pool","first":0,"last":15})")),
      Code::kDataLoss);
  EXPECT_EQ(code_of(definition_from_json(
                R"({"name":"web","strategy":"counter","first":0,"last":15,)" + layout)),
            Code::kDataLoss);
}

TEST(DefinitionTest, ValidateKnowsWhatEachStrategyUses) {
  const auto refusal = [](const SequenceDefinition& definition) {
    const Result<void> result = validate(definition);
    EXPECT_EQ(code_of(result), Code::kInvalidArgument);
    return result ? "" : result.error().message();
  };
  using testing::HasSubstr;
  for (const Strategy strategy : {Strategy::kStriped, Strategy::kInterleaved}) {
    const auto of = [&](std::int64_t first, std::int64_t last, std::int64_t stripes) {
      return SequenceDefinition{
          .name = "a", .strategy = strategy, .first = first, .last = last, .stripes = stripes};
    };
    EXPECT_TRUE(validate(of(5, 6, 2)));
    EXPECT_TRUE(validate(of(0, 99'999, 100'000)));
    EXPECT_THAT(refusal(of(0, 99, 1)), HasSubstr("give the number of its stripes, 2 to 100000"));
    EXPECT_THAT(refusal(of(0, 99, 0)), HasSubstr("2 to 100000"));
    EXPECT_THAT(refusal(of(0, 99, -5)), HasSubstr("2 to 100000"));
    EXPECT_THAT(refusal(of(0, 999'999, 100'001)), HasSubstr("2 to 100000"));
    EXPECT_THAT(refusal(of(5, 6, 3)), HasSubstr("fewer values"));
    EXPECT_EQ(code_of(validate(of(0, kLargestValue, 2))),
              strategy == Strategy::kStriped ? Code{0} : Code::kInvalidArgument);
    EXPECT_TRUE(validate(of(0, kLargestValue - 1, 2)));
  }
  const auto with = [](Strategy strategy, auto change) {
    SequenceDefinition definition{.name = "a", .strategy = strategy};
    change(definition);
    return definition;
  };
  const auto stripes = [](SequenceDefinition& d) { d.stripes = 2; };
  const auto step = [](SequenceDefinition& d) { d.step = 5; };
  const auto key = [](SequenceDefinition& d) { d.key = std::string(32, 'a'); };
  EXPECT_TRUE(validate(with(Strategy::kCached, step)));
  EXPECT_TRUE(validate(with(Strategy::kPermuted, key)));
  EXPECT_TRUE(validate(with(Strategy::kPermuted, [](SequenceDefinition&) {})));
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kRandom, Strategy::kPermuted}) {
    EXPECT_THAT(refusal(with(strategy, stripes)), HasSubstr("does not use stripes"));
    EXPECT_THAT(refusal(with(strategy, step)), HasSubstr("does not use a step"));
  }
  for (const Strategy strategy : {Strategy::kCounter, Strategy::kRandom, Strategy::kCached})
    EXPECT_THAT(refusal(with(strategy, key)), HasSubstr("does not use a key"));
  EXPECT_THAT(refusal(with(Strategy::kCached, [](SequenceDefinition& d) { d.step = -1; })),
              HasSubstr("step of 1 or more"));
  for (const char* bad : {"a", "0123456789abcdef0123456789abcdeF",
                          "0123456789abcdef0123456789abcdefa", "0123456789abcdef0123456789abcde "})
    EXPECT_THAT(refusal(with(Strategy::kPermuted, [&](SequenceDefinition& d) { d.key = bad; })),
                HasSubstr("32 digits"));
  EXPECT_THAT(
      refusal(with(Strategy::kCounter, [](SequenceDefinition& d) { d.largest_count = -1; })),
      HasSubstr("no limit"));
  EXPECT_THAT(refusal(with(static_cast<Strategy>(77), [](SequenceDefinition&) {})),
              HasSubstr("no strategy"));
}

TEST(DefinitionTest, TheFormHasRoomForEveryValue) {
  const auto refusal = [](std::int64_t last, const Form& form) {
    const Result<void> result = validate({.name = "a", .last = last, .form = form});
    EXPECT_EQ(code_of(result), Code::kInvalidArgument);
    return result ? "" : result.error().message();
  };
  using testing::HasSubstr;
  const Form three_digits{.prefix = "7-", .check = Check::kLuhn, .digits = 5};
  EXPECT_TRUE(validate({.name = "a", .last = 999, .form = three_digits}));
  // Two values would be printed alike.
  EXPECT_THAT(refusal(1000, three_digits), HasSubstr("999"));
  EXPECT_THAT(refusal(9, {.encoding = Encoding::kBase58, .check = Check::kDamm}),
              HasSubstr("damm"));
  EXPECT_THAT(refusal(9, {.digits = 37}), HasSubstr("36"));
  EXPECT_THAT(refusal(9, {.encoding = Encoding::kHex, .digits = 9}), HasSubstr("decimal"));
  EXPECT_TRUE(
      validate({.name = "a", .last = 255, .form = {.encoding = Encoding::kHex, .width = 2}}));
  EXPECT_THAT(refusal(256, {.encoding = Encoding::kHex, .width = 2}),
              HasSubstr("its width 2 in hex has room for values up to 255"));
  EXPECT_THAT(refusal(9, {.encoding = Encoding::kHex, .width = 17}), HasSubstr("1 to 16"));
  EXPECT_THAT(refusal(9, {.width = 3}), HasSubstr("decimal"));
  EXPECT_EQ(code_of(definition_from_json(
                R"({"name":"a","strategy":"counter","first":1,"last":1000,"digits":3})")),
            Code::kDataLoss);
}

TEST(DefinitionTest, WhatANewerOneWroteIsUnimplemented) {
  EXPECT_EQ(
      code_of(definition_from_json(R"({"name":"a","strategy":"fibonacci","first":1,"last":2})")),
      Code::kUnimplemented);
  EXPECT_EQ(code_of(definition_from_json(
                R"({"name":"a","strategy":"counter","first":1,"last":2,"colour":5})")),
            Code::kUnimplemented);
  for (const char* field : {R"("encoding":"base59")", R"("check":"parity")"})
    EXPECT_EQ(
        code_of(definition_from_json(R"({"name":"a","strategy":"counter","first":1,"last":2,)" +
                                     std::string(field) + "}")),
        Code::kUnimplemented);
}

TEST(DefinitionTest, WhatIsDamagedIsDataLoss) {
  for (const char* field : {R"("stripes":2)",
                            R"("stripes":true)",
                            R"("step":-1)",
                            R"("step":"5")",
                            R"("key":7)",
                            R"("key":"x")",
                            R"("largest_count":-3)",
                            R"("largest_count":1.5)",
                            R"("prefix":1)",
                            R"("prefix":"a b")",
                            R"("encoding":2)",
                            R"("check":null)",
                            R"("digits":"9")",
                            R"("digits":4294967305)",
                            R"("digits":-1)",
                            R"("width":2)",
                            R"("width":"2","encoding":"hex")",
                            R"("width":4294967298,"encoding":"hex")",
                            R"("width":-1,"encoding":"hex")",
                            R"("width":12,"encoding":"base62")",
                            R"("width":1.5,"encoding":"hex")",
                            R"("retired":1)",
                            R"("retired":"true")",
                            R"("layout":"41t10w12s")",
                            R"("layout":41)"})
    EXPECT_EQ(
        code_of(definition_from_json(R"({"name":"a","strategy":"counter","first":1,"last":2,)" +
                                     std::string(field) + "}")),
        Code::kDataLoss)
        << field;
  EXPECT_EQ(
      code_of(definition_from_json(R"({"name":"a","strategy":"permuted","first":1,"last":2})")),
      Code::kDataLoss)
      << "a permutation without its key";
  for (const char* layout : {"", "twitterer", "41t10w12s epoch", "41t3w12s"})
    EXPECT_EQ(code_of(definition_from_json(
                  R"({"name":"a","strategy":"pool","first":0,"last":8,"layout":")" +
                  std::string(layout) + "\"}")),
              Code::kDataLoss)
        << layout;
  for (const char* json :
       {"", "x", "[]", "null", "{}", "{", R"({"name":"a"})",
        R"({"name":"a","strategy":"counter","first":1,"last":2} x)",
        R"({"name":"a","strategy":"counter","first":1.0,"last":2})",
        R"({"name":"a","strategy":"counter","first":"1","last":2})",
        R"({"name":7,"strategy":"counter","first":1,"last":2})",
        R"({"name":"a","strategy":7,"first":1,"last":2})",
        R"({"name":"a","strategy":"counter","first":1,"last":9223372036854775807})",
        R"({"name":"a","strategy":"counter","first":1,"last":18446744073709551615})",
        R"({"name":"a","strategy":"counter","first":1,"last":99999999999999999999})",
        R"({"name":"a","strategy":"counter","first":-1,"last":2})",
        R"({"name":"a","strategy":"counter","first":3,"last":2})",
        R"({"name":"a b","strategy":"counter","first":1,"last":2})"})
    EXPECT_EQ(code_of(definition_from_json(json)), Code::kDataLoss) << json;
  EXPECT_EQ(code_of(definition_from_json(std::string(100'000, '['))), Code::kDataLoss);
}

RC_GTEST_PROP(DefinitionProperty, EveryValidDefinitionSurvives, ()) {
  SequenceDefinition definition;
  definition.name = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("azAZ09._-")));
  definition.name = ("n" + definition.name).substr(0, 120);
  const auto bound = rc::gen::inRange<std::int64_t>(0, kLargestValue);
  const std::int64_t one = *bound;
  const std::int64_t other = *bound;
  definition.first = std::min(one, other);
  definition.last = std::max(one, other);
  definition.strategy =
      *rc::gen::element(Strategy::kCounter, Strategy::kStriped, Strategy::kInterleaved,
                        Strategy::kCached, Strategy::kRandom, Strategy::kPermuted);
  if (definition.strategy == Strategy::kStriped || definition.strategy == Strategy::kInterleaved)
    definition.stripes = *rc::gen::inRange<std::int64_t>(2, SequenceDefinition::kMaxStripes + 1);
  if (definition.strategy == Strategy::kCached) definition.step = *bound;
  if (definition.strategy == Strategy::kPermuted)
    definition.key =
        *rc::gen::container<std::string>(32, rc::gen::elementOf(std::string("0123456789abcdef")));
  definition.largest_count = *bound;
  definition.form.prefix =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("azAZ09.:/-{}$'")));
  definition.form.prefix.resize(std::min(definition.form.prefix.size(), Form::kMaxPrefix));
  definition.retired = *rc::gen::arbitrary<bool>();
  RC_PRE(validate(definition).has_value());
  const Result<Definition> read = definition_from_json(to_json(definition));
  RC_ASSERT(read.has_value());
  RC_ASSERT(*read == Definition(definition));
}

RC_GTEST_PROP(DefinitionProperty, NoDamagePassesAsAnotherDefinition, (std::size_t at, char byte)) {
  std::string json = at % 3 == 0 ? kOrdersJson : at % 3 == 1 ? kCardsJson : kWebJson;
  json[at % json.size()] = byte;
  const Result<Definition> read = definition_from_json(json);
  if (read) RC_ASSERT(validate(*read).has_value());
}

}  // namespace
}  // namespace idmint
