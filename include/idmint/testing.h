// A clock and an entropy that do exactly what a test says, so that what is rare can be made
// certain: the second draw collides, the clock steps back an hour. Never for production.
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

// Stands still until told. sleep_until() moves it there at once, so no test waits.
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
  // Back, where `by` is negative.
  void advance(std::chrono::nanoseconds by) { ns_.fetch_add(by.count()); }
  // How often sleep_until() was called.
  [[nodiscard]] int sleeps() const { return sleeps_.load(); }

 private:
  std::atomic<std::int64_t> ns_;
  std::atomic<int> sleeps_{0};
};

// Gives the bytes it was told first, then a stream that is the same in every run (xorshift64).
class ScriptedEntropy final : public Entropy {
 public:
  ScriptedEntropy() = default;
  explicit ScriptedEntropy(const std::vector<std::uint8_t>& script)
      : script_(script.begin(), script.end()) {}

  // As what comes next, after what was pushed before.
  void push(std::span<const std::uint8_t> bytes) {
    const std::lock_guard lock(mutex_);
    script_.insert(script_.end(), bytes.begin(), bytes.end());
  }

  // Calls of fill() and draw() are counted from 0. The one numbered `call` gives again what the one
  // numbered `earlier` gave, and uses nothing of the script or the stream, but for the bytes that
  // it is longer. For a generator that draws once for each id: a collision. REQUIRES: calls() <=
  // earlier < call, so say it beforehand.
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
  std::map<std::size_t, std::vector<std::byte>> kept_;  // what a call gave that is to be repeated
};

}  // namespace idmint
