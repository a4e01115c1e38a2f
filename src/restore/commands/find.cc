// find: the bad operation of an oplog, and the limit that a restore stops at.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/shell.h"
#include "restore/commands/commands.h"
#include "restore/commands/options.h"
#include "restore/find/analysis.h"
#include "restore/oplog/source.h"
#include "terminal/chart.h"
#include "terminal/progress.h"
#include "terminal/report_file.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLines = 24;             // of the picture
constexpr std::size_t kRows = 12;              // of the table of namespaces
constexpr double kWorthPrinting = 20;          // the score of a suspect
constexpr std::uint64_t kBetweenLooks = 4096;  // entries

struct FindOptions {
  std::string oplog;
  std::string from;
  std::string to;
  std::vector<std::string> namespaces;
  std::vector<std::string> operations;
  std::string id;
  std::string field;
  std::string svg;
  std::size_t list = 0;
  std::size_t top = 5;
  bool not_sharded = false;
} find_options;

void add_find(CLI::App& command) {
  command
      .add_option("--oplog", find_options.oplog, "Oplog: its dump, the folder that is in, or a URI")
      ->type_name("OPLOG")
      ->required();
  command.add_option("--from", find_options.from, "First entry, SECONDS:ORDINAL or a time")
      ->type_name("WHEN");
  command.add_option("--to", find_options.to, "Last entry, likewise")->type_name("WHEN");
  command
      .add_option("--ns", find_options.namespaces,
                  "Only DATABASE or DATABASE.COLLECTION; * is any text; may be repeated")
      ->type_name("NS");
  command
      .add_option("--op", find_options.operations,
                  "Only insert, update, delete, command, or a command such as drop; may be "
                  "repeated")
      ->type_name("OP");
  command
      .add_option("--id", find_options.id, "Only the document of this _id: a text or extended JSON")
      ->type_name("ID");
  command
      .add_option("--field", find_options.field,
                  "Only what sets this field, dotted, or one within it")
      ->type_name("F");
  command.add_option("--list", find_options.list, "Print so many of the operations, one a line")
      ->type_name("N");
  command.add_option("--top", find_options.top, "Print so many suspects (default: 5)")
      ->type_name("N");
  command
      .add_option("--svg", find_options.svg,
                  "Write the picture of operations over time to this file")
      ->type_name("FILE");
  add_not_sharded(command, find_options.not_sharded);
}

// ---- time

struct Stretch {
  Timestamp begin;
  Timestamp end;  // not within
  std::uint64_t operations = 0;
};

// At most `most` equal stretches of the time in which operations were.
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

// Of a suspect: the places, from 1, of those whose limit lies in the stretch.
std::string suspects_within(const OplogAnswer& answer, const Stretch& stretch) {
  std::string text;
  for (std::size_t i = 0; i < std::min(find_options.top, answer.suspects.size()); ++i) {
    const Suspect& suspect = answer.suspects[i];
    if (suspect.score < kWorthPrinting || suspect.limit < stretch.begin ||
        suspect.limit >= stretch.end)
      continue;
    text += (text.empty() ? "  suspect " : ", ") + std::to_string(i + 1);
  }
  return text;
}

std::vector<Bar> bars_of(const OplogAnswer& answer) {
  std::vector<Bar> bars;
  const bool days = answer.last.seconds - answer.first.seconds >= 86'400;
  for (const Stretch& stretch : stretches(answer, kLines)) {
    const std::string time = print_seconds(stretch.begin);  // 2026-11-22T09:15:01Z
    const auto operations = static_cast<double>(stretch.operations);
    bars.push_back(
        {.label = days ? time.substr(5, 5) + " " + time.substr(11, 5) : time.substr(11, 8),
         .value = operations,
         .text = print_count(operations) + suspects_within(answer, stretch)});
  }
  // All texts as wide as the widest, so that the numbers and what follows them begin in columns.
  std::size_t widest = 0;
  for (const Bar& bar : bars) widest = std::max(widest, bar.text.size());
  for (Bar& bar : bars) bar.text.resize(widest, ' ');
  return bars;
}

// At the ends of lines.
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

std::string picture_title(const OplogAnswer& answer) {
  const std::vector<Stretch> all = stretches(answer, kLines);
  return "Operations from " + print_seconds(all.front().begin) + ", in each " +
         print_duration(all.front().end.seconds - all.front().begin.seconds);
}

// One column for two buckets or more, as high as there were operations.
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
    // What is not zero is seen.
    const std::size_t level = column == 0 ? 0 : 1 + (column * 8 - 1) / largest;
    line += (blocks ? high : plain)[std::min<std::size_t>(level, 8)];
  }
  return line;
}

// ---- suspects

// Operations that a restore up to it leaves out: its own, and all after it.
std::uint64_t left_out(const OplogAnswer& answer, const Suspect& suspect) {
  return answer.changes - suspect.changes_before;
}

void print_suspect(Output& out, const OplogAnswer& answer, std::size_t place) {
  const Suspect& suspect = answer.suspects[place];
  const std::string limit = print_timestamp(suspect.limit);
  out.write("\n");
  out.write_line(std::to_string(place + 1) + ". " + std::string(text_of(suspect.reason).title) +
                 ": " + suspect.ns);
  print_fact(out, "limit", limit + "   " + print_seconds(suspect.limit));
  print_fact(out, "why", suspect.why);
  print_fact(out, "first of it", suspect.first);
  if (suspect.last != suspect.limit)
    print_fact(out, "to",
               print_timestamp(suspect.last) +
                   ", operations: " + print_count(static_cast<double>(suspect.operations)));
  if (suspect.before)
    print_fact(out, "one earlier",
               print_timestamp(*suspect.before) + " would lose: " + suspect.before_text);
  print_fact(out, "one later",
             (suspect.after ? print_timestamp(*suspect.after) : "no limit (it is the last entry)") +
                 " would let through: " + suspect.first);
  const std::uint64_t after = left_out(answer, suspect) - suspect.operations;
  print_fact(out, "left out",
             print_count(static_cast<double>(suspect.operations)) + " of it, and " +
                 print_count(static_cast<double>(after)) +
                 (after == 1 ? " other operation" : " other operations") + " after it began");
}

Json json_of(const OplogAnswer& answer, const Suspect& suspect) {
  Json json = {{"reason", text_of(suspect.reason).name},
               {"score", std::round(suspect.score)},
               {"namespace", suspect.ns},
               {"limit", print_timestamp(suspect.limit)},
               {"time", print_seconds(suspect.limit)},
               {"last", print_timestamp(suspect.last)},
               {"operations", suspect.operations},
               {"why", suspect.why},
               {"first", suspect.first},
               {"leftOut", left_out(answer, suspect)}};
  if (suspect.before)
    json["oneEarlier"] = {{"limit", print_timestamp(*suspect.before)},
                          {"loses", suspect.before_text}};
  if (suspect.after)
    json["oneLater"] = {{"limit", print_timestamp(*suspect.after)}, {"letsThrough", suspect.first}};
  return json;
}

// ---- the answer

Json json_of(const OplogAnswer& answer, const std::string& name) {
  Json json = {{"oplog", name},
               {"entries", answer.entries},
               {"bytes", answer.bytes},
               {"first", print_timestamp(answer.first)},
               {"last", print_timestamp(answer.last)},
               {"operations", answer.changes},
               {"matched", answer.matched}};
  json["suspects"] = Json::array();
  for (const Suspect& suspect : answer.suspects)
    json["suspects"].push_back(json_of(answer, suspect));
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
  if (find_options.list != 0) {
    json["listed"] = Json::array();
    for (const ListedOperation& row : answer.listed)
      json["listed"].push_back(
          {{"at", print_timestamp(row.at)}, {"operation", row.text}, {"change", row.change}});
  }
  json["notices"] = answer.notices;
  return json;
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

void print_answer(Output& out, const OplogAnswer& answer, const std::string& name) {
  out.write(name + ": " + print_count(static_cast<double>(answer.entries)) +
            (answer.entries == 1 ? " entry, " : " entries, ") + print_timestamp(answer.first) +
            " to " + print_timestamp(answer.last) + "\n");
  if (answer.matched != answer.changes)
    out.write(print_count(static_cast<double>(answer.matched)) + " of " +
              print_count(static_cast<double>(answer.changes)) + " operations were looked at\n");
  for (const ListedOperation& row : answer.listed)
    out.write_line(print_timestamp(row.at) + "  " + row.text +
                   (row.change.empty() ? "" : ": " + row.change));
  if (answer.timeline.used != 0) {
    out.write("\n" + picture_title(answer) + "\n" +
              without_blanks(text_chart(bars_of(answer), has_utf8())));
    print_namespaces(out, answer);
  }
  std::size_t printed = 0;
  for (; printed < std::min(find_options.top, answer.suspects.size()); ++printed) {
    if (answer.suspects[printed].score < kWorthPrinting) break;
    print_suspect(out, answer, printed);
  }
  if (find_options.top == 0) return;
  if (printed == 0) {
    out.write(
        "\nNothing looks like a mistake: no drop, no number that fell, nothing done to many "
        "documents at once.\nLook at the operations on what was damaged, with --ns, --id or "
        "--field and --list.\n");
    return;
  }
  const Suspect& first = answer.suspects.front();
  out.write("\nIf it is the first, restore with --limit " + print_timestamp(first.limit) +
            ". Look at it before:\n  idmint-restore show --oplog " +
            shell_word(is_uri(find_options.oplog) ? name : find_options.oplog) + " --from " +
            print_timestamp(first.before.value_or(first.limit)) + " --to " +
            print_timestamp(first.after.value_or(first.limit)) + "\n");
}

Result<FindFilter> filter_of() {
  FindFilter filter;
  const Result<OplogSpan> span = parse_span(find_options.from, find_options.to);
  if (!span) return std::unexpected(span.error());
  filter.span = *span;
  filter.namespaces = find_options.namespaces;
  filter.operations = find_options.operations;
  filter.field = find_options.field;
  filter.list_most = find_options.list;
  if (!find_options.id.empty()) {
    Result<IdFilter> id = IdFilter::of(find_options.id);
    if (!id) return std::unexpected(std::move(id.error()));
    filter.id = std::move(*id);
  }
  return filter;
}

Result<void> run_find(Context& context) {
  const Result<FindFilter> filter = filter_of();
  if (!filter) return std::unexpected(filter.error());
  std::optional<ReportFile> picture;
  if (!find_options.svg.empty()) {
    Result<ReportFile> file = ReportFile::open(find_options.svg);
    if (!file) return std::unexpected(std::move(file.error()));
    picture.emplace(*std::move(file));
  }
  // All of a dump is read: what numbers were before the span, and what follows it, belongs to the
  // answer. Of a live oplog only the beginning is spared.
  const Result<std::unique_ptr<OplogSource>> oplog = open_oplog(
      find_options.oplog, {.from = is_uri(find_options.oplog) ? filter->span.from : Timestamp{}},
      to_read(find_options.not_sharded));
  if (!oplog) return std::unexpected(oplog.error());
  OplogAnalysis analysis(*filter);
  {
    Progress progress((*oplog)->unit(), (*oplog)->total(), Results::kAtEnd);
    for (std::uint64_t entries = 0;; ++entries) {
      if (entries % kBetweenLooks == 0) {
        context.stopped_by = stop_signal();
        if (context.stopped_by != 0) return {};
        progress.show((*oplog)->done());
      }
      const Result<std::optional<Entry>> next = (*oplog)->next();
      if (!next && was_stopped(next.error())) {
        context.stopped_by = stop_signal();
        return {};
      }
      if (!next) return std::unexpected(next.error());
      const std::optional<Entry>& entry = *next;
      if (!entry) break;
      if (Result<void> added = analysis.add(*entry); !added) {
        const std::optional<std::uint64_t> offset = (*oplog)->offset();
        return std::unexpected(
            Error{added.error().code,
                  (*oplog)->name() + (offset ? ", byte " + std::to_string(*offset) : "") +
                      ", entry " + print_timestamp(entry->at.ts) + ": " + added.error().message});
      }
    }
  }
  OplogAnswer answer = analysis.finish();
  // Of a running set that was asked of the set.
  if (answer.sharding.sharded() && !find_options.not_sharded && !is_uri(find_options.oplog))
    return std::unexpected(
        Error{Code::kFailedPrecondition, of_sharded_cluster((*oplog)->name(), answer.sharding)});
  if (std::string notice = (*oplog)->notice(); !notice.empty())
    answer.notices.insert(answer.notices.begin(), std::move(notice));
  if (answer.entries == 0)
    return std::unexpected(Error{Code::kNotFound, (*oplog)->name() + " has no entries"});
  if (answer.matched == 0)
    return std::unexpected(Error{
        Code::kNotFound, "no operation is as asked for: " + (*oplog)->name() + " goes from " +
                             print_timestamp(answer.first) + " to " + print_timestamp(answer.last) +
                             ", with operations: " + std::to_string(answer.changes)});
  if (context.json) {
    context.out.write(
        json_of(answer, (*oplog)->name()).dump(-1, ' ', false, Json::error_handler_t::replace) +
        "\n");
  } else {
    print_answer(context.out, answer, (*oplog)->name());
    for (const std::string& notice : answer.notices) report_notice(notice, false);
  }
  if (!picture) return {};
  context.out.flush();  // the picture may be for /dev/stdout, too
  return picture->finish(svg_chart(
      "Operations over time", (*oplog)->name() + ": " + picture_title(answer), bars_of(answer)));
}

}  // namespace

const Command kFind = {"find", "Find the mistake in an oplog, and the limit before it", add_find,
                       run_find,
                       R"(Examples:
  $ idmint-restore find --oplog dump
  $ idmint-restore find --oplog dump --ns shop --from 2026-11-22T09:00:00Z
  $ idmint-restore find --oplog mongodb://db1,db2,db3/?replicaSet=rs0 --id 4711 --list 50
  $ idmint-restore find --oplog dump --svg operations.svg --json
)"};

}  // namespace idmint::restore
