// Permutation: a keyed bijection of the integers from 0 to size - 1, for numbers that look random
// and never collide.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// Black and Rogaway's generalized Feistel cipher over Z_a x Z_b (J. Black, P. Rogaway: Ciphers with
// Arbitrary Finite Domains, CT-RSA 2002), with
//
//   a = ceil(sqrt(size)), b = ceil(size / a), so that a * b >= size;
//   x = a * R + L, with L in Z_a and R in Z_b;
//   six rounds, j = 0 to 5: even ones L := (L + F(j, R, a)) mod a, odd ones R := (R + F(j, L, b))
//   mod b;
//   F(j, half, n) = floor(n * H / 2^64), H the number that SipHash-1-3 makes of the 16 bytes of the
//   key and of five bytes: `half` little-endian in four, j in the fifth;
//   again, as long as the result is not below size (cycle walking).
//
// The result is the same on every machine and for ever: it is what keeps the ids of a permuted
// sequence apart. docs/strategies.md has the vectors.
//
// It is obfuscation, not encryption: who sees many numbers, or chooses some, may find out others.
//
// A value; any number of threads may use one.
class Permutation final {
 public:
  // `key`: 32 hexadecimal digits, 16 bytes. kInvalidArgument: another key, or a size that is not 1
  // to 2^63-1.
  [[nodiscard]] static Result<Permutation> make(std::string_view key, std::uint64_t size);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  // REQUIRES: below size().
  [[nodiscard]] std::uint64_t permuted(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t index_of(std::uint64_t permuted) const noexcept;

  // permuted() of each, in its place; in less time, because several go side by side.
  void permute(std::span<std::int64_t> indices) const noexcept;

 private:
  struct Key {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
  };

  Permutation(Key key, std::uint64_t size) noexcept;

  Key key_;
  std::uint64_t size_;
  std::uint64_t a_;
  std::uint64_t b_;
};

}  // namespace idmint
