#include "idmint/id.h"

namespace idmint {
namespace {

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

char* to_chars(const Id& id, char* out) noexcept { return std::visit(Printer{out}, id); }

std::string to_string(const Id& id) {
  char text[kMaxIdChars];
  return {text, to_chars(id, text)};
}

std::string_view name(Order order) noexcept {
  switch (order) {
    case Order::kNone:
      return "none";
    case Order::kBySecond:
      return "by second";
    case Order::kPerThread:
      return "per thread";
    case Order::kPerProcess:
      return "per process";
    case Order::kAll:
      return "all";
  }
  return "unknown";
}

}  // namespace idmint
