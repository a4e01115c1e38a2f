#include <algorithm>
#include <array>
#include <string>

#include "idmint/encoding.h"

namespace idmint {
namespace {

// ---- the index of a character in an alphabet; its size: not in the alphabet

std::size_t value_of(std::string_view alphabet, char c) noexcept {
  // Every alphabet here begins with a run of neighbours in ASCII.
  const auto near = static_cast<std::size_t>(static_cast<unsigned char>(c)) -
                    static_cast<unsigned char>(alphabet.front());
  if (near < alphabet.size() && alphabet[near] == c) return near;
  return std::min(alphabet.find(c), alphabet.size());
}

// ---- the check symbols of a text that is not empty and in the alphabet

char* luhn(std::string_view alphabet, std::string_view text, char* out) noexcept {
  const std::size_t base = alphabet.size();
  std::size_t sum = 0;
  bool doubled = true;  // the digit before the check digit is doubled
  for (auto c = text.rbegin(); c != text.rend(); ++c, doubled = !doubled) {
    const std::size_t value = value_of(alphabet, *c) * (doubled ? 2 : 1);
    sum += value / base + value % base;
  }
  *out++ = alphabet[(base - sum % base) % base];
  return out;
}

// H. Michael Damm, "Total anti-symmetrische Quasigruppen", 2004, p. 111.
constexpr std::array<std::string_view, 10> kDammTable = {
    "0317598642", "7092154863", "4206871359", "1750983426", "6123045978",
    "3674209581", "5869720134", "8945362017", "9438617205", "2581436790",
};

char* damm(std::string_view, std::string_view text, char* out) noexcept {
  char interim = '0';
  for (const char c : text) {
    interim =
        kDammTable[static_cast<std::size_t>(interim - '0')][static_cast<std::size_t>(c - '0')];
  }
  *out++ = interim;
  return out;
}

// J. Verhoeff, "Error Detecting Decimal Codes", 1969: the dihedral group of the pentagon. 0 to 4
// are its rotations, 5 to 9 its reflections.
constexpr unsigned rotate_and_reflect(unsigned a, unsigned b) noexcept {
  if (a < 5) return b < 5 ? (a + b) % 5 : (a + b) % 5 + 5;
  return b < 5 ? (a + 10 - b) % 5 + 5 : (a + 5 - b) % 5;
}

constexpr std::array<unsigned, 10> kVerhoeffPermutation = {1, 5, 7, 6, 2, 8, 3, 0, 9, 4};

char* verhoeff(std::string_view, std::string_view text, char* out) noexcept {
  unsigned product = 0;
  std::array<unsigned, 10> permutation = kVerhoeffPermutation;  // of the present place
  for (auto c = text.rbegin(); c != text.rend(); ++c) {
    product = rotate_and_reflect(product, permutation[static_cast<std::size_t>(*c - '0')]);
    for (unsigned& to : permutation) to = kVerhoeffPermutation[to];
  }
  const unsigned inverse = product < 5 ? (5 - product) % 5 : product;
  *out++ = static_cast<char>('0' + inverse);
  return out;
}

char* mod11_10(std::string_view, std::string_view text, char* out) noexcept {
  unsigned product = 10;
  for (const char c : text) {
    const unsigned sum = (product + static_cast<unsigned>(c - '0')) % 10;
    product = (sum == 0 ? 10 : sum) * 2 % 11;
  }
  *out++ = static_cast<char>('0' + (11 - product) % 10);
  return out;
}

char* mod97_10(std::string_view, std::string_view text, char* out) noexcept {
  unsigned rest = 0;
  for (const char c : text) rest = (rest * 10 + static_cast<unsigned>(c - '0')) % 97;
  const unsigned check = 98 - rest * 100 % 97;  // 02 to 98
  *out++ = static_cast<char>('0' + check / 10);
  *out++ = static_cast<char>('0' + check % 10);
  return out;
}

// Crockford's 32 digits and the five symbols that only a check symbol can be.
char* mod37(std::string_view alphabet, std::string_view text, char* out) noexcept {
  const bool lower = alphabet == idmint::alphabet(Encoding::kBase32Lower);
  std::size_t rest = 0;
  for (const char c : text) rest = (rest * 32 + value_of(alphabet, c)) % 37;
  *out++ = rest < 32 ? alphabet[rest] : (lower ? "*~$=u" : "*~$=U")[rest - 32];
  return out;
}

// ---- the checks, in the order of Check

bool in_any(std::string_view) noexcept { return true; }
bool in_even(std::string_view alphabet) noexcept {
  return !alphabet.empty() && alphabet.size() % 2 == 0;
}
bool in_decimal(std::string_view alphabet) noexcept {
  return alphabet == idmint::alphabet(Encoding::kDecimal);
}
bool in_crockford(std::string_view alphabet) noexcept {
  return alphabet == idmint::alphabet(Encoding::kBase32) ||
         alphabet == idmint::alphabet(Encoding::kBase32Lower);
}

struct CheckRow {
  std::string_view name;
  std::size_t width;
  bool (*fits)(std::string_view alphabet) noexcept;
  char* (*append)(std::string_view alphabet, std::string_view text, char* out) noexcept;
};

constexpr std::array kChecks = {
    CheckRow{"none", 0, in_any,
             [](std::string_view, std::string_view, char* out) noexcept { return out; }},
    CheckRow{"luhn", 1, in_even, luhn},
    CheckRow{"damm", 1, in_decimal, damm},
    CheckRow{"verhoeff", 1, in_decimal, verhoeff},
    CheckRow{"mod11-10", 1, in_decimal, mod11_10},
    CheckRow{"mod97-10", 2, in_decimal, mod97_10},
    CheckRow{"mod37", 1, in_crockford, mod37},
};

constexpr const CheckRow& row_of(Check check) noexcept {
  return kChecks[static_cast<std::size_t>(check)];
}

}  // namespace

std::string_view name(Check check) noexcept { return row_of(check).name; }

Result<Check> check_named(std::string_view name) {
  const auto* const row = std::ranges::find(kChecks, name, &CheckRow::name);
  if (row != kChecks.end()) return static_cast<Check>(row - kChecks.begin());
  std::string message = "there is no check of that name: take one of";
  for (const CheckRow& each : kChecks) {
    (message += &each == kChecks.data() ? " " : ", ") += each.name;
  }
  return std::unexpected(Error{Code::kInvalidArgument, std::move(message)});
}

std::size_t check_width(Check check) noexcept { return row_of(check).width; }

bool fits(Check check, std::string_view alphabet) noexcept { return row_of(check).fits(alphabet); }

char* append_check(Check check, std::string_view alphabet, std::string_view text,
                   char* out) noexcept {
  return row_of(check).append(alphabet, text, out);
}

bool has_valid_check(Check check, std::string_view alphabet, std::string_view text) noexcept {
  const CheckRow& row = row_of(check);
  if (text.size() <= row.width) return false;
  const std::string_view body = text.substr(0, text.size() - row.width);
  const auto strange = [&](char c) { return value_of(alphabet, c) == alphabet.size(); };
  if (std::ranges::any_of(body, strange)) return false;
  char expected[kMaxCheckChars];
  const char* const end = row.append(alphabet, body, expected);
  return text.substr(body.size()) == std::string_view(expected, end);
}

}  // namespace idmint
