// bench: mints for a while, and tells how fast.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/histogram.h"
#include "cli/json.h"
#include "cli/measurement.h"
#include "terminal/chart.h"
#include "terminal/progress.h"
#include "terminal/quantity.h"
#include "terminal/report_file.h"
#include "terminal/stop.h"

namespace idmint::cli {

namespace {

using namespace std::chrono_literals;
using Ticks = std::chrono::steady_clock;

// Reading the clock takes longer than making an id. So calls from memory are timed in blocks of so
// many, between two readings of the clock, and one call alone between two blocks. Calls that take
// longer than kSlow are all timed alone.
constexpr int kBlock = 1024;
constexpr auto kSlow = 2us;

// The results of one thread; on a cache line of its own.
struct alignas(64) Worker {
  std::atomic<std::uint64_t> ids = 0;
  Histogram calls;
  Histogram blocks;
  std::optional<Error> error;
};

// The time between two readings of the clock with nothing in between.
Ticks::duration cost_of_clock() {
  auto least = Ticks::duration::max();
  for (int i = 0; i < 1000; ++i) {
    const auto begin = Ticks::now();
    least = std::min(least, Ticks::now() - begin);
  }
  return least;
}

std::uint64_t picoseconds(Ticks::duration time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::duration<std::int64_t, std::pico>>(time).count());
}

// At least one call, however late the thread gets a processor.
void mint(Source& source, std::size_t batch, Ticks::duration clock, const std::atomic<bool>& stop,
          Worker& worker) {
  std::vector<Id> ids(batch);
  std::uint64_t done = 0;
  bool in_blocks = false;
  do {
    const int calls = in_blocks ? kBlock : 1;
    int made = 0;
    const auto begin = Ticks::now();
    do {
      if (Result<void> filled = source.next(ids); !filled) {
        worker.error = std::move(filled.error());
        break;
      }
    } while (++made < calls && !stop.load(std::memory_order_relaxed));
    const auto took = std::max(Ticks::now() - begin - clock, Ticks::duration{});
    done += static_cast<std::uint64_t>(made) * batch;
    worker.ids.store(done, std::memory_order_relaxed);
    if (made < calls) break;
    if (in_blocks) {
      worker.blocks.record(picoseconds(took) / (kBlock * batch));
      in_blocks = false;
    } else {
      worker.calls.record(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()));
      in_blocks = took <= kSlow * static_cast<int>(batch);
    }
  } while (!stop.load(std::memory_order_relaxed));
}

std::uint64_t ids_of(const std::vector<Worker>& workers) {
  std::uint64_t ids = 0;
  for (const Worker& worker : workers) ids += worker.ids.load(std::memory_order_relaxed);
  return ids;
}

Measurement measure(Source& source, const BenchArguments& wanted) {
  std::vector<Worker> workers(static_cast<std::size_t>(wanted.threads));
  std::atomic<bool> stop = false;
  const std::string counted = "ids of " + source.declaration().name;
  Progress progress(counted);
  const Ticks::duration clock = cost_of_clock();
  const auto begin = Ticks::now();
  const auto end = begin + std::chrono::duration_cast<Ticks::duration>(
                               std::chrono::duration<double>(wanted.seconds));
  {
    std::vector<std::jthread> threads;
    for (Worker& worker : workers) {
      threads.emplace_back(
          [&] { mint(source, static_cast<std::size_t>(wanted.batch), clock, stop, worker); });
    }
    while (Ticks::now() < end && stop_signal() == 0) {
      std::this_thread::sleep_until(std::min(end, Ticks::now() + 20ms));
      progress.show(static_cast<std::int64_t>(ids_of(workers)));
    }
    stop = true;
  }
  Measurement result{.source = source.declaration().name,
                     .threads = wanted.threads,
                     .batch = wanted.batch,
                     .seconds = std::chrono::duration<double>(Ticks::now() - begin).count(),
                     .ids = ids_of(workers)};
  for (Worker& worker : workers) {
    result.calls.merge(worker.calls);
    result.blocks.merge(worker.blocks);
    if (worker.error) result.error = std::move(worker.error);
  }
  result.durable = source.declaration().guarantee >= Guarantee::kUnique;
  return result;
}

// The formats that need nothing to be given.
std::vector<std::string> usual_sources(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const Declaration& format : Mint::formats()) {
    const bool needs_a_worker = format.name == "snowflake";
    if (format.guarantee == Guarantee::kPractical || (needs_a_worker && arguments.format.worker)) {
      names.push_back(format.name);
    }
  }
  return names;
}

std::string nanoseconds(double ns) { return print_duration(ns * 1e-9); }

std::vector<Bar> bars_of(const std::vector<Measurement>& results) {
  std::vector<Bar> bars;
  for (const Measurement& result : results) {
    bars.push_back({.label = result.source,
                    .value = result.ids_per_second(),
                    .text = print_rate(std::round(result.ids_per_second()))});
  }
  return bars;
}

std::string conditions(const BenchArguments& wanted) {
  return std::to_string(wanted.threads) + (wanted.threads == 1 ? " thread, " : " threads, ") +
         std::to_string(wanted.batch) + (wanted.batch == 1 ? " id a call, " : " ids a call, ") +
         print_duration(wanted.seconds) + " each";
}

void print_results(Output& out, const std::vector<Measurement>& results,
                   const BenchArguments& wanted) {
  std::vector<Row> rows;
  for (const Measurement& result : results) {
    const auto quantile = [&](double part) {
      return nanoseconds(static_cast<double>(result.calls.quantile(part)));
    };
    rows.push_back({result.source, print_count(std::round(result.ids_per_second())),
                    print_count(std::round(result.ns_per_id() * 10) / 10), quantile(0.5),
                    quantile(0.99), quantile(0.999),
                    nanoseconds(static_cast<double>(result.calls.max()))});
  }
  print_table(out,
              {{"SOURCE"},
               {"IDS/S", Align::kRight},
               {"NS/ID", Align::kRight},
               {"CALL P50", Align::kRight},
               {"P99", Align::kRight},
               {"P99.9", Align::kRight},
               {"MAX", Align::kRight}},
              rows);
  out.write(
      "\nThese are calls through Source::next(). A generator's own next() takes a few ns less.\n"
      "\nids/s with " +
      conditions(wanted) + "\n" + text_chart(bars_of(results), has_utf8()));
}

}  // namespace

Result<void> run_bench(Context& context) {
  const Arguments& arguments = context.arguments;
  const BenchArguments& wanted = arguments.bench;
  stop_at_signals();
  std::optional<ReportFile> svg;
  if (!wanted.svg.empty()) {
    Result<ReportFile> file = ReportFile::open(wanted.svg);
    if (!file) return std::unexpected(std::move(file.error()));
    svg.emplace(*std::move(file));
  }
  Mint mint = open_mint(arguments);
  const std::vector<std::string> names =
      arguments.texts.empty() ? usual_sources(arguments) : arguments.texts;
  // All of them before the first is run: a misspelt one is told at once.
  std::vector<std::unique_ptr<Source>> sources;
  for (const std::string& name : names) {
    Result<std::unique_ptr<Source>> source =
        mint.source(name, name == "snowflake" ? arguments.format : FormatOptions{});
    if (!source) return std::unexpected(std::move(source.error()));
    sources.push_back(*std::move(source));
  }
  std::vector<Measurement> results;
  for (const std::unique_ptr<Source>& source : sources) {
    if (stop_signal() != 0) break;
    Measurement result = measure(*source, wanted);
    if (result.error && result.ids == 0) return std::unexpected(std::move(*result.error));
    results.push_back(std::move(result));
  }
  context.stopped_by = stop_signal();

  if (arguments.json) {
    context.out.write(json_measurements(results) + "\n");
  } else {
    print_results(context.out, results, wanted);
  }
  for (const Measurement& result : results) {
    if (result.durable) {
      report_notice(result.source + ": " + print_count(static_cast<double>(result.ids)) +
                        " of its values are used up, and never come again",
                    arguments.json);
    }
    if (result.error) {
      report(*result.error, arguments.json);
      context.status = exit_status(result.error->code);
    }
  }
  if (!svg) return {};
  return svg->finish(
      svg_chart("Ids per second", "idmint bench: " + conditions(wanted), bars_of(results)));
}

}  // namespace idmint::cli
