#include "restore/replay/equal_fields.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace idmint::restore {
namespace {

bool equal_values(const bson_iter_t& a, const bson_iter_t& b) {
  const std::optional<std::int64_t> number = as_integer(a);
  if (number) return number == as_integer(b);
  if (bson_iter_type(&a) != bson_iter_type(&b)) return false;
  if (as_document(a)) return equal_fields(as_document(a), as_document(b));
  const std::size_t key = std::strlen(bson_iter_key(&a)) + 2;
  const auto bytes = [&](const bson_iter_t& at) {
    return std::string_view(reinterpret_cast<const char*>(at.raw + at.off), at.next_off - at.off)
        .substr(key);
  };
  return bytes(a) == bytes(b);
}

}  // namespace

bool equal_fields(Document a, Document b) {
  const auto count = [](Document document) {
    std::size_t fields = 0;
    bson_iter_t at = document.begin();
    while (bson_iter_next(&at)) ++fields;
    return fields;
  };
  if (count(a) != count(b)) return false;
  bson_iter_t at = a.begin();
  while (bson_iter_next(&at)) {
    bson_iter_t other;
    if (!b.find(bson_iter_key(&at), &other) || !equal_values(at, other)) return false;
  }
  return true;
}

}  // namespace idmint::restore
