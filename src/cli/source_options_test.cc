#include "cli/source_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/definitions.h"

namespace idmint::cli {
namespace {

using testing::HasSubstr;

Definition made_of(const SequenceTexts& given, std::string_view store = {}) {
  const Result<Definition> made = definition("x", given, store);
  EXPECT_TRUE(made) << made.error().message();
  if (!made) return {};
  EXPECT_TRUE(validate(*made)) << validate(*made).error().message();
  return *made;
}

SequenceDefinition defined(const SequenceTexts& given, std::string_view store = {}) {
  return as_sequence(made_of(given, store));
}

std::string refusal(const SequenceTexts& given, std::string_view store = {}) {
  const Result<Definition> made = definition("x", given, store);
  EXPECT_FALSE(made);
  return made ? "" : made.error().message();
}

TEST(SequenceOptions, FollowFromWhatIsGiven) {
  EXPECT_EQ(defined({}), (SequenceDefinition{.name = "x"}));
  EXPECT_EQ(defined({.start = "0", .max = "9"}),
            (SequenceDefinition{.name = "x", .first = 0, .last = 9}));
  EXPECT_EQ(defined({.stripes = "8"}).strategy, Strategy::kStriped);
  const SequenceDefinition interleaved = defined({.strategy = "interleaved", .stripes = "8"});
  EXPECT_EQ(interleaved.strategy, Strategy::kInterleaved);
  EXPECT_EQ(interleaved.last, kLargestValue - 7);
  EXPECT_EQ(defined({.strategy = "cached", .step = "1000"}).step, 1000);
  EXPECT_EQ(defined({.largest_count = "5"}).largest_count, 5);
  EXPECT_EQ(
      defined({.start = "1000", .stride = "2", .offset = "1"}),
      (SequenceDefinition{.name = "x", .first = 1001, .last = kLargestValue - 1, .stride = 2}));
  const SequenceDefinition both =
      defined({.strategy = "interleaved", .stride = "3", .offset = "3", .stripes = "4"});
  EXPECT_EQ(both.first, 3);
  EXPECT_EQ(both.last, kLargestValue - 11);
  EXPECT_THAT(refusal({.stride = "3"}), HasSubstr("which of the 3 servers"));
  EXPECT_THAT(refusal({.offset = "3"}), HasSubstr("without a stride"));
  EXPECT_THAT(refusal({.stride = "3", .offset = "4"}), HasSubstr("give 1 to 3"));
  EXPECT_THAT(refusal({.strategy = "gapless", .stride = "3", .offset = "1"}), HasSubstr("gapless"));
  EXPECT_THAT(refusal({.kind = "pool", .stride = "3", .offset = "1"}), HasSubstr("no stride"));
}

#ifdef IDMINT_MONGODB
TEST(SequenceOptions, AClassicRecipeSaysTheRest) {
  constexpr const char* kStore = "mongodb://h/shop";
  constexpr std::int64_t last = 9'007'199'254'740'990;
  EXPECT_EQ(defined({.adopt = "counter"}, kStore),
            (SequenceDefinition{
                .name = "x",
                .first = 0,
                .last = last,
                .adopted = "uniqueIdentifierCounter/UNIQUE COUNT DOCUMENT IDENTIFIER:next=COUNT"}));
  EXPECT_EQ(defined({.adopt = "counters", .validator = true}, kStore),
            (SequenceDefinition{.name = "x",
                                .strategy = Strategy::kStriped,
                                .first = 0,
                                .last = 999'999'999'999,
                                .stripes = 1000,
                                .form = {.digits = 12},
                                .adopted = "uniqueIdentifierCounter/COUNTER DOCUMENT NUMBER "
                                           "{k}:next=COUNT,max=MAX_VALUE,validator"}));
  EXPECT_EQ(defined({.adopt = "ids:orders"}, kStore),
            (SequenceDefinition{.name = "x",
                                .strategy = Strategy::kCached,
                                .first = 1000,
                                .last = last,
                                .step = 10,
                                .adopted = "ids/orders:next=index"}));
  // A given value counts.
  EXPECT_EQ(defined({.strategy = "cached", .step = "50", .adopt = "counter"}, kStore).step, 50);
  EXPECT_EQ(defined({.strategy = "counter", .adopt = "ids:a:b"}, kStore).step, 0);
  EXPECT_EQ(defined({.strategy = "counter", .adopt = "ids:a:b"}, kStore).adopted,
            "ids/a:b:next=index");
  const SequenceDefinition few =
      defined({.max = "79", .stripes = "8", .adopt = "counters"}, kStore);
  EXPECT_EQ(few.stripes, 8);
  EXPECT_EQ(few.last, 79);
  EXPECT_EQ(defined({.adopt = "c/i:last=seq"}, kStore).first, 1);
  EXPECT_EQ(defined({.adopt = "c/i:next=seq"}, kStore).first, 0);
  EXPECT_THAT(refusal({.adopt = "count"}, kStore), HasSubstr("counter, counters or ids:NAME"));
  EXPECT_THAT(refusal({.adopt = "ids:"}, kStore), HasSubstr("document"));
  EXPECT_THAT(refusal({.strategy = "permuted", .adopt = "counter"}, kStore),
              HasSubstr("as they come"));
  EXPECT_THAT(refusal({.strategy = "striped", .stripes = "8", .adopt = "counter"}, kStore),
              HasSubstr("write {k} in the _id"));
  EXPECT_THAT(refusal({.adopt = "counter", .validator = true}, kStore), HasSubstr("max=FIELD"));
}
#endif

#ifdef IDMINT_MARIADB
// Each of the stores has its own table, in its own steps.
TEST(SequenceOptions, TicketsOfAPairAreAdoptedOverBothOrInTheStepsOfOne) {
  constexpr const char* kStore = "mysql://h/shop";
  const std::string tickets = "tickets:Tickets64/stub=a:last=id";
  EXPECT_EQ(
      defined({.stride = "2", .offset = "2", .adopt = "tickets"}, kStore),
      (SequenceDefinition{
          .name = "x", .first = 2, .last = kLargestValue - 1, .stride = 2, .adopted = tickets}));
  SequenceTexts over{.strategy = "interleaved", .stripes = "2", .adopt = "tickets"};
  EXPECT_THAT(refusal(over, kStore), HasSubstr("or over several stores"));
  over.over_stores = true;
  EXPECT_EQ(as_sequence(definition("x", over, kStore).value()),
            (SequenceDefinition{.name = "x",
                                .strategy = Strategy::kInterleaved,
                                .last = kLargestValue - 1,
                                .stripes = 2,
                                .adopted = tickets}))
      << "to which create_sequence() adds the stores";
  over.adopt = "row:counter:last=n";
  EXPECT_THAT(refusal(over, kStore), HasSubstr("the other programs that use it count by one"));
  EXPECT_THAT(refusal({.stride = "2", .offset = "2", .adopt = *over.adopt}, kStore),
              HasSubstr("count by one"));
}
#endif

// The store refuses it when the sequence is made.
TEST(SequenceOptions, WhatNoStoreReadsIsLeftAsItIs) {
  for (const char* const store : {"", "sqlite:ids.db", "memory:"}) {
    EXPECT_EQ(defined({.adopt = "counters"}, store),
              (SequenceDefinition{.name = "x", .adopted = "counters"}))
        << store;
    EXPECT_THAT(refusal({.strategy = "permuted", .adopt = "counter"}, store),
                HasSubstr("as they come"));
    EXPECT_THAT(refusal({.validator = true}, store), HasSubstr("adopted documents"));
    EXPECT_THAT(refusal({.adopt = ""}, store), HasSubstr("has no name"));
  }
}

TEST(SequenceOptions, DigitsSayWhichValuesThereAre) {
  const SequenceDefinition accounts = defined({.form = {.digits = "12"}, .stripes = "1000"});
  EXPECT_EQ(accounts.first, 0);
  EXPECT_EQ(accounts.last, 999'999'999'999);
  EXPECT_EQ(accounts.form.digits, 12);

  const SequenceDefinition cards =
      defined({.form = {.check = "luhn", .digits = "16"}, .strategy = "permuted"});
  EXPECT_EQ(cards.first, 0);
  EXPECT_EQ(cards.last, 999'999'999'999'999);
  EXPECT_EQ(cards.form.check, Check::kLuhn);

  const SequenceDefinition full =
      defined({.form = {.digits = "6", .no_leading_zeros = true}, .strategy = "random"});
  EXPECT_EQ(full.first, 100'000);
  EXPECT_EQ(full.last, 999'999);

  // In order: from 1. The prefix's digits count.
  const SequenceDefinition invoices = defined({.form = {.prefix = "INV2026-", .digits = "10"}});
  EXPECT_EQ(invoices.first, 1);
  EXPECT_EQ(invoices.last, 999'999);
  EXPECT_EQ(
      defined({.form = {.digits = "1", .no_leading_zeros = true}, .strategy = "random"}).first, 1);
}

TEST(SequenceOptions, APoolIsAKind) {
  const PoolDefinition usual = as_pool(made_of({.kind = "pool"}));
  EXPECT_EQ(usual.layout, *snowflake_layout("sequence-generator"));
  EXPECT_EQ(usual.workers, 0) << "as many as there are, or the usual number";
  const PoolDefinition own = as_pool(made_of({.form = {.prefix = "e-", .encoding = "base62"},
                                              .kind = "pool",
                                              .layout = "41t10w12s epoch 2025-01-01",
                                              .workers = "16",
                                              .largest_count = "7"}));
  EXPECT_EQ(own.workers, 16);
  EXPECT_EQ(own.largest_count, 7);
  EXPECT_EQ(own.form, (Form{.prefix = "e-", .encoding = Encoding::kBase62}));
  EXPECT_EQ(defined({.kind = "sequence"}), SequenceDefinition{.name = "x"});
  EXPECT_THAT(refusal({.kind = "pool", .workers = "0"}), HasSubstr("--workers"));
  EXPECT_THAT(refusal({.kind = "pool", .strategy = "cached"}), HasSubstr("no strategy"));
  EXPECT_THAT(refusal({.strategy = "pool"}), HasSubstr("give kind pool"));
  EXPECT_THAT(refusal({.workers = "5"}), HasSubstr("give kind pool"));
}

TEST(SequenceOptions, NameTheOptionThatIsWrong) {
  EXPECT_THAT(refusal({.start = "x"}), HasSubstr("--start"));
  EXPECT_THAT(refusal({.max = "-1"}), HasSubstr("--max"));
  EXPECT_THAT(refusal({.stripes = "1"}), HasSubstr("--stripes"));
  EXPECT_THAT(refusal({.strategy = "counted"}), HasSubstr("strategy"));
  EXPECT_THAT(refusal({.form = {.check = "crc"}}), HasSubstr("no check"));
  EXPECT_THAT(refusal({.form = {.encoding = "base64"}}), HasSubstr("no encoding"));
  EXPECT_THAT(refusal({.form = {.digits = "37"}}), HasSubstr("--digits"));
  EXPECT_THAT(refusal({.form = {.no_leading_zeros = true}}), HasSubstr("digits"));
  EXPECT_FALSE(definition("x", {.form = {.encoding = "hex", .digits = "9"}}));
  EXPECT_THAT(refusal({.form = {.encoding = "hex", .width = "17"}}), HasSubstr("1 to 16"));
  EXPECT_THAT(refusal({.form = {.encoding = "base62", .width = "12"}}), HasSubstr("1 to 11"));
  EXPECT_THAT(refusal({.form = {.width = "3"}}), HasSubstr("leave it out"));
  EXPECT_EQ(defined({.form = {.encoding = "hex", .width = "2"}}).last, 255);
}

TEST(FormatOptions, OfDigitsAreALayout) {
  const auto plain = format_options("digits", {});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->digits, DigitsLayout{});
  EXPECT_FALSE(plain->form);

  const auto card = format_options(
      "digits",
      {.form = {.prefix = "4", .check = "luhn", .digits = "16", .no_leading_zeros = true}});
  ASSERT_TRUE(card);
  EXPECT_EQ(
      card->digits,
      (DigitsLayout{.digits = 16, .prefix = "4", .check = Check::kLuhn, .leading_zeros = false}));
  // A prefix that is not all digits stands before the layout; its digits count.
  const auto mixed = format_options("digits", {.form = {.prefix = "A1-", .digits = "9"}});
  ASSERT_TRUE(mixed);
  EXPECT_EQ(mixed->digits, DigitsLayout{.digits = 8});
  EXPECT_EQ(mixed->form, Form{.prefix = "A1-"});
  EXPECT_FALSE(format_options("digits", {.form = {.prefix = "123", .digits = "3"}}));
}

TEST(FormatOptions, OfSnowflakeAreAWorkerAndALayout) {
  const auto own = format_options(
      "snowflake",
      {.worker = "65535", .layout = "39t8s16w", .epoch = "2025-01-01", .unit = "10ms"});
  ASSERT_TRUE(own) << own.error().message();
  EXPECT_EQ(own->layout, *snowflake_layout("sonyflake"));
  EXPECT_EQ(own->worker, Worker{.id = 65535});
  EXPECT_EQ(format_options("snowflake", {.worker = "mac"})->worker->from, Worker::From::kHardware);
  EXPECT_EQ(format_options("snowflake", {.worker = "random"})->worker->from, Worker::From::kRandom);
  const auto from = [](const char* worker) {
    return *format_options("snowflake", {.worker = worker})->worker;
  };
  EXPECT_EQ(from("ordinal"), Worker{.from = Worker::From::kOrdinal});
  EXPECT_EQ(from("address"), Worker{.from = Worker::From::kAddress});
  EXPECT_EQ(from("address:eth1"), (Worker{.from = Worker::From::kAddress, .name = "eth1"}));
  EXPECT_EQ(from("env:POD_1"), (Worker{.from = Worker::From::kEnvironment, .name = "POD_1"}));
  for (const char* const worker :
       {"env", "env:", "env:A B", "env:1A", "address:", "ordinal:3", "Mac", ""}) {
    const auto refused = format_options("snowflake", {.worker = worker});
    ASSERT_FALSE(refused) << worker;
    EXPECT_THAT(refused.error().message(), HasSubstr("env:NAME, ordinal, address"));
  }
  EXPECT_EQ(format_options("snowflake", {.run_ahead = "50ms"})->run_ahead,
            std::chrono::milliseconds{50});
  const auto outside = format_options("snowflake", {.worker = "1024"});
  ASSERT_FALSE(outside);
  EXPECT_THAT(outside.error().message(), HasSubstr("0 to 1023"));
  EXPECT_FALSE(format_options("snowflake", {.layout = "41t10w"}));
  EXPECT_FALSE(format_options("snowflake", {.run_ahead = "soon"}));
}

TEST(FormatOptions, OfTypeidAreItsType) {
  const auto user = format_options("typeid", {.form = {.prefix = "user"}});
  ASSERT_TRUE(user);
  EXPECT_EQ(user->type, "user");
  EXPECT_FALSE(user->form);
}

TEST(FormatOptions, OfUuidsAreANodeAndADomain) {
  const auto given = format_options(
      "uuid2", {.node = "00:01:02:03:04:ff", .domain = "group", .local_id = "4294967295"});
  ASSERT_TRUE(given) << given.error().message();
  EXPECT_EQ(given->node,
            (UuidNode{.from = UuidNode::From::kGiven, .address = {0, 1, 2, 3, 4, 255}}));
  EXPECT_EQ(given->domain, DceDomain::kGroup);
  EXPECT_EQ(given->local_id, 4294967295U);
  for (const char* const wrong : {"", "0001020304", "00010203040g", "00010203040506"}) {
    EXPECT_FALSE(format_options("uuid1", {.node = wrong})) << wrong;
  }
  EXPECT_FALSE(format_options("uuid2", {.domain = "people"}));
  EXPECT_FALSE(format_options("uuid2", {.local_id = "4294967296"}));
}

}  // namespace
}  // namespace idmint::cli
