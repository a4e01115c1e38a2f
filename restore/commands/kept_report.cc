#include "restore/commands/kept_report.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/quantity.h"

namespace idmint::restore {
namespace {

// The size of all bases, or of all slices.
template <class Part>
std::uint64_t bytes_of(const std::vector<Part>& parts) {
  std::uint64_t bytes = 0;
  for (const Part& each : parts) bytes += each.bytes;
  return bytes;
}

}  // namespace

void print_kept(Output& out, const KeptReport& report) {
  const Kept& kept = report.kept;
  print_fact(out, "folder", kept.folder + ", of the replica set " + kept.set);
  print_fact(out, "bases",
             print_count(kept.bases.size(), "base") +
                 (kept.bases.empty() ? std::string()
                                     : ", the newest of " + print_seconds(kept.bases.back().last)) +
                 ", " + print_count(static_cast<double>(bytes_of(kept.bases))) + " bytes");
  print_fact(out, "oplog",
             print_count(kept.slices.size(), "slice") + ", " +
                 print_count(static_cast<double>(bytes_of(kept.slices))) + " bytes");
  print_fact(out, "restorable", kept.in_words());
  for (const Hole& hole : kept.holes())
    print_fact(out, "missing",
               "entries from " + print_seconds(hole.after) + " to " + print_seconds(hole.before));
  if (!kept.slices.empty()) print_fact(out, "behind", print_duration(report.behind));
  if (report.left)
    print_fact(out, "time left",
               print_duration(*report.left) + ", until the oplog rolls over what comes next");
  for (const std::string& note : kept.notes) print_fact(out, "note", note);
}

nlohmann::ordered_json json_of(const KeptReport& report) {
  using Json = nlohmann::ordered_json;
  const Kept& kept = report.kept;
  Json json = {{"folder", kept.folder},        {"set", kept.set},
               {"ready", report.is_ready()},   {"bases", Json::array()},
               {"slices", kept.slices.size()}, {"slice_bytes", bytes_of(kept.slices)},
               {"restorable", Json::array()},  {"missing", Json::array()}};
  for (const KeptBase& each : kept.bases)
    json["bases"].push_back(
        {{"path", each.path}, {"moment", print_timestamp(each.last)}, {"bytes", each.bytes}});
  for (const Span& each : kept.spans())
    json["restorable"].push_back(
        {{"from", print_timestamp(each.from)}, {"to", print_timestamp(each.to)}});
  for (const Hole& each : kept.holes())
    json["missing"].push_back(
        {{"after", print_timestamp(each.after)}, {"before", print_timestamp(each.before)}});
  if (!kept.slices.empty()) {
    json["newest"] = print_timestamp(kept.slices.back().last);
    json["behind_seconds"] = report.behind;
  }
  if (report.left)
    json["seconds_left"] =
        std::isfinite(*report.left) ? Json(std::round(*report.left)) : Json(nullptr);
  json["notes"] = kept.notes;
  return json;
}

std::string metrics_of(const KeptReport& report) {
  const Kept& kept = report.kept;
  std::string text;
  const auto add = [&](const char* name, const char* help, std::uint64_t value) {
    const std::string metric = std::string("idmint_restore_kept_") + name;
    text += "# HELP " + metric + " " + help + "\n# TYPE " + metric + " gauge\n" + metric + " " +
            std::to_string(value) + "\n";
  };
  add("ready", "1 if the newest entry can be restored.", report.is_ready() ? 1 : 0);
  add("bases", "Bases in the folder.", kept.bases.size());
  add("base_bytes", "Bytes of all bases.", bytes_of(kept.bases));
  add("slices", "Slices of the oplog.", kept.slices.size());
  add("slice_bytes", "Bytes of all slices.", bytes_of(kept.slices));
  add("holes", "Places where entries are missing between two slices.", kept.holes().size());
  if (!kept.bases.empty())
    add("newest_base_timestamp_seconds", "The moment of the newest base.",
        kept.bases.back().last.seconds);
  if (!kept.slices.empty())
    add("newest_entry_timestamp_seconds", "The newest entry of the oplog.",
        kept.slices.back().last.seconds);
  if (report.left && std::isfinite(*report.left))
    add("oplog_left_seconds", "Until the oplog of the set rolls over what comes next.",
        static_cast<std::uint64_t>(*report.left));
  if (report.is_ready())
    add("restorable_from_timestamp_seconds", "From then on, each moment can be restored.",
        kept.spans().back().from.seconds);
  return text;
}

}  // namespace idmint::restore
