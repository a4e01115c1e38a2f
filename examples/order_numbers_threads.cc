// Many threads share one sequence. Each call is durable by itself, yet the calls cost far fewer
// writes to the disk than there are calls: those that wait at one time are served together.
//
//   order_numbers_threads [STORE]     the store's URL; sqlite:shop.db when there is none
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "idmint/store.h"

namespace {

constexpr std::size_t kThreads = 64;
constexpr std::size_t kOrdersPerThread = 100;

[[noreturn]] void give_up(const idmint::Error& error) {
  std::cerr << name(error.code) << ": " << error.message() << '\n';
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  auto store = idmint::Store::open(argc > 1 ? argv[1] : "sqlite:shop.db");
  if (!store) give_up(store.error());
  if (auto created = idmint::create_sequence(**store, {.name = "order-numbers"}); !created)
    give_up(created.error());
  auto opened = idmint::CounterSequence::open(**store, "order-numbers");
  if (!opened) give_up(opened.error());
  idmint::CounterSequence& orders = **opened;

  std::vector<std::vector<std::int64_t>> taken(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::vector<std::int64_t>& mine : taken) {
      threads.emplace_back([&orders, &mine] {
        while (mine.size() < kOrdersPerThread) {
          const idmint::Result<idmint::Range> range = orders.take(1);
          if (!range) return;
          mine.push_back(range->first);
        }
      });
    }
  }

  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& mine : taken) {
    if (!std::ranges::is_sorted(mine)) return 1;  // each thread sees its numbers go up
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(all);
  if (std::ranges::adjacent_find(all) != all.end()) return 1;  // a repeat
  if (all.size() != kThreads * kOrdersPerThread) return 1;

  const idmint::SequenceStatistics statistics = orders.statistics();
  std::cout << statistics.requests << " orders, no number twice\n"
            << statistics.rounds << " writes to the store\n";
}
