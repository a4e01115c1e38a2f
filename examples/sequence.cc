// A durable sequence in a SQLite file: create it, open it, take one value, a batch, and one without
// waiting.
//
//   sequence [STORE]     the store's URL; sqlite:shop.db when there is none
#include "idmint/sequence.h"

#include <cstdlib>
#include <future>
#include <iostream>
#include <utility>

#include "idmint/store.h"

namespace {

[[noreturn]] void give_up(const idmint::Error& error) {
  std::cerr << name(error.code) << ": " << error.message() << '\n';
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  auto store = idmint::Store::open(argc > 1 ? argv[1] : "sqlite:shop.db");
  if (!store) give_up(store.error());

  // Again with the same definition is fine, so every process may do this when it starts.
  if (auto created = idmint::create_sequence(**store, {.name = "orders", .first = 1000}); !created)
    give_up(created.error());

  auto orders = idmint::CounterSequence::open(**store, "orders");
  if (!orders) give_up(orders.error());

  // One value. It is on the disk before take() returns.
  const idmint::Result<idmint::Range> one = (*orders)->take(1);
  if (!one) give_up(one.error());
  std::cout << "order " << one->first << '\n';

  // A batch: consecutive values for one round trip.
  const idmint::Result<idmint::Range> batch = (*orders)->take(100);
  if (!batch) give_up(batch.error());
  std::cout << "orders " << batch->first << " to " << batch->last() << '\n';

  // Without waiting. A task of an executor calls back; never block in it.
  std::promise<idmint::Result<idmint::Range>> promise;
  const idmint::Result<void> queued = (*orders)->submit(
      1, [&promise](idmint::Result<idmint::Range> range) { promise.set_value(std::move(range)); });
  if (!queued) give_up(queued.error());
  const idmint::Result<idmint::Range> later = promise.get_future().get();
  if (!later) give_up(later.error());
  std::cout << "order " << later->first << '\n';

  // Nobody else used the store, or they took values in between: never the same, never smaller.
  return one->first < batch->first && batch->last() < later->first ? 0 : 1;
}
