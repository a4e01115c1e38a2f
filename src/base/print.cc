#include "base/print.h"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <tmmintrin.h>
#endif

#include "base/alphabets.h"

namespace idmint::detail {
namespace {

constexpr std::string_view kBase32 = row_of(Encoding::kBase32).alphabet;  // Crockford's
constexpr std::string_view kBase32Lower = row_of(Encoding::kBase32Lower).alphabet;

using HexPair = std::array<char, 2>;

constexpr std::array<HexPair, 256> kHexPairs = [] {
  constexpr std::string_view digits = "0123456789abcdef";
  std::array<HexPair, 256> pairs{};
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {digits[i >> 4], digits[i & 15]};
  return pairs;
}();

char* put_hex(const std::uint8_t* bytes, std::size_t count, char* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(out, kHexPairs[bytes[i]].data(), 2);
    out += 2;
  }
  return out;
}

std::uint64_t load_big_endian(const std::uint8_t* bytes) noexcept {
  std::uint64_t value;
  std::memcpy(&value, bytes, 8);
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

// The four decimal digits of each half (32 bits, below 10^4) of `fours`, one in each byte, the
// first in the lowest byte. Divides by multiplication, all digits at once.
std::uint64_t four_digits(std::uint64_t fours) noexcept {
  const std::uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f'0000007f;
  const std::uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
  const std::uint64_t tens = (twos * 103 >> 10) & 0x000f'000f'000f'000f;
  return tens | (twos - tens * 10) << 8;
}

// The eight digits of value < 10^8, likewise.
std::uint64_t eight_digits(std::uint64_t value) noexcept {
  return four_digits(value / 10000 | (value % 10000) << 32);
}

constexpr std::uint64_t kZeros = 0x3030303030303030;

void store_little_endian(std::uint64_t value, char* out) noexcept {
  if (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  std::memcpy(out, &value, 8);
}

// Writes up to `count` digits without leading zeros. Overwrites 8 characters; those before the
// returned end are valid.
char* put_leading(std::uint64_t digits, int count, char* out) noexcept {
  const std::uint64_t last = std::uint64_t{1} << (8 * (count - 1));  // "0" keeps one digit
  const int zeros = std::countr_zero(digits | last) / 8;
  store_little_endian((digits | kZeros) >> (8 * zeros), out);
  return out + count - zeros;
}

char* put_eight(std::uint64_t value, char* out) noexcept {
  store_little_endian(eight_digits(value) | kZeros, out);
  return out + 8;
}

// Writes the last `count` of eight digits, and nothing after them.
char* put_last(std::uint64_t digits, std::size_t count, char* out) noexcept {
  std::uint64_t left = (digits | kZeros) >> (8 * (8 - count));
  if (count == 8) {
    store_little_endian(left, out);
  } else if (count >= 4) {  // two overlapping stores
    const std::array<std::uint64_t, 2> halves{left, left >> (8 * (count - 4))};
    for (std::size_t i = 0; i < 2; ++i) {
      auto half = static_cast<std::uint32_t>(halves[i]);
      if (std::endian::native == std::endian::big) half = __builtin_bswap32(half);
      std::memcpy(out + i * (count - 4), &half, 4);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i, left >>= 8) out[i] = static_cast<char>(left & 0xff);
  }
  return out + count;
}

// Writes the digits of `high`, then those of `low`, both below 10^8.
char* put_sixteen(std::uint64_t high, std::uint64_t low, char* out) noexcept {
#if defined(__x86_64__)
  // Like eight_digits, in the vector unit that every x86-64 has.
  const __m128i values =
      _mm_set_epi64x(static_cast<std::int64_t>(low), static_cast<std::int64_t>(high));
  const __m128i quotients =
      _mm_srli_epi64(_mm_mul_epu32(values, _mm_set1_epi64x(3518437209)), 45);  // / 10000
  const __m128i remainders =
      _mm_sub_epi64(values, _mm_mul_epu32(quotients, _mm_set1_epi64x(10000)));
  const __m128i fours = _mm_or_si128(quotients, _mm_slli_epi64(remainders, 32));
  const __m128i hundreds = _mm_srli_epi16(_mm_mulhi_epu16(fours, _mm_set1_epi16(5243)), 3);
  const __m128i twos = _mm_or_si128(
      hundreds,
      _mm_slli_epi32(_mm_sub_epi16(fours, _mm_mullo_epi16(hundreds, _mm_set1_epi16(100))), 16));
  const __m128i tens = _mm_mulhi_epu16(twos, _mm_set1_epi16(6554));
  const __m128i ones = _mm_sub_epi16(twos, _mm_mullo_epi16(tens, _mm_set1_epi16(10)));
  const __m128i digits = _mm_or_si128(tens, _mm_slli_epi16(ones, 8));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_or_si128(digits, _mm_set1_epi8('0')));
  return out + 16;
#else
  return put_eight(low, put_eight(high, out));
#endif
}

}  // namespace

char* print_uuid_portable(const std::uint8_t* bytes, char* out) noexcept {
  out = put_hex(bytes, 4, out);
  *out++ = '-';
  out = put_hex(bytes + 4, 2, out);
  *out++ = '-';
  out = put_hex(bytes + 6, 2, out);
  *out++ = '-';
  out = put_hex(bytes + 8, 2, out);
  *out++ = '-';
  return put_hex(bytes + 10, 6, out);
}

char* print_object_id_portable(const std::uint8_t* bytes, char* out) noexcept {
  return put_hex(bytes, 12, out);
}

namespace {

char* put_base32(const std::uint8_t* bytes, std::string_view alphabet, char* out) noexcept {
  const std::uint64_t high = load_big_endian(bytes);
  const std::uint64_t low = load_big_endian(bytes + 8);
  // From the last character to the first, 5 bits each: 12 of the low half, one across both.
  for (int i = 0; i < 12; ++i) out[25 - i] = alphabet[low >> (5 * i) & 31];
  out[13] = alphabet[(low >> 60 | high << 4) & 31];
  for (int i = 0; i < 13; ++i) out[12 - i] = alphabet[high >> (5 * i + 1) & 31];
  return out + 26;
}

}  // namespace

char* print_ulid_portable(const std::uint8_t* bytes, char* out) noexcept {
  return put_base32(bytes, kBase32, out);
}

char* print_type_id_portable(const std::uint8_t* bytes, char* out) noexcept {
  return put_base32(bytes, kBase32Lower, out);
}

#if defined(__x86_64__)

#define IDMINT_SSSE3 __attribute__((target("ssse3")))

namespace {

__m128i load(const void* from) noexcept {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

void store(char* to, __m128i value) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value);
}

struct HexDigits {
  __m128i first;  // of bytes 0 to 7
  __m128i second;
};

IDMINT_SSSE3 inline HexDigits hex_digits(__m128i bytes) noexcept {
  const __m128i digits =
      _mm_setr_epi8('0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f');
  const __m128i mask = _mm_set1_epi8(15);
  const __m128i high = _mm_shuffle_epi8(digits, _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
  const __m128i low = _mm_shuffle_epi8(digits, _mm_and_si128(bytes, mask));
  return {_mm_unpacklo_epi8(high, low), _mm_unpackhi_epi8(high, low)};
}

// Cuts eight 5-bit digits out of 16 bytes: two neighbouring bytes go into each 16-bit lane, and a
// multiplication that keeps the upper half moves the digit to the end of the lane.
struct Cut {
  std::array<std::uint8_t, 16> bytes;  // the source of each byte; 0x80 gives zero
  std::array<std::uint16_t, 8> factors;
};

constexpr Cut cut(int first_digit) noexcept {
  Cut c{};
  for (int lane = 0; lane < 8; ++lane) {
    const int bit = 5 * (first_digit + lane) - 2 + 8;  // 26 digits hold 130 bits; + 8: not negative
    const int byte = bit / 8 - 1;
    const auto source = [](int b) { return static_cast<std::uint8_t>(b < 0 || b > 15 ? 0x80 : b); };
    const auto at = static_cast<std::size_t>(lane);
    c.bytes[2 * at] = source(byte + 1);
    c.bytes[2 * at + 1] = source(byte);
    c.factors[at] = static_cast<std::uint16_t>(1 << (bit % 8 + 5));
  }
  return c;
}

constexpr Cut kCuts[] = {cut(0), cut(8), cut(10), cut(18)};

IDMINT_SSSE3 inline __m128i cut_digits(__m128i bytes, const Cut& how) noexcept {
  return _mm_mulhi_epu16(_mm_shuffle_epi8(bytes, load(how.bytes.data())), load(how.factors.data()));
}

// Sixteen characters.
IDMINT_SSSE3 inline __m128i base32_digits(__m128i bytes, const Cut& first, const Cut& second,
                                          std::string_view alphabet) noexcept {
  const __m128i mask = _mm_set1_epi16(31);
  const __m128i values = _mm_packus_epi16(_mm_and_si128(cut_digits(bytes, first), mask),
                                          _mm_and_si128(cut_digits(bytes, second), mask));
  // A shuffle looks up 16 entries and gives zero for an index with the top bit set, so two of them
  // look up 32.
  const __m128i low =
      _mm_shuffle_epi8(load(alphabet.data()), _mm_add_epi8(values, _mm_set1_epi8(0x70)));
  const __m128i high =
      _mm_shuffle_epi8(load(alphabet.data() + 16), _mm_sub_epi8(values, _mm_set1_epi8(16)));
  return _mm_or_si128(low, high);
}

IDMINT_SSSE3 inline char* put_base32_ssse3(const std::uint8_t* bytes, std::string_view alphabet,
                                           char* out) noexcept {
  const __m128i value = load(bytes);
  store(out, base32_digits(value, kCuts[0], kCuts[1], alphabet));
  store(out + 10, base32_digits(value, kCuts[2], kCuts[3], alphabet));
  return out + 26;
}

}  // namespace

bool has_ssse3() noexcept { return __builtin_cpu_supports("ssse3") != 0; }

IDMINT_SSSE3 char* print_uuid_ssse3(const std::uint8_t* bytes, char* out) noexcept {
  const auto [first, second] = hex_digits(load(bytes));
  const __m128i middle = _mm_alignr_epi8(second, first, 12);  // digits 12 to 27
  // Three overlapping stores; -1 leaves a zero for the dash.
  const __m128i a =
      _mm_shuffle_epi8(first, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -1, 8, 9, 10, 11, -1, 12, 13));
  const __m128i b =
      _mm_shuffle_epi8(middle, _mm_setr_epi8(0, 1, 2, 3, -1, 4, 5, 6, 7, -1, 8, 9, 10, 11, 12, 13));
  const __m128i c = _mm_shuffle_epi8(
      second, _mm_setr_epi8(1, 2, 3, -1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  store(out, _mm_or_si128(a, _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, '-', 0, 0, 0, 0, '-', 0, 0)));
  store(out + 14,
        _mm_or_si128(b, _mm_setr_epi8(0, 0, 0, 0, '-', 0, 0, 0, 0, '-', 0, 0, 0, 0, 0, 0)));
  store(out + 20, _mm_or_si128(c, _mm_setr_epi8(0, 0, 0, '-', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)));
  return out + 36;
}

IDMINT_SSSE3 char* print_object_id_ssse3(const std::uint8_t* bytes, char* out) noexcept {
  std::int32_t tail;
  std::memcpy(&tail, bytes + 8, 4);
  const __m128i head = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
  const auto [first, second] = hex_digits(_mm_unpacklo_epi64(head, _mm_cvtsi32_si128(tail)));
  store(out, first);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 16), second);
  return out + 24;
}

IDMINT_SSSE3 char* print_ulid_ssse3(const std::uint8_t* bytes, char* out) noexcept {
  return put_base32_ssse3(bytes, kBase32, out);
}

IDMINT_SSSE3 char* print_type_id_ssse3(const std::uint8_t* bytes, char* out) noexcept {
  return put_base32_ssse3(bytes, kBase32Lower, out);
}

#else

bool has_ssse3() noexcept { return false; }
char* print_uuid_ssse3(const std::uint8_t* bytes, char* out) noexcept {
  return print_uuid_portable(bytes, out);
}
char* print_object_id_ssse3(const std::uint8_t* bytes, char* out) noexcept {
  return print_object_id_portable(bytes, out);
}
char* print_ulid_ssse3(const std::uint8_t* bytes, char* out) noexcept {
  return print_ulid_portable(bytes, out);
}
char* print_type_id_ssse3(const std::uint8_t* bytes, char* out) noexcept {
  return print_type_id_portable(bytes, out);
}

#endif

char* print_uuid(const std::uint8_t* bytes, char* out) noexcept {
  return has_ssse3() ? print_uuid_ssse3(bytes, out) : print_uuid_portable(bytes, out);
}

char* print_object_id(const std::uint8_t* bytes, char* out) noexcept {
  return has_ssse3() ? print_object_id_ssse3(bytes, out) : print_object_id_portable(bytes, out);
}

char* print_ulid(const std::uint8_t* bytes, char* out) noexcept {
  return has_ssse3() ? print_ulid_ssse3(bytes, out) : print_ulid_portable(bytes, out);
}

char* print_type_id(const std::uint8_t* bytes, char* out) noexcept {
  return has_ssse3() ? print_type_id_ssse3(bytes, out) : print_type_id_portable(bytes, out);
}

char* print_decimal(std::uint64_t value, char* out) noexcept {
  constexpr std::uint64_t kEight = 100'000'000;
  if (value < kEight) return put_leading(eight_digits(value), 8, out);
  const std::uint64_t high = value / kEight;
  const std::uint64_t low = value % kEight;
  if (high < kEight) return put_eight(low, put_leading(eight_digits(high), 8, out));
  const std::uint64_t top = value / (kEight * kEight);  // at most 1844
  out = put_leading(four_digits(top), 4, out);
  return put_sixteen(high - top * kEight, low, out);
}

char* print_padded(std::uint64_t value, std::size_t width, char* out) noexcept {
  constexpr std::uint64_t kEight = 100'000'000;
  if (width > 16) {
    const std::uint64_t top = value / (kEight * kEight);  // at most 1844
    out = put_last(four_digits(top) << 32, width - 16, out);
    value -= top * kEight * kEight;
    return put_sixteen(value / kEight, value % kEight, out);
  }
  if (width > 8) {
    return put_eight(value % kEight, put_last(eight_digits(value / kEight), width - 8, out));
  }
  return put_last(eight_digits(value), width, out);
}

}  // namespace idmint::detail
