#include "restore/commands/minted_report.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace idmint::restore {
namespace {

// Longer commands are written to a file instead of printed.
constexpr std::size_t kLongestPrinted = 500;

bool is_long(const IssuedValues& minted) {
  return minted.commands.size() > 2 ||
         std::ranges::any_of(minted.commands, [](const std::string& command) {
           return command.size() > kLongestPrinted;
         });
}

}  // namespace

void print_minted(Output& out, const IssuedReport& report, const std::string& verify) {
  if (report.sources.empty()) return;
  out.write(
      "\nWARNING: sequences and pools of idmint went back to where they were. Before clients\n"
      "return, with nobody minting, each is brought past what production handed out:\n");
  if (!report.until) {
    for (const IssuedValues& each : report.sources)
      out.write_line("  " + each.database + ": " + each.name +
                     (each.strategy.empty() ? "" : ", " + each.strategy));
    out.write("With the oplog, this prints the commands and their values:\n  " + verify +
              " --oplog OPLOG\n");
    return;
  }
  for (const IssuedValues& each : report.sources) {
    std::string what = "  ";
    what.append(each.database).append(": ").append(each.name).append(": ");
    if (is_long(each)) {
      std::string line = what;
      line.append("its commands are long: ").append(verify);
      out.write_line(line.append(" --oplog OPLOG --raise FILE writes them, then: sh FILE"));
    } else {
      for (const std::string& command : each.commands) {
        out.write("  ");
        out.write_line(command);
      }
    }
    if (!each.note.empty()) out.write_line(what + each.note);
    if (each.commands.empty() && each.note.empty())
      out.write_line(what + "nothing came from it after the limit");
  }
  out.write("That is as of the end of the oplog, " + print_timestamp(*report.until) + " (" +
            print_seconds(*report.until) +
            "). If anything was minted after it,\nstop it, copy the oplog again, and take the "
            "values from that:\n  " +
            verify + " --oplog OPLOG\n");
}

nlohmann::ordered_json json_of(const IssuedReport& report) {
  auto sources = nlohmann::ordered_json::array();
  for (const IssuedValues& each : report.sources)
    sources.push_back({{"database", each.database},
                       {"name", each.name},
                       {"strategy", each.strategy},
                       {"commands", each.commands},
                       {"note", each.note}});
  return sources;
}

std::string raise_script(const IssuedReport& report) {
  std::string script = "set -e\n";
  for (const IssuedValues& each : report.sources) {
    if (!each.note.empty())
      script += "# " + escaped(each.database + ": " + each.name + ": " + each.note) + "\n";
    for (const std::string& command : each.commands) {
      const bool asks =
          command.starts_with("idmint raise ") || command.starts_with("idmint retire ");
      script += command + (asks ? " --yes\n" : "\n");
    }
  }
  return script;
}

}  // namespace idmint::restore
