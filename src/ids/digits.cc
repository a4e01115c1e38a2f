#include "idmint/digits.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/print.h"
#include "idmint/encoding.h"

namespace idmint {
namespace {

constexpr std::array<Uint128, Digits::kMaxChars + 1> kPowers = [] {
  std::array<Uint128, Digits::kMaxChars + 1> powers{1};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// REQUIRES: at most 36 digits.
Uint128 number(std::string_view digits) noexcept {
  Uint128 value = 0;
  for (const char c : digits) value = value * 10 + static_cast<unsigned>(c - '0');
  return value;
}

std::size_t payload_of(const DigitsLayout& layout) noexcept {
  return static_cast<std::size_t>(layout.digits) - layout.prefix.size() - check_width(layout.check);
}

// The smallest payload: that of index 0.
Uint128 smallest_payload(const DigitsLayout& layout) noexcept {
  return layout.leading_zeros || !layout.prefix.empty() ? 0 : kPowers[payload_of(layout) - 1];
}

}  // namespace

// ---- Digits

Result<Digits> Digits::parse(std::string_view text) {
  if (text.empty() || text.size() > kMaxChars || !std::ranges::all_of(text, is_digit)) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "not digits: expected 1 to 36 characters 0-9"});
  }
  return Digits(text.size(), number(text));
}

char* Digits::to_chars(char* out) const noexcept {
  constexpr std::size_t half = 18;
  if (size_ <= half) return detail::print_padded(low_, size_, out);
  return detail::print_padded(low_, half, detail::print_padded(high_, size_ - half, out));
}

// ---- DigitsLayout

Result<void> DigitsLayout::validate() const {
  const auto refuse = [](const std::string& why) {
    return std::unexpected(Error{Code::kInvalidArgument, why});
  };
  if (digits < 1 || digits > static_cast<int>(Digits::kMaxChars)) {
    return refuse("digits is " + std::to_string(digits) + ": take 1 to 36");
  }
  if (!std::ranges::all_of(prefix, is_digit)) {
    return refuse("the prefix has other characters than digits: take 0-9 only");
  }
  if (!leading_zeros && prefix.starts_with('0')) {
    return refuse("the prefix begins with 0 and leading zeros are excluded: allow them");
  }
  if (!fits(check, alphabet(Encoding::kDecimal))) {
    return refuse("check " + std::string(name(check)) +
                  " is not for decimal digits: take luhn, damm, verhoeff, mod11-10 or mod97-10");
  }
  if (const std::size_t fixed = prefix.size() + check_width(check);
      fixed >= static_cast<std::size_t>(digits)) {
    return refuse("digits is " + std::to_string(digits) + ", of which the prefix and the check " +
                  "digits take " + std::to_string(fixed) + ": one at least must be left");
  }
  return {};
}

Uint128 DigitsLayout::capacity() const noexcept {
  return kPowers[payload_of(*this)] - smallest_payload(*this);
}

Digits DigitsLayout::at(Uint128 index) const noexcept {
  const std::size_t payload = payload_of(*this);
  const Uint128 value = number(prefix) * kPowers[payload] + smallest_payload(*this) + index;
  const std::size_t size = static_cast<std::size_t>(digits);
  if (check == Check::kNone) return {size, value};
  char text[Digits::kMaxChars];
  char* const end = Digits(prefix.size() + payload, value).to_chars(text);
  append_check(check, alphabet(Encoding::kDecimal), {text, end}, end);
  return {size, number({text, size})};
}

Result<Uint128> DigitsLayout::index_of(const Digits& id) const {
  const auto refuse = [](const std::string& why) {
    return std::unexpected(Error{Code::kInvalidArgument, why});
  };
  char buffer[Digits::kMaxChars];
  const std::string_view text(buffer, id.to_chars(buffer));
  if (text.size() != static_cast<std::size_t>(digits)) {
    return refuse("it has " + std::to_string(text.size()) + " digits, not " +
                  std::to_string(digits));
  }
  if (!text.starts_with(prefix)) return refuse("it does not begin with " + prefix);
  if (!leading_zeros && text.starts_with('0')) return refuse("it begins with 0");
  if (check != Check::kNone && !has_valid_check(check, alphabet(Encoding::kDecimal), text)) {
    return refuse("it is mistyped: its " + std::string(name(check)) + " check digit is another");
  }
  return number(text.substr(prefix.size(), payload_of(*this))) - smallest_payload(*this);
}

// ---- DigitsGenerator

namespace {

// Up to this capacity one 64-bit draw makes an id: rejections are rare, at most 1 in 18.
constexpr Uint128 kNarrow = kPowers[18];

struct Product {
  Uint128 high;
  Uint128 low;
};

Product multiply(Uint128 a, Uint128 b) noexcept {
  constexpr auto mask = ~std::uint64_t{0};
  const Uint128 low = (a & mask) * (b & mask);
  const Uint128 first = (a >> 64) * (b & mask) + (low >> 64);
  const Uint128 second = (a & mask) * (b >> 64) + (first & mask);
  return {(a >> 64) * (b >> 64) + (first >> 64) + (second >> 64), second << 64 | (low & mask)};
}

// 2^64, or 2^128, mod the capacity.
Uint128 unfair(Uint128 capacity) noexcept {
  if (capacity > kNarrow) return (0 - capacity) % capacity;
  return (0 - static_cast<std::uint64_t>(capacity)) % static_cast<std::uint64_t>(capacity);
}

}  // namespace

DigitsGenerator::DigitsGenerator(const DigitsLayout& layout, Entropy& entropy)
    : layout_(layout),
      recipe_{
          .capacity = layout.capacity(),
          .unfair = unfair(layout.capacity()),
          .first = number(layout.prefix) * kPowers[payload_of(layout)] + smallest_payload(layout),
          .size = static_cast<std::size_t>(layout.digits),
          .checked = layout.check == Check::kNone ? nullptr : &layout_},
      entropy_(entropy) {}

// D. Lemire, "Fast random integer generation in an interval", 2019: the random number is a fraction
// of 1 and is multiplied by the capacity. The remaining fraction identifies the numbers that would
// favour an id.
template <class Draw>
Digits DigitsGenerator::make(const Recipe& recipe, Draw&& draw) noexcept {
  Uint128 index;
  if (recipe.capacity <= kNarrow) [[likely]] {
    const auto capacity = static_cast<std::uint64_t>(recipe.capacity);
    Uint128 product;
    do {
      product = Uint128{draw()} * capacity;
    } while (static_cast<std::uint64_t>(product) < static_cast<std::uint64_t>(recipe.unfair));
    index = product >> 64;
  } else {
    Product product;
    do {
      const Uint128 high = draw();
      product = multiply(high << 64 | draw(), recipe.capacity);
    } while (product.low < recipe.unfair);
    index = product.high;
  }
  if (recipe.checked != nullptr) return recipe.checked->at(index);
  return {recipe.size, recipe.first + index};
}

Digits DigitsGenerator::next() noexcept {
  return make(recipe_, [this] { return entropy_.draw(); });
}

void DigitsGenerator::next(std::span<Digits> out) noexcept {
  // Draws random numbers in blocks without waste; rejected ones are drawn again at the end.
  std::array<std::uint64_t, 256> numbers;
  std::size_t wanted = out.size() * (recipe_.capacity <= kNarrow ? 1 : 2);
  std::size_t left = 0;
  const std::uint64_t* next = nullptr;
  const auto draw = [&] {
    if (left == 0) {
      left = std::clamp<std::size_t>(wanted, 1, numbers.size());
      wanted -= std::min(wanted, left);
      entropy_.fill(std::as_writable_bytes(std::span(numbers).first(left)));
      next = numbers.data();
    }
    --left;
    return *next++;
  };
  const Recipe recipe = recipe_;  // a copy, which no store to `out` can alias
  for (Digits& id : out) id = make(recipe, draw);
}

}  // namespace idmint
