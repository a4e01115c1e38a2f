#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "idmint/uuid.h"

namespace idmint {
namespace {

Uuid uuid_of(std::string_view text) { return Uuid::parse(text).value(); }

struct Valid {
  std::string_view text, prefix, uuid;
};

// Examples of the specification, version 0.3.0.
constexpr Valid kValid[] = {
    {"00000000000000000000000000", "", "00000000-0000-0000-0000-000000000000"},
    {"0000000000000000000000000g", "", "00000000-0000-0000-0000-000000000010"},
    {"00000000000000000000000010", "", "00000000-0000-0000-0000-000000000020"},
    {"7zzzzzzzzzzzzzzzzzzzzzzzzz", "", "ffffffff-ffff-ffff-ffff-ffffffffffff"},
    {"prefix_0123456789abcdefghjkmnpqrs", "prefix", "0110c853-1d09-52d8-d73e-1194e95b5f19"},
    {"prefix_01h455vb4pex5vsknk084sn02q", "prefix", "01890a5d-ac96-774b-bcce-b302099a8057"},
    {"pre_fix_00000000000000000000000000", "pre_fix", "00000000-0000-0000-0000-000000000000"},
};

TEST(TypeId, VectorsOfTheSpecificationBothWays) {
  for (const Valid& valid : kValid) {
    const Result<TypeId> id = TypeId::parse(valid.text);
    ASSERT_TRUE(id) << valid.text << ": " << id.error().message();
    EXPECT_EQ(id->prefix(), valid.prefix);
    EXPECT_EQ(id->uuid(), uuid_of(valid.uuid));
    EXPECT_EQ(id->to_string(), valid.text);
    const Result<TypeId> made = TypeId::make(valid.prefix, uuid_of(valid.uuid));
    ASSERT_TRUE(made);
    EXPECT_EQ(*made, *id);
  }
}

TEST(TypeId, RefusesWhatTheSpecificationLists) {
  const std::string zeros = "00000000000000000000000000";
  const std::vector<std::string> invalid = {
      "PREFIX_" + zeros,   // upper case in the prefix
      "12345_" + zeros,    // digits in it
      "pre.fix_" + zeros,  // a symbol in it
      "pr\xc3\xa9"
      "fix_" +
          zeros,                              // not ASCII
      "  prefix_" + zeros,                    // blanks
      std::string(64, 'a') + "_" + zeros,     // 64 characters
      "_" + zeros,                            // a separator without a prefix
      "_",                                    // nothing but a separator
      "_prefix_" + zeros,                     // begins with one
      "prefix__" + zeros,                     // ends with one
      "prefix_1234567890123456789012345",     // 25 characters
      "prefix_123456789012345678901234567",   // 27
      "prefix_1234567890123456789012345 ",    // a blank
      "prefix_0123456789ABCDEFGHJKMNPQRS",    // upper case
      "prefix_123456789-123456789-123456",    // hyphens, of the right length
      "prefix_123456789-0123456789-0123456",  // hyphens that Crockford would skip
      "prefix_ooooooiiiiiiuuuuuuulllllll",    // letters that are no digits
      "prefix_i23456789ol23456789oi23456",    // letters that Crockford would read as digits
      "prefix_8zzzzzzzzzzzzzzzzzzzzzzzzz",    // 129 bits
      // And what it does not list:
      "",
      "prefix",
      "prefix_",
      zeros + "0",
      "8zzzzzzzzzzzzzzzzzzzzzzzzz",
      "prefix-" + zeros,
      "prefix_" + zeros + "\n",
      zeros + "_prefix",
      std::string("prefix\0_", 8) + zeros,
  };
  for (const std::string& text : invalid) {
    const Result<TypeId> refused = TypeId::parse(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(refused.error().message().starts_with("not a TypeID: "))
        << refused.error().message();
  }
}

TEST(TypeId, TheFirstCharacterOfTheSuffixIsAtMostSeven) {
  for (int c = 0; c < 256; ++c) {
    const std::string text =
        "user_" + std::string(1, static_cast<char>(c)) + "0000000000000000000000000";
    EXPECT_EQ(TypeId::parse(text).has_value(), c >= '0' && c <= '7') << c;
  }
}

TEST(TypeId, PrefixesAreOfLowerCaseLettersWithUnderscoresBetween) {
  for (const std::string& good : {std::string{}, std::string("a"), std::string("a_b"),
                                  std::string("a__b"), std::string(63, 'z')}) {
    EXPECT_TRUE(validate_type_prefix(good)) << good;
    EXPECT_EQ(TypeId::parse(TypeId::make(good, Uuid::max())->to_string())->prefix(), good);
  }
  for (const std::string& bad :
       {std::string("_"), std::string("_a"), std::string("a_"), std::string("A"), std::string("a1"),
        std::string("a-b"), std::string(64, 'z'), std::string("a\0b", 3)}) {
    EXPECT_EQ(validate_type_prefix(bad).error().code, Code::kInvalidArgument) << bad;
    EXPECT_FALSE(TypeId::make(bad, Uuid{})) << bad;
  }
}

TEST(TypeId, AreOrderedByPrefixThenByUuid) {
  const TypeId a = *TypeId::make("a", Uuid::max());
  const TypeId b = *TypeId::make("b", Uuid{});
  EXPECT_LT(a, b);
  EXPECT_LT(*TypeId::make("a", Uuid{}), a);
}

RC_GTEST_PROP(TypeId, PrintingAndReadingAreInverse, (const Uuid::Bytes& bytes)) {
  const auto letter = rc::gen::elementOf(std::string("abcxyz_"));
  const std::string prefix = *rc::gen::container<std::string>(letter);
  const Result<TypeId> id = TypeId::make(prefix, Uuid{bytes});
  if (!id) {
    RC_ASSERT(prefix.size() > 63U || prefix.front() == '_' || prefix.back() == '_');
  } else {
    RC_ASSERT(*TypeId::parse(id->to_string()) == *id);
  }
}

}  // namespace
}  // namespace idmint
