// What `find` prints: as text, as JSON, as bars.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "restore/find/answer.h"
#include "terminal/chart.h"
#include "terminal/output.h"

namespace idmint::restore {

struct FindReport {
  OplogAnswer answer{};
  std::string name{};   // of the oplog, without a password
  std::string oplog{};  // as commands name it
  bool live = false;    // it is that of a server
  std::string id{};     // of --id; empty: none
  std::size_t top = 5;  // suspects to be printed at most
  bool listed = false;  // operations are asked for
};

// The likeliest suspects: up to `top`, of a score that is worth printing.
[[nodiscard]] std::size_t shown_suspects(const FindReport& report);
// Operations that a restore up to the limit of a suspect leaves out, besides its own and those of
// its effects.
[[nodiscard]] std::uint64_t other_operations(const OplogAnswer& answer, const Suspect& suspect);
// "300 inserts, 1 update"
[[nodiscard]] std::string counts_text(const KindCounts& counts);
// "shop.import_*: dropped 18 times, every 40 s, about 30 documents each"
[[nodiscard]] std::string routine_text(const Routine& routine);
// To look at a suspect, and to rehearse a restore up to its limit.
[[nodiscard]] std::string show_command(const FindReport& report, const Suspect& suspect);
[[nodiscard]] std::string run_command(const FindReport& report, const Suspect& suspect);

// Operations over time, and the suspects in each bar.
[[nodiscard]] std::vector<Bar> operation_bars(const FindReport& report);
[[nodiscard]] std::string bars_title(const FindReport& report);

void print_find(Output& out, const FindReport& report);
// A line of JSON.
[[nodiscard]] std::string find_json(const FindReport& report);

}  // namespace idmint::restore
