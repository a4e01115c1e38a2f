#include "engines/mongodb/document.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "idmint/form.h"
#include "mongo/bson.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {
namespace {

// Whether nothing is nested deeper, since bson_validate() uses stack for each level.
bool is_shallow(bson_iter_t* at, int levels) {
  while (bson_iter_next(at)) {
    const bson_type_t type = bson_iter_type(at);
    bson_iter_t inner;
    bool nested = false;
    if (type == BSON_TYPE_DOCUMENT || type == BSON_TYPE_ARRAY) {
      nested = bson_iter_recurse(at, &inner);
    } else if (type == BSON_TYPE_CODEWSCOPE) {
      std::uint32_t length = 0;
      std::uint32_t size = 0;
      const std::uint8_t* scope = nullptr;
      bson_iter_codewscope(at, &length, &size, &scope);
      nested = scope != nullptr && bson_iter_init_from_data(&inner, scope, size);
    }
    if (nested && (levels == 0 || !is_shallow(&inner, levels - 1))) return false;
  }
  return true;
}

}  // namespace

std::size_t size_with_id(std::size_t document, const std::string& field) {
  return document + field.size() + kMaxFormChars + 16;
}

std::optional<std::string> fault_of(std::span<const std::byte> bytes, const std::string& field) {
  bson_t document;
  bson_error_t error{};
  constexpr std::size_t kSmallest = 5;
  if (bytes.size() < kSmallest || bytes.size() > std::numeric_limits<std::int32_t>::max() ||
      !bson_init_static(&document, reinterpret_cast<const std::uint8_t*>(bytes.data()),
                        bytes.size()))
    return "is not BSON";
  constexpr int kMostLevels = 200;  // MongoDB's limit
  bson_iter_t at;
  if (!bson_iter_init(&at, &document)) return "is not BSON";
  if (!is_shallow(&at, kMostLevels)) return "has documents nested in more than 200 levels";
  constexpr auto kUtf8 =
      static_cast<bson_validate_flags_t>(BSON_VALIDATE_UTF8 | BSON_VALIDATE_UTF8_ALLOW_NULL);
  if (!bson_validate_with_error(&document, kUtf8, &error))
    return "is not BSON: " + std::string(error.message);
  if (Document::of(&document).has(field.c_str()))
    return "has the field " + shown(field) +
           " already, which is for its new id: take it out, or name another field";
  if (size_with_id(bytes.size(), field) > kLargestDocument)
    return "has " + std::to_string(bytes.size()) +
           " bytes, and MongoDB takes 16,777,216 with the id: divide it";
  return std::nullopt;
}

bson_t view_of(std::span<const std::byte> bytes) {
  bson_t document{};
  if (!bson_init_static(&document, reinterpret_cast<const std::uint8_t*>(bytes.data()),
                        bytes.size()))
    std::abort();  // checked before
  return document;
}

}  // namespace idmint::stores::mongodb
