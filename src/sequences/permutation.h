// Permutation: a keyed bijection of the integers 0 to size - 1, for numbers that look random and
// never collide.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// A generalized Feistel cipher over Z_a x Z_b with cycle walking (J. Black, P. Rogaway: Ciphers
// with Arbitrary Finite Domains, CT-RSA 2002):
//
//   a = ceil(sqrt(size)), b = ceil(size / a), so that a * b >= size;
//   x = a * R + L, with L in Z_a and R in Z_b;
//   six rounds, j = 0 to 5: even ones L := (L + F(j, R, a)) mod a, odd ones R := (R + F(j, L, b))
//   mod b;
//   F(j, half, n) = floor(n * H / 2^64); H is SipHash-1-3 with the 16 bytes of the key over five
//   bytes: `half` little-endian in four, j in the fifth;
//   repeated until the result is below size (cycle walking).
//
// The result is the same on every machine and for ever, because the uniqueness of a permuted
// sequence depends on it. docs/strategies.md has test vectors.
//
// This is obfuscation, not encryption: an observer of many numbers, or of chosen ones, may find out
// others.
//
// A value type; any number of threads may use one.
class Permutation final {
 public:
  // `key` is 16 bytes as 32 hexadecimal digits. kInvalidArgument: another key, or a size outside 1
  // to 2^63-1.
  [[nodiscard]] static Result<Permutation> make(std::string_view key, std::uint64_t size);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  // REQUIRES: the argument is below size().
  [[nodiscard]] std::uint64_t permuted(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t index_of(std::uint64_t permuted) const noexcept;

  // permuted() of each, in place. Faster, because several run in parallel.
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
