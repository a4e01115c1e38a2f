// BSON documents as bytes that are somebody else's.
#pragma once

#include <bson/bson.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "idmint/result.h"

namespace idmint::restore {

// The largest that a server takes over the wire, and writes to its oplog: 16 MiB and 16 KiB.
inline constexpr std::size_t kLargestDocument = (std::size_t{16} << 20) + (std::size_t{16} << 10);

// A view of a document whose length and last byte are right. What is between is checked by who
// reads it, or by validate(). Empty where there is none.
class Document {
 public:
  constexpr Document() = default;
  // None, unless the bytes are as long as they say and end in 0.
  [[nodiscard]] static Document of(std::span<const std::uint8_t> bytes) {
    Document document;
    if (bytes.size() < 5 || bytes.size() > INT32_MAX || bytes.back() != 0) return document;
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);  // little-endian, as the host is
    if (BSON_UINT32_FROM_LE(length) == bytes.size()) document.bytes_ = bytes;
    return document;
  }
  [[nodiscard]] static Document of(const bson_t* document) {
    return of({bson_get_data(document), document->len});
  }

  // There is a document; one without a field too.
  [[nodiscard]] explicit operator bool() const { return !bytes_.empty(); }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_; }

  // REQUIRES: *this. For the calls of libbson; must not outlive the bytes, and is not destroyed.
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
  // False: there is no such field, or what is before it is damaged.
  [[nodiscard]] bool find(const char* key, bson_iter_t* at) const {
    if (!*this) return false;
    *at = begin();
    return bson_iter_find(at, key);
  }
  // The key of the first field: what a command is called. Empty: there is none.
  [[nodiscard]] std::string_view first_key() const {
    if (!*this) return {};
    bson_iter_t at = begin();
    return bson_iter_next(&at) ? std::string_view(bson_iter_key(&at), bson_iter_key_len(&at))
                               : std::string_view{};
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

// Of the value that an iterator is at. None, empty or nothing where it is of another type.
[[nodiscard]] Document as_document(const bson_iter_t& at);  // of an array too
[[nodiscard]] std::string_view as_text(const bson_iter_t& at);
[[nodiscard]] std::string_view as_binary(const bson_iter_t& at);              // of any subtype
[[nodiscard]] std::optional<std::int64_t> as_integer(const bson_iter_t& at);  // of any number

// Every element at every depth is well-formed. Text may be any bytes: servers keep what is no UTF-8
// as they are given it. kDataLoss: one is not.
[[nodiscard]] Result<void> validate(Document document);

}  // namespace idmint::restore
