// A scripted clock and entropy, so that tests can force rare events: the second draw collides, the
// clock steps back an hour. Never for production.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "idmint/clock.h"
#include "idmint/entropy.h"

namespace idmint {

// Stands still until it is set. sleep_until() sets it at once, so no test waits.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start) : ns_(start.time_since_epoch().count()) {}

  Instant now() noexcept override { return Instant{std::chrono::nanoseconds{ns_.load()}}; }
  void sleep_until(Instant when, std::chrono::nanoseconds /*at_most*/) noexcept override {
    sleeps_.fetch_add(1);
    std::int64_t seen = ns_.load();
    const std::int64_t target = when.time_since_epoch().count();
    while (seen < target && !ns_.compare_exchange_weak(seen, target)) {
    }
  }

  void set(Instant to) { ns_.store(to.time_since_epoch().count()); }
  // A negative `by` sets it back.
  void advance(std::chrono::nanoseconds by) { ns_.fetch_add(by.count()); }
  // The number of calls of sleep_until().
  [[nodiscard]] int sleeps() const { return sleeps_.load(); }

 private:
  std::atomic<std::int64_t> ns_;
  std::atomic<int> sleeps_{0};
};

// Gives the script first, then a pseudo-random stream that is the same in every run (xorshift64).
class ScriptedEntropy final : public Entropy {
 public:
  ScriptedEntropy() = default;
  explicit ScriptedEntropy(const std::vector<std::uint8_t>& script)
      : script_(script.begin(), script.end()) {}

  // Appends to the script.
  void push(std::span<const std::uint8_t> bytes) {
    const std::lock_guard lock(mutex_);
    script_.insert(script_.end(), bytes.begin(), bytes.end());
  }

  // Calls of fill() and draw() are counted from 0. Call number `call` repeats the bytes of call
  // number `earlier` and consumes neither script nor stream, except for bytes beyond that length.
  // With a generator that draws once for each id, this makes a collision. REQUIRES: calls() <=
  // earlier < call.
  void repeat(std::size_t call, std::size_t earlier) {
    const std::lock_guard lock(mutex_);
    repeats_[call] = earlier;
    kept_[earlier];
  }
  [[nodiscard]] std::size_t calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

  void fill(std::span<std::byte> out) noexcept override {
    const std::lock_guard lock(mutex_);
    const std::size_t call = calls_++;
    std::size_t done = 0;
    if (const auto at = repeats_.find(call); at != repeats_.end()) {
      for (const std::byte b : kept_[at->second]) {
        if (done == out.size()) break;
        out[done++] = b;
      }
    }
    for (std::byte& b : out.subspan(done)) b = next_byte();
    if (const auto at = kept_.find(call); at != kept_.end()) {
      at->second.assign(out.begin(), out.end());
    }
  }

 private:
  std::byte next_byte() {
    if (!script_.empty()) {
      const auto b = static_cast<std::byte>(script_.front());
      script_.pop_front();
      return b;
    }
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::byte>(state_ & 0xff);
  }

  mutable std::mutex mutex_;
  std::deque<std::uint8_t> script_;
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
  std::size_t calls_ = 0;
  std::map<std::size_t, std::size_t> repeats_;          // call -> the earlier one
  std::map<std::size_t, std::vector<std::byte>> kept_;  // the bytes to be repeated
};

}  // namespace idmint
