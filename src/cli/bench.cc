// bench: mints for a while, and reports the rate.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/quantity.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/histogram.h"
#include "cli/json.h"
#include "cli/measurement.h"
#include "cli/source_options.h"
#include "cli/store_option.h"
#include "terminal/chart.h"
#include "terminal/exit_status.h"
#include "terminal/progress.h"
#include "terminal/report_file.h"
#include "terminal/stop.h"

namespace idmint::cli {

namespace {

struct BenchOptions {
  std::vector<std::string> sources;
  FormatTexts format;  // of snowflake
  std::string threads = "1";
  std::string batch = "1";
  std::string seconds = "1";
  std::string svg;  // a file; empty: none
};

void add_bench(CLI::App& command, BenchOptions& given) {
  command.add_option("SOURCE", given.sources, "Formats, sequences and pools (the formats)")
      ->type_name("");
  command.add_option("--threads", given.threads, "Threads that share each source (1)")
      ->type_name("N");
  command.add_option("--seconds", given.seconds, "How long each source runs, in seconds (1)")
      ->type_name("S");
  command.add_option("--batch", given.batch, "Ids in one call (1)")->type_name("N");
  command.add_option("--svg", given.svg, "Also draw the bars into this file")->type_name("FILE");
  add_snowflake(command, given.format);
  add_store(command, Stays::kNo);
}

using namespace std::chrono_literals;
using Ticks = std::chrono::steady_clock;

// Reading the clock takes longer than making an id. So calls from memory are timed in blocks of
// this many, between two readings of the clock, with one single timed call between two blocks.
// Calls that take longer than kSlow are all timed singly.
constexpr int kBlock = 1024;
constexpr auto kSlow = 2us;

// The conditions of a measurement.
struct Conditions {
  int threads = 1;
  int batch = 1;
  double seconds = 1;
};

Result<Conditions> conditions_of(const BenchOptions& given) {
  const Result<std::int64_t> threads = whole_number("--threads", given.threads, 1, 1024);
  if (!threads) return std::unexpected(threads.error());
  const Result<std::int64_t> batch = whole_number("--batch", given.batch, 1, 1'000'000);
  if (!batch) return std::unexpected(batch.error());
  Conditions wanted{.threads = static_cast<int>(*threads), .batch = static_cast<int>(*batch)};
  const char* const end = given.seconds.data() + given.seconds.size();
  const auto [at, why] = std::from_chars(given.seconds.data(), end, wanted.seconds);
  if (why != std::errc{} || at != end || !(wanted.seconds >= 0.01) || wanted.seconds > 3600)
    return refuse("--seconds is \"" + shortened(given.seconds) + "\": give 0.01 to 3600");
  return wanted;
}

// The results of one thread; on a cache line of its own.
struct alignas(64) BenchThread {
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

// Makes at least one call, however late the thread is scheduled.
void mint(Source& source, std::size_t batch, Ticks::duration clock, const std::atomic<bool>& stop,
          BenchThread& worker) {
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

std::uint64_t ids_of(const std::vector<BenchThread>& workers) {
  std::uint64_t ids = 0;
  for (const BenchThread& worker : workers) ids += worker.ids.load(std::memory_order_relaxed);
  return ids;
}

Measurement measure(Source& source, const Conditions& wanted) {
  std::vector<BenchThread> workers(static_cast<std::size_t>(wanted.threads));
  std::atomic<bool> stop = false;
  const std::string counted = "ids of " + source.declaration().name;
  Progress progress(counted);
  const Ticks::duration clock = cost_of_clock();
  const auto begin = Ticks::now();
  const auto end = begin + std::chrono::duration_cast<Ticks::duration>(
                               std::chrono::duration<double>(wanted.seconds));
  {
    std::vector<std::jthread> threads;
    for (BenchThread& worker : workers) {
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
  for (BenchThread& worker : workers) {
    result.calls.merge(worker.calls);
    result.blocks.merge(worker.blocks);
    if (worker.error) result.error = std::move(worker.error);
  }
  result.durable = source.declaration().guarantee >= Guarantee::kUnique;
  return result;
}

// The formats without required options.
std::vector<std::string> usual_sources(const FormatOptions& snowflake) {
  std::vector<std::string> names;
  for (const Declaration& format : Mint::formats()) {
    const bool needs_a_worker = format.name == "snowflake";
    if (format.guarantee == Guarantee::kPractical || (needs_a_worker && snowflake.worker)) {
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

std::string conditions(const Conditions& wanted) {
  return std::to_string(wanted.threads) + (wanted.threads == 1 ? " thread, " : " threads, ") +
         std::to_string(wanted.batch) + (wanted.batch == 1 ? " id a call, " : " ids a call, ") +
         print_duration(wanted.seconds) + " each";
}

void print_results(Output& out, const std::vector<Measurement>& results, const Conditions& wanted) {
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

Result<void> run_bench(Context& context, const BenchOptions& given) {
  // Reads IDMINT_WORKER only if it is used.
  const bool with_snowflake = std::ranges::find(given.sources, "snowflake") != given.sources.end();
  const Result<FormatOptions> format =
      format_options(with_snowflake ? "snowflake" : "", given.format);
  if (!format) return std::unexpected(format.error());
  const Result<Conditions> read = conditions_of(given);
  if (!read) return std::unexpected(read.error());
  const Conditions& wanted = *read;
  stop_at_signals();
  std::optional<ReportFile> svg;
  if (!given.svg.empty()) {
    Result<ReportFile> file = ReportFile::open(given.svg);
    if (!file) return std::unexpected(std::move(file.error()));
    svg.emplace(*std::move(file));
  }
  Mint mint = open_mint(context);
  const std::vector<std::string> names =
      given.sources.empty() ? usual_sources(*format) : given.sources;
  // Opens all before the first is run, to report a misspelt one at once.
  std::vector<std::unique_ptr<Source>> sources;
  for (const std::string& name : names) {
    Result<std::unique_ptr<Source>> source =
        mint.source(name, name == "snowflake" ? *format : FormatOptions{});
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

  if (context.json) {
    context.out.write(json_measurements(results) + "\n");
  } else {
    print_results(context.out, results, wanted);
  }
  for (const Measurement& result : results) {
    if (result.durable) {
      report_notice(result.source + ": " + print_count(static_cast<double>(result.ids)) +
                        " of its values are used up, and never come again",
                    context.json);
    }
    if (result.error) {
      report(*result.error, context.json);
      context.status = exit_status(result.error->code);
    }
  }
  if (!svg) return {};
  return svg->finish(
      svg_chart("Ids per second", "idmint bench: " + conditions(wanted), bars_of(results)));
}

}  // namespace

const Command kBench = {
    "bench", "Mint for a while, and tell how fast",
    with_options<BenchOptions, add_bench, run_bench>,
    R"(Without a SOURCE it runs all formats that need no options. The values that a
sequence mints are used up, so sequences run only if they are named; the command
says how many values they have lost.
NS/ID is the median time of an id in one thread; in memory it is taken over
blocks of 1024 calls. The other times are of single calls; in a store these are
round trips. The time of reading the clock is subtracted.
Ctrl-C ends it with the results so far.

Examples:
  $ idmint bench uuid7 ulid --seconds 0.1
  $ idmint bench uuid7 --threads 2 --batch 1000 --seconds 0.1 --svg uuid7.svg
  $ idmint bench uuid4 --seconds 0.1 --json
)"};

}  // namespace idmint::cli
