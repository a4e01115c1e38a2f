// Waiting for the socket of a connection.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>

#include "base/given_up.h"
#include "idmint/clock.h"

namespace idmint::stores {

// The events of a socket that are ready; 0: none, and the deadline has passed, or nobody waits for
// this thread any more.
[[nodiscard]] inline short wait_for_socket(int socket, short events, SteadyTime until) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now())
            .count();
    constexpr std::int64_t kLookAgain = 50;  // ms
    const std::int64_t longest =
        MayBeGivenUp::applies() ? kLookAgain : std::int64_t{std::numeric_limits<int>::max()};
    pollfd one{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, longest)));
    if (ready > 0) return one.revents;
    if (ready < 0 && errno != EINTR) return POLLERR;
    if (left <= 0 || MayBeGivenUp::happened()) return 0;
  }
}

}  // namespace idmint::stores
