#include "base/unshared.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

#include "idmint/entropy.h"

namespace idmint {
namespace {

class UnsharedEntropy final : public Entropy {
 public:
  void fill(std::span<std::byte> out) noexcept override {
    while (!out.empty()) {
      const CloneSafeNonce drawn = draw_unshared();
      const std::size_t some = std::min(out.size(), drawn.size());
      std::ranges::copy(std::as_bytes(std::span(drawn)).first(some), out.begin());
      out = out.subspan(some);
    }
  }
};

}  // namespace

Entropy& unshared_entropy() noexcept {
  static UnsharedEntropy all;
  return all;
}

CloneSafeNonce unshared(const std::array<std::uint64_t, 2>& words, const Moment& moment) noexcept {
  const std::array<std::uint64_t, 2> digest = digest_of(moment);
  return std::bit_cast<CloneSafeNonce>(std::array{words[0] ^ digest[0], words[1] ^ digest[1]});
}

CloneSafeNonce draw_unshared() noexcept {
  std::array<std::uint64_t, 2> words{};
  // If the kernel gives nothing, the process's own stream remains.
  if (::getrandom(words.data(), sizeof words, 0) != sizeof words) words = {};
  for (std::uint64_t& word : words) word ^= system_entropy().draw();
  return unshared(words, this_moment());
}

}  // namespace idmint
