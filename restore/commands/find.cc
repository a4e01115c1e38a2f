// find: the harmful operation in an oplog, and the limit for a restore.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/shell.h"
#include "restore/commands/commands.h"
#include "restore/commands/find_page.h"
#include "restore/commands/find_report.h"
#include "restore/commands/options.h"
#include "restore/error_in.h"
#include "restore/find/analysis.h"
#include "restore/oplog/read_ahead.h"
#include "restore/oplog/source.h"
#include "terminal/progress.h"
#include "terminal/report_file.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kHistory = 1000;         // operations on the document of --id
constexpr std::uint64_t kBetweenLooks = 4096;  // entries

struct FindOptions {
  std::string oplog;
  std::string since;
  std::string until;
  std::vector<std::string> namespaces;
  std::vector<std::string> operations;
  std::string id;
  std::string field;
  std::string svg;
  std::string html;
  std::size_t list = 0;
  std::size_t top = 5;
  bool not_sharded = false;
};

void add_find(CLI::App& command, FindOptions& given) {
  add_value(command, "--oplog,OPLOG", given.oplog, "OPLOG",
            "A dump of the oplog, the folder that has it, or a URI")
      ->required();
  add_value(command, "--since", given.since, "WHEN", "First entry, SECONDS:ORDINAL or a time");
  add_value(command, "--until", given.until, "WHEN", "Last entry, in the same form");
  add_value(command, "--ns", given.namespaces, "NS",
            "Only DATABASE or DATABASE.COLLECTION; * is any text; may be repeated");
  add_value(command, "--op", given.operations, "OP",
            "Only insert, update, delete, command, or a command such as drop; may be "
            "repeated");
  add_value(command, "--id", given.id, "ID",
            "The document of this _id, a text or extended JSON: its history, and what deleted or "
            "overwrote it");
  add_value(command, "--field", given.field, "F",
            "Only operations that set this field (dotted), or one within it");
  add_value(command, "--list", given.list, "N", "Print this many operations, one a line");
  add_value(command, "--top", given.top, "N", "Print this many suspects (default: 5)");
  add_value(command, "--svg", given.svg, "FILE",
            "Write the picture of operations over time to this file");
  add_value(command, "--html", given.html, "FILE",
            "Write a page with the time line, the suspects and the commands for each");
  add_not_sharded(command, given.not_sharded);
}

Result<FindFilter> filter_of(const FindOptions& given) {
  FindFilter filter;
  const Result<OplogSpan> span = parse_span(given.since, given.until);
  if (!span) return error_in(span);
  filter.span = *span;
  filter.namespaces = given.namespaces;
  filter.operations = given.operations;
  filter.field = given.field;
  filter.list_most = given.list != 0 ? given.list : given.id.empty() ? 0 : kHistory;
  if (!given.id.empty()) {
    Result<IdFilter> id = IdFilter::of(given.id);
    if (!id) return error_in(id);
    filter.id = std::move(*id);
  }
  return filter;
}

// At most one file. Opened early, so that an unwritable path is detected before the oplog is read.
using ReportFiles = std::vector<ReportFile>;

Result<ReportFiles> report_file(const std::string& path) {
  ReportFiles files;
  if (path.empty()) return files;
  Result<ReportFile> file = ReportFile::open(path);
  if (!file) return error_in(file);
  files.push_back(*std::move(file));
  return files;
}

// Whether two threads of this process can run at the same time.
bool has_two_processors() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 1;
}

Result<void> run_find(Context& context, const FindOptions& given) {
  const Result<FindFilter> filter = filter_of(given);
  if (!filter) return error_in(filter);
  Result<ReportFiles> picture = report_file(given.svg);
  if (!picture) return error_in(picture);
  Result<ReportFiles> page = report_file(given.html);
  if (!page) return error_in(page);
  // A dump is read completely, because values before the span and consequences after it belong to
  // the answer. In a live oplog only the part before the span is skipped.
  Result<std::unique_ptr<OplogSource>> opened =
      open_oplog(given.oplog, {.from = is_uri(given.oplog) ? filter->span.from : Timestamp{}},
                 to_read(given.not_sharded));
  if (!opened) return error_in(opened);
  const std::unique_ptr<OplogSource> oplog =
      has_two_processors() ? read_ahead(*std::move(opened)) : *std::move(opened);
  OplogAnalysis analysis(*filter);
  {
    Progress progress(oplog->unit(), oplog->total(), Results::kAtEnd);
    for (std::uint64_t entries = 0;; ++entries) {
      if (entries % kBetweenLooks == 0) {
        context.stopped_by = stop_signal();
        if (context.stopped_by != 0) return {};
        progress.show(oplog->done());
      }
      const Result<std::optional<Entry>> next = oplog->next();
      if (!next && was_stopped(next.error())) {
        context.stopped_by = stop_signal();
        return {};
      }
      if (!next) return error_in(next);
      const std::optional<Entry>& entry = *next;
      if (!entry) break;
      if (Result<void> added = analysis.add(*entry); !added) {
        const std::optional<std::uint64_t> offset = oplog->offset();
        return fail(added.error().code, oplog->name() +
                                            (offset ? ", byte " + std::to_string(*offset) : "") +
                                            ", entry " + print_timestamp(entry->at.ts) + ": " +
                                            added.error().message());
      }
    }
  }
  OplogAnswer answer = analysis.finish();
  // A running set was asked itself.
  if (answer.sharding.sharded() && !given.not_sharded && !is_uri(given.oplog))
    return fail(Code::kFailedPrecondition, of_sharded_cluster(oplog->name(), answer.sharding));
  if (std::string notice = oplog->notice(); !notice.empty())
    answer.notices.insert(answer.notices.begin(), std::move(notice));
  if (answer.entries == 0) return fail(Code::kNotFound, oplog->name() + " has no entries");
  if (answer.matched == 0)
    return fail(Code::kNotFound, "no operation is as asked for: " + oplog->name() + " goes from " +
                                     print_timestamp(answer.first) + " to " +
                                     print_timestamp(answer.last) +
                                     ", with operations: " + std::to_string(answer.changes));
  const bool live = is_uri(given.oplog);
  const FindReport report = {.answer = std::move(answer),
                             .name = oplog->name(),
                             .oplog = shell_word(live ? oplog->name() : given.oplog),
                             .live = live,
                             .id = given.id,
                             .top = given.top,
                             .listed = filter->list_most != 0};
  if (context.json) {
    context.out.write(find_json(report));
  } else {
    print_find(context.out, report);
    for (const std::string& notice : report.answer.notices) report_notice(notice, false);
  }
  context.out.flush();  // the picture or page may be /dev/stdout too
  const auto tell = [&](const std::string& path) {
    if (!context.json && !path.starts_with("/dev/"))
      report_notice("wrote " + shell_word(path), false);
  };
  for (ReportFile& file : *picture) {
    Result<void> written = file.finish(svg_chart(
        "Operations over time", report.name + ": " + bars_title(report), operation_bars(report)));
    if (!written) return written;
    tell(given.svg);
  }
  for (ReportFile& file : *page) {
    if (Result<void> written = file.finish(find_page(report)); !written) return written;
    tell(given.html);
  }
  return {};
}

}  // namespace

const Command kFind = {"find", "Find the mistake in an oplog, and the limit before it",
                       with_options<FindOptions, add_find, run_find>,
                       R"(Examples:
  $ idmint-restore find --oplog dump
  $ idmint-restore find --oplog dump --ns shop --since 2026-11-22T09:00:00Z
  $ idmint-restore find --oplog mongodb://db1,db2,db3/?replicaSet=rs0 --id 4711
  $ idmint-restore find --oplog dump --svg operations.svg --json
  $ idmint-restore find --oplog dump --html find.html
)",
                       kSpanRenamed};

}  // namespace idmint::restore
