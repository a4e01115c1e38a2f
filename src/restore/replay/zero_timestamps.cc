#include "restore/replay/zero_timestamps.h"

#include "restore/oplog/fields.h"

namespace idmint::restore {

// Ignores _id, which is kept.
bool has_zero_timestamp(Document document) {
  Fields fields(document);
  Field field;
  while (fields.next(field)) {
    if (field.type == BSON_TYPE_TIMESTAMP && field.load64() == 0 && field.key != "_id") return true;
  }
  return false;
}

std::optional<TwoSteps> in_two_steps(Document document) {
  if (!has_zero_timestamp(document)) return std::nullopt;
  TwoSteps steps{.first = Bson(), .diff = Bson()};
  bson_t changes;
  bson_t updated;
  BSON_APPEND_INT32(steps.diff.get(), "$v", 2);
  BSON_APPEND_DOCUMENT_BEGIN(steps.diff.get(), "diff", &changes);
  BSON_APPEND_DOCUMENT_BEGIN(&changes, "u", &updated);
  bson_iter_t at = document.begin();
  while (bson_iter_next(&at)) {
    const std::string_view key = bson_iter_key(&at);
    Timestamp value{.seconds = 1};
    if (BSON_ITER_HOLDS_TIMESTAMP(&at) && key != "_id")
      bson_iter_timestamp(&at, &value.seconds, &value.ordinal);
    if (value == Timestamp{}) {
      bson_append_timestamp(steps.first.get(), key.data(), static_cast<int>(key.size()), 0, 1);
      bson_append_timestamp(&updated, key.data(), static_cast<int>(key.size()), 0, 0);
    } else {
      bson_append_iter(steps.first.get(), nullptr, 0, &at);
    }
  }
  bson_append_document_end(&changes, &updated);
  bson_append_document_end(steps.diff.get(), &changes);
  return steps;
}

Bson only_id(Document document) {
  Bson id;
  bson_iter_t at;
  if (document.find("_id", &at)) bson_append_iter(id.get(), nullptr, 0, &at);
  return id;
}

}  // namespace idmint::restore
