// How many ids a second one durable counter gives, by the number of callers; and other strategies.
//
//   combiner_bench [STORE [SECONDS]]     STORE: a URL; default a new SQLite file in the current
//                                        folder, removed afterwards. SECONDS: for each row, 2.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "distant_store.h"
#include "idmint/catalog.h"
#include "idmint/sequence.h"
#include "idmint/store.h"

namespace {

using namespace idmint;
using Steady = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

template <class T>
T checked(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "combiner_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

struct Figures {
  double ids_per_second = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double ids_per_round = 0;
};

Figures figures(std::vector<float>& latencies_ms, double ids, Steady::duration took,
                const SequenceStatistics& statistics) {
  const auto percentile = [&](double share) {
    if (latencies_ms.empty()) return 0.0;
    const auto at =
        latencies_ms.begin() +
        static_cast<std::ptrdiff_t>(share * static_cast<double>(latencies_ms.size() - 1));
    std::ranges::nth_element(latencies_ms, at);
    return static_cast<double>(*at);
  };
  return {ids / std::chrono::duration<double>(took).count(), percentile(0.5), percentile(0.99),
          static_cast<double>(statistics.values) / static_cast<double>(statistics.rounds)};
}

Figures blocking(Store& store, std::string_view name, std::size_t callers,
                 Steady::duration duration) {
  const auto sequence = checked(open_sequence(store, name));
  std::vector<std::vector<float>> latencies(callers);
  std::atomic<bool> stop{false};
  std::barrier start(static_cast<std::ptrdiff_t>(callers) + 1);
  std::vector<std::thread> threads;
  for (std::vector<float>& mine : latencies) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      while (!stop.load(std::memory_order_relaxed)) {
        const auto begin = Steady::now();
        std::int64_t value = 0;
        checked(sequence->next(std::span(&value, 1)));
        mine.push_back(static_cast<float>(Milliseconds(Steady::now() - begin).count()));
      }
    });
  }
  start.arrive_and_wait();
  const auto begin = Steady::now();
  std::this_thread::sleep_for(duration);
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  const auto took = Steady::now() - begin;
  std::vector<float> all;
  for (const std::vector<float>& some : latencies) all.insert(all.end(), some.begin(), some.end());
  const auto ids = static_cast<double>(all.size());
  return figures(all, ids, took, sequence->statistics());
}

// Each answer asks for the next id; one in eight has its latency measured.
class Requester {
 public:
  Requester(CounterSequence& sequence, const std::atomic<bool>& stop)
      : sequence_(sequence), stop_(stop) {}

  void ask() {
    sequence_.submit(1, [this](const Result<Range>& result) {
      if (!result || stop_.load(std::memory_order_relaxed)) return;
      if (++answers_ % 8 == 0) {
        const auto now = Steady::now();
        if (asked_ != Steady::time_point{}) {
          latencies_ms_.push_back(static_cast<float>(Milliseconds(now - asked_).count()));
        }
      }
      asked_ = answers_ % 8 == 7 ? Steady::now() : Steady::time_point{};
      ask();
    });
  }

  [[nodiscard]] std::uint64_t answers() const { return answers_; }
  [[nodiscard]] const std::vector<float>& latencies_ms() const { return latencies_ms_; }

 private:
  CounterSequence& sequence_;
  const std::atomic<bool>& stop_;
  std::uint64_t answers_ = 0;
  Steady::time_point asked_;
  std::vector<float> latencies_ms_;
};

Figures asynchronous(Store& store, std::size_t outstanding, Steady::duration duration) {
  const auto sequence = checked(CounterSequence::open(store, "bench"));
  std::atomic<bool> stop{false};
  std::vector<Requester> requesters(outstanding, Requester(*sequence, stop));
  const auto begin = Steady::now();
  for (Requester& requester : requesters) requester.ask();
  std::this_thread::sleep_for(duration);
  stop.store(true);
  const auto took = Steady::now() - begin;
  sequence->close();
  double ids = 0;
  std::vector<float> all;
  for (const Requester& requester : requesters) {
    ids += static_cast<double>(requester.answers());
    all.insert(all.end(), requester.latencies_ms().begin(), requester.latencies_ms().end());
  }
  return figures(all, ids, took, sequence->statistics());
}

class Table {
 public:
  explicit Table(const std::string& title) {
    std::printf("\n%s\n%-34s %12s %10s %10s %12s %12s\n", title.c_str(), "callers", "ids/s",
                "p50 ms", "p99 ms", "ids/round", "against one");
  }

  void row(const std::string& callers, const Figures& is) {
    if (one_ == 0) one_ = is.ids_per_second;
    std::printf("%-34s %12.0f %10.3f %10.3f %12.1f %11.1fx\n", callers.c_str(), is.ids_per_second,
                is.p50_ms, is.p99_ms, is.ids_per_round, is.ids_per_second / one_);
    std::fflush(stdout);
  }

 private:
  double one_ = 0;  // of the first row
};

std::string threads(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " thread" : " threads");
}

void one_counter(const std::string& title, Store& store, Steady::duration duration) {
  Table table(title);
  for (const std::size_t callers : {1U, 16U, 64U, 256U, 1000U}) {
    table.row(threads(callers), blocking(store, "bench", callers, duration));
  }
  table.row("10000 outstanding, async", asynchronous(store, 10'000, duration));
}

// 12 digits each.
void strategies(const std::string& title, Store& store, Steady::duration duration) {
  constexpr std::int64_t kLast = 999'999'999'999;
  checked(create_sequence(store, {.name = "striped",
                                  .strategy = Strategy::kStriped,
                                  .first = 0,
                                  .last = kLast,
                                  .stripes = 1000}));
  checked(create_sequence(
      store, {.name = "random", .strategy = Strategy::kRandom, .first = 0, .last = kLast}));
  Table table(title);
  for (const std::size_t callers : {1U, 64U}) {
    for (const auto& [name, what] : {std::pair{"bench", "counter"},
                                     {"striped", "striped, 1000 stripes"},
                                     {"random", "random, claimed"}}) {
      table.row(std::string(what) + ", " + threads(callers),
                blocking(store, name, callers, duration));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = "combiner_bench.tmp";
  const std::string url = argc > 1 ? argv[1] : "sqlite:" + (folder / "ids.db").string();
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  const auto duration =
      std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  if (argc <= 1) std::filesystem::create_directory(folder);
  {
    const auto store = checked(open_store(url));
    checked(create_sequence(*store, Definition{.name = "bench"}));
    one_counter(url, *store, duration);
    bench::DistantStore distant(*store, std::chrono::milliseconds{25});
    one_counter("the same, 25 ms away", distant, duration);
    strategies("strategies, 12 digits: " + url, *store, duration);
  }
  if (argc <= 1) std::filesystem::remove_all(folder);
}
