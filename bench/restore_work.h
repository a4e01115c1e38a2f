// What the benchmarks of idmint-restore share: documents, and what a piece of work costs.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <type_traits>
#include <utility>

#include "restore/server.h"

namespace idmint::restore {

// Of what worked, or the program ends.
template <class T>
T need(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Of 200 bytes: {_id, k: 0 to 999, text}.
inline Bson document_of_200_bytes(std::int32_t id) {
  static const std::string text(165, 'x');
  return Bson("_id", id, "k", id * 7 % 1000, "text", text);
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
  const Bson status = need(server.command("admin", ask.get()));
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

// Of the last minute: how many wanted a processor.
inline std::string load_average() {
  std::string load;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

}  // namespace idmint::restore
