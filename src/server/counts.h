// Counts for /metrics, on the loop. A count is one increment of a plain integer: nothing is looked
// up by name, and nothing is printed until somebody asks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "idmint/result.h"
#include "idmint/sequence.h"
#include "server/access.h"

namespace idmint::server {

// A histogram of durations. Bucket i has those above bound(i - 1) and up to bound(i); the last
// bucket has those above all bounds.
class Histogram final {
 public:
  static constexpr std::size_t kBounds = 20;
  // 16 us, doubled for each bucket; the last is 8.388608 s.
  [[nodiscard]] static constexpr std::chrono::microseconds bound(std::size_t bucket) noexcept {
    return kFirst * (std::int64_t{1} << bucket);
  }

  // A negative duration counts as 0. `times`: the number of such durations.
  constexpr void add(std::chrono::nanoseconds duration, std::uint64_t times = 1) noexcept {
    const auto nanoseconds =
        static_cast<std::uint64_t>(duration.count() > 0 ? duration.count() : 0);
    sum_ += nanoseconds * times;
    constexpr std::uint64_t first = std::chrono::nanoseconds{kFirst}.count();
    const auto bucket =
        static_cast<std::size_t>(std::bit_width((nanoseconds > 0 ? nanoseconds - 1 : 0) / first));
    buckets_[bucket < kBounds ? bucket : kBounds] += times;
  }

  [[nodiscard]] constexpr const std::array<std::uint64_t, kBounds + 1>& buckets() const noexcept {
    return buckets_;
  }
  [[nodiscard]] constexpr std::chrono::nanoseconds sum() const noexcept {
    return std::chrono::nanoseconds{static_cast<std::int64_t>(sum_)};
  }

 private:
  static constexpr std::chrono::microseconds kFirst{16};

  std::array<std::uint64_t, kBounds + 1> buckets_{};
  std::uint64_t sum_ = 0;  // nanoseconds
};

// The counts of one protocol, by the verb of a call. nullopt: a call that needs no right, such as
// PING or GET /v1/formats, or one that cannot be read.
struct CallCounts {
  static constexpr std::size_t kVerbs = static_cast<std::size_t>(Verb::kMetrics) + 1;
  [[nodiscard]] static constexpr std::size_t index(std::optional<Verb> verb) noexcept {
    return verb ? static_cast<std::size_t>(*verb) : kVerbs;
  }

  std::array<std::uint64_t, kVerbs + 1> calls{};  // calls read
  // For calls that waited for a store or another thread: the time from reading the call to making
  // its reply. A stream counts until its first ids.
  std::array<Histogram, kVerbs + 1> waits{};
};

// Counts of the whole server since its start.
struct Counts {
  CallCounts redis{};
  CallCounts http{};
  // Calls answered with an error, by Code.
  std::array<std::uint64_t, static_cast<std::size_t>(Code::kUnauthenticated) + 1> errors{};
};

// The counts of one source, by the name that clients use, across all its openings.
struct SourceCounts {
  // Used on the loop.
  std::uint64_t calls = 0;   // calls answered with ids
  std::uint64_t ids = 0;     // in these answers
  std::uint64_t errors = 0;  // calls of the open source answered with an error

  // Adds the counts of a sequence that is closed. Any thread may call it.
  void add(const SequenceStatistics& closed) noexcept {
    requests_ += closed.requests;
    rounds_ += closed.rounds;
    waste_ += closed.waste;
  }
  // The sum of all its sequences; `open` has the sum of the open ones. Never decreases, although a
  // sequence is in neither part while it is being closed. Call it on the loop.
  [[nodiscard]] const SequenceStatistics& all(const SequenceStatistics& open) noexcept {
    told_.requests = std::max(told_.requests, requests_ + open.requests);
    told_.rounds = std::max(told_.rounds, rounds_ + open.rounds);
    told_.waste = std::max(told_.waste, waste_ + open.waste);
    return told_;
  }

 private:
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::int64_t> waste_{0};
  SequenceStatistics told_{};
};

}  // namespace idmint::server
