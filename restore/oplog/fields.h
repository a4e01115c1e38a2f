// Iterates over the fields of a document, inline, without a call for each field. For code that
// reads millions of entries and skips most fields of each.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "mongo/document.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// A field: its BSON type and the bytes of its value.
struct Field {
  std::uint8_t type = 0;
  std::string_view key;
  std::span<const std::uint8_t> value;

  // Whether its key is `name`. The size is known at compile time, so comparing takes no call.
  template <std::size_t size>
  [[nodiscard]] bool is(const char (&name)[size]) const {
    return key.size() == size - 1 && std::equal(name, name + size - 1, key.begin());
  }

  // The value; none, empty or nullopt if it has another type.
  [[nodiscard]] Document document() const {  // of an array too
    return type == BSON_TYPE_DOCUMENT || type == BSON_TYPE_ARRAY ? Document::of(value) : Document{};
  }
  [[nodiscard]] std::string_view text() const {
    if (type != BSON_TYPE_UTF8) return {};
    return {reinterpret_cast<const char*>(value.data()) + 4, value.size() - 5};
  }
  [[nodiscard]] std::string_view binary() const {
    if (type != BSON_TYPE_BINARY) return {};
    return {reinterpret_cast<const char*>(value.data()) + 5, value.size() - 5};
  }
  [[nodiscard]] std::optional<std::int64_t> integer() const {  // of any number
    switch (type) {
      case BSON_TYPE_INT32:
        return static_cast<std::int32_t>(load32());
      case BSON_TYPE_INT64:
        return static_cast<std::int64_t>(load64());
      case BSON_TYPE_DOUBLE: {
        const double number = real();
        constexpr double end = 9223372036854775808.0;  // 2^63
        if (!(number >= -end && number < end)) return std::nullopt;
        return static_cast<std::int64_t>(number);
      }
      default:
        return std::nullopt;
    }
  }
  // The whole element: type, key and value.
  [[nodiscard]] std::span<const std::uint8_t> element() const {
    return {reinterpret_cast<const std::uint8_t*>(key.data()) - 1, key.size() + 2 + value.size()};
  }
  [[nodiscard]] bool truth() const { return type == BSON_TYPE_BOOL && value[0] != 0; }

  // REQUIRES: a value of so many bytes.
  [[nodiscard]] std::uint32_t load32() const {
    std::uint32_t number = 0;
    std::memcpy(&number, value.data(), sizeof number);
    return BSON_UINT32_FROM_LE(number);
  }
  [[nodiscard]] std::uint64_t load64() const {
    std::uint64_t number = 0;
    std::memcpy(&number, value.data(), sizeof number);
    return BSON_UINT64_FROM_LE(number);
  }
  [[nodiscard]] double real() const {
    const std::uint64_t bits = load64();
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }
};

// The fields of a document in order: `for (const Field& field : Fields(document))`. Does not
// descend into them.
class Fields {
 public:
  class Iterator {
   public:
    explicit Iterator(Fields& fields) : fields_(fields), there_(fields.next(field_)) {}
    [[nodiscard]] const Field& operator*() const { return field_; }
    void operator++() { there_ = fields_.next(field_); }
    [[nodiscard]] bool operator==(std::default_sentinel_t) const { return !there_; }

   private:
    Fields& fields_;
    Field field_{};
    bool there_;
  };
  explicit Fields(Document document)
      : at_(document.bytes().data()), end_(at_ + document.bytes().size()) {
    if (document) {
      at_ += 4;
      --end_;
    }
  }

  // The loop ends at the end, or where it is damaged().
  [[nodiscard]] Iterator begin() { return Iterator(*this); }
  [[nodiscard]] static std::default_sentinel_t end() { return {}; }

  // False: the end was reached, or damaged().
  [[nodiscard]] bool next(Field& field) {
    if (at_ == end_) return false;
    field.type = *at_++;
    const std::uint8_t* const key = at_;
    skip_key();
    if (at_ == end_) return fail();
    field.key = {reinterpret_cast<const char*>(key), static_cast<std::size_t>(at_ - key)};
    ++at_;
    const auto left = static_cast<std::size_t>(end_ - at_);
    const std::size_t size = size_of(field.type, left);
    if (size > left) return fail();
    field.value = {at_, size};
    at_ += size;
    return true;
  }
  [[nodiscard]] bool damaged() const { return damaged_; }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  // Skips to the terminating 0, eight bytes at a time.
  void skip_key() {
    for (; end_ - at_ >= 8; at_ += 8) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, at_, sizeof eight);
      eight = BSON_UINT64_FROM_LE(eight);
      // The lowest set bit is the top bit of the first zero byte.
      const std::uint64_t zeros = (eight - 0x0101010101010101) & ~eight & 0x8080808080808080;
      if (zeros == 0) continue;
      at_ += std::countr_zero(zeros) / 8;
      return;
    }
    while (at_ != end_ && *at_ != 0) ++at_;
  }

  // A function of its own, so that next() stays small.
  bool fail() {
    damaged_ = true;
    at_ = end_;
    return false;
  }

  // The size of the value at at_. More than `left`: it is damaged.
  [[nodiscard]] std::size_t size_of(std::uint8_t type, std::size_t left) const {
    switch (type) {
      case BSON_TYPE_DOUBLE:
      case BSON_TYPE_DATE_TIME:
      case BSON_TYPE_TIMESTAMP:
      case BSON_TYPE_INT64:
        return 8;
      case BSON_TYPE_UTF8:
      case BSON_TYPE_CODE:
      case BSON_TYPE_SYMBOL:
        return text_size(left, 0);
      case BSON_TYPE_DOCUMENT:
      case BSON_TYPE_ARRAY:
      case BSON_TYPE_CODEWSCOPE: {
        const std::size_t size = length(left);
        return size < 5 ? kNone : size;
      }
      case BSON_TYPE_BINARY: {
        const std::size_t size = length(left);
        return size == kNone ? kNone : size + 5;
      }
      case BSON_TYPE_UNDEFINED:
      case BSON_TYPE_NULL:
      case BSON_TYPE_MINKEY & 0xff:
      case BSON_TYPE_MAXKEY:
        return 0;
      case BSON_TYPE_OID:
        return 12;
      case BSON_TYPE_BOOL:
        return 1;
      case BSON_TYPE_REGEX: {
        const std::size_t pattern = terminated(0, left);
        return pattern == kNone ? kNone : terminated(pattern, left);
      }
      case BSON_TYPE_DBPOINTER:
        return text_size(left, 12);
      case BSON_TYPE_INT32:
        return 4;
      case BSON_TYPE_DECIMAL128:
        return 16;
      default:
        return kNone;
    }
  }
  [[nodiscard]] std::size_t length(std::size_t left) const {
    if (left < 4) return kNone;
    std::uint32_t size = 0;
    std::memcpy(&size, at_, sizeof size);
    return BSON_UINT32_FROM_LE(size);
  }
  // The size of a string that ends with a 0, plus `more`.
  [[nodiscard]] std::size_t text_size(std::size_t left, std::size_t more) const {
    const std::size_t size = length(left);
    if (size == kNone || size == 0 || size > left - 4 || at_[4 + size - 1] != 0) return kNone;
    return 4 + size + more;
  }
  // The offset behind the first 0 at or after `from`.
  [[nodiscard]] std::size_t terminated(std::size_t from, std::size_t left) const {
    const void* const zero = std::memchr(at_ + from, 0, left - from);
    if (zero == nullptr) return kNone;
    return static_cast<std::size_t>(static_cast<const std::uint8_t*>(zero) - at_) + 1;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool damaged_ = false;
};

// The first field with this key. nullopt: none, or the bytes before it are damaged.
[[nodiscard]] inline std::optional<Field> find_field(Document document, std::string_view key) {
  for (const Field& field : Fields(document))
    if (field.key == key) return field;
  return std::nullopt;
}

// A Decimal128 as text. REQUIRES: it is one.
[[nodiscard]] std::string decimal_text(const Field& field);

// The timestamp in a field. nullopt: there is no such field, or it has another type.
[[nodiscard]] std::optional<Timestamp> timestamp_in(Document document, const char* key);

[[nodiscard]] inline BsonTimestamp to_bson(Timestamp at) { return {at.seconds, at.ordinal}; }

// Appends the bytes of a field. Use these for data of users. bson_append_iter() sorts the flags of
// a regular expression and drops unknown ones, cuts code at a NUL, and takes binary data of subtype
// 2 without an inner length for damage.
void append_field(bson_t* to, const Field& field);
void append_field_as(bson_t* to, std::string_view key, const Field& field);

// Checks that every element at every depth is well-formed, as a server does when it stores one.
// Text may have any bytes, and binary data of subtype 2 any form: servers store both unchanged.
// kDataLoss: an element is damaged.
[[nodiscard]] Result<void> validate(Document document);

}  // namespace idmint::restore
