#include "idmint/id.h"

#include <array>

namespace idmint {
namespace {

// In the order of the alternatives.
constexpr std::array<std::string_view, std::variant_size_v<Id>> kFormats = {
    "integer", "snowflake", "uuid", "ulid", "object-id", "ksuid", "xid", "digits",
};

struct Printer {
  char* out;
  char* operator()(std::int64_t value) const noexcept {
    auto magnitude = static_cast<std::uint64_t>(value);
    char* to = out;
    if (value < 0) {
      *to++ = '-';
      magnitude = 0 - magnitude;
    }
    return detail::print_decimal(magnitude, to);
  }
  char* operator()(const auto& value) const noexcept { return value.to_chars(out); }
};

}  // namespace

std::string_view format_of(const Id& id) noexcept { return kFormats[id.index()]; }

char* to_chars(const Id& id, char* out) noexcept { return std::visit(Printer{out}, id); }

std::string to_string(const Id& id) {
  char text[kMaxIdChars];
  return {text, to_chars(id, text)};
}

}  // namespace idmint
