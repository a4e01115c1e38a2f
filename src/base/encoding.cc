#include "idmint/encoding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/alphabets.h"
#include "base/print.h"

namespace idmint {
namespace {

__extension__ using Uint128 = unsigned __int128;

// A number of up to 160 bits, least significant word first, with room for one more digit.
using Number = std::array<std::uint64_t, 3>;

std::uint64_t load_word(const std::uint8_t* bytes) noexcept {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

Number load(std::span<const std::uint8_t> bytes) noexcept {
  Number number{};
  if (bytes.size() < 8) {
    for (const std::uint8_t byte : bytes) number[0] = number[0] << 8 | byte;
    return number;
  }
  std::size_t left = bytes.size();
  for (std::size_t i = 0; left != 0; ++i) {
    if (left >= 8) {
      left -= 8;
      number[i] = load_word(bytes.data() + left);
    } else {  // overlaps the previous word; the common bytes are shifted out
      number[i] = load_word(bytes.data()) >> (64 - 8 * left);
      left = 0;
    }
  }
  return number;
}

// Stores the number in the bytes. False: it does not fit.
bool store(Number number, std::span<std::uint8_t> bytes) noexcept {
  for (std::size_t i = bytes.size(); i-- != 0;) {
    bytes[i] = static_cast<std::uint8_t>(number[0]);
    number[0] = number[0] >> 8 | number[1] << 56;
    number[1] = number[1] >> 8 | number[2] << 56;
    number[2] >>= 8;
  }
  return number == Number{};
}

using Pair = std::array<char, 2>;

// Digits are split off and appended in pieces: as many digits as fit one word.
template <unsigned Base>
struct Piece {
  static constexpr std::pair<std::size_t, std::uint64_t> largest() {
    std::size_t digits = 1;
    std::uint64_t power = Base;
    for (; power <= ~std::uint64_t{0} / Base; ++digits) power *= Base;
    return digits % 2 == 0 ? std::pair{digits, power} : std::pair{digits - 1, power / Base};
  }
  static constexpr std::size_t kDigits = largest().first;
  static constexpr std::uint64_t kPower = largest().second;  // Base^kDigits

  // For division by multiplying (Moeller and Granlund, "Improved division by invariant integers").
  static constexpr int kShift = std::countl_zero(kPower);
  static constexpr std::uint64_t kDivisor = kPower << kShift;
  static constexpr auto kInverse = static_cast<std::uint64_t>(~Uint128{0} / kDivisor);

  // The quotient of high:low by kDivisor; the remainder is left in high. REQUIRES: high < kDivisor.
  static std::uint64_t divide(std::uint64_t& high, std::uint64_t low) noexcept {
    const Uint128 guess = Uint128{kInverse} * high + (Uint128{high} << 64 | low);
    auto quotient = static_cast<std::uint64_t>(guess >> 64) + 1;
    std::uint64_t rest = low - quotient * kDivisor;
    if (rest > static_cast<std::uint64_t>(guess)) {
      --quotient;
      rest += kDivisor;
    }
    if (rest >= kDivisor) [[unlikely]] {
      ++quotient;
      rest -= kDivisor;
    }
    high = rest;
    return quotient;
  }

  // Divides the number by kPower and returns the remainder.
  static std::uint64_t take_off(Number& number) noexcept {
    if constexpr (std::has_single_bit(Base)) {
      constexpr int bits = std::countr_zero(kPower);
      const std::uint64_t rest = number[0] & (kPower - 1);
      number[0] = number[0] >> bits | number[1] << (64 - bits);
      number[1] = number[1] >> bits | number[2] << (64 - bits);
      number[2] >>= bits;
      return rest;
    } else {
      // Shifts the divisor to the top bit and the number with it, which has 26 bits to spare.
      static_assert(kShift <= 26);
      std::uint64_t rest = 0;
      for (std::size_t i = number.size(); i-- != 0;) {
        std::uint64_t word = number[i] << kShift;
        if (kShift != 0 && i != 0) word |= number[i - 1] >> ((64 - kShift) % 64);
        if (rest == 0 && word < kDivisor) {  // above the most significant digit
          number[i] = 0;
          rest = word;
        } else {
          number[i] = divide(rest, word);
        }
      }
      return rest >> kShift;
    }
  }

  // Writes the last `count` digits of a piece before `end`, and returns their start. `pairs` are
  // the texts of two digits.
  static char* put(std::uint64_t piece, std::size_t count, const Pair* pairs, char* end) noexcept {
    constexpr std::uint64_t two = std::uint64_t{Base} * Base;
    for (; count >= 4; count -= 4, piece /= two * two) {
      const auto four = static_cast<std::uint32_t>(piece % (two * two));
      std::memcpy(end -= 2, pairs[four % std::uint32_t{two}].data(), 2);
      std::memcpy(end -= 2, pairs[four / std::uint32_t{two}].data(), 2);
    }
    for (; count >= 2; count -= 2, piece /= two) {
      std::memcpy(end -= 2, pairs[piece % two].data(), 2);
    }
    if (count != 0) *--end = pairs[piece % two][1];
    return end;
  }

  // number * Base^count + piece.
  static void put_on(Number& number, std::uint64_t power, std::uint64_t piece) noexcept {
    for (std::uint64_t& word : number) {
      const Uint128 product = Uint128{word} * power + piece;
      word = static_cast<std::uint64_t>(product);
      piece = static_cast<std::uint64_t>(product >> 64);
    }
  }
};

constexpr std::size_t width_of(unsigned base, std::size_t bytes) {
  std::array<unsigned, kMaxIdBytes> largest{};
  std::fill_n(largest.rbegin(), bytes, 0xffU);
  std::size_t width = 0;
  while (largest != decltype(largest){}) {
    unsigned rest = 0;
    for (unsigned& byte : largest) {
      rest = rest << 8 | byte;
      byte = rest / base;
      rest %= base;
    }
    ++width;
  }
  return width;
}

using Widths = std::array<std::uint8_t, kMaxIdBytes + 1>;

template <unsigned Base>
constexpr Widths kWidths = [] {
  Widths widths{};
  for (std::size_t i = 1; i < widths.size(); ++i) {
    widths[i] = static_cast<std::uint8_t>(width_of(Base, i));
  }
  return widths;
}();
static_assert(kWidths<10>.back() == kMaxEncodedChars && kWidths<62>.back() == 27);

// Which = static_cast<std::size_t>(Encoding)
template <std::size_t Which>
constexpr auto kBase = static_cast<unsigned>(kAlphabets[Which].alphabet.size());

template <std::size_t Which>
constexpr auto kPairs = [] {
  constexpr std::string_view alphabet = kAlphabets[Which].alphabet;
  std::array<Pair, alphabet.size() * alphabet.size()> pairs{};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = {alphabet[i / alphabet.size()], alphabet[i % alphabet.size()]};
  }
  return pairs;
}();

template <std::size_t Which>
char* encode_in(std::span<const std::uint8_t> bytes, char* out) noexcept {
  using Piece = Piece<kBase<Which>>;
  Number number = load(bytes);
  std::size_t left = kWidths<kBase<Which>>[bytes.size()];
  char* const end = out + left;
  for (out = end; left != 0;) {
    const std::size_t count = std::min(left, Piece::kDigits);
    out = Piece::put(Piece::take_off(number), count, kPairs<Which>.data(), out);
    left -= count;
  }
  return end;
}

// The value of each character; -1: not in the alphabet.
using Values = std::array<int, 256>;

constexpr auto kValues = [] {
  std::array<Values, kAlphabets.size()> all{};
  for (std::size_t e = 0; e < all.size(); ++e) {
    all[e].fill(-1);
    for (std::size_t i = 0; i < kAlphabets[e].alphabet.size(); ++i) {
      all[e][static_cast<unsigned char>(kAlphabets[e].alphabet[i])] = static_cast<int>(i);
    }
  }
  return all;
}();

// False: the number does not fit the bytes, or a character is not in the alphabet.
template <std::size_t Which>
bool decode_in(std::string_view text, std::span<std::uint8_t> bytes) noexcept {
  constexpr unsigned base = kBase<Which>;
  using Piece = Piece<base>;
  Number number{};
  int all = 0;  // negative if any value is
  for (std::size_t count = 0; !text.empty(); text.remove_prefix(count)) {
    count = (text.size() - 1) % Piece::kDigits + 1;  // so that the last piece is a whole one
    std::uint64_t power = 1;
    std::uint64_t piece = 0;
    for (const char c : text.substr(0, count)) {
      const int value = kValues[Which][static_cast<unsigned char>(c)];
      all |= value;
      piece = piece * base + static_cast<std::uint64_t>(value);
      power *= base;
    }
    Piece::put_on(number, power, piece);
  }
  return all >= 0 && store(number, bytes);
}

struct Functions {
  const Widths* widths;
  char* (*encode)(std::span<const std::uint8_t>, char*) noexcept;
  bool (*decode)(std::string_view, std::span<std::uint8_t>) noexcept;
};

template <std::size_t... Before>
constexpr auto functions(std::index_sequence<Before...>) {
  return std::array{
      Functions{},  // canonical has none
      Functions{&kWidths<kBase<Before + 1>>, encode_in<Before + 1>, decode_in<Before + 1>}...};
}
constexpr auto kFunctions = functions(std::make_index_sequence<kAlphabets.size() - 1>{});

constexpr const Functions& functions_of(Encoding encoding) noexcept {
  return kFunctions[static_cast<std::size_t>(encoding)];
}

}  // namespace

std::string_view name(Encoding encoding) noexcept { return row_of(encoding).name; }

Result<Encoding> encoding_named(std::string_view name) {
  const auto* const row = std::ranges::find(kAlphabets, name, &NamedAlphabet::name);
  if (row != kAlphabets.end()) return static_cast<Encoding>(row - kAlphabets.begin());
  std::string message = "there is no encoding of that name: take one of";
  for (const NamedAlphabet& each : kAlphabets) {
    (message += &each == kAlphabets.data() ? " " : ", ") += each.name;
  }
  return std::unexpected(Error{Code::kInvalidArgument, std::move(message)});
}

std::string_view alphabet(Encoding encoding) noexcept { return row_of(encoding).alphabet; }

std::size_t encoded_width(Encoding encoding, std::size_t bytes) noexcept {
  return (*functions_of(encoding).widths)[bytes];
}

char* encode(Encoding encoding, std::span<const std::uint8_t> bytes, char* out) noexcept {
  if (bytes.size() == 16 && encoding == Encoding::kBase32) {
    return detail::print_ulid(bytes.data(), out);
  }
  if (bytes.size() == 16 && encoding == Encoding::kBase32Lower) {
    return detail::print_type_id(bytes.data(), out);
  }
  return functions_of(encoding).encode(bytes, out);
}

Result<void> decode(Encoding encoding, std::string_view text, std::span<std::uint8_t> bytes) {
  const auto refuse = [&](std::string why) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "not " + std::to_string(bytes.size()) + " bytes in " +
                                          std::string(name(encoding)) + ": " + std::move(why)});
  };
  const std::size_t width = encoded_width(encoding, bytes.size());
  if (text.size() != width) {
    return refuse("expected " + std::to_string(width) + " characters, there are " +
                  std::to_string(text.size()));
  }
  const Values& values = kValues[static_cast<std::size_t>(encoding)];
  if (functions_of(encoding).decode(text, bytes)) return {};
  const auto stranger =
      std::ranges::find_if(text, [&](char c) { return values[static_cast<unsigned char>(c)] < 0; });
  if (stranger != text.end()) {
    const auto at = static_cast<std::size_t>(stranger - text.begin());
    return refuse("character " + std::to_string(at + 1) + " is none of its digits");
  }
  return refuse("the value is too large");
}

}  // namespace idmint
