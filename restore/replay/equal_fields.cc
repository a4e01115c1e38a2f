#include "restore/replay/equal_fields.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

bool equal_values(const Field& a, const Field& b) {
  const std::optional<std::int64_t> number = a.integer();
  if (number) return number == b.integer();
  if (a.type != b.type) return false;
  if (a.document()) return equal_fields(a.document(), b.document());
  return std::ranges::equal(a.value, b.value);
}

std::size_t field_count(Document document) {
  std::size_t count = 0;
  Fields fields(document);
  for (Field field; fields.next(field);) ++count;
  return count;
}

}  // namespace

bool equal_fields(Document a, Document b) {
  if (field_count(a) != field_count(b)) return false;
  for (const Field& field : Fields(a)) {
    const std::optional<Field> other = find_field(b, field.key);
    if (!other || !equal_values(field, *other)) return false;
  }
  return true;
}

}  // namespace idmint::restore
