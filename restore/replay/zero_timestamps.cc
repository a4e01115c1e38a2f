#include "restore/replay/zero_timestamps.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <vector>

#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

// False for the field _id: a server keeps a zero timestamp there.
bool is_zero(const Field& field) {
  return field.type == BSON_TYPE_TIMESTAMP && field.load64() == 0 && field.key != "_id";
}

}  // namespace

bool has_zero_timestamp(Document document) {
  for (const Field& field : Fields(document))
    if (is_zero(field)) return true;
  return false;
}

bool needs_one_step(Document document) {
  if (!has_zero_timestamp(document)) return false;
  std::set<std::string_view> zero;
  std::set<std::string_view> other;
  for (const Field& field : Fields(document)) (is_zero(field) ? zero : other).insert(field.key);
  return std::ranges::any_of(zero, [&](std::string_view key) { return other.contains(key); });
}

std::optional<TwoSteps> in_two_steps(Document document) {
  if (!has_zero_timestamp(document)) return std::nullopt;
  TwoSteps steps{.first = Bson(), .diff = Bson()};
  std::vector<std::uint8_t> bytes(document.bytes().begin(), document.bytes().end());
  std::set<std::string_view> zero;
  for (const Field& field : Fields(document)) {
    if (!is_zero(field)) continue;
    zero.insert(field.key);
    bytes[static_cast<std::size_t>(field.value.data() - document.bytes().data())] = 1;
  }
  steps.first = Bson::copy_of(Document::of(bytes));
  Bson updated;
  for (const std::string_view key : zero) updated.add(std::string(key).c_str(), BsonTimestamp{});
  steps.diff.append("$v", 2, "diff", Bson("u", updated));
  return steps;
}

Bson only_id(Document document) {
  Bson id;
  if (const std::optional<Field> field = find_field(document, "_id"))
    append_field(id.get(), *field);
  return id;
}

}  // namespace idmint::restore
