// How fast `idmint-restore find` goes through an oplog, and in how much memory.
//
//   find_bench FILE [MB [THREADS]]    makes FILE where it is not there, of 1000 MB or so many, and
//                                     reads it with 1 thread or 2 (the default)
//
// The entries are in 64 collections: 50 % are inserts of about 200 bytes, 40 % updates of one
// number of one of a million documents, and 10 % deletes. They have 350 bytes each, as sessions
// with retryable writes log them.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "bench/restore_work.h"
#include "restore/find/analysis.h"
#include "restore/oplog/read_ahead.h"
#include "restore/oplog/source.h"
#include "restore/server.h"

namespace {

using namespace idmint;
using namespace idmint::restore;

constexpr int kRuns = 3;

// Steps through a 64-bit state; no randomness is needed, only variety.
std::uint64_t stir(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t word = state;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

Bson entry(std::uint64_t number, std::uint64_t& state) {
  const std::string zeros(32, '\0');
  const std::string_view uuid = std::string_view(zeros).substr(0, 16);
  const std::uint64_t kind = stir(state) % 10;
  const auto id = static_cast<std::int64_t>(stir(state) % 1'000'000);
  Bson made;
  made.add("lsid", Bson()
                       .add_binary("id", BSON_SUBTYPE_UUID, uuid)
                       .add_binary("uid", BSON_SUBTYPE_BINARY, zeros));
  made.add("txnNumber", static_cast<std::int64_t>(number));
  made.add("op", kind < 5 ? "i" : kind < 9 ? "u" : "d");
  made.add("ns", std::string_view("shop.collection" + std::to_string(id % 64)));
  made.add_binary("ui", BSON_SUBTYPE_UUID, uuid);
  Bson o;
  if (kind < 5) {
    o.add("_id", static_cast<std::int64_t>(1'000'000 + number))
        .add("name", "Somebody with a name of usual length")
        .add("amount", static_cast<std::int32_t>(id))
        .add("note", std::string_view(std::string(110, 'x')))
        .add("at", std::chrono::milliseconds(number));
  } else if (kind < 9) {
    Bson set;
    set.add("visits", static_cast<std::int64_t>(number))
        .add("last", std::string_view(std::string(60, 'y')));
    o.add("$v", 2).add("diff", Bson().add("u", set));
  } else {
    o.add("_id", id);
  }
  made.add("o", o);
  if (kind >= 5 && kind < 9) made.add("o2", Bson().add("_id", id));
  constexpr std::uint64_t a_second = 2000;
  made.add("stmtId", 0)
      .add("ts", BsonTimestamp{static_cast<std::uint32_t>(1'795'000'000 + number / a_second),
                               static_cast<std::uint32_t>(number % a_second + 1)})
      .add("t", std::int64_t{1})
      .add("v", std::int64_t{2})
      .add("wall", std::chrono::milliseconds(1'795'000'000'000 + number * 1000 / a_second))
      .add("prevOpTime", Bson().add("ts", BsonTimestamp{}).add("t", std::int64_t{-1}));
  return made;
}

bool make(const std::string& path, std::uint64_t bytes) {
  std::ofstream file(path, std::ios::binary);
  std::uint64_t state = 1;
  for (std::uint64_t number = 0, written = 0; written < bytes; ++number) {
    const Bson made = entry(number, state);
    const auto view = made.view().bytes();
    file.write(reinterpret_cast<const char*>(view.data()),
               static_cast<std::streamsize>(view.size()));
    written += view.size();
  }
  file.close();
  return file.good();
}

// The processor time of this thread, in seconds.
double my_cpu() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

bool read(const std::string& path, int threads, OplogAnswer& answer) {
  Result<std::unique_ptr<OplogSource>> oplog = open_oplog(path);
  if (!oplog) {
    std::fprintf(stderr, "find_bench: %s\n", oplog.error().message().c_str());
    return false;
  }
  if (threads > 1) *oplog = read_ahead(*std::move(oplog));
  OplogAnalysis analysis({});
  for (;;) {
    const Result<std::optional<Entry>> next = (*oplog)->next();
    if (!next || (*next && !analysis.add(**next))) return false;
    if (!*next) break;
  }
  answer = analysis.finish();
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: find_bench FILE [MB [THREADS]]\n");
    return 2;
  }
  const std::string path = argv[1];
  const std::uint64_t megabytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 2;
  if (!std::filesystem::exists(path) && !make(path, megabytes * 1'000'000)) return 1;
  std::vector<double> speeds;
  // Nanoseconds of the processor for an entry, which others that run do not lessen: of the thread
  // that analyses, and of all.
  std::vector<double> analysis;
  std::vector<double> all;
  OplogAnswer answer;
  for (int run = 0; run <= kRuns; ++run) {  // the first warms up
    const auto begin = std::chrono::steady_clock::now();
    const double mine = my_cpu();
    const double ours = our_cpu();
    if (!read(path, threads, answer)) return 1;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (run == 0) continue;
    const double an_entry = 1e9 / static_cast<double>(answer.entries);
    speeds.push_back(static_cast<double>(answer.bytes) / 1e6 / spent.count());
    analysis.push_back((my_cpu() - mine) * an_entry);
    all.push_back((our_cpu() - ours) * an_entry);
  }
  for (std::vector<double>* each : {&speeds, &analysis, &all}) std::ranges::sort(*each);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf(
      "%llu entries, %.0f MB, threads: %d: %.0f MB/s (%.0f to %.0f); processor %.0f ns an entry, "
      "%.0f of them in the analysis's thread; %.0f MB of memory; load %s\n",
      static_cast<unsigned long long>(answer.entries), static_cast<double>(answer.bytes) / 1e6,
      threads, speeds[kRuns / 2], speeds.front(), speeds.back(), all[kRuns / 2],
      analysis[kRuns / 2], static_cast<double>(used.ru_maxrss) / 1e3, load_average().c_str());
  return 0;
}
