#include "restore/commands/fence_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "base/figures.h"
#include "base/text.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kAlikeShown = 5;  // documents shown per collection; more become one row

std::string_view outcome_name(FenceOutcome outcome) {
  constexpr std::array<std::string_view, 6> names = {"as it was", "raised",   "made again",
                                                     "retired",   "LEFT OUT", "NOT FENCED"};
  return names.at(static_cast<std::size_t>(outcome));
}

std::string outcome_text(FenceOutcome outcome, bool carried_out) {
  const bool is_done = carried_out || outcome == FenceOutcome::kAsItWas ||
                       outcome == FenceOutcome::kLeftOut || outcome == FenceOutcome::kRefused;
  return (is_done ? "" : "to be ") + std::string(outcome_name(outcome));
}

std::string figure(std::int64_t value) { return std::to_string(value); }

std::string spans_text(const std::vector<NumberSpan>& spans) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, spans.size()); ++i) {
    if (i != 0) text += ", ";
    text += figure(spans[i].first);
    if (spans[i].last != spans[i].first) text += " to " + figure(spans[i].last);
  }
  if (spans.size() > kMost) text += " and more, which the report has";
  return text;
}

// The position of a source before and after the fence.
std::pair<std::string, std::string> movement(const FencedSource& row) {
  if (!row.past.empty()) return {"-", "past " + row.past};
  if (row.claims != 0)
    return {"-", print_count(static_cast<std::uint64_t>(row.claims), "claim") + " more"};
  if (row.counters.empty()) return {"-", "-"};
  if (row.counters.size() > 1) return {"-", print_count(row.counters.size(), "counter")};
  const FencedCounter& only = row.counters.front();
  return {only.from ? figure(*only.from) : "gone", figure(only.to)};
}

void print_rows(Output& out, const FenceReport& report) {
  std::vector<Row> rows;
  for (const FencedSource& row : report.sources) {
    const auto [from, to] = movement(row);
    rows.push_back(
        {row.label(), row.strategy, from, to, outcome_text(row.outcome, report.carried_out)});
  }
  using Alike = std::tuple<std::string, std::string, FenceOutcome>;
  std::map<Alike, std::size_t> alike;
  for (const FencedDocument& row : report.documents) ++alike[{row.ns, row.field, row.outcome}];
  std::map<Alike, bool> shown;
  for (const FencedDocument& row : report.documents) {
    const Alike kind{row.ns, row.field, row.outcome};
    const std::string outcome = outcome_text(row.outcome, report.carried_out);
    if (alike[kind] <= kAlikeShown) {
      rows.push_back(
          {row.label(), row.field, row.from ? figure(*row.from) : "gone", figure(row.to), outcome});
    } else if (!std::exchange(shown[kind], true)) {
      rows.push_back({row.ns, row.field, "-", print_count(alike[kind], "document"), outcome});
    }
  }
  if (rows.empty()) {
    out.write("There is no sequence, pool or counter that production moved.\n");
    return;
  }
  print_table(out,
              {{"WHAT"},
               {"KIND"},
               {"NEXT, OR FIELD", Align::kRight},
               {"BECOMES", Align::kRight},
               {"OUTCOME"}},
              rows);
}

Json json_of(const FencedSource& row) {
  Json json = {
      {"source", row.label()}, {"strategy", row.strategy}, {"outcome", outcome_name(row.outcome)}};
  json["counters"] = Json::array();
  for (const FencedCounter& each : row.counters)
    json["counters"].push_back({{"name", each.name},
                                {"from", each.from ? Json(*each.from) : Json(nullptr)},
                                {"to", each.to}});
  json["skipped"] = row.skipped;
  if (row.claims != 0) json["claims"] = row.claims;
  if (!row.past.empty()) json["past"] = row.past;
  if (!row.lost.empty()) {
    json["lost"] = Json::array();
    for (const NumberSpan& span : row.lost)
      json["lost"].push_back({{"first", span.first}, {"last", span.last}});
  }
  if (!row.note.empty()) json["note"] = row.note;
  if (!row.why.empty()) json["why"] = row.why;
  return json;
}

Json json_of(const FencedDocument& row) {
  Json json = {{"collection", row.ns},
               {"id", row.id},
               {"field", row.field},
               {"recipe", row.recipe},
               {"outcome", outcome_name(row.outcome)},
               {"from", row.from ? Json(*row.from) : Json(nullptr)},
               {"to", row.to},
               {"rises", row.rises},
               {"largest_step", row.largest_step}};
  if (!row.note.empty()) json["note"] = row.note;
  if (!row.why.empty()) json["why"] = row.why;
  return json;
}

}  // namespace

void print_fence(Output& out, const FenceReport& report) {
  print_fact(out, "target", report.target);
  if (!report.live.empty()) print_fact(out, "production", report.live);
  if (!report.oplog.empty()) print_fact(out, "oplog", report.oplog);
  if (report.limit)
    print_fact(out, "limit",
               print_timestamp(*report.limit) + " (" + print_seconds(*report.limit) + ")");
  if (report.first && report.last)
    print_fact(out, "known",
               print_timestamp(*report.first) + " to " + print_timestamp(*report.last) + " (" +
                   print_seconds(*report.last) + ")");
  out.write("\n");
  print_rows(out, report);
  const auto tell = [&](const std::string& label, const std::string& text) {
    if (!text.empty()) out.write_line(label + ": " + text);
  };
  for (const FencedSource& row : report.sources) {
    tell(row.label(), row.why);
    tell(row.label(), row.note);
    if (!row.lost.empty() && row.outcome != FenceOutcome::kRefused)
      tell(row.label(), "numbers lost: " + spans_text(row.lost));
  }
  for (const FencedDocument& row : report.documents) {
    tell(row.label(), row.why);
    tell(row.label(), row.note);
  }
  if (!report.left_alone.empty()) {
    out.write("\nNumbers that only rose and look like no counter are left alone:\n");
    for (const RisingField& each : report.left_alone)
      out.write_line("  " + each.ns + "." + each.field + ", " + print_count(each.rises, "step") +
                     " in " + print_count(each.documents, "document"));
    out.write("If one is a counter, name it: --counter " + escaped(report.left_alone.front().ns) +
              "." + escaped(report.left_alone.front().field) + "\n");
  }
  out.write("\n");
  for (const std::string& note : report.notes) print_fact(out, "note", note);
}

Json json_of(const FenceReport& report, std::string_view state) {
  Json json = {{"fence", state}, {"target", report.target}};
  if (!report.live.empty()) json["live"] = report.live;
  if (!report.oplog.empty()) json["oplog"] = report.oplog;
  if (report.limit) json["limit"] = print_timestamp(*report.limit);
  if (report.first) json["first"] = print_timestamp(*report.first);
  if (report.last) json["last"] = print_timestamp(*report.last);
  json["sources"] = Json::array();
  for (const FencedSource& row : report.sources) json["sources"].push_back(json_of(row));
  json["documents"] = Json::array();
  for (const FencedDocument& row : report.documents) json["documents"].push_back(json_of(row));
  json["left_alone"] = Json::array();
  for (const RisingField& each : report.left_alone)
    json["left_alone"].push_back({{"collection", each.ns},
                                  {"field", each.field},
                                  {"rises", each.rises},
                                  {"documents", each.documents}});
  json["notes"] = report.notes;
  return json;
}

}  // namespace idmint::restore
