// The documents that can be adopted, and their names.
#include "engines/mongodb/adoption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engines/mongodb/adopted_record.h"
#include "idmint/definition.h"
#include "store/backend.h"
#include "tests/fakes/code_of.h"

namespace idmint::stores::mongodb {
namespace {

using fakes::code_of;
using fakes::why;
using testing::HasSubstr;

const SequenceDefinition kAccounts{
    .name = "a",
    .strategy = Strategy::kStriped,
    .first = 0,
    .last = 19'999,
    .stripes = 10,
    .adopted = "shop.counters/a/b: NUMBER {k}:next=COUNT,max=MAX_VALUE,validator"};

TEST(AdoptionTest, ADocumentIsOneText) {
  const AdoptedRecord all{.collection = "shop.counters",
                          .id = "a/b: NUMBER {k}",
                          .field = "COUNT",
                          .max = "MAX_VALUE",
                          .validator = true};
  EXPECT_EQ(to_text(all), kAccounts.adopted);
  EXPECT_EQ(adopted_from_text(kAccounts.adopted), all);
  const AdoptedRecord last{
      .collection = "counters", .id = "userid", .field = "seq", .holds_last = true};
  EXPECT_EQ(to_text(last), "counters/userid:last=seq");
  EXPECT_EQ(adopted_from_text(to_text(last)), last);
  for (const std::string bad : {"",
                                "c",
                                "c/i",
                                "c/i:",
                                "c/i:f",
                                "c/i:next",
                                "c/i:next=",
                                "/i:next=f",
                                "c/:next=f",
                                "c/i:next=f,",
                                "c/i:next=f,max=",
                                "c/i:next=f,max=f",
                                "c/i:next=f,validator",
                                "c/i:max=m,next=f",
                                "c/i:next=f,last=g",
                                "c/i:next=a.b",
                                "c/i:next=$f",
                                "c/i:next=_id",
                                "c/i:next=f,max=a.b",
                                "$c/i:next=f",
                                "c./i:next=f",
                                ".c/i:next=f",
                                "idmint.counters/i:next=f",
                                "system.users/i:next=f",
                                "c/a\"b:next=f",
                                "c/a\\b:next=f",
                                "c/\u00e4:next=f",
                                "c/i\n:next=f",
                                "c/i:next=f,max=m,max=n",
                                "c:i/next=f"})
    EXPECT_EQ(code_of(adopted_from_text(bad)), Code::kInvalidArgument) << bad;
  using namespace std::string_literals;
  EXPECT_EQ(code_of(adopted_from_text("c/a\0b:next=f"s)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(adopted_from_text("c\0d/a:next=f"s)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(adopted_from_text("c/" + std::string(201, 'i') + ":next=f")),
            Code::kInvalidArgument);
}

TEST(AdoptionTest, EachStripeHasItsDocument) {
  const Result<AdoptedRecord> many = adopted_from_text("blocks/block-{k}/{k}:next=n");
  EXPECT_TRUE(has_stripes(*many));
  EXPECT_EQ(to_text(of_stripe(*many, 17)), "blocks/block-17/{k}:next=n");
  const Result<AdoptedRecord> one = adopted_from_text("blocks/block:next=n");
  EXPECT_FALSE(has_stripes(*one));
  EXPECT_EQ(of_stripe(*one, 17), *one);

  const auto refusal = [](const SequenceDefinition& definition) {
    EXPECT_TRUE(validate(definition)) << "only the store knows";
    const Result<void> checked = kAdoption.check(definition);
    EXPECT_EQ(code_of(checked), Code::kInvalidArgument);
    return why(checked);
  };
  EXPECT_TRUE(kAdoption.check(kAccounts));
  SequenceDefinition wide = kAccounts;
  wide.adopted = "c/" + std::string(197, 'i') + "{k}:next=f";
  wide.stripes = 1000;
  EXPECT_TRUE(kAdoption.check(wide));
  wide.stripes = 1001;
  EXPECT_THAT(refusal(wide), HasSubstr("1 to 200 ASCII")) << "the last one is too long";
  SequenceDefinition same = kAccounts;
  same.adopted = "c/i:next=f";
  EXPECT_THAT(refusal(same), HasSubstr("write {k} in the _id")) << "all stripes in one document";
  EXPECT_THAT(refusal({.name = "a", .first = 0, .adopted = "c/i{k}:next=f"}),
              HasSubstr("{k} in its _id is for stripes"));
}

TEST(AdoptionTest, ACheckSaysWhatToChange) {
  const auto check = [](std::int64_t first, const std::string& adopted) {
    return kAdoption.check({.name = "a", .first = first, .adopted = adopted});
  };
  EXPECT_TRUE(check(0, "c/i:next=f"));
  EXPECT_TRUE(check(1, "c/i:last=f"));
  EXPECT_EQ(why(check(0, "c/i:last=f")),
            "sequence a would begin at 0, and f holds the value before the next: begin at 1 or "
            "above")
      << "below 0 nothing is";
  EXPECT_EQ(code_of(check(0, "c/i:last=f")), Code::kInvalidArgument);
  EXPECT_THAT(why(kAdoption.check({.name = "a", .stride = 2, .adopted = "c/i:next=f"})),
              HasSubstr("the other programs that use it count by one"));
  EXPECT_THAT(why(check(0, "c/i:next=a.b")), HasSubstr("must be 1 to 60 of A-Z a-z 0-9 _ -"));
  EXPECT_THAT(why(check(0, "idmint.counters/i:next=f")), HasSubstr("cannot be adopted from"));
  // Another kind of store calls its records otherwise.
  for (const char* const foreign :
       {"public.orders_id_seq", "sequence public.orders_id_seq", "key:orders", "{\"table\":\"t\"}"})
    EXPECT_THAT(why(check(0, foreign)), HasSubstr("write COLLECTION/ID:next=FIELD")) << foreign;
  // One record has one text, so that two programs that name it do not disagree.
  EXPECT_THAT(why(check(0, "c/i:next=f,validator,max=m")),
              HasSubstr("write it as \"c/i:next=f,max=m,validator\""));
}

TEST(AdoptionTest, WhatAPersonNamesIsARecipeOrARecord) {
  const auto counters = kAdoption.read("counters", true);
  ASSERT_TRUE(counters) << why(counters);
  EXPECT_EQ(counters->record,
            "uniqueIdentifierCounter/COUNTER DOCUMENT NUMBER {k}:next=COUNT,max=MAX_VALUE,"
            "validator");
  EXPECT_EQ(counters->strategy, Strategy::kStriped);
  EXPECT_EQ(counters->stripes, 1000);
  EXPECT_EQ(counters->digits, 12);
  EXPECT_EQ(counters->first, 0);
  const auto ids = kAdoption.read("ids:a:b", false);
  ASSERT_TRUE(ids) << why(ids);
  EXPECT_EQ(ids->record, "ids/a:b:next=index");
  EXPECT_EQ(ids->step, 10);
  EXPECT_EQ(ids->first, 1000);
  const auto last = kAdoption.read("c/i:last=f,validator,max=m", false);
  ASSERT_TRUE(last) << why(last);
  EXPECT_EQ(last->record, "c/i:last=f,max=m,validator");
  EXPECT_EQ(last->first, 1);
  EXPECT_EQ(last->last, 9'007'199'254'740'990);
  EXPECT_FALSE(last->strategy);
  EXPECT_EQ(kAdoption.place_of(last->record), "c");
  EXPECT_THAT(why(kAdoption.read("count", false)), HasSubstr("counter, counters or ids:NAME"));
  // A guard without an end: check() refuses it.
  const auto guarded = kAdoption.read("counter", true);
  ASSERT_TRUE(guarded) << why(guarded);
  EXPECT_THAT(why(kAdoption.check({.name = "a", .first = 0, .adopted = guarded->record})),
              HasSubstr("max=FIELD"));
}

TEST(AdoptionTest, TheTableSaysWhoAdopts) {
  EXPECT_EQ(adoption_of("mongodb://h/shop"), &kAdoption);
  EXPECT_EQ(adoption_of("mongodb+srv://h/shop"), &kAdoption);
  for (const char* const url : {"sqlite:ids.db", "memory:", "nosuch:", "mongodb", ""})
    EXPECT_EQ(adoption_of(url), nullptr) << url;
}

}  // namespace
}  // namespace idmint::stores::mongodb
