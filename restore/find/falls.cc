#include "restore/find/falls.h"

#include <optional>
#include <utility>

#include "base/figures.h"
#include "restore/find/hash.h"
#include "restore/oplog/changes.h"

namespace idmint::restore {
namespace {

constexpr std::uint32_t kFallsKept = 8;  // of one field
constexpr int kDeepestNumber = 4;

}  // namespace

std::uint64_t Falls::document_hash(const Operation& operation, const Field& id) {
  return hash_of(id.value, hash_of(operation.ns, id.type));
}

void Falls::inserted(const Operation& insert, const Place& place) {
  const std::uint64_t document = document_hash(insert, document_id(insert));
  for (const Field& field : Fields(insert.o)) {
    if (field.type == BSON_TYPE_INT32 || field.type == BSON_TYPE_INT64 ||
        field.type == BSON_TYPE_DOUBLE)
      compare(insert, document, field.key, field, true, place);
  }
}

// NOLINTNEXTLINE(misc-no-recursion): kDeepestNumber
void Falls::compare_within(const Operation& update, std::uint64_t document, std::string& path,
                           const Field& field, int depth, const Place& place) {
  if (field.type != BSON_TYPE_DOCUMENT) {
    compare(update, document, path, field, false, place);
    return;
  }
  if (depth == kDeepestNumber) return;
  for (const Field& each : Fields(field.document())) {
    const internal::PathStep step(path, each.key);
    compare_within(update, document, path, each, depth + 1, place);
  }
}

void Falls::compare(const Operation& operation, std::uint64_t document, std::string_view path,
                    const Field& field, bool only_known, const Place& place) {
  const std::optional<Number> value = number_of(field);
  if (!value) return;
  const std::uint64_t key = hash_of(path, document);
  auto* const slot = only_known ? counters_.find(key) : &counters_.take(key);
  if (slot == nullptr) return;
  const bool known = slot->uses++ != 0;
  Counter& counter = slot->value;
  const Number last = counter.last.number();
  if (known && *value == last) return;
  if (known) {
    const std::uint64_t field_key = hash_of(path, hash_of(operation.ns, 1));
    auto& facts = fields_.take(field_key);
    ++facts.uses;
    if (*value > last) {
      if (counter.rises != UINT16_MAX) ++counter.rises;
      ++facts.value.rises;
    } else if (++facts.value.falls <= kFallsKept && place.in_span) {
      fell(operation, path, field_key, counter, *value, place);
    }
  }
  counter.last = PackedNumber(*value);
}

void Falls::fell(const Operation& operation, std::string_view path, std::uint64_t key,
                 const Counter& counter, Number to, const Place& place) {
  Suspect fall = suspect_at(place, Reason::kFall, std::string(operation.ns), operation);
  fall.key = key;
  fall.field = path;
  fall.documents = 1;
  fall.why = std::string(path) + " of _id " + print_value(document_id(operation)) + " fell from " +
             print_number(counter.last.number()) + " to " + print_number(to) +
             (counter.rises == 0 ? "; it was not seen to rise before"
                                 : ", after it rose " + plural(counter.rises, "time"));
  fall.score = counter.rises >= 20  ? 86
               : counter.rises >= 3 ? 82
                                    : 40 + 12 * static_cast<double>(counter.rises);
  suspects_.keep(std::move(fall));
}

void Falls::weigh(Suspect& fall) {
  const auto* const facts = fields_.find(fall.key);
  if (facts == nullptr) return;
  const double falls = facts->value.falls;
  const double rises = facts->value.rises;
  fall.score /= 1 + 20 * (falls - 1) / (rises + 1);
  fall.why += falls == 1 ? std::string("; this field never fell else")
                         : "; falls of this field: " + print_count(falls) +
                               ", rises: " + print_count(rises);
}

}  // namespace idmint::restore
