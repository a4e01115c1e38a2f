// The database engines that engines_bench measures, and how a program takes ids from each of them
// without idmint: the recipes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace idmint::bench {

// A recipe is written as most programs have it: each caller has a connection of its own, over the
// client library that idmint uses too, and statements are prepared where the library can. A server
// that answers with an error ends the benchmark, except for the refusals that a recipe must expect.
struct EngineRecipe {
  using Refused = std::shared_ptr<std::atomic<std::uint64_t>>;

  std::string name{};   // such as "UPDATE ... RETURNING"
  std::string trips{};  // round trips for one id, such as "1"
  // More callers than that are not measured.
  std::size_t most_callers = std::numeric_limits<std::size_t>::max();
  // Connects, and returns a function that takes one id. Any thread may call it at any time; what it
  // returns is used by one thread at a time.
  std::function<std::function<void()>()> caller{};
  // Deadlocks and lost compare-and-swaps so far; each was tried again until it succeeded.
  Refused refused = std::make_shared<std::atomic<std::uint64_t>>(0);
};

struct Engine {
  std::string name{};                    // such as "PostgreSQL 15.14"
  std::string durability{};              // the settings that matter, as the server reports them
  std::string url{};                     // for a store of idmint
  std::vector<EngineRecipe> recipes{};   // the one that idmint is compared with first
  std::string host{};                    // "127.0.0.1:PORT"
  std::shared_ptr<const void> server{};  // runs until this is gone
};

// Each starts a server on the loopback, which acknowledges a write when it is on the disk.
[[nodiscard]] Engine postgresql_engine();
[[nodiscard]] Engine mariadb_engine();
[[nodiscard]] Engine redis_engine();
[[nodiscard]] Engine etcd_engine();

// The first recipe of etcd, for another process.
[[nodiscard]] EngineRecipe etcd_recipe(const std::string& host);

// The largest number of callers; the servers let in that many connections, and a few more.
inline constexpr std::size_t kMostCallers = 256;

}  // namespace idmint::bench
