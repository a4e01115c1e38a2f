// A hash table in bounded memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace idmint::restore {

// A 4-way set-associative table. A new key replaces the least used slot of its set. A tag array
// holds 16 bits of each key; it fits the cache of the processor and answers most misses.
template <class Value>
class BoundedTable {
 public:
  struct Slot {
    std::uint64_t key = 0;  // 0: the slot is free
    std::uint32_t uses = 0;
    Value value{};
  };

  // REQUIRES: a power of 2, 4 or more.
  explicit BoundedTable(std::size_t slots) : slots_(slots), tags_(slots / kWays) {}

  // Null: the key has no slot.
  [[nodiscard]] Slot* find(std::uint64_t key) {
    key |= 1;
    const std::size_t set = set_of(key);
    for (std::size_t i = 0; i < kWays; ++i) {
      Slot& slot = slots_[set * kWays + i];
      if (tags_[set][i] == tag_of(key) && slot.key == key) return &slot;
    }
    return nullptr;
  }
  [[nodiscard]] const Slot* find(std::uint64_t key) const {
    return const_cast<BoundedTable*>(this)->find(key);  // NOLINT(*-const-cast): it changes nothing
  }
  // Makes a slot for a new key; its `uses` is 0. Calls `give_way` with the slot that is replaced.
  template <class GiveWay>
  [[nodiscard]] Slot& take(std::uint64_t key, const GiveWay& give_way) {
    key |= 1;
    const std::size_t set = set_of(key);
    Slot* const slots = &slots_[set * kWays];
    // In a large table both the tags and the slots are in memory: fetched at the same time.
    __builtin_prefetch(slots);
    __builtin_prefetch(slots + kWays - 1);
    if (Slot* const found = find(key); found != nullptr) return *found;
    // The first of those with the fewest uses, without a branch, which nothing could predict.
    std::uint64_t fewest = UINT64_MAX;
    for (std::size_t i = 0; i < kWays; ++i)
      fewest = std::min(fewest, std::uint64_t{slots[i].uses} << 32 | i);
    const std::size_t least = fewest & (kWays - 1);
    Slot& slot = slots[least];
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
  // Slots that were replaced.
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
