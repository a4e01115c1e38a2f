// Reports what a folder of kept backups can restore, as text, JSON and metrics.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "restore/keep/kept.h"
#include "terminal/output.h"

namespace idmint::restore {

struct KeptReport {
  Kept kept{};
  double behind = 0;             // seconds from its newest entry to now
  std::optional<double> left{};  // seconds until the set's oplog rolls over that entry
  [[nodiscard]] bool is_ready() const { return kept.reach_to_end().has_value(); }
};

void print_kept(Output& out, const KeptReport& report);
[[nodiscard]] nlohmann::ordered_json json_of(const KeptReport& report);
// In the text format of Prometheus, as its node_exporter reads from a file.
[[nodiscard]] std::string metrics_of(const KeptReport& report);

}  // namespace idmint::restore
