#include "restore/commands/find_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/quantity.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLines = 24;         // in the picture
constexpr std::size_t kRows = 12;          // of the table of namespaces
constexpr std::size_t kEffects = 3;        // for one suspect
constexpr std::size_t kLosses = 4;         // namespaces
constexpr std::uint32_t kSurgeBegins = 3;  // at most so many seconds after its limit
constexpr std::size_t kRoutines = 10;      // lines
constexpr double kWorthPrinting = 20;      // the score of a suspect

// ---- time

struct Stretch {
  Timestamp begin;
  Timestamp end;  // exclusive
  std::uint64_t operations = 0;
};

// Divides the time of the operations into at most `most` equal stretches.
std::vector<Stretch> stretches(const OplogAnswer& answer, std::size_t most) {
  const Timeline& timeline = answer.timeline;
  const std::size_t step = std::max<std::size_t>(1, (timeline.used + most - 1) / most);
  std::vector<Stretch> all;
  for (std::size_t i = 0; i < timeline.used; i += step) {
    const auto second = [&](std::size_t bucket) {
      return Timestamp{static_cast<std::uint32_t>(timeline.origin + bucket * timeline.width), 0};
    };
    Stretch stretch{.begin = second(i), .end = second(i + step)};
    for (const NamespaceFacts& row : answer.namespaces) {
      for (const Buckets& buckets : row.buckets) {
        for (std::size_t j = i; j < std::min(i + step, timeline.used); ++j)
          stretch.operations += buckets[j];
      }
    }
    all.push_back(stretch);
  }
  return all;
}

// The numbers, from 1, of the suspects whose limits are in the stretch.
std::string suspects_within(const FindReport& report, const Stretch& stretch) {
  std::string text;
  for (std::size_t i = 0; i < shown_suspects(report); ++i) {
    const Suspect& suspect = report.answer.suspects[i];
    if (suspect.limit < stretch.begin || suspect.limit >= stretch.end) continue;
    text += (text.empty() ? "  suspect " : ", ") + std::to_string(i + 1);
  }
  return text;
}

// Removes trailing blanks of all lines.
std::string without_blanks(const std::string& lines) {
  std::string text;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at);
    const std::size_t last = lines.find_last_not_of(' ', end - 1);
    if (last != std::string::npos && last >= at) text += lines.substr(at, last - at + 1);
    text += '\n';
    at = end + 1;
  }
  return text;
}

// A column for one or more buckets; its height shows the number of operations.
std::string sparkline(const Buckets& buckets, const Timeline& timeline, bool blocks) {
  constexpr std::size_t most = 32;
  constexpr std::array high = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                               "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr std::array plain = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
  const std::size_t step = std::max<std::size_t>(1, (timeline.used + most - 1) / most);
  std::vector<std::uint64_t> columns;
  for (std::size_t i = 0; i < timeline.used; i += step) {
    columns.push_back(0);
    for (std::size_t j = i; j < std::min(i + step, timeline.used); ++j)
      columns.back() += buckets[j];
  }
  const std::uint64_t largest = columns.empty() ? 0 : std::ranges::max(columns);
  std::string line;
  for (const std::uint64_t column : columns) {
    // Any operation is visible.
    const std::size_t level = column == 0 ? 0 : 1 + (column * 8 - 1) / largest;
    line += (blocks ? high : plain)[std::min<std::size_t>(level, 8)];
  }
  return line;
}

void print_namespaces(Output& out, const OplogAnswer& answer) {
  std::vector<Row> rows;
  std::size_t more = 0;
  for (const NamespaceFacts& facts : answer.namespaces) {
    for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
      if (facts.counts[kind] == 0) continue;
      if (rows.size() == kRows) {
        ++more;
        continue;
      }
      rows.push_back({facts.ns, std::string(kKinds[kind]),
                      print_count(static_cast<double>(facts.counts[kind])),
                      sparkline(facts.buckets[kind], answer.timeline, has_utf8())});
    }
  }
  out.write("\n");
  print_table(out, {{"NAMESPACE"}, {"KIND"}, {"OPERATIONS", Align::kRight}, {"OVER TIME"}}, rows);
  if (more != 0) out.write("and " + std::to_string(more) + " more, which --json has\n");
}

// ---- suspects

std::string count_text(std::uint64_t count) { return print_count(static_cast<double>(count)); }

// The operations of the suspect and of its effects.
std::uint64_t own_operations(const Suspect& suspect) {
  std::uint64_t own = suspect.operations;
  for (const Effect& each : suspect.effects) own += each.operations;
  return own;
}

std::string effect_text(const Effect& effect) {
  return print_timestamp(effect.first) + "  " + effect.text;
}

std::string lost_text(const FindReport& report, const Suspect& suspect) {
  const std::uint64_t others = other_operations(report.answer, suspect);
  std::string text = print_count(suspect.operations, "operation") + " of it, and " +
                     (suspect.lost_is_least ? "about " : "") + count_text(others) +
                     (others == 1 ? " other after it began" : " others after it began");
  for (std::size_t i = 0; i < std::min(kLosses, suspect.lost.size()); ++i)
    text += (i == 0 ? ": " : "; ") + suspect.lost[i].ns + " " + counts_text(suspect.lost[i].counts);
  if (suspect.lost.size() > kLosses)
    text += "; and " + std::to_string(suspect.lost.size() - kLosses) + " more, which --json has";
  return text;
}

std::string to_text(const Suspect& suspect) {
  if (suspect.surge) return print_seconds(suspect.last);
  return print_timestamp(last_entry(suspect)) +
         ", operations: " + count_text(own_operations(suspect));
}

void print_suspect(Output& out, const FindReport& report, std::size_t place) {
  const Suspect& suspect = report.answer.suspects[place];
  const std::string limit = print_timestamp(suspect.limit);
  out.write("\n");
  out.write_line(std::to_string(place + 1) + ". " + std::string(text_of(suspect.reason).title) +
                 ": " + suspect.ns);
  print_fact(out, "limit", limit + "   " + print_seconds(suspect.limit));
  print_fact(out, "why", suspect.why);
  if (!suspect.surge) print_fact(out, "first of it", suspect.first);
  print_fact(out, "to", to_text(suspect));
  for (std::size_t i = 0; i < std::min(kEffects, suspect.effects.size()); ++i)
    print_fact(out, i == 0 ? "then" : "", effect_text(suspect.effects[i]));
  if (suspect.effects.size() > kEffects)
    print_fact(out, "", "and " + std::to_string(suspect.effects.size() - kEffects) + " times more");
  if (suspect.before)
    print_fact(out, "one earlier",
               print_timestamp(*suspect.before) + " would lose: " + suspect.before_text);
  if (!suspect.surge)
    print_fact(
        out, "one later",
        (suspect.after ? print_timestamp(*suspect.after) : "no limit (it is the last entry)") +
            " would let through: " + suspect.first);
  print_fact(out, "left out", lost_text(report, suspect));
}

Json json_of(const KindCounts& counts) {
  Json json = Json::object();
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind)
    if (counts[kind] != 0) json[std::string(kKinds[kind])] = counts[kind];
  return json;
}

Json json_of(const FindReport& report, const Suspect& suspect) {
  Json json = {{"reason", text_of(suspect.reason).name},
               {"score", std::round(suspect.score)},
               {"namespace", suspect.ns},
               {"limit", print_timestamp(suspect.limit)},
               {"time", print_seconds(suspect.limit)},
               {"last", print_timestamp(suspect.last)},
               {"operations", suspect.operations},
               {"why", suspect.why},
               {"first", suspect.first},
               {"left_out", report.answer.changes - suspect.changes_before}};
  if (suspect.documents) json["documents"] = *suspect.documents;
  json["effects"] = Json::array();
  for (const Effect& each : suspect.effects)
    json["effects"].push_back({{"first", print_timestamp(each.first)},
                               {"last", print_timestamp(each.last)},
                               {"namespace", each.ns},
                               {"operations", each.operations},
                               {"what", each.text}});
  Json namespaces = Json::array();
  for (const NamespaceLoss& each : suspect.lost) {
    Json row = {{"namespace", each.ns}};
    row.update(json_of(each.counts));
    namespaces.push_back(std::move(row));
  }
  json["also_lost"] = {{"operations", other_operations(report.answer, suspect)},
                       {"exact", !suspect.lost_is_least},
                       {"namespaces", std::move(namespaces)}};
  if (suspect.before)
    json["one_earlier"] = {{"limit", print_timestamp(*suspect.before)},
                           {"loses", suspect.before_text}};
  if (suspect.after)
    json["one_later"] = {{"limit", print_timestamp(*suspect.after)},
                         {"lets_through", suspect.first}};
  return json;
}

void print_routines(Output& out, const OplogAnswer& answer) {
  if (answer.routines.empty()) return;
  out.write("\nRoutine, and so no suspects:\n");
  for (std::size_t i = 0; i < std::min(kRoutines, answer.routines.size()); ++i)
    print_wrapped(out, "  ", 4, routine_text(answer.routines[i]));
  if (answer.routines.size() > kRoutines)
    out.write("  and " + std::to_string(answer.routines.size() - kRoutines) +
              " more, which --json has\n");
}

void print_listed(Output& out, const FindReport& report) {
  const OplogAnswer& answer = report.answer;
  if (!report.id.empty() && !answer.listed.empty())
    out.write_line("History of _id " + report.id + ":");
  for (const ListedOperation& row : answer.listed)
    out.write_line(print_timestamp(row.at) + "  " + row.text +
                   (row.change.empty() ? "" : ": " + row.change));
  if (!report.id.empty() && answer.unlisted != 0)
    out.write("and " + count_text(answer.unlisted) + " more: --list N prints so many\n");
}

}  // namespace

// ---- parts

std::size_t shown_suspects(const FindReport& report) {
  const auto worth = [](const Suspect& suspect) { return suspect.score >= kWorthPrinting; };
  const auto end = std::ranges::find_if_not(report.answer.suspects, worth);
  return std::min(report.top,
                  static_cast<std::size_t>(std::distance(report.answer.suspects.begin(), end)));
}

std::uint64_t other_operations(const OplogAnswer& answer, const Suspect& suspect) {
  const std::uint64_t all = answer.changes - suspect.changes_before;
  return all - std::min(all, own_operations(suspect));
}

Timestamp last_entry(const Suspect& suspect) {
  Timestamp last = suspect.last;
  for (const Effect& each : suspect.effects) last = std::max(last, each.last);
  return last;
}

std::string counts_text(const KindCounts& counts) {
  std::string text;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
    if (counts[kind] == 0) continue;
    text += (text.empty() ? "" : ", ") + print_count(counts[kind], kKinds[kind]);
  }
  return text;
}

std::string routine_text(const Routine& routine) {
  return routine.ns + ": " + std::string(text_of(routine.reason).routine) + " " +
         print_count(routine.times, "time") + ", every " + print_duration(routine.every) +
         (routine.documents == 0
              ? ""
              : ", about " + print_count(routine.documents, "document") + " each");
}

std::string show_command(const FindReport& report, const Suspect& suspect) {
  const std::string to =
      suspect.surge ? print_seconds({.seconds = suspect.limit.seconds + kSurgeBegins, .ordinal = 0})
                    : print_timestamp(suspect.after.value_or(suspect.limit));
  return "idmint-restore show --oplog " + report.oplog + " --since " +
         print_timestamp(suspect.before.value_or(suspect.limit)) + " --until " + to;
}

std::string run_command(const FindReport& report, const Suspect& suspect) {
  return "idmint-restore run --base BASE --oplog " + (report.live ? "oplog.bson" : report.oplog) +
         " --limit " + print_timestamp(suspect.limit) + " --spare SPARE --dry-run";
}

std::vector<Bar> operation_bars(const FindReport& report) {
  const OplogAnswer& answer = report.answer;
  std::vector<Bar> bars;
  const bool days = answer.last.seconds - answer.first.seconds >= 86'400;
  for (const Stretch& stretch : stretches(answer, kLines)) {
    const std::string time = print_seconds(stretch.begin);  // 2026-11-22T09:15:01Z
    const auto operations = static_cast<double>(stretch.operations);
    bars.push_back(
        {.label = days ? time.substr(5, 5) + " " + time.substr(11, 5) : time.substr(11, 8),
         .value = operations,
         .text = print_count(operations) + suspects_within(report, stretch)});
  }
  // Pads all texts to the widest, so that the columns are aligned.
  std::size_t widest = 0;
  for (const Bar& bar : bars) widest = std::max(widest, bar.text.size());
  for (Bar& bar : bars) bar.text.resize(widest, ' ');
  return bars;
}

std::string bars_title(const FindReport& report) {
  const std::vector<Stretch> all = stretches(report.answer, kLines);
  return "Operations from " + print_seconds(all.front().begin) + ", in each " +
         print_duration(all.front().end.seconds - all.front().begin.seconds);
}

// ---- the answer

std::string find_json(const FindReport& report) {
  const OplogAnswer& answer = report.answer;
  Json json = {{"oplog", report.name},
               {"entries", answer.entries},
               {"bytes", answer.bytes},
               {"first", print_timestamp(answer.first)},
               {"last", print_timestamp(answer.last)},
               {"operations", answer.changes},
               {"matched", answer.matched}};
  json["suspects"] = Json::array();
  for (const Suspect& suspect : answer.suspects)
    json["suspects"].push_back(json_of(report, suspect));
  json["routines"] = Json::array();
  for (const Routine& each : answer.routines)
    json["routines"].push_back({{"reason", text_of(each.reason).name},
                                {"namespace", each.ns},
                                {"times", each.times},
                                {"every_seconds", std::round(each.every)},
                                {"documents", each.documents},
                                {"first", print_timestamp(each.first)},
                                {"last", print_timestamp(each.last)}});
  Json rows = Json::array();
  for (const NamespaceFacts& row : answer.namespaces) {
    Json each = {{"namespace", row.ns},
                 {"first", print_timestamp(row.first)},
                 {"last", print_timestamp(row.last)}};
    for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
      if (row.counts[kind] == 0) continue;
      const auto begin = row.buckets[kind].begin();
      each[std::string(kKinds[kind])] = {
          {"operations", row.counts[kind]},
          {"over", std::vector<std::uint64_t>(
                       begin, begin + static_cast<std::ptrdiff_t>(answer.timeline.used))}};
    }
    rows.push_back(std::move(each));
  }
  json["timeline"] = {{"from", print_seconds({.seconds = answer.timeline.origin, .ordinal = 0})},
                      {"seconds", answer.timeline.width},
                      {"namespaces", std::move(rows)}};
  if (report.listed) {
    json["listed"] = Json::array();
    for (const ListedOperation& row : answer.listed)
      json["listed"].push_back(
          {{"at", print_timestamp(row.at)}, {"operation", row.text}, {"change", row.change}});
  }
  json["notices"] = answer.notices;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void print_find(Output& out, const FindReport& report) {
  const OplogAnswer& answer = report.answer;
  out.write(report.name + ": " + print_count(answer.entries, "entry", "entries") + ", " +
            print_timestamp(answer.first) + " to " + print_timestamp(answer.last) + "\n");
  if (answer.matched != answer.changes)
    out.write(count_text(answer.matched) + " of " + count_text(answer.changes) +
              " operations were looked at\n");
  print_listed(out, report);
  if (answer.timeline.used != 0) {
    out.write("\n" + bars_title(report) + "\n" +
              without_blanks(text_chart(operation_bars(report), has_utf8())));
    print_namespaces(out, answer);
  }
  const std::size_t shown = shown_suspects(report);
  for (std::size_t i = 0; i < shown; ++i) print_suspect(out, report, i);
  if (report.top == 0) return;
  print_routines(out, answer);
  if (shown == 0) {
    out.write(
        "\nNothing looks like a mistake: no drop, no index or time to live, no number that fell, "
        "nothing\ndone to many documents at once. Look at what was damaged, with --ns, --id or "
        "--field and --list.\n");
    return;
  }
  const Suspect& first = answer.suspects.front();
  out.write("\nIf it is the first, restore with --limit " + print_timestamp(first.limit) +
            ". Look at it before:\n  " + show_command(report, first) + "\n");
}

}  // namespace idmint::restore
