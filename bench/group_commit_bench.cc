// How many ids a second one durable counter gives, by the number of callers; and other strategies.
//
//   group_commit_bench [STORE [SECONDS]]     STORE: a URL; default a new SQLite file in the current
//                                        folder, removed afterwards. SECONDS: for each row, 2.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "distant_store.h"
#include "idmint/definition.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "load.h"

namespace {

using namespace idmint;
using namespace bench;

class Table {
 public:
  explicit Table(const std::string& title) {
    std::printf("\n%s\n%-34s %12s %10s %10s %12s %12s\n", title.c_str(), "callers", "ids/s",
                "p50 ms", "p99 ms", "ids/round", "against one");
  }

  void row(const std::string& callers, const Figures& is, const SequenceStatistics& did) {
    if (one_ == 0) one_ = is.ids_per_second;
    std::printf("%-34s %12.0f %10.3f %10.3f %12.1f %11.1fx\n", callers.c_str(), is.ids_per_second,
                is.p50_ms, is.p99_ms,
                static_cast<double>(did.values) / static_cast<double>(did.rounds),
                is.ids_per_second / one_);
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
    const auto sequence = checked(Sequence::open(store, "bench"));
    const Figures is = blocking(*sequence, callers, duration);
    table.row(threads(callers), is, sequence->statistics());
  }
  const auto sequence = checked(CounterSequence::open(store, "bench"));
  const Figures is = asynchronous(*sequence, 10'000, duration);
  table.row("10000 outstanding, async", is, sequence->statistics());
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
      const auto sequence = checked(Sequence::open(store, name));
      const Figures is = blocking(*sequence, callers, duration);
      table.row(std::string(what) + ", " + threads(callers), is, sequence->statistics());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = "group_commit_bench.tmp";
  const std::string url = argc > 1 ? argv[1] : "sqlite:" + (folder / "ids.db").string();
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  const auto duration =
      std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  if (argc <= 1) std::filesystem::create_directory(folder);
  {
    const auto store = checked(Store::open(url));
    checked(create_sequence(*store, SequenceDefinition{.name = "bench"}));
    one_counter(url, *store, duration);
    DistantStore distant(*store, std::chrono::milliseconds{25});
    one_counter("the same, 25 ms away", distant, duration);
    strategies("strategies, 12 digits: " + url, *store, duration);
  }
  if (argc <= 1) std::filesystem::remove_all(folder);
}
