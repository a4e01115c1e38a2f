// Ids from a counter in PostgreSQL, MariaDB, Redis and etcd, beside the recipes that everybody
// writes first, in one run.
//
//   engines_bench [SECONDS [ROUNDS [ENGINE...]]]
//
// SECONDS: for each figure, 1. ROUNDS: how often each is measured, 5; the median counts. For one
// caller, five times as often a fifth as long. ENGINE: postgresql, mariadb, redis or etcd; all of
// them.
//
// It starts the servers by itself, on the loopback, one of each. Every id of both sides is durable:
// a write is acknowledged when it is on the disk. idmint has one store and one counter sequence for
// all callers of a process, as a server process has, and each caller asks for one id a call.
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engines/engine.h"
#include "idmint/definition.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "load.h"
#include "tests/fakes/temp_folder.h"

namespace {

using namespace idmint;
using namespace bench;

// ---- processor time

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// In seconds, of this process and of those that it started and that have ended.
double own_processor_time() {
  double sum = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    sum += seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  }
  return sum;
}

// In seconds, of the processes below `pid`, which are the servers.
double processor_time_below(const std::string& pid) {
  double sum = 0;
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  for (std::string child; children >> child;) {
    clockid_t clock{};
    timespec used{};
    if (::clock_getcpuclockid(static_cast<pid_t>(std::stol(child)), &clock) != 0 ||
        ::clock_gettime(clock, &used) != 0)
      continue;  // it has ended
    sum += static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
    // The time of its children that have ended, in steps of 10 ms.
    std::ifstream file("/proc/" + child + "/stat");
    std::string stat{std::istreambuf_iterator<char>(file), {}};
    std::istringstream fields(stat.erase(0, stat.rfind(')') + 1));
    std::string skipped;
    for (int i = 0; i < 13; ++i) fields >> skipped;
    double user = 0;
    double system = 0;
    fields >> user >> system;
    sum += (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    sum += processor_time_below(child);
  }
  return sum;
}

// ---- what is measured

constexpr std::array<std::size_t, 3> kCallers = {1, 64, kMostCallers};

struct Measured {
  Figures figures{};
  double ids = 0;
  double refused = 0;  // for one id
  double a_trip = 0;   // ids for one round trip
  double own_us = 0;   // processor time for one id, in microseconds
  double server_us = 0;
};

using Measuring = std::function<Measured()>;

// All ids, and what one of them takes on the average.
Measured sum_of(const std::vector<Measured>& all) {
  Measured sum;
  for (const Measured& one : all) sum.ids += one.ids;
  for (const auto an_id :
       {&Measured::refused, &Measured::a_trip, &Measured::own_us, &Measured::server_us})
    for (const Measured& one : all) sum.*an_id += one.*an_id * one.ids / sum.ids;
  return sum;
}

// The median of each by ids a second, with what an id takes on the average of all rounds. They take
// turns, so that whatever slows the machine down slows all of them down.
std::vector<Measured> medians(const std::vector<Measuring>& all, std::size_t rounds) {
  std::vector<std::vector<Measured>> measured(all.size());
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) measured[i].push_back(all[i]());
  std::vector<Measured> medians;
  for (std::vector<Measured>& each : measured) {
    const auto middle = each.begin() + std::ssize(each) / 2;
    std::ranges::nth_element(each, middle, {},
                             [](const Measured& one) { return one.figures.ids_per_second; });
    const Measured median = *middle;
    medians.push_back(sum_of(each));
    medians.back().figures = median.figures;
  }
  return medians;
}

// The processor time until stop(), of this process and of the servers.
class ProcessorTime {
 public:
  // Sets what each of the ids has cost.
  void stop(Measured* measured) const {
    measured->own_us = (own_processor_time() - own_) / measured->ids * 1e6;
    measured->server_us = (processor_time_below(self_) - servers_) / measured->ids * 1e6;
  }

 private:
  const std::string self_ = std::to_string(::getpid());
  const double own_ = own_processor_time();
  const double servers_ = processor_time_below(self_);
};

// A recipe with so many callers, which are connected.
struct Connected {
  Connected(const EngineRecipe& of, std::size_t callers) : recipe(of) {
    for (std::size_t i = 0; i < callers; ++i) calls.push_back(recipe.caller());
  }

  EngineRecipe recipe;
  std::vector<std::function<void()>> calls{};
};

Measured measured_recipe(const Connected& connected, Steady::duration duration) {
  const std::uint64_t before = *connected.recipe.refused;
  std::atomic<std::uint64_t> ids{0};
  std::atomic<std::size_t> next{0};
  const ProcessorTime time;
  Measured is{.figures = blocking(connected.calls.size(), duration, [&] {
                return [&ids, &call = connected.calls[next++]] {
                  call();
                  ids.fetch_add(1, std::memory_order_relaxed);
                };
              })};
  is.ids = static_cast<double>(ids);
  time.stop(&is);
  is.refused = static_cast<double>(*connected.recipe.refused - before) / is.ids;
  return is;
}

Measured measured_sequence(Sequence& sequence, std::size_t callers, Steady::duration duration) {
  const SequenceStatistics before = sequence.statistics();
  const ProcessorTime time;
  Measured is{.figures = blocking(sequence, callers, duration)};
  const SequenceStatistics after = sequence.statistics();
  is.ids = static_cast<double>(after.values - before.values);
  time.stop(&is);
  is.a_trip = is.ids / static_cast<double>(after.rounds - before.rounds);
  return is;
}

// ---- the disk

// How often a second a record of 512 bytes is made durable: at the end of a file, or in a file that
// is as long already.
double syncs_per_second(const std::string& path, bool appends) {
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  const std::string record(512, 'r');
  const std::string longer(std::size_t{16} << 20, '\0');
  bool ok = fd >= 0 && (appends || ::pwrite(fd, longer.data(), longer.size(), 0) > 0) &&
            ::fdatasync(fd) == 0;
  double syncs = 0;
  off_t at = 0;
  const auto begin = Steady::now();
  for (; ok && Steady::now() - begin < std::chrono::milliseconds{500}; ++syncs) {
    ok = ::pwrite(fd, record.data(), record.size(), at) > 0 && ::fdatasync(fd) == 0;
    at += static_cast<off_t>(record.size());
    if (!appends) at %= static_cast<off_t>(longer.size());
  }
  const std::chrono::duration<double> took = Steady::now() - begin;
  ::close(fd);
  if (!ok) fail("cannot write " + path);
  return syncs / took.count();
}

void print_disk() {
  const fakes::TempFolder folder;
  std::printf(
      "\nThe disk makes %.0f records of 512 bytes durable a second, or %.0f at the end of a "
      "file.\n",
      syncs_per_second(folder.path("overwritten"), false),
      syncs_per_second(folder.path("appended"), true));
}

// ---- the table

// With a dash for what is not there. us: of processor time for an id, of the program and of the
// server.
void print_row(const std::string& callers, const std::string& recipe, const Measured& theirs,
               const Measured& ours) {
  const auto shown = [](const char* format, auto... numbers) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), format, numbers...);
    return std::string((... + numbers) > 0 ? text.data() : "-");
  };
  const auto figures = [&](const Measured& is) {
    return shown(" %.0f | %.2f | %.2f | ", is.figures.ids_per_second, is.figures.p50_ms,
                 is.figures.p99_ms) +
           shown("%.1f + %.1f", is.own_us, is.server_us) + " | ";
  };
  std::printf("| %s | %s |%s%s |%s%s | %.2f |\n", callers.c_str(), recipe.c_str(),
              figures(theirs).c_str(), shown("%.2f", theirs.refused).c_str(), figures(ours).c_str(),
              shown("%.1f", ours.a_trip).c_str(),
              ours.figures.ids_per_second / theirs.figures.ids_per_second);
  std::fflush(stdout);
}

constexpr const char* kHead =
    "| callers | recipe | ids/s | p50 ms | p99 ms | us | refused an id "
    "| idmint ids/s | p50 ms | p99 ms | us | ids a trip | ratio |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

void print_engine(const Engine& engine) {
  std::printf("\n%s; %s. A connection for each caller of a recipe; round trips an id: ",
              engine.name.c_str(), engine.durability.c_str());
  const char* before = "";
  for (const EngineRecipe& recipe : engine.recipes)
    std::printf("%s%s %s", std::exchange(before, "; "), recipe.name.c_str(), recipe.trips.c_str());
  std::printf(".\n\n%s", kHead);
}

void measure_engine(const Engine& engine, Store& store, Steady::duration duration,
                    std::size_t rounds) {
  print_disk();
  print_engine(engine);
  checked(create_sequence(store, {.name = "orders"}));
  const auto sequence = checked(Sequence::open(store, "orders"));
  for (const std::size_t callers : kCallers) {
    // One caller depends on the disk of the moment alone, so turns are short.
    const int turns = callers == 1 ? 5 : 1;
    const auto turn = duration / turns;
    std::vector<std::unique_ptr<const Connected>> recipes;
    std::vector<Measuring> all;
    for (const EngineRecipe& recipe : engine.recipes) {
      if (callers > recipe.most_callers) continue;
      recipes.push_back(std::make_unique<const Connected>(recipe, callers));
      all.emplace_back(
          [&connected = *recipes.back(), turn] { return measured_recipe(connected, turn); });
    }
    all.emplace_back([&, callers, turn] { return measured_sequence(*sequence, callers, turn); });
    const std::vector<Measured> is = medians(all, rounds * static_cast<std::size_t>(turns));
    for (std::size_t i = 0; i < recipes.size(); ++i)
      print_row(std::to_string(callers), recipes[i]->recipe.name, is[i], is.back());
  }
}

// The cost of idmint without a server: each id wakes the thread that waits for it. No store is
// faster with so many callers.
void measure_limit(Steady::duration duration, std::size_t rounds) {
  std::printf(
      "\nidmint without a server (memory:), the limit for callers that block:\n\n"
      "| callers | ids/s | p50 ms | p99 ms | processor us an id |\n|---|---|---|---|---|\n");
  const auto store = checked(Store::open("memory:"));
  checked(create_sequence(*store, {.name = "orders"}));
  const auto sequence = checked(Sequence::open(*store, "orders"));
  for (const std::size_t callers : kCallers) {
    const Measured is =
        medians({[&] { return measured_sequence(*sequence, callers, duration); }}, rounds).front();
    std::printf("| %zu | %.0f | %.3f | %.3f | %.1f |\n", callers, is.figures.ids_per_second,
                is.figures.p50_ms, is.figures.p99_ms, is.own_us);
  }
  std::fflush(stdout);
}

// ---- several processes

constexpr std::size_t kProcesses = 8;
constexpr std::size_t kCallersEach = 32;
constexpr std::string_view kRecipeOfEtcd = "recipe-of-etcd";
constexpr std::string_view kIdmint = "idmint";

// A process of its own: waits for a moment of the steady clock, measures, and prints what it found.
//   engines_bench process WHAT WHERE CALLERS SECONDS NANOSECONDS
// WHAT: recipe-of-etcd, with the server's host and port as WHERE; or idmint, with a store's URL.
int run_process(std::string_view what, const std::string& where, std::size_t callers,
                double seconds, std::int64_t begin_ns) {
  const auto duration =
      std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  const Steady::time_point begin{std::chrono::nanoseconds{begin_ns}};
  Measuring measuring;
  std::unique_ptr<const Connected> connected;
  std::unique_ptr<Store> store;
  std::unique_ptr<Sequence> sequence;
  if (what == kRecipeOfEtcd) {
    connected = std::make_unique<const Connected>(etcd_recipe(where), callers);
    measuring = [&] { return measured_recipe(*connected, duration); };
  } else {
    store = checked(Store::open(where));
    sequence = checked(Sequence::open(*store, "orders"));
    measuring = [&] { return measured_sequence(*sequence, callers, duration); };
  }
  if (Steady::now() > begin) fail("a process was not ready in time");
  std::this_thread::sleep_until(begin);
  const Measured is = measuring();
  std::printf("%g %g %g %g %g %g %g\n", is.figures.ids_per_second, is.figures.p50_ms,
              is.figures.p99_ms, is.ids, is.refused, is.a_trip, is.own_us);
  return 0;
}

// So many processes at once, as if they were one. p50: the median of theirs; p99: the largest.
Measured measured_processes(std::string_view what, const std::string& where, double seconds) {
  const auto begin = Steady::now() + std::chrono::seconds{1};
  std::ostringstream command;
  command << "exec '" << std::filesystem::read_symlink("/proc/self/exe").string() << "' process "
          << what << " '" << where << "' " << kCallersEach << ' ' << seconds << ' '
          << begin.time_since_epoch() / std::chrono::nanoseconds{1};
  const ProcessorTime time;
  std::array<std::FILE*, kProcesses> pipes{};
  for (std::FILE*& pipe : pipes) pipe = ::popen(command.str().c_str(), "r");
  std::vector<Measured> all;
  for (std::FILE* const pipe : pipes) {
    Measured one;
    if (pipe == nullptr ||
        std::fscanf(pipe, "%lf %lf %lf %lf %lf %lf %lf", &one.figures.ids_per_second,
                    &one.figures.p50_ms, &one.figures.p99_ms, &one.ids, &one.refused, &one.a_trip,
                    &one.own_us) != 7 ||
        ::pclose(pipe) != 0)
      fail("a process failed");
    all.push_back(one);
  }
  const Measured sum = sum_of(all);
  Measured is = sum;
  time.stop(&is);
  is.own_us = sum.own_us;  // without what it takes to start them
  std::ranges::sort(all, {}, [](const Measured& one) { return one.figures.p50_ms; });
  is.figures.p50_ms = all[kProcesses / 2].figures.p50_ms;
  for (const Measured& one : all) {
    is.figures.ids_per_second += one.figures.ids_per_second;
    is.figures.p99_ms = std::max(is.figures.p99_ms, one.figures.p99_ms);
  }
  return is;
}

void measure_processes(const Engine& etcd, double seconds, std::size_t rounds) {
  const std::vector<Measured> is =
      medians({[&] { return measured_processes(kRecipeOfEtcd, etcd.host, seconds); },
               [&] { return measured_processes(kIdmint, etcd.url, seconds); }},
              rounds);
  print_row(std::to_string(kProcesses) + " processes x " + std::to_string(kCallersEach),
            etcd.recipes.front().name, is.front(), is.back());
}

// ---- cached ranges

// Nanoseconds for one id of all threads together: by the wall clock, and by the time in which the
// threads had a processor, as if each had one of its own.
struct CachedFigures {
  double wall_ns = 0;
  double cpu_ns = 0;
};

double thread_cpu_ns() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

CachedFigures cached(CachedSequence& sequence, std::size_t threads, Steady::duration duration) {
  constexpr int kBlock = 10'000;
  std::atomic<std::uint64_t> ids{0};
  std::atomic<double> cpu_ns{0};
  std::atomic<bool> stop{false};
  const auto begin = Steady::now();
  {
    std::vector<std::jthread> all;
    for (std::size_t i = 0; i < threads; ++i)
      all.emplace_back([&] {
        const double began = thread_cpu_ns();
        while (!stop.load(std::memory_order_relaxed)) {
          for (int id = 0; id < kBlock; ++id)
            if (checked(sequence.next()) == 0) fail("there is no value 0");
          ids.fetch_add(kBlock, std::memory_order_relaxed);
        }
        cpu_ns.fetch_add(thread_cpu_ns() - began);
      });
    std::this_thread::sleep_for(duration);
    stop.store(true);
  }
  const std::chrono::duration<double, std::nano> took = Steady::now() - begin;
  const auto sum = static_cast<double>(ids);
  return {.wall_ns = took.count() / sum,
          .cpu_ns = cpu_ns.load() / static_cast<double>(threads) / sum};
}

struct NamedStore {
  std::string name;
  Store& store;
};

// The first store is the one that the others are compared with.
void measure_cached(const std::vector<NamedStore>& stores, Steady::duration duration,
                    std::size_t rounds) {
  std::printf(
      "\nCached ranges, ns an id of all threads together; ratios of processor time, against %s:\n\n"
      "| store | 1 thread, wall | processor | ratio | 2 threads, wall | processor | ratio |\n"
      "|---|---|---|---|---|---|---|\n",
      stores.front().name.c_str());
  std::vector<std::unique_ptr<CachedSequence>> sequences;
  for (const NamedStore& each : stores) {
    checked(create_sequence(each.store, {.name = "cached", .strategy = Strategy::kCached}));
    sequences.push_back(checked(CachedSequence::open(each.store, "cached")));
  }
  constexpr std::array<std::size_t, 2> kThreads = {1, 2};
  std::vector<std::array<CachedFigures, kThreads.size()>> medians(stores.size());
  for (std::size_t t = 0; t < kThreads.size(); ++t) {
    std::vector<std::vector<CachedFigures>> measured(stores.size());
    for (std::size_t round = 0; round <= rounds; ++round)  // the first one warms up
      for (std::size_t i = 0; i < stores.size(); ++i) {
        const CachedFigures is = cached(*sequences[i], kThreads.at(t), duration);
        if (round > 0) measured[i].push_back(is);
      }
    for (std::size_t i = 0; i < stores.size(); ++i) {
      std::ranges::sort(measured[i], {}, &CachedFigures::cpu_ns);
      medians[i].at(t) = measured[i][measured[i].size() / 2];
    }
  }
  for (std::size_t i = 0; i < stores.size(); ++i) {
    std::printf("| %s |", stores[i].name.c_str());
    for (std::size_t t = 0; t < kThreads.size(); ++t)
      std::printf(" %.2f | %.2f | %.2f |", medians[i].at(t).wall_ns, medians[i].at(t).cpu_ns,
                  medians[i].at(t).cpu_ns / medians[0].at(t).cpu_ns);
    std::printf("\n");
  }
  std::fflush(stdout);
}

// ---- the engines

struct NamedEngine {
  std::string_view name;
  Engine (*start)();
};
constexpr std::array<NamedEngine, 4> kEngines = {{{"postgresql", postgresql_engine},
                                                  {"mariadb", mariadb_engine},
                                                  {"redis", redis_engine},
                                                  {"etcd", etcd_engine}}};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 6 && words[0] == "process")
    return run_process(words[1], words[2], std::stoul(words[3]), std::stod(words[4]),
                       std::stoll(words[5]));
  const double seconds = words.empty() ? 1 : std::atof(words[0].c_str());
  const std::size_t rounds = words.size() < 2 ? 5 : std::strtoul(words[1].c_str(), nullptr, 10);
  const auto duration =
      std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  if (duration <= Steady::duration::zero() || rounds == 0)
    fail("usage: engines_bench [SECONDS [ROUNDS [ENGINE...]]]");
  const std::vector<std::string> wanted(
      words.begin() + std::min(std::ssize(words), std::ptrdiff_t{2}), words.end());

  const fakes::TempFolder folder;
  std::printf(
      "%u processors; medians of %zu rounds of %g s, in turns. us: of processor time for an "
      "id, of the program and of the server.\n",
      std::thread::hardware_concurrency(), rounds, seconds);
  std::vector<Engine> engines;
  std::vector<std::unique_ptr<Store>> opened;
  opened.push_back(checked(Store::open("sqlite:" + folder.path("ids.db"))));
  std::vector<NamedStore> stores = {{"SQLite", *opened.front()}};
  for (const NamedEngine& each : kEngines) {
    if (!wanted.empty() && std::ranges::find(wanted, each.name) == wanted.end()) continue;
    engines.push_back(each.start());
    opened.push_back(checked(Store::open(engines.back().url)));
    stores.push_back({engines.back().name, *opened.back()});
    measure_engine(engines.back(), *opened.back(), duration, rounds);
    if (each.name == "etcd") measure_processes(engines.back(), seconds, rounds);
  }
  measure_limit(duration / 3, rounds);
  measure_cached(stores, duration / 3, 2 * rounds);
}
