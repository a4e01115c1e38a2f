// Remembers numbers in bounded memory: those of the documents that are updated most.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace idmint::restore {

// 64 bits of any bytes; fast, and no secret.
[[nodiscard]] inline std::uint64_t hash_of(std::string_view bytes, std::uint64_t seed) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  const auto mix = [](std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::uint64_t hash = seed ^ (odd * (bytes.size() + 1));
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix(hash ^ word, odd);
    bytes.remove_prefix(8);
  }
  // What is left, in two parts that may overlap: a copy of a size that is known costs no call.
  std::uint64_t rest = 0;
  if (bytes.size() >= 4) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, bytes.data(), 4);
    std::memcpy(&high, bytes.data() + bytes.size() - 4, 4);
    rest = low | std::uint64_t{high} << 32;
  } else {
    for (const char byte : bytes) rest = rest << 8 | static_cast<std::uint8_t>(byte);
  }
  return mix(hash ^ rest, 0xd6e8feb86659fd93) ^ hash;
}

// A slot for each key, in sets of four: where a set is full, the one that was used least gives way.
// Beside the slots stand 16 bits of each key, all of which a processor keeps near: what is not
// there is mostly found out from them alone.
template <class Value>
class BoundedTable {
 public:
  struct Slot {
    std::uint64_t key = 0;  // 0: free
    std::uint32_t uses = 0;
    Value value{};
  };

  // REQUIRES: a power of 2, 4 or more.
  explicit BoundedTable(std::size_t slots) : slots_(slots), tags_(slots / kWays) {}

  // Nothing: it is not there.
  [[nodiscard]] Slot* find(std::uint64_t key) {
    key |= 1;
    const std::size_t set = set_of(key);
    for (std::size_t i = 0; i < kWays; ++i) {
      Slot& slot = slots_[set * kWays + i];
      if (tags_[set][i] == tag_of(key) && slot.key == key) return &slot;
    }
    return nullptr;
  }
  // Made where it is not there: then uses is 0. `give_way` is called with the slot that goes.
  template <class GiveWay>
  [[nodiscard]] Slot& take(std::uint64_t key, const GiveWay& give_way) {
    if (Slot* const found = find(key); found != nullptr) return *found;
    key |= 1;
    const std::size_t set = set_of(key);
    std::size_t least = 0;
    for (std::size_t i = 1; i < kWays; ++i) {
      if (slots_[set * kWays + i].uses < slots_[set * kWays + least].uses) least = i;
    }
    Slot& slot = slots_[set * kWays + least];
    if (slot.key != 0) {
      give_way(slot);
      ++forgotten_;
    }
    slot.key = key;
    slot.uses = 0;
    slot.value = {};
    tags_[set][least] = tag_of(key);
    return slot;
  }
  [[nodiscard]] Slot& take(std::uint64_t key) {
    return take(key, [](const Slot&) {});
  }

  [[nodiscard]] std::span<Slot> slots() { return slots_; }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  // How many gave way.
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

 private:
  static constexpr std::size_t kWays = 4;

  [[nodiscard]] std::size_t set_of(std::uint64_t key) const {
    return (key >> 20) & (tags_.size() - 1);
  }
  [[nodiscard]] static std::uint16_t tag_of(std::uint64_t key) {
    return static_cast<std::uint16_t>(key >> 48);
  }

  std::vector<Slot> slots_;
  std::vector<std::array<std::uint16_t, kWays>> tags_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace idmint::restore
