#include "restore/oplog/fields.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "restore/server.h"

namespace idmint::restore {
namespace {

// A field of every type.
const char* const kEvery = R"json({
  "double": 1.5, "text": "words", "document": {"a": 1}, "array": [1, "b"],
  "binary": {"$binary": {"base64": "AAEC", "subType": "00"}}, "undefined": {"$undefined": true},
  "oid": {"$oid": "65a1b2c3d4e5f60718293a4b"}, "bool": true, "date": {"$date": {"$numberLong": "5"}},
  "null": null, "regex": {"$regularExpression": {"pattern": "a.b", "options": "i"}},
  "pointer": {"$dbPointer": {"$ref": "a.b", "$id": {"$oid": "65a1b2c3d4e5f60718293a4b"}}},
  "code": {"$code": "x()"}, "symbol": {"$symbol": "s"},
  "scoped": {"$code": "x()", "$scope": {"y": 1}}, "int": 7, "ts": {"$timestamp": {"t": 3, "i": 4}},
  "long": {"$numberLong": "8"}, "decimal": {"$numberDecimal": "1.25"},
  "least": {"$minKey": 1}, "most": {"$maxKey": 1}})json";

TEST(Fields, AreThoseOfLibbson) {
  const Bson every = from_json(kEvery).value();
  bson_iter_t at = every.view().begin();
  Fields fields(every.view());
  Field field;
  int count = 0;
  while (bson_iter_next(&at)) {
    ASSERT_TRUE(fields.next(field)) << bson_iter_key(&at);
    EXPECT_EQ(field.key, bson_iter_key(&at));
    EXPECT_EQ(field.type, static_cast<std::uint8_t>(bson_iter_type(&at)));
    EXPECT_EQ(field.text(), as_text(at));
    EXPECT_EQ(field.integer(), as_integer(at));
    EXPECT_EQ(field.document().bytes().data(), as_document(at).bytes().data());
    ++count;
  }
  EXPECT_FALSE(fields.next(field));
  EXPECT_FALSE(fields.damaged());
  EXPECT_EQ(count, 21);
}

TEST(Fields, HaveKeysOfAnyLength) {
  for (std::size_t size = 0; size < 40; ++size) {
    const std::string key(size, '\x80');  // and a second one near the end
    constexpr std::int64_t no_zeros = 0x0102030405060708;
    const Bson document;
    bson_append_int64(document.get(), key.c_str(), -1, no_zeros);
    bson_append_null(document.get(), key.c_str(), -1);
    Fields fields(document.view());
    Field field;
    ASSERT_TRUE(fields.next(field)) << size;
    EXPECT_EQ(field.key, key);
    EXPECT_EQ(field.integer(), no_zeros);
    ASSERT_TRUE(fields.next(field)) << size;
    EXPECT_EQ(field.key, key);
    EXPECT_FALSE(fields.next(field));
    EXPECT_FALSE(fields.damaged());
  }
}

TEST(Fields, EndAtDamageWithinTheDocument) {
  const Bson every = from_json(kEvery).value();
  const std::span<const std::uint8_t> whole = every.view().bytes();
  for (std::size_t at = 4; at + 1 < whole.size(); ++at) {
    for (const int value : {0, 1, 5, 0x7f, 0x80, 0xff}) {
      std::vector<std::uint8_t> bytes(whole.begin(), whole.end());
      bytes[at] = static_cast<std::uint8_t>(value);
      Fields fields(Document::of(bytes));
      Field field;
      const std::uint8_t* last = bytes.data();
      while (fields.next(field)) {  // forwards, and within; the sanitizer looks at the rest
        ASSERT_GT(field.value.data(), last);
        last = field.value.data();
        ASSERT_LE(field.value.data() + field.value.size(), bytes.data() + bytes.size() - 1);
        static_cast<void>(field.text());
        static_cast<void>(field.binary());
        static_cast<void>(field.integer());
        static_cast<void>(field.document());
      }
    }
  }
}

TEST(Fields, TellDamage) {
  // An int32 of two bytes; a text without its 0, and one without its length; a type that there is
  // not.
  for (const std::string& text :
       {std::string("\x0a\0\0\0\x10k\0\1\2\0", 10),
        std::string("\x0e\0\0\0\x02k\0\2\0\0\0ab\0", 14),
        std::string("\x0b\0\0\0\x02k\0\1\2\0\0", 11), std::string("\x0a\0\0\0\x20k\0\1\2\0", 10)}) {
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    const Document document = Document::of(bytes);
    ASSERT_TRUE(document);
    Fields fields(document);
    Field field;
    EXPECT_FALSE(fields.next(field));
    EXPECT_TRUE(fields.damaged());
  }
  // Values of too few bytes for the length of a text.
  for (const char type : {'\x02', '\x0c', '\x0d', '\x0e'}) {
    for (std::size_t left = 0; left <= 4; ++left) {
      std::string text = std::string("\0\0\0\0", 4) + type + std::string("k\0", 2) +
                         std::string(left, '\0') + std::string("\0", 1);
      text[0] = static_cast<char>(text.size());
      const std::vector<std::uint8_t> bytes(text.begin(), text.end());
      Fields fields(Document::of(bytes));
      Field field;
      EXPECT_FALSE(fields.next(field)) << int{type} << ", " << left;
      EXPECT_TRUE(fields.damaged());
    }
  }
  Fields none{Document{}};
  Field field;
  EXPECT_FALSE(none.next(field));
  EXPECT_FALSE(none.damaged());
}

}  // namespace
}  // namespace idmint::restore
