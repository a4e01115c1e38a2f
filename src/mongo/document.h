// BSON documents that are read in place, in bytes of another owner.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "mongo/driver.h"

namespace idmint::mongo {

// MongoDB's timestamp type of the oplog.
struct BsonTimestamp {
  std::uint32_t seconds;
  std::uint32_t ordinal;
};

// The largest document that a server accepts over the wire and writes to its oplog: 16 MiB and 16
// KiB.
inline constexpr std::size_t kLargestDocument = (std::size_t{16} << 20) + (std::size_t{16} << 10);

// A view of a document with a correct length and last byte. Readers check the bytes between. The
// bytes must outlive the view.
class Document {
 public:
  // A view of no document, without fields.
  constexpr Document() = default;
  // No document, unless the bytes have the length that they state and end in 0.
  [[nodiscard]] static Document of(std::span<const std::uint8_t> bytes) {
    Document document;
    if (bytes.size() < kEmpty || bytes.size() > INT32_MAX || bytes.back() != 0) return document;
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);  // little-endian, as the host is
    if (BSON_UINT32_FROM_LE(length) == bytes.size()) document.bytes_ = bytes;
    return document;
  }
  [[nodiscard]] static Document of(std::string_view raw) {
    return of(std::span(reinterpret_cast<const std::uint8_t*>(raw.data()), raw.size()));
  }
  [[nodiscard]] static Document of(const bson_t* document) {
    return of({bson_get_data(document), document->len});
  }

  // Whether there is a document, with or without fields.
  [[nodiscard]] explicit operator bool() const { return !bytes_.empty(); }
  // Whether it has no field. REQUIRES: *this.
  [[nodiscard]] bool empty() const { return bytes_.size() == kEmpty; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_; }
  // The same bytes, to be kept as text.
  [[nodiscard]] std::string_view raw() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  friend bool operator==(const Document& a, const Document& b) {
    return std::ranges::equal(a.bytes_, b.bytes_);
  }

  // For calls of libbson; must not be destroyed. REQUIRES: *this.
  [[nodiscard]] bson_t view() const {
    bson_t view;
    [[maybe_unused]] const bool ok = bson_init_static(&view, bytes_.data(), bytes_.size());
    return view;
  }
  [[nodiscard]] bson_iter_t begin() const {
    bson_iter_t at;
    [[maybe_unused]] const bool ok = bson_iter_init_from_data(&at, bytes_.data(), bytes_.size());
    return at;
  }

  // False: there is no such field, or the bytes before it are damaged.
  [[nodiscard]] bool find(const char* key, bson_iter_t* at) const {
    if (!*this) return false;
    *at = begin();
    return bson_iter_find(at, key);
  }
  [[nodiscard]] bool has(const char* key) const {
    bson_iter_t at;
    return find(key, &at);
  }
  // BSON_TYPE_EOD: there is no such field.
  [[nodiscard]] bson_type_t type(const char* key) const {
    bson_iter_t at;
    return find(key, &at) ? bson_iter_type(&at) : BSON_TYPE_EOD;
  }
  // The key of the first field, the name of a command. Empty: none.
  [[nodiscard]] std::string_view first_key() const;
  // Whether the field is the only one.
  [[nodiscard]] bool is_only(const char* key) const;

  // Nothing, or no document: there is no such field, or it has another type.
  [[nodiscard]] std::optional<std::int64_t> integer(const char* key) const;  // int32 or int64
  [[nodiscard]] std::optional<double> real(const char* key) const;
  [[nodiscard]] std::optional<bool> boolean(const char* key) const;
  // A date: the time since 1970.
  [[nodiscard]] std::optional<std::chrono::milliseconds> date(const char* key) const;
  [[nodiscard]] std::optional<BsonTimestamp> timestamp(const char* key) const;
  [[nodiscard]] std::optional<std::string_view> bytes(const char* key) const;  // text or binary
  [[nodiscard]] std::string_view text(const char* key) const;                  // empty: none
  [[nodiscard]] Document document(const char* key) const;
  [[nodiscard]] Document array(const char* key) const;  // its items have the keys "0", "1", ...
  [[nodiscard]] bool is_array(const char* key) const { return type(key) == BSON_TYPE_ARRAY; }
  // The value of any type of number; a fraction is cut off.
  [[nodiscard]] std::optional<std::int64_t> numeric(const char* key) const;
  // Whether a server takes the field for true: it is there, and not false, 0 or null.
  [[nodiscard]] bool truthy(const char* key) const {
    bson_iter_t at;
    return find(key, &at) && bson_iter_as_bool(&at);
  }
  // For numbers of a reply, which may have any type of number; 0: none.
  [[nodiscard]] std::int64_t number(const char* key) const {
    bson_iter_t at;
    return find(key, &at) ? bson_iter_as_int64(&at) : 0;
  }

  // Each field, in order.
  void each_field(const std::function<void(const char* key, bson_iter_t* at)>& use) const;
  // Each document of the array under `key`.
  void each(const char* key, const std::function<void(const Document&)>& use) const;
  // Each document of the reply to a find, or to a command with a similar reply.
  void each_found(const std::function<void(const Document&)>& use) const {
    document("cursor").each("firstBatch", use);
  }
  // The first of them.
  [[nodiscard]] Document first_found() const {
    return document("cursor").array("firstBatch").document("0");
  }
  // Each text of the array under `key`.
  void each_text(const char* key, const std::function<void(std::string_view)>& use) const;
  // Whether the text is in the array under `key`.
  [[nodiscard]] bool lists(const char* key, std::string_view text) const;

 private:
  static constexpr std::size_t kEmpty = 5;  // bytes of a document without fields

  void each_item(const char* key, const std::function<void(const bson_iter_t&)>& use) const;

  std::span<const std::uint8_t> bytes_;
};

// The text of a field. Empty: there is no such field, or it has another type.
[[nodiscard]] std::string text_of(Document document, const char* key);

// The value at an iterator. No document, empty or nothing: it has another type.
[[nodiscard]] Document as_document(const bson_iter_t& at);  // arrays too
[[nodiscard]] std::string_view as_text(const bson_iter_t& at);
[[nodiscard]] std::string_view as_binary(const bson_iter_t& at);              // any subtype
[[nodiscard]] std::optional<std::int64_t> as_integer(const bson_iter_t& at);  // any type of number

// Extended JSON: canonical, and relaxed (easier to read).
[[nodiscard]] std::string to_canonical_json(Document document);
[[nodiscard]] std::string to_relaxed_json(Document document);

}  // namespace idmint::mongo
