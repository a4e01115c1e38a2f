#include "mongo/document.h"

namespace idmint::mongo {

std::string_view Document::first_key() const {
  if (!*this) return {};
  bson_iter_t at = begin();
  return bson_iter_next(&at) ? std::string_view(bson_iter_key(&at), bson_iter_key_len(&at))
                             : std::string_view{};
}

bool Document::is_only(const char* key) const {
  if (!*this) return false;
  bson_iter_t at = begin();
  return bson_iter_next(&at) && std::string_view(bson_iter_key(&at)) == key && !bson_iter_next(&at);
}

std::optional<std::int64_t> Document::integer(const char* key) const {
  bson_iter_t at;
  if (!find(key, &at) || (!BSON_ITER_HOLDS_INT32(&at) && !BSON_ITER_HOLDS_INT64(&at)))
    return std::nullopt;
  return bson_iter_as_int64(&at);
}

std::optional<double> Document::real(const char* key) const {
  bson_iter_t at;
  if (!find(key, &at) || !BSON_ITER_HOLDS_DOUBLE(&at)) return std::nullopt;
  return bson_iter_double(&at);
}

std::optional<std::chrono::milliseconds> Document::date(const char* key) const {
  bson_iter_t at;
  if (!find(key, &at) || !BSON_ITER_HOLDS_DATE_TIME(&at)) return std::nullopt;
  return std::chrono::milliseconds{bson_iter_date_time(&at)};
}

std::optional<BsonTimestamp> Document::timestamp(const char* key) const {
  bson_iter_t at;
  if (!find(key, &at) || !BSON_ITER_HOLDS_TIMESTAMP(&at)) return std::nullopt;
  BsonTimestamp found{};
  bson_iter_timestamp(&at, &found.seconds, &found.ordinal);
  return found;
}

std::optional<std::int64_t> Document::numeric(const char* key) const {
  bson_iter_t at;
  return find(key, &at) ? as_integer(at) : std::nullopt;
}

std::optional<bool> Document::boolean(const char* key) const {
  bson_iter_t at;
  if (!find(key, &at) || !BSON_ITER_HOLDS_BOOL(&at)) return std::nullopt;
  return bson_iter_bool(&at);
}

std::optional<std::string_view> Document::bytes(const char* key) const {
  bson_iter_t at;
  if (!find(key, &at)) return std::nullopt;
  if (BSON_ITER_HOLDS_UTF8(&at)) return as_text(at);
  if (BSON_ITER_HOLDS_BINARY(&at)) return as_binary(at);
  return std::nullopt;
}

std::string_view Document::text(const char* key) const {
  bson_iter_t at;
  return find(key, &at) ? as_text(at) : std::string_view();
}

Document Document::array(const char* key) const {
  bson_iter_t at;
  return find(key, &at) && BSON_ITER_HOLDS_ARRAY(&at) ? as_document(at) : Document();
}

Document Document::document(const char* key) const {
  bson_iter_t at;
  return find(key, &at) && BSON_ITER_HOLDS_DOCUMENT(&at) ? as_document(at) : Document();
}

void Document::each_field(const std::function<void(const char* key, bson_iter_t* at)>& use) const {
  if (!*this) return;
  bson_iter_t at = begin();
  while (bson_iter_next(&at)) use(bson_iter_key(&at), &at);
}

void Document::each_item(const char* key,
                         const std::function<void(const bson_iter_t&)>& use) const {
  bson_iter_t at;
  if (!find(key, &at) || !BSON_ITER_HOLDS_ARRAY(&at)) return;
  const Document array = as_document(at);
  if (!array) return;
  bson_iter_t item = array.begin();
  while (bson_iter_next(&item)) use(item);
}

void Document::each(const char* key, const std::function<void(const Document&)>& use) const {
  each_item(key, [&](const bson_iter_t& item) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&item)) return;
    if (const Document inner = as_document(item)) use(inner);
  });
}

void Document::each_text(const char* key, const std::function<void(std::string_view)>& use) const {
  each_item(key, [&](const bson_iter_t& item) {
    if (BSON_ITER_HOLDS_UTF8(&item)) use(as_text(item));
  });
}

bool Document::lists(const char* key, std::string_view text) const {
  bool found = false;
  each_text(key, [&](std::string_view each) { found = found || each == text; });
  return found;
}

std::string text_of(Document document, const char* key) { return std::string(document.text(key)); }

Document as_document(const bson_iter_t& at) {
  std::uint32_t size = 0;
  const std::uint8_t* data = nullptr;
  if (BSON_ITER_HOLDS_DOCUMENT(&at)) bson_iter_document(&at, &size, &data);
  if (BSON_ITER_HOLDS_ARRAY(&at)) bson_iter_array(&at, &size, &data);
  return data != nullptr ? Document::of({data, size}) : Document{};
}

std::string_view as_text(const bson_iter_t& at) {
  if (!BSON_ITER_HOLDS_UTF8(&at)) return {};
  std::uint32_t size = 0;
  const char* const text = bson_iter_utf8(&at, &size);
  return {text, size};
}

std::string_view as_binary(const bson_iter_t& at) {
  if (!BSON_ITER_HOLDS_BINARY(&at)) return {};
  bson_subtype_t subtype{};
  std::uint32_t size = 0;
  const std::uint8_t* data = nullptr;
  bson_iter_binary(&at, &subtype, &size, &data);
  return {reinterpret_cast<const char*>(data), size};
}

std::optional<std::int64_t> as_integer(const bson_iter_t& at) {
  switch (bson_iter_type(&at)) {
    case BSON_TYPE_INT32:
    case BSON_TYPE_INT64:
    case BSON_TYPE_DOUBLE:
      return bson_iter_as_int64(&at);
    default:
      return std::nullopt;
  }
}

namespace {

std::string taken(char* text) {
  std::string copy(text != nullptr ? text : "");
  bson_free(text);
  return copy;
}

}  // namespace

std::string to_canonical_json(Document document) {
  const bson_t view = document.view();
  return taken(bson_as_canonical_extended_json(&view, nullptr));
}

std::string to_relaxed_json(Document document) {
  const bson_t view = document.view();
  return taken(bson_as_relaxed_extended_json(&view, nullptr));
}

}  // namespace idmint::mongo
