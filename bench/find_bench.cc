// How fast `idmint-restore find` goes through an oplog, and in how much memory.
//
//   find_bench FILE [MB]    makes FILE where it is not there, of 1000 MB or so many, and reads it
//
// Of the entries, in 64 collections, 50 % are inserts of about 200 bytes, 40 % updates of one
// number of one of a million documents, and 10 % deletes, as sessions with retryable writes log
// them: 350 bytes each.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/restore_work.h"
#include "restore/find/analysis.h"
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
  const std::array<std::uint8_t, 32> bytes{};
  Bson made;
  bson_t* const doc = made.get();
  bson_t lsid;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "lsid", &lsid);
  BSON_APPEND_BINARY(&lsid, "id", BSON_SUBTYPE_UUID, bytes.data(), 16);
  BSON_APPEND_BINARY(&lsid, "uid", BSON_SUBTYPE_BINARY, bytes.data(), 32);
  bson_append_document_end(doc, &lsid);
  BSON_APPEND_INT64(doc, "txnNumber", static_cast<std::int64_t>(number));
  const std::uint64_t kind = stir(state) % 10;
  const std::uint64_t id = stir(state) % 1'000'000;
  BSON_APPEND_UTF8(doc, "op", kind < 5 ? "i" : kind < 9 ? "u" : "d");
  BSON_APPEND_UTF8(doc, "ns", ("shop.collection" + std::to_string(id % 64)).c_str());
  BSON_APPEND_BINARY(doc, "ui", BSON_SUBTYPE_UUID, bytes.data(), 16);
  bson_t o;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "o", &o);
  if (kind < 5) {
    BSON_APPEND_INT64(&o, "_id", static_cast<std::int64_t>(1'000'000 + number));
    BSON_APPEND_UTF8(&o, "name", "Somebody with a name of usual length");
    BSON_APPEND_INT32(&o, "amount", static_cast<std::int32_t>(id));
    BSON_APPEND_UTF8(&o, "note", std::string(110, 'x').c_str());
    BSON_APPEND_DATE_TIME(&o, "at", static_cast<std::int64_t>(number));
  } else if (kind < 9) {
    bson_t diff;
    bson_t set;
    BSON_APPEND_INT32(&o, "$v", 2);
    BSON_APPEND_DOCUMENT_BEGIN(&o, "diff", &diff);
    BSON_APPEND_DOCUMENT_BEGIN(&diff, "u", &set);
    BSON_APPEND_INT64(&set, "visits", static_cast<std::int64_t>(number));
    BSON_APPEND_UTF8(&set, "last", std::string(60, 'y').c_str());
    bson_append_document_end(&diff, &set);
    bson_append_document_end(&o, &diff);
  } else {
    BSON_APPEND_INT64(&o, "_id", static_cast<std::int64_t>(id));
  }
  bson_append_document_end(doc, &o);
  if (kind >= 5 && kind < 9) {
    bson_t o2;
    BSON_APPEND_DOCUMENT_BEGIN(doc, "o2", &o2);
    BSON_APPEND_INT64(&o2, "_id", static_cast<std::int64_t>(id));
    bson_append_document_end(doc, &o2);
  }
  BSON_APPEND_INT32(doc, "stmtId", 0);
  constexpr std::uint64_t a_second = 2000;
  BSON_APPEND_TIMESTAMP(doc, "ts", static_cast<std::uint32_t>(1'795'000'000 + number / a_second),
                        static_cast<std::uint32_t>(number % a_second + 1));
  BSON_APPEND_INT64(doc, "t", 1);
  BSON_APPEND_INT64(doc, "v", 2);
  BSON_APPEND_DATE_TIME(doc, "wall",
                        static_cast<std::int64_t>(1'795'000'000'000 + number * 1000 / a_second));
  bson_t previous;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "prevOpTime", &previous);
  BSON_APPEND_TIMESTAMP(&previous, "ts", 0U, 0U);
  BSON_APPEND_INT64(&previous, "t", -1);
  bson_append_document_end(doc, &previous);
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

bool read(const std::string& path, OplogAnswer& answer) {
  Result<std::unique_ptr<OplogSource>> oplog = open_oplog(path);
  if (!oplog) {
    std::fprintf(stderr, "find_bench: %s\n", oplog.error().message.c_str());
    return false;
  }
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
    std::fprintf(stderr, "usage: find_bench FILE [MB]\n");
    return 2;
  }
  const std::string path = argv[1];
  const std::uint64_t megabytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  if (!std::filesystem::exists(path) && !make(path, megabytes * 1'000'000)) return 1;
  std::vector<double> speeds;
  std::vector<double> of_cpu;  // a second of the processor, which others that run do not lessen
  OplogAnswer answer;
  for (int run = 0; run <= kRuns; ++run) {  // the first warms up
    const auto begin = std::chrono::steady_clock::now();
    const double cpu = our_cpu();
    if (!read(path, answer)) return 1;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (run == 0) continue;
    speeds.push_back(static_cast<double>(answer.bytes) / 1e6 / spent.count());
    of_cpu.push_back(static_cast<double>(answer.bytes) / 1e6 / (our_cpu() - cpu));
  }
  std::ranges::sort(speeds);
  std::ranges::sort(of_cpu);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf(
      "%llu entries, %.0f MB: %.0f MB/s (%.0f to %.0f; %.0f in a second of the processor), %.0f ns "
      "an entry, %.0f MB of memory; load %s\n",
      static_cast<unsigned long long>(answer.entries), static_cast<double>(answer.bytes) / 1e6,
      speeds[kRuns / 2], speeds.front(), speeds.back(), of_cpu[kRuns / 2],
      static_cast<double>(answer.bytes) * 1e3 / speeds[kRuns / 2] /
          static_cast<double>(answer.entries),
      static_cast<double>(used.ru_maxrss) / 1e3, load_average().c_str());
  return 0;
}
