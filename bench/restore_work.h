// Documents, and the cost of a piece of work, for the benchmarks of idmint-restore.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "restore/backup/writer.h"
#include "restore/collections.h"
#include "restore/server.h"

namespace idmint::restore {

// The value of a success. A failure ends the program.
template <class T>
T need(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// The collection of a base with its options, the index of _id, and one on each of the first fields
// "k", "l", "m".
inline CollectionFacts collection_of_bench(int number, int indexes) {
  CollectionFacts facts;
  facts.database = "bench";
  facts.name = "c" + std::to_string(number);
  facts.options = Bson();
  facts.uuid = std::string(32, static_cast<char>('0' + number));
  facts.indexes.push_back(Bson("v", 2, "key", Bson("_id", 1), "name", "_id_"));
  for (int i = 0; i < indexes; ++i) {
    const std::string field(1, static_cast<char>('k' + i));
    facts.indexes.push_back(Bson("v", 2, "key", Bson(field.c_str(), 1), "name", field + "_1"));
  }
  return facts;
}

// {_id, k: 0 to 999, l, m, text}, with a field for each index. REQUIRES: bytes >= 60.
inline Bson document_of(std::int32_t id, int bytes, int indexes) {
  const std::string text(static_cast<std::size_t>(bytes - 25 - 7 * indexes), 'x');
  Bson document = Bson("_id", id);
  for (int i = 0; i < indexes; ++i) {
    const char field[] = {static_cast<char>('k' + i), '\0'};
    document.append(field,
                    static_cast<std::int32_t>((id + 1LL * i) * 7 % (i == 0 ? 1000 : 1'000'003)));
  }
  document.append("text", text);
  return document;
}

inline Bson document_of_200_bytes(std::int32_t id) { return document_of(id, 200, 1); }

inline void put(BackupWriter& writer, std::size_t of, Document document) {
  need(writer.put(of, std::span(&document, 1)));
}

struct Cost {
  double seconds = 0;
  double ours = 0;     // seconds of the processors that this process had
  double servers = 0;  // and the mongod
};

inline double our_cpu() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

inline double cpu_of(Server& server) {
  const Bson ask = Bson("serverStatus", 1);
  const Bson status = need(server.command("admin", ask));
  double all = 0;
  for (const char* const name : {"user_time_us", "system_time_us"}) {
    bson_iter_t at;
    if (status.view().find("extra_info", &at) && as_document(at).find(name, &at))
      all += static_cast<double>(as_integer(at).value_or(0)) / 1e6;
  }
  return all;
}

template <class Work>
Cost cost_of(Server& server, const Work& work) {
  const double servers = cpu_of(server);
  const double ours = our_cpu();
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return {.seconds = spent.count(), .ours = our_cpu() - ours, .servers = cpu_of(server) - servers};
}

// The most memory that this process had since forget_most_memory(), in MB.
inline void forget_most_memory() { std::ofstream("/proc/self/clear_refs") << 5; }
inline double most_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    double kilobytes = 0;
    status >> kilobytes;
    return kilobytes / 1024;
  }
  return 0;
}

// The load average of the last minute: how many processes wanted a processor.
inline std::string load_average() {
  std::string load;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

}  // namespace idmint::restore
