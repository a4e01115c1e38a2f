#include "restore/oplog/fields.h"

#include <array>
#include <vector>

#include "base/errors.h"

namespace idmint::restore {
namespace {

// Servers reject more than 180.
constexpr int kDeepest = 200;

// bson_concat() copies bytes.
void append_elements(bson_t* to, std::span<const std::uint8_t> elements) {
  std::vector<std::uint8_t> bytes(4);
  const std::uint32_t size = BSON_UINT32_TO_LE(static_cast<std::uint32_t>(elements.size() + 5));
  std::memcpy(bytes.data(), &size, sizeof size);
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  bytes.push_back(0);
  bson_t whole;
  if (bson_init_static(&whole, bytes.data(), bytes.size())) bson_concat(to, &whole);
}

// The scope of code with a scope: {size, text, document}.
Document scope_of(const Field& field) {
  if (field.value.size() < 14) return {};
  std::uint32_t text = 0;
  std::memcpy(&text, field.value.data() + 4, sizeof text);
  text = BSON_UINT32_FROM_LE(text);
  if (text == 0 || text > field.value.size() - 8 || field.value[8 + text - 1] != 0) return {};
  return Document::of(field.value.subspan(8 + text));
}

// NOLINTNEXTLINE(misc-no-recursion): kDeepest
bool well_formed(Document document, int depth) {
  if (!document || depth == kDeepest) return false;
  Fields fields(document);
  Field field;
  while (fields.next(field)) {
    switch (field.type) {
      case BSON_TYPE_DOCUMENT:
      case BSON_TYPE_ARRAY:
        if (!well_formed(field.document(), depth + 1)) return false;
        break;
      case BSON_TYPE_CODEWSCOPE:
        if (!well_formed(scope_of(field), depth + 1)) return false;
        break;
      case BSON_TYPE_BOOL:
        if (field.value[0] > 1) return false;
        break;
      default:
        break;
    }
  }
  return !fields.damaged();
}

}  // namespace

std::string decimal_text(const Field& field) {
  bson_decimal128_t decimal{};
  decimal.low = field.load64();
  Field high = field;
  high.value = field.value.subspan(8);
  decimal.high = high.load64();
  std::array<char, BSON_DECIMAL128_STRING> text{};
  bson_decimal128_to_string(&decimal, text.data());
  return text.data();
}

std::optional<Timestamp> timestamp_in(Document document, const char* key) {
  const std::optional<BsonTimestamp> found = document.timestamp(key);
  if (!found) return std::nullopt;
  return Timestamp{.seconds = found->seconds, .ordinal = found->ordinal};
}

void append_field(bson_t* to, const Field& field) { append_elements(to, field.element()); }

void append_field_as(bson_t* to, std::string_view key, const Field& field) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(key.size() + 2 + field.value.size());
  bytes.push_back(field.type);
  bytes.insert(bytes.end(), key.begin(), key.end());
  bytes.push_back(0);
  bytes.insert(bytes.end(), field.value.begin(), field.value.end());
  append_elements(to, bytes);
}

Result<void> validate(Document document) {
  if (well_formed(document, 0)) return {};
  return fail(Code::kDataLoss, "damaged BSON");
}

}  // namespace idmint::restore
