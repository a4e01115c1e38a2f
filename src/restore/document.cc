#include "restore/document.h"

#include <string>

namespace idmint::restore {
namespace {

// Servers refuse more than 180.
constexpr int kDeepest = 200;

bool well_formed(Document document, int depth) {
  if (!document || depth == kDeepest) return false;
  bson_iter_t at = document.begin();
  while (bson_iter_next(&at)) {
    const bson_type_t type = bson_iter_type(&at);
    if (type == BSON_TYPE_DOCUMENT || type == BSON_TYPE_ARRAY) {
      if (!well_formed(as_document(at), depth + 1)) return false;
    } else if (type == BSON_TYPE_CODEWSCOPE) {
      std::uint32_t code = 0;
      std::uint32_t size = 0;
      const std::uint8_t* scope = nullptr;
      bson_iter_codewscope(&at, &code, &size, &scope);
      if (!well_formed(Document::of({scope, size}), depth + 1)) return false;
    }
  }
  // bson_iter_next() ends at what is damaged, and at the end.
  return at.err_off == 0;
}

}  // namespace

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

Result<void> validate(Document document) {
  if (well_formed(document, 0)) return {};
  return std::unexpected(Error{Code::kDataLoss, "damaged BSON"});
}

}  // namespace idmint::restore
