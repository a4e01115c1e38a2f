#include "sequences/permutation.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <system_error>

namespace idmint {
namespace {

constexpr std::uint64_t kRounds = 6;
constexpr std::uint64_t kLargestSize = std::numeric_limits<std::int64_t>::max();

// Numbers in parallel. One statement for all of them is one instruction with AVX2, two with SSE2.
constexpr std::size_t kLanes = 4;
using Lanes = std::uint64_t __attribute__((vector_size(kLanes * sizeof(std::uint64_t))));

// The templates below serve one number and Lanes alike, and are inlined into code for different
// processors.
#define IDMINT_INLINE [[gnu::always_inline]] inline

template <class T>
IDMINT_INLINE void rotate(T& value, int bits) {
  value = (value << bits) | (value >> (64 - bits));
}

template <class T>
struct SipState {
  T v0, v1, v2, v3;
};

template <class T>
IDMINT_INLINE void sip_round(SipState<T>& s) {
  s.v0 += s.v1;
  s.v2 += s.v3;
  rotate(s.v1, 13);
  rotate(s.v3, 16);
  s.v1 ^= s.v0;
  s.v3 ^= s.v2;
  rotate(s.v0, 32);
  s.v2 += s.v1;
  s.v0 += s.v3;
  rotate(s.v1, 17);
  rotate(s.v3, 21);
  s.v1 ^= s.v2;
  s.v3 ^= s.v0;
  rotate(s.v2, 32);
}

// hash := SipHash-1-3 of the first five bytes of `word`; its top byte is the length.
template <class T>
IDMINT_INLINE void siphash(std::uint64_t low, std::uint64_t high, const T& word, T& hash) {
  const T none{};
  SipState<T> s{none + (low ^ 0x736f6d6570736575), none + (high ^ 0x646f72616e646f6d),
                none + (low ^ 0x6c7967656e657261), none + (high ^ 0x7465646279746573)};
  s.v3 ^= word;
  sip_round(s);
  s.v0 ^= word;
  s.v2 ^= 0xff;
  sip_round(s);
  sip_round(s);
  sip_round(s);
  hash = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

// scaled := floor(hash * n / 2^64). REQUIRES: n < 2^32.
template <class T>
IDMINT_INLINE void scale(const T& hash, std::uint64_t n, T& scaled) {
  scaled = ((hash >> 32) * n + (((hash & 0xffffffff) * n) >> 32)) >> 32;
}

// The function F of the header.
template <class T>
IDMINT_INLINE void round_function(std::uint64_t low, std::uint64_t high, std::uint64_t round,
                                  const T& half, std::uint64_t n, T& out) {
  T hash;
  siphash(low, high, half | (std::uint64_t{5} << 56 | round << 32), hash);
  scale(hash, n, out);
}

IDMINT_INLINE void subtract_once(std::uint64_t& sum, std::uint64_t n) { sum -= sum >= n ? n : 0; }
IDMINT_INLINE void subtract_once(Lanes& sum, std::uint64_t n) {
  sum -= reinterpret_cast<Lanes>(sum >= n) & n;
}

// All six rounds. REQUIRES: left < a, right < b.
template <class T>
IDMINT_INLINE void encipher(std::uint64_t low, std::uint64_t high, std::uint64_t a, std::uint64_t b,
                            T& left, T& right) {
  T f;
  for (std::uint64_t round = 0; round < kRounds; round += 2) {
    round_function(low, high, round, right, a, f);
    left += f;
    subtract_once(left, a);
    round_function(low, high, round + 1, left, b, f);
    right += f;
    subtract_once(right, b);
  }
}

// The halves of kLanes numbers, enciphered.
struct NumberHalves {
  Lanes left;
  Lanes right;
};

using Encipher = void (*)(std::uint64_t low, std::uint64_t high, std::uint64_t a, std::uint64_t b,
                          NumberHalves& halves);

void encipher_lanes(std::uint64_t low, std::uint64_t high, std::uint64_t a, std::uint64_t b,
                    NumberHalves& halves) {
  encipher(low, high, a, b, halves.left, halves.right);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) void encipher_lanes_avx2(std::uint64_t low, std::uint64_t high,
                                                         std::uint64_t a, std::uint64_t b,
                                                         NumberHalves& halves) {
  encipher(low, high, a, b, halves.left, halves.right);
}

Encipher fastest() { return __builtin_cpu_supports("avx2") ? encipher_lanes_avx2 : encipher_lanes; }
#else
Encipher fastest() { return encipher_lanes; }
#endif

#undef IDMINT_INLINE

std::uint64_t rounded_up_square_root(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  while ((root - 1) * (root - 1) >= n) --root;
  return root;
}

}  // namespace

Result<Permutation> Permutation::make(std::string_view key, std::uint64_t size) {
  if (size < 1 || size > kLargestSize) {
    return std::unexpected(
        Error{Code::kInvalidArgument,
              "a permutation of " + std::to_string(size) + " numbers; use 1 to 2^63-1"});
  }
  std::array<std::uint64_t, 2> words{};
  bool right = key.size() == 32;
  for (std::size_t i = 0; right && i < 2; ++i) {
    const char* const from = key.data() + 16 * i;
    const auto [end, error] = std::from_chars(from, from + 16, words[i], 16);
    right = error == std::errc{} && end == from + 16;
  }
  if (!right) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "the key of a permutation must be 32 hexadecimal digits"});
  }
  // The digits are the bytes in order; SipHash reads them little-endian.
  return Permutation({__builtin_bswap64(words[0]), __builtin_bswap64(words[1])}, size);
}

Permutation::Permutation(Key key, std::uint64_t size) noexcept
    : key_(key), size_(size), a_(rounded_up_square_root(size)), b_((size - 1) / a_ + 1) {}

// Cycle walking terminates. One pass is a bijection of the a * b pairs, so the passes from x run
// through different pairs until they return to x, which is below size. At most a * b - size of them
// are outside, which is less than a: 0 for a square, 3 * 10^9 for the largest size. A pair is
// outside with odds below a / size, 1 in 10^6 for 12 digits.
std::uint64_t Permutation::permuted(std::uint64_t index) const noexcept {
  do {
    std::uint64_t left = index % a_;
    std::uint64_t right = index / a_;
    encipher(key_.low, key_.high, a_, b_, left, right);
    index = a_ * right + left;
  } while (index >= size_);
  return index;
}

std::uint64_t Permutation::index_of(std::uint64_t permuted) const noexcept {
  do {
    std::uint64_t left = permuted % a_;
    std::uint64_t right = permuted / a_;
    for (std::uint64_t round = kRounds; round > 0; round -= 2) {
      std::uint64_t f = 0;
      round_function(key_.low, key_.high, round - 1, left, b_, f);
      right += b_ - f;
      subtract_once(right, b_);
      round_function(key_.low, key_.high, round - 2, right, a_, f);
      left += a_ - f;
      subtract_once(left, a_);
    }
    permuted = a_ * right + left;
  } while (permuted >= size_);
  return permuted;
}

void Permutation::permute(std::span<std::int64_t> indices) const noexcept {
  static const Encipher encipher_all = fastest();
  for (; indices.size() >= kLanes; indices = indices.subspan(kLanes)) {
    NumberHalves halves;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto index = static_cast<std::uint64_t>(indices[lane]);
      halves.left[lane] = index % a_;
      halves.right[lane] = index / a_;
    }
    encipher_all(key_.low, key_.high, a_, b_, halves);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t once = a_ * halves.right[lane] + halves.left[lane];
      indices[lane] = static_cast<std::int64_t>(once < size_ ? once : permuted(once));
    }
  }
  for (std::int64_t& index : indices) {
    index = static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(index)));
  }
}

}  // namespace idmint
