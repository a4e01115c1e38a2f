// The measured speed of a source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/histogram.h"
#include "idmint/result.h"

namespace idmint::cli {

struct Measurement {
  std::string source{};
  int threads = 1;
  int batch = 1;  // ids in one call
  double seconds = 0;
  std::uint64_t ids = 0;         // ids of all threads
  Histogram calls{};             // ns of a call: all slow calls, a sample of calls from memory
  Histogram blocks{};            // ps of an id, in blocks of calls from memory; empty: none
  bool durable = false;          // the ids are values of a sequence, and used up
  std::optional<Error> error{};  // the error that ended a thread early

  [[nodiscard]] double ids_per_second() const { return static_cast<double>(ids) / seconds; }
  // The time of one thread for an id: the median, so that interruptions of a few blocks do not
  // count.
  [[nodiscard]] double ns_per_id() const {
    return blocks.count() != 0 ? static_cast<double>(blocks.quantile(0.5)) / 1000
                               : static_cast<double>(calls.quantile(0.5)) / batch;
  }
};

}  // namespace idmint::cli
