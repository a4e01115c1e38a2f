// The output of `find`: text, JSON, and bars.
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
  std::string name{};   // the oplog's, without a password
  std::string oplog{};  // the oplog, as an argument of the commands
  bool live = false;    // the oplog is that of a server
  std::string id{};     // of --id; empty: none
  std::size_t top = 5;  // the most suspects to print
  bool listed = false;  // the user asked for a list of operations
};

// The number of suspects to print: at most `top`, with a score high enough.
[[nodiscard]] std::size_t shown_suspects(const FindReport& report);
// The number of operations that a restore up to the limit of the suspect leaves out, besides those
// of the suspect and its effects.
[[nodiscard]] std::uint64_t other_operations(const OplogAnswer& answer, const Suspect& suspect);
// The last entry of the suspect and its effects, for `promote --mistake-to`. Its ordinal is
// meaningless if the suspect is a surge.
[[nodiscard]] Timestamp last_entry(const Suspect& suspect);
// "300 inserts, 1 update"
[[nodiscard]] std::string counts_text(const KindCounts& counts);
// "shop.import_*: dropped 18 times, every 40 s, about 30 documents each"
[[nodiscard]] std::string routine_text(const Routine& routine);
// The commands that show a suspect, and that rehearse a restore up to its limit.
[[nodiscard]] std::string show_command(const FindReport& report, const Suspect& suspect);
[[nodiscard]] std::string run_command(const FindReport& report, const Suspect& suspect);

// Operations over time, and the suspects in each bar.
[[nodiscard]] std::vector<Bar> operation_bars(const FindReport& report);
[[nodiscard]] std::string bars_title(const FindReport& report);

void print_find(Output& out, const FindReport& report);
// One line of JSON.
[[nodiscard]] std::string find_json(const FindReport& report);

}  // namespace idmint::restore
