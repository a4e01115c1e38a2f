// Snowflake ids under a worker id that is leased: create a pool in a SQLite file, open it twice,
// mint.
//
//   leased_worker [STORE]     the store's URL; sqlite:shop.db when there is none
#include <array>
#include <cstdlib>
#include <iostream>

#include "idmint/sequence.h"
#include "idmint/snowflake.h"
#include "idmint/store.h"
#include "idmint/worker_pool.h"

namespace {

[[noreturn]] void give_up(const idmint::Error& error) {
  std::cerr << name(error.code) << ": " << error.message() << '\n';
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  auto store = idmint::Store::open(argc > 1 ? argv[1] : "sqlite:shop.db");
  if (!store) give_up(store.error());

  // 16 worker ids, and the layout of all ids of the pool. Every process may do this when it starts.
  const auto layout = idmint::parse_snowflake_layout("41t10w12s epoch 2025-01-01");
  if (!layout) give_up(layout.error());
  const idmint::PoolDefinition web{.name = "web", .layout = *layout, .workers = 16};
  if (auto created = idmint::create_pool(**store, web); !created) give_up(created.error());

  // Has a worker id that no other generator has, until it is destroyed. Threads may share it.
  auto ids = idmint::SnowflakeGenerator::open(**store, "web");
  if (!ids) give_up(ids.error());
  const idmint::Result<idmint::Snowflake> one = (*ids)->next();
  if (!one) give_up(one.error());  // kUnavailable: the store has not answered for a window
  std::cout << "id " << one->to_string() << '\n';

  // Many at once is faster.
  std::array<idmint::Snowflake, 10'000> many;
  if (const idmint::Result<void> filled = (*ids)->next(many); !filled) give_up(filled.error());

  // Another one, as in another process or on another host.
  auto others = idmint::SnowflakeGenerator::open(**store, "web");
  if (!others) give_up(others.error());
  const idmint::Result<idmint::Snowflake> other = (*others)->next();
  if (!other) give_up(other.error());
  const auto parts = layout->decode(*one);
  const auto other_parts = layout->decode(*other);
  if (!parts || !other_parts) return 1;
  std::cout << "worker ids " << parts->worker << " and " << other_parts->worker << '\n';
  return *one < many.front() && parts->worker != other_parts->worker ? 0 : 1;
}
