// How fast a source minted.
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
  std::uint64_t ids = 0;         // of all threads
  Histogram calls{};             // a sample of them; each with the two looks at the clock around it
  bool durable = false;          // the ids are values of a sequence, and used up
  std::optional<Error> error{};  // that ended a thread early

  [[nodiscard]] double ids_per_second() const { return static_cast<double>(ids) / seconds; }
  // Of all threads together: with two of them, half the time that each takes.
  [[nodiscard]] double ns_per_id() const { return seconds * 1e9 / static_cast<double>(ids); }
};

}  // namespace idmint::cli
