#include "restore/commands/find_page.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "base/figures.h"
#include "terminal/chart.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kMostRows = 50;  // of the table of namespaces

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--text:#1f2328;--faint:#59636e;--ground:#fff;--card:#f6f8fa;
--line:#d1d9e0;--insert:#1a7f37;--update:#0969da;--delete:#cf222e;--command:#8250df;--mark:#bc4c00}
@media (prefers-color-scheme:dark){:root{--text:#f0f6fc;--faint:#9198a1;--ground:#0d1117;
--card:#151b23;--line:#3d444d;--insert:#3fb950;--update:#4493f8;--delete:#f85149;--command:#ab7df8;
--mark:#f0883e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--ground);
max-width:64em;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin:0}h2{font-size:1.2em;margin:1.8em 0 .5em}
h3{font-size:1.05em;margin:0 0 .4em}
.faint{color:var(--faint)}
section{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:1em;
margin:0 0 1em}
.limit{font:600 1.1em ui-monospace,monospace}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25em .6em;border-bottom:1px solid var(--line);
overflow-wrap:anywhere;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.t{white-space:nowrap}
section th{width:8em;font-weight:600}
pre{background:var(--ground);border:1px solid var(--line);border-radius:4px;padding:.5em .7em;
overflow-x:auto;margin:.4em 0;white-space:pre-wrap;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--faint)}
.insert{fill:var(--insert)}.update{fill:var(--update)}.delete{fill:var(--delete)}
.command{fill:var(--command)}.axis{stroke:var(--line)}
.mark{stroke:var(--mark);stroke-width:1.5}svg text.place{fill:var(--mark);font-weight:700}
.key span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
.key .insert{background:var(--insert)}.key .update{background:var(--update)}
.key .delete{background:var(--delete)}.key .command{background:var(--command)}
)";

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string code(std::string_view text) { return "<code>" + xml_text(text) + "</code>"; }

std::string line_of(std::string_view label, const std::string& html) {
  return "<tr><th>" + xml_text(label) + "</th><td>" + html + "</td></tr>\n";
}

// ---- time

// In a bucket: the operations of each kind on all namespaces.
KindCounts counts_at(const OplogAnswer& answer, std::size_t bucket) {
  KindCounts counts{};
  for (const NamespaceFacts& row : answer.namespaces) {
    for (std::size_t kind = 0; kind < counts.size(); ++kind)
      counts[kind] += row.buckets[kind][bucket];
  }
  return counts;
}

std::string rectangle(std::string_view kind, double x, double y, double width, double height) {
  return "<rect class=\"" + std::string(kind) + "\" x=\"" + decimal(x) + "\" y=\"" + decimal(y) +
         "\" width=\"" + decimal(width) + "\" height=\"" + decimal(height) + "\"/>";
}

// The positions of suspects on the time line, with their numbers from 1. Suspects close together
// share one mark.
std::map<double, std::string> marks_of(const FindReport& report, double width) {
  constexpr double apart = 24;
  const Timeline& timeline = report.answer.timeline;
  const double all = static_cast<double>(timeline.used) * timeline.width;
  std::map<double, std::string> marks;
  for (std::size_t i = 0; i < shown_suspects(report); ++i) {
    const double since =
        static_cast<double>(report.answer.suspects[i].limit.seconds) - timeline.origin;
    const double x = std::clamp(since / all * width, 1.0, width - 1);
    auto near = marks.lower_bound(x - apart);
    if (near == marks.end() || near->first > x + apart) near = marks.try_emplace(x).first;
    near->second += (near->second.empty() ? "" : ", ") + std::to_string(i + 1);
  }
  return marks;
}

// A column for each bucket, stacked by kind, and a line for each suspect.
std::string time_line(const FindReport& report) {
  constexpr double width = 960;
  constexpr double top = 24;
  constexpr double high = 160;
  const OplogAnswer& answer = report.answer;
  const std::size_t used = answer.timeline.used;
  if (used == 0) return {};
  const double step = width / static_cast<double>(used);
  std::uint64_t largest = 1;
  for (std::size_t i = 0; i < used; ++i) {
    const KindCounts counts = counts_at(answer, i);
    largest = std::max(largest, counts[0] + counts[1] + counts[2] + counts[3]);
  }
  std::string svg = "<svg role=\"img\" viewBox=\"0 0 960 " + decimal(top + high + 24) +
                    "\"><title>Operations over time</title>\n";
  for (std::size_t i = 0; i < used; ++i) {
    const KindCounts counts = counts_at(answer, i);
    double y = top + high;
    const double x = static_cast<double>(i) * step;
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      if (counts[kind] == 0) continue;
      const double height =
          std::max(0.5, static_cast<double>(counts[kind]) / static_cast<double>(largest) * high);
      y -= height;
      svg += rectangle(kKinds[kind], x, y, std::max(0.5, step - 0.5), height);
    }
    svg += "\n";
  }
  svg += "<line class=\"axis\" x1=\"0\" x2=\"960\" y1=\"" + decimal(top + high) + "\" y2=\"" +
         decimal(top + high) + "\"/>\n";
  const auto second = [&](std::size_t bucket) {
    return print_seconds({.seconds = static_cast<std::uint32_t>(answer.timeline.origin +
                                                                bucket * answer.timeline.width),
                          .ordinal = 0});
  };
  svg += "<text x=\"0\" y=\"" + decimal(top + high + 18) + "\">" + second(0) +
         "</text><text x=\"960\" y=\"" + decimal(top + high + 18) + "\" text-anchor=\"end\">" +
         second(used) + "</text>\n";
  for (const auto& [x, places] : marks_of(report, width))
    svg += "<line class=\"mark\" x1=\"" + decimal(x) + "\" x2=\"" + decimal(x) +
           "\" y1=\"14\" y2=\"" + decimal(top + high) + "\"/><text class=\"place\" x=\"" +
           decimal(x) + "\" y=\"11\" text-anchor=\"" + (x > width / 2 ? "end" : "start") + "\">" +
           places + "</text>\n";
  return svg + "</svg>\n";
}

// ---- parts

std::string loss_table(const Suspect& suspect) {
  if (suspect.lost.empty()) return {};
  std::string html = "<details><summary>by collection</summary><table><tr><th>Namespace</th>";
  for (const std::string_view kind : kKinds)
    html += "<th class=\"n\">" + std::string(kind) + "s</th>";
  html += "</tr>\n";
  for (std::size_t i = 0; i < std::min(kMostRows, suspect.lost.size()); ++i) {
    const NamespaceLoss& row = suspect.lost[i];
    html += "<tr><td>" + xml_text(row.ns.empty() ? "others" : row.ns) + "</td>";
    for (const std::uint64_t count : row.counts)
      html += "<td class=\"n\">" + print_count(static_cast<double>(count)) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table></details>";
}

std::string suspect_card(const FindReport& report, std::size_t place) {
  const Suspect& suspect = report.answer.suspects[place];
  std::string html = "<section><h3>" + std::to_string(place + 1) + ". " +
                     std::string(text_of(suspect.reason).title) + ": " + xml_text(suspect.ns) +
                     "</h3>\n<p><span class=\"limit\">" + print_timestamp(suspect.limit) +
                     "</span> <span class=\"faint\">" + print_seconds(suspect.limit) +
                     "</span></p>\n<table>\n";
  html += line_of("Why", xml_text(suspect.why));
  if (!suspect.surge) {
    html += line_of("First of it", code(suspect.first));
    html += line_of("To", print_timestamp(last_entry(suspect)));
  }
  std::string then;
  for (const Effect& each : suspect.effects)
    then += "<div>" + print_timestamp(each.first) + " " + xml_text(each.text) + "</div>";
  if (!then.empty()) html += line_of("Then", then);
  if (suspect.before)
    html += line_of("One earlier",
                    print_timestamp(*suspect.before) + " would lose: " + code(suspect.before_text));
  if (!suspect.surge)
    html += line_of("One later", (suspect.after ? print_timestamp(*suspect.after)
                                                : std::string("no limit (it is the last entry)")) +
                                     " would let through: " + code(suspect.first));
  html += line_of("Left out",
                  print_count(suspect.operations, "operation") + " of it, and " +
                      (suspect.lost_is_least ? "about " : "") +
                      print_count(other_operations(report.answer, suspect), "other", "others") +
                      " after it began" + loss_table(suspect));
  html += "</table>\n<pre>" + xml_text(show_command(report, suspect)) + "</pre>\n";
  if (report.live)
    html +=
        "<p class=\"faint\">Copy the oplog before you restore: <code>idmint-restore oplog "
        "--uri URI --out oplog.bson</code></p>\n";
  return html + "<pre>" + xml_text(run_command(report, suspect)) + "</pre>\n</section>\n";
}

std::string namespace_table(const OplogAnswer& answer) {
  std::string html = "<h2>Operations by collection</h2>\n<table><tr><th>Namespace</th>";
  for (const std::string_view kind : kKinds)
    html += "<th class=\"n\">" + std::string(kind) + "s</th>";
  html += "<th>First</th><th>Last</th></tr>\n";
  for (std::size_t i = 0; i < std::min(kMostRows, answer.namespaces.size()); ++i) {
    const NamespaceFacts& row = answer.namespaces[i];
    html += "<tr><td>" + xml_text(row.ns) + "</td>";
    for (const std::uint64_t count : row.counts)
      html += "<td class=\"n\">" + print_count(static_cast<double>(count)) + "</td>";
    html +=
        "<td>" + print_seconds(row.first) + "</td><td>" + print_seconds(row.last) + "</td></tr>\n";
  }
  html += "</table>\n";
  if (answer.namespaces.size() > kMostRows)
    html += "<p class=\"faint\">and " +
            print_count(answer.namespaces.size() - kMostRows, "namespace") +
            " more, which --json has</p>\n";
  return html;
}

std::string history(const FindReport& report) {
  const OplogAnswer& answer = report.answer;
  if (answer.listed.empty()) return {};
  std::string html =
      "<h2>" + (report.id.empty() ? "Operations" : "History of _id " + xml_text(report.id)) +
      "</h2>\n<table><tr><th>Entry</th><th>Time</th><th>Operation</th><th>Sets</th></tr>\n";
  for (const ListedOperation& row : answer.listed)
    html += "<tr><td class=\"t\">" + print_timestamp(row.at) + "</td><td class=\"t\">" +
            print_seconds(row.at) + "</td><td>" + xml_text(row.text) + "</td><td>" +
            (row.change.empty() ? "" : code(row.change)) + "</td></tr>\n";
  html += "</table>\n";
  if (answer.unlisted != 0)
    html += "<p class=\"faint\">and " + print_count(answer.unlisted, "operation") +
            " more: --list N lists so many</p>\n";
  return html;
}

}  // namespace

std::string find_page(const FindReport& report) {
  const OplogAnswer& answer = report.answer;
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>idmint-restore find</title>\n<style>" +
      std::string(kStyle) + "</style>\n<h1>What happened in the oplog</h1>\n<p class=\"faint\">" +
      xml_text(report.name) + ": " + print_count(answer.entries, "entry", "entries") + ", " +
      print_timestamp(answer.first) + " (" + print_seconds(answer.first) + ") to " +
      print_timestamp(answer.last) + " (" + print_seconds(answer.last) + ")" +
      (answer.matched != answer.changes
           ? "; " + print_count(static_cast<double>(answer.matched)) + " of " +
                 print_count(static_cast<double>(answer.changes)) + " operations were looked at"
           : "") +
      "</p>\n" + time_line(report) + "<p class=\"key faint\">";
  for (const std::string_view kind : kKinds)
    html += "<span class=\"" + std::string(kind) + "\"></span>" + std::string(kind) + "s";
  html += "</p>\n<h2>Suspects</h2>\n";
  const std::size_t shown = shown_suspects(report);
  if (shown == 0) html += "<p>Nothing looks like a mistake.</p>\n";
  for (std::size_t i = 0; i < shown; ++i) html += suspect_card(report, i);
  if (!answer.routines.empty()) {
    html += "<h2>Routine</h2>\n<ul>\n";
    for (const Routine& each : answer.routines)
      html += "<li>" + xml_text(routine_text(each)) + "</li>\n";
    html += "</ul>\n";
  }
  html += history(report) + namespace_table(answer);
  for (const std::string& notice : answer.notices)
    html += "<p class=\"faint\">" + xml_text(notice) + "</p>\n";
  return html + "</html>\n";
}

}  // namespace idmint::restore
