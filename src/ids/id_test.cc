#include "idmint/id.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <chrono>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

#include "idmint/uuid_time.h"

namespace idmint {
namespace {

using namespace std::chrono;

// ---- printing

TEST(Print, EveryKindOfId) {
  EXPECT_EQ(to_string(Id{std::int64_t{0}}), "0");
  EXPECT_EQ(to_string(Id{std::numeric_limits<std::int64_t>::max()}), "9223372036854775807");
  EXPECT_EQ(to_string(Id{std::numeric_limits<std::int64_t>::min()}), "-9223372036854775808");
  EXPECT_EQ(to_string(Id{Snowflake{~std::uint64_t{0}}}), "18446744073709551615");
  EXPECT_EQ(to_string(Id{Uuid::nil()}), "00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(to_string(Id{Ulid{}}), "00000000000000000000000000");
  EXPECT_EQ(to_string(Id{ObjectId{}}), "000000000000000000000000");
}

template <class T>
std::string streamed(const T& id) {
  std::ostringstream out;
  out << std::setw(45) << std::setfill('.') << id << '|';
  return out.str();
}

template <class T>
void prints_itself(const T& id) {
  const std::string text = id.to_string();
  const std::string padded = std::string(45 - text.size(), '.') + text + "|";
  EXPECT_EQ(streamed(id), padded);
  if constexpr (std::is_constructible_v<Id, T>) {
    EXPECT_EQ(streamed(Id{id}), padded);
  }
#ifdef __cpp_lib_format
  EXPECT_EQ(std::format("{:.>45}|", id), padded);
  if constexpr (std::is_constructible_v<Id, T>) {
    EXPECT_EQ(std::format("{:.>45}|", Id{id}), padded);
  }
#endif
}

TEST(Print, IntoAStreamWithItsWidth) {
  prints_itself(Uuid::max());
  prints_itself(Ulid{});
  prints_itself(ObjectId{});
  prints_itself(Ksuid{});
  prints_itself(Xid{});
  prints_itself(Snowflake{17});
  prints_itself(Tsid{17});
  prints_itself(Nanoid{});
  prints_itself(TypeId::make("user", Uuid::nil()).value());
  prints_itself(Digits(6, 17));
  EXPECT_EQ(streamed(Id{std::int64_t{-17}}), std::string(42, '.') + "-17|");
}

// ---- minting

template <class Generator>
bool mints_two(Generator& generator) {
  std::array<decltype(generator.next()), 2> ids{generator.next(), generator.next()};
  return ids[0] && ids[1] && *ids[0] != *ids[1];
}

TEST(Generators, NeedNoArgument) {
  EXPECT_NE(Uuid4Generator().next(), Uuid4Generator().next());
  EXPECT_EQ(DigitsGenerator().next().size(), 12U);
  Uuid6Generator uuid6;
  EXPECT_TRUE(mints_two(uuid6));
  Uuid7Generator uuid7;
  EXPECT_TRUE(mints_two(uuid7));
  UlidGenerator ulid;
  EXPECT_TRUE(mints_two(ulid));
  KsuidGenerator ksuid;
  EXPECT_TRUE(mints_two(ksuid));
  EXPECT_NE(NanoidGenerator().next(), NanoidGenerator().next());
  TsidGenerator tsid;
  EXPECT_TRUE(mints_two(tsid));
  XidGenerator xid;
  EXPECT_TRUE(mints_two(xid));
  ObjectIdGenerator object_id;
  EXPECT_TRUE(mints_two(object_id));
  ClassicObjectIdGenerator classic;
  EXPECT_TRUE(mints_two(classic));
  const auto uuid1 = Uuid1Generator::open();
  ASSERT_TRUE(uuid1) << uuid1.error().message();
  EXPECT_TRUE(mints_two(**uuid1));
}

}  // namespace
}  // namespace idmint
