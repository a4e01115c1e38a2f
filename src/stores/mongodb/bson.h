// BSON documents: to read (View) and to write (Bson).
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "stores/mongodb/driver.h"

namespace idmint::stores::mongodb {

// An integer as extended JSON.
inline std::string number(std::int64_t value) {
  return R"({"$numberLong":")" + std::to_string(value) + R"("})";
}

// A document that is somebody else's, and must stay as long as this.
class View {
 public:
  explicit View(const bson_t* document) : document_(document) {}

  [[nodiscard]] bool has(const char* key) const {
    bson_iter_t at;
    return bson_iter_init_find(&at, document_, key);
  }
  [[nodiscard]] std::optional<std::int64_t> integer(const char* key) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_INT32, BSON_TYPE_INT64)) return std::nullopt;
    return bson_iter_as_int64(&at);
  }
  // An empty one is of 5 bytes.
  [[nodiscard]] bool empty() const { return document_->len == 5; }
  friend bool operator==(const View& a, const View& b) {
    return bson_equal(a.document_, b.document_);
  }
  // BSON_TYPE_EOD where there is none.
  [[nodiscard]] bson_type_t type(const char* key) const {
    bson_iter_t at;
    return bson_iter_init_find(&at, document_, key) ? bson_iter_type(&at) : BSON_TYPE_EOD;
  }
  [[nodiscard]] std::optional<double> real(const char* key) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_DOUBLE, BSON_TYPE_DOUBLE)) return std::nullopt;
    return bson_iter_double(&at);
  }
  // What a reply calls a number may be any type of number.
  [[nodiscard]] std::int64_t number(const char* key) const {
    bson_iter_t at;
    return bson_iter_init_find(&at, document_, key) ? bson_iter_as_int64(&at) : 0;
  }
  [[nodiscard]] std::optional<bool> boolean(const char* key) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_BOOL, BSON_TYPE_BOOL)) return std::nullopt;
    return bson_iter_bool(&at);
  }
  // Of a string, or of binary data.
  [[nodiscard]] std::optional<std::string_view> bytes(const char* key) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_UTF8, BSON_TYPE_BINARY)) return std::nullopt;
    std::uint32_t size = 0;
    if (bson_iter_type(&at) == BSON_TYPE_UTF8) {
      const char* const text = bson_iter_utf8(&at, &size);
      return std::string_view(text, size);
    }
    bson_subtype_t subtype{};
    const std::uint8_t* data = nullptr;
    bson_iter_binary(&at, &subtype, &size, &data);
    return std::string_view(reinterpret_cast<const char*>(data), size);
  }
  // The document under `key`, read within `use`; false where there is none.
  bool document(const char* key, const std::function<void(const View&)>& use) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_DOCUMENT, BSON_TYPE_DOCUMENT)) return false;
    bson_t inner;
    if (!read_document(&at, &inner)) return false;
    use(View(&inner));
    return true;
  }
  // Whether this is the first field, which is what a command is called.
  [[nodiscard]] bool begins_with(const char* key) const {
    bson_iter_t at;
    return bson_iter_init(&at, document_) && bson_iter_next(&at) &&
           std::string_view(bson_iter_key(&at)) == key;
  }
  // Each field, in order.
  void each_field(const std::function<void(const char* key, bson_iter_t* at)>& use) const {
    bson_iter_t at;
    if (!bson_iter_init(&at, document_)) return;
    while (bson_iter_next(&at)) use(bson_iter_key(&at), &at);
  }
  // Each document of the array under `key`.
  void each(const char* key, const std::function<void(const View&)>& use) const {
    each_item(key, [&](const bson_iter_t* item) {
      bson_t inner;
      if (bson_iter_type(item) == BSON_TYPE_DOCUMENT && read_document(item, &inner))
        use(View(&inner));
    });
  }
  // Each document of the reply to a find, or to what answers as one.
  void each_found(const std::function<void(const View&)>& use) const {
    document("cursor", [&](const View& cursor) { cursor.each("firstBatch", use); });
  }
  // Each text of the array under `key`.
  void each_text(const char* key, const std::function<void(std::string_view)>& use) const {
    each_item(key, [&](const bson_iter_t* item) {
      if (bson_iter_type(item) != BSON_TYPE_UTF8) return;
      std::uint32_t size = 0;
      const char* const text = bson_iter_utf8(item, &size);
      use(std::string_view(text, size));
    });
  }
  // Whether the text is in the array under `key`.
  [[nodiscard]] bool lists(const char* key, std::string_view text) const {
    bool found = false;
    each_text(key, [&](std::string_view each) { found = found || each == text; });
    return found;
  }
  // Whether there is one field, and it is this.
  [[nodiscard]] bool is_only(const char* key) const {
    bson_iter_t at;
    return bson_iter_init(&at, document_) && bson_iter_next(&at) &&
           std::string_view(bson_iter_key(&at)) == key && !bson_iter_next(&at);
  }
  [[nodiscard]] bool is_array(const char* key) const {
    bson_iter_t at;
    return find(&at, key, BSON_TYPE_ARRAY, BSON_TYPE_ARRAY);
  }

 private:
  bool find(bson_iter_t* at, const char* key, bson_type_t one, bson_type_t other) const {
    return bson_iter_init_find(at, document_, key) &&
           (bson_iter_type(at) == one || bson_iter_type(at) == other);
  }
  void each_item(const char* key, const std::function<void(const bson_iter_t*)>& use) const {
    bson_iter_t at;
    if (!find(&at, key, BSON_TYPE_ARRAY, BSON_TYPE_ARRAY)) return;
    const std::uint8_t* data = nullptr;
    std::uint32_t size = 0;
    bson_iter_array(&at, &size, &data);
    bson_t array;
    bson_iter_t item;
    if (data == nullptr || !bson_init_static(&array, data, size)) return;
    if (!bson_iter_init(&item, &array)) return;
    while (bson_iter_next(&item)) use(&item);
  }
  static bool read_document(const bson_iter_t* at, bson_t* inner) {
    const std::uint8_t* data = nullptr;
    std::uint32_t size = 0;
    bson_iter_document(at, &size, &data);
    return data != nullptr && bson_init_static(inner, data, size);
  }

  const bson_t* document_;
};

// A document of our own.
class Bson {
 public:
  Bson() : document_(bson_new()) {}
  // REQUIRES: well-formed; the texts are in this file, but for the integers in them.
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
  ~Bson() {
    if (document_ != nullptr) bson_destroy(document_);
  }
  Bson(Bson&& other) noexcept : document_(std::exchange(other.document_, nullptr)) {}
  Bson& operator=(Bson&& other) noexcept {
    std::swap(document_, other.document_);
    return *this;
  }

  [[nodiscard]] Bson copy() const { return Bson(bson_copy(document_)); }
  // What a call of the driver left in `reply`, which is destroyed.
  [[nodiscard]] static Bson taken_from(bson_t* reply) {
    Bson taken(bson_copy(reply));
    bson_destroy(reply);
    return taken;
  }
  [[nodiscard]] bson_t* get() const { return document_; }
  [[nodiscard]] View view() const { return View(document_); }

  Bson& add(const char* key, std::int64_t value) {
    return added(bson_append_int64(document_, key, -1, value));
  }
  Bson& add(const char* key, std::int32_t value) {
    return added(bson_append_int32(document_, key, -1, value));
  }
  Bson& add(const char* key, bool value) {
    return added(bson_append_bool(document_, key, -1, value));
  }
  // Of the time since 1970.
  Bson& add(const char* key, std::chrono::milliseconds time) {
    return added(bson_append_date_time(document_, key, -1, time.count()));
  }
  // The value that `at` is at, of any type.
  Bson& add(const char* key, const bson_iter_t* at) {
    return added(bson_append_iter(document_, key, -1, at));
  }
  Bson& add(const char* key, const Bson& value) {
    return added(bson_append_document(document_, key, -1, value.get()));
  }
  Bson& add_array(const char* key, const Bson& value) {
    return added(bson_append_array(document_, key, -1, value.get()));
  }
  // All fields of another.
  Bson& add_all(const bson_t& other) { return added(bson_concat(document_, &other)); }
  // A string or, where that is impossible, binary data.
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
  explicit Bson(bson_t* document) : document_(document) {}

  static const char* data(std::string_view bytes) {
    return bytes.data() != nullptr ? bytes.data() : "";
  }
  static int size(std::string_view bytes) { return static_cast<int>(bytes.size()); }
  // Appending fails only past 2 GB, which the limits of the interfaces keep us from.
  Bson& added(bool ok) {
    if (!ok) std::abort();
    return *this;
  }

  bson_t* document_;
};

}  // namespace idmint::stores::mongodb
