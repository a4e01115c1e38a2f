// The worker ids that one caller leases for programs that make ids by themselves.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint::server {

// As far as this process knows since it began. Use it on the loop.
class HeldLeases final {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void limit(std::int64_t most) noexcept { most_ = most; }
  // Counts one that is asked for, until end(). kResourceExhausted: so many are held. `whose`: "the
  // token web", for the message.
  [[nodiscard]] Result<void> begin(Time now, std::string_view whose);
  void end() noexcept { --asked_for_; }
  // Whether a lease of this token is held: then a call of it repeats or extends, and is not
  // counted.
  [[nodiscard]] bool has(std::string_view pool, const Uuid& token) const;
  // Until then nobody else gets the worker id, or it is of no use to others.
  void hold(std::string_view pool, std::int64_t worker, const Uuid& token, Time until);
  // It was given back. Others may use it at once if it ends less than `usable` from now, and else
  // only then: it counts for so long.
  void give_back(std::string_view pool, std::int64_t worker, const Uuid& token, Time now,
                 std::chrono::nanoseconds usable);
  [[nodiscard]] bool is_empty() const noexcept { return held_.empty(); }

 private:
  struct Held {
    Uuid token{};
    Time until{};
    bool given_back = false;
  };
  static std::string key_of(std::string_view pool, std::int64_t worker) {
    return std::string(pool) + "/" + std::to_string(worker);
  }

  std::int64_t most_ = 1000;
  std::int64_t asked_for_ = 0;
  std::unordered_map<std::string, Held> held_{};
};

}  // namespace idmint::server
