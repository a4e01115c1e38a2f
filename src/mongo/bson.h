// BSON documents that are built field by field.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/result.h"
#include "mongo/document.h"
#include "mongo/driver.h"

namespace idmint::mongo {

// An integer as extended JSON.
inline std::string number(std::int64_t value) {
  return R"({"$numberLong":")" + std::to_string(value) + R"("})";
}

struct BsonArray;

// Not std::unique_ptr: bson_t has an alignment, which template arguments lose.
class Bson {
 public:
  Bson() : document_(bson_new()) {}
  // Takes ownership of a document from libbson.
  explicit Bson(bson_t* document) : document_(document) {}
  // No document, like a moved-from one.
  [[nodiscard]] static Bson none() { return Bson(nullptr); }
  // REQUIRES: well-formed extended JSON from our own code. from_json() parses other texts.
  explicit Bson(const std::string& json) : document_(bson_new()) {
    bson_error_t error;
    bson_t parsed;
    if (!bson_init_from_json(&parsed, json.data(), static_cast<ssize_t>(json.size()), &error)) {
      std::fprintf(stderr, "idmint: bug: %s in %s\n", error.message, json.c_str());
      std::abort();
    }
    bson_destroy(document_);
    document_ = bson_copy(&parsed);
    bson_destroy(&parsed);
  }
  // From keys and values: Bson("find", "progress", "limit", 1).
  template <class Value, class... More>
  Bson(const char* key, const Value& value, const More&... more) : Bson() {
    append(key, value, more...);
  }
  ~Bson() {
    if (document_ != nullptr) bson_destroy(document_);
  }
  // Whether there is a document; every other member REQUIRES one.
  [[nodiscard]] explicit operator bool() const { return document_ != nullptr; }
  Bson(Bson&& other) noexcept : document_(std::exchange(other.document_, nullptr)) {}
  Bson& operator=(Bson&& other) noexcept {
    std::swap(document_, other.document_);
    return *this;
  }

  [[nodiscard]] Bson copy() const { return Bson(bson_copy(document_)); }
  // REQUIRES: there is a document.
  [[nodiscard]] static Bson copy_of(Document document) {
    return Bson(bson_new_from_data(document.bytes().data(), document.bytes().size()));
  }
  // Copies the reply of a call of the driver and destroys `reply`.
  [[nodiscard]] static Bson taken_from(bson_t* reply) {
    Bson taken(bson_copy(reply));
    bson_destroy(reply);
    return taken;
  }
  [[nodiscard]] bson_t* get() const { return document_; }
  [[nodiscard]] Document view() const { return Document::of(document_); }

  template <class Value, class... More>
  Bson& append(const char* key, const Value& value, const More&... more) {
    add(key, value);
    if constexpr (sizeof...(more) != 0) append(more...);
    return *this;
  }
  Bson& add(const char* key, std::int64_t value) {
    return added(bson_append_int64(document_, key, -1, value));
  }
  Bson& add(const char* key, std::int32_t value) {
    return added(bson_append_int32(document_, key, -1, value));
  }
  Bson& add(const char* key, bool value) {
    return added(bson_append_bool(document_, key, -1, value));
  }
  // A date: the time since 1970.
  Bson& add(const char* key, std::chrono::milliseconds time) {
    return added(bson_append_date_time(document_, key, -1, time.count()));
  }
  // The value at the iterator, of any type.
  Bson& add(const char* key, const bson_iter_t* at) {
    return added(bson_append_iter(document_, key, -1, at));
  }
  // The field `key` of another document, of any type, under the name `as`. False: it has none.
  bool add_from(Document from, const char* key, const char* as) {
    bson_iter_t at;
    if (!from.find(key, &at)) return false;
    add(as, &at);
    return true;
  }
  bool add_from(Document from, const char* key) { return add_from(from, key, key); }
  Bson& add(const char* key, const Bson& value) {
    return added(bson_append_document(document_, key, -1, value.get()));
  }
  Bson& add(const char* key, Document value) {
    const bson_t view = value.view();
    return added(bson_append_document(document_, key, -1, &view));
  }
  Bson& add(const char* key, BsonTimestamp value) {
    return added(bson_append_timestamp(document_, key, -1, value.seconds, value.ordinal));
  }
  Bson& add(const char* key, std::nullptr_t) { return added(bson_append_null(document_, key, -1)); }
  Bson& add(const char* key, const BsonArray& value);
  Bson& add_array(const char* key, const Bson& value) {
    return added(bson_append_array(document_, key, -1, value.get()));
  }
  // All fields of another document.
  Bson& add_all(const bson_t& other) { return added(bson_concat(document_, &other)); }
  // A string, or binary data if it is not UTF-8.
  Bson& add(const char* key, std::string_view bytes) {
    if (is_utf8(bytes))
      return added(bson_append_utf8(document_, key, -1, data(bytes), size(bytes)));
    return add_binary(key, BSON_SUBTYPE_BINARY, bytes);
  }
  Bson& add(const char* key, const char* text) { return add(key, std::string_view(text)); }
  Bson& add_binary(const char* key, bson_subtype_t subtype, std::string_view bytes) {
    return added(bson_append_binary(document_, key, -1, subtype,
                                    reinterpret_cast<const std::uint8_t*>(data(bytes)),
                                    static_cast<std::uint32_t>(bytes.size())));
  }

  [[nodiscard]] static bool is_utf8(std::string_view bytes) {
    return bson_utf8_validate(data(bytes), bytes.size(), true);
  }

 private:
  static const char* data(std::string_view bytes) {
    return bytes.data() != nullptr ? bytes.data() : "";
  }
  static int size(std::string_view bytes) { return static_cast<int>(bytes.size()); }
  // Appending fails only beyond 2 GB, which the limits of the interfaces prevent.
  Bson& added(bool ok) {
    if (!ok) std::abort();
    return *this;
  }

  bson_t* document_;
};

struct BsonArray {
  Bson items{};  // under "0", "1", ...
  std::size_t size = 0;

  template <class Value>
  void push(const Value& value) {
    items.add(std::to_string(size++).c_str(), value);
  }
};

inline Bson& Bson::add(const char* key, const BsonArray& value) {
  return add_array(key, value.items);
}

// From values: Bson("$in", array("prepared", "inProgress")).
template <class... Values>
[[nodiscard]] BsonArray array(const Values&... values) {
  BsonArray all;
  (all.push(values), ...);
  return all;
}

// From the items of a range, or from what `value_of` makes of each.
template <class Range, class ValueOf = std::identity>
[[nodiscard]] BsonArray array_of(const Range& range, const ValueOf& value_of = {}) {
  BsonArray all;
  for (const auto& each : range) all.push(std::invoke(value_of, each));
  return all;
}

// Parses extended JSON. kInvalidArgument: it is not extended JSON.
[[nodiscard]] inline Result<Bson> from_json(std::string_view json) {
  bson_error_t error{};
  bson_t* const document = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(json.data()),
                                              static_cast<ssize_t>(json.size()), &error);
  if (document == nullptr)
    return std::unexpected(
        Error{Code::kInvalidArgument, std::string("no extended JSON: ") + error.message});
  return Bson(document);
}

}  // namespace idmint::mongo
