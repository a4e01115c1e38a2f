// Service: what every protocol serves from, and what is counted of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/connection.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/sources.h"

namespace idmint::server {

// The largest count of one request for ids whose reply is made whole.
inline constexpr std::int64_t kMostIds = 10'000;

// On the loop.
struct Service {
  Loop& loop;
  Sources& sources;
  Access& access;
  Log& log;
  std::string version{};
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::int64_t most_connections = 0;

  // Those with new answers, whose replies are written once all answers of a batch have been given.
  std::vector<Conversation*> settling{};

  // Since the start.
  std::uint64_t connections = 0;
  std::uint64_t connections_refused = 0;
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;
  std::uint64_t ids = 0;
  // Now.
  std::uint64_t open_connections = 0;
  bool draining = false;
};

}  // namespace idmint::server
