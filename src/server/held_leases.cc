#include "server/held_leases.h"

#include <algorithm>
#include <iterator>

#include "base/errors.h"

namespace idmint::server {

Result<void> HeldLeases::begin(Time now, std::string_view whose) {
  std::erase_if(held_, [&](const auto& held) { return held.second.until <= now; });
  if (std::ssize(held_) + asked_for_ < most_) {
    ++asked_for_;
    return {};
  }
  return fail(Code::kResourceExhausted,
              std::string(whose) + " may lease at most " + std::to_string(most_) +
                  " worker ids at a time (max_leases), and has as many; nothing was leased: give "
                  "one back, or set a larger max_leases");
}

bool HeldLeases::has(std::string_view pool, const Uuid& token) const {
  const std::string before = std::string(pool) + "/";
  return token != Uuid{} && std::ranges::any_of(held_, [&](const auto& held) {
           return held.second.token == token && !held.second.given_back &&
                  held.first.starts_with(before);
         });
}

void HeldLeases::hold(std::string_view pool, std::int64_t worker, const Uuid& token, Time until) {
  held_[key_of(pool, worker)] = {.token = token, .until = until};
}

void HeldLeases::give_back(std::string_view pool, std::int64_t worker, const Uuid& token, Time now,
                           std::chrono::nanoseconds usable) {
  const auto found = held_.find(key_of(pool, worker));
  if (found == held_.end() || found->second.token != token) return;
  if (found->second.until - now <= usable) {
    held_.erase(found);
    return;
  }
  found->second.until -= std::chrono::duration_cast<Time::duration>(usable);
  found->second.given_back = true;
}

}  // namespace idmint::server
