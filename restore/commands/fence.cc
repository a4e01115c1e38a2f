// fence: raises the restored server past all ids that production handed out.
#include "restore/fence/fence.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/shell.h"
#include "idmint/clock.h"
#include "restore/commands/commands.h"
#include "restore/commands/fence_report.h"
#include "restore/commands/on_terminal.h"
#include "restore/commands/options.h"
#include "restore/output_file.h"
#include "terminal/exit_status.h"

namespace idmint::restore {
namespace {

struct GivenToFence {
  std::string target;
  std::string oplog;
  std::string live;
  std::string limit;
  std::vector<std::string> counters;
  std::vector<std::string> used_in;
  std::vector<std::string> exclude;
  std::string report = "fence-report.jsonl";
  std::string restore_report;
  bool leave_gap = false;
  bool reopen = false;
  bool allow_production = false;
  bool yes = false;
};

void add_fence(CLI::App& command, GivenToFence& given) {
  add_value(command, "--target", given.target, "URI", "The restored server")->required();
  add_value(command, "--oplog", given.oplog, "FILE",
            "A dump of production's oplog, from the limit to the end, or the folder that has it");
  add_value(command, "--live", given.live, "URI",
            "Production itself, instead of --oplog or besides: its oplog, its counters and the "
            "collections with ids");
  add_value(command, "--limit", given.limit, "S:O",
            "The limit of the restore, SECONDS:ORDINAL (that of its report)");
  add_value(command, "--restore-report", given.restore_report, "FILE",
            "The report of run (that beside the folder of the server's data)");
  command.add_flag("--leave-gap", given.leave_gap,
                   "Pass gapless numbers, too; lost ones are listed");
  command.add_flag("--reopen", given.reopen,
                   "What production retired after the limit goes on here, and is not retired");
  add_value(command, "--counter", given.counters, "F",
            "A field that is a counter, DATABASE.COLLECTION.FIELD; may be repeated");
  add_value(command, "--used-in", given.used_in, "S=C:F",
            "A field with ids of a source, SOURCE=DATABASE.COLLECTION:FIELD; may be repeated");
  add_value(command, "--exclude", given.exclude, "WHAT",
            "Leave these alone: DATABASE/NAME, DATABASE.COLLECTION, with * for any text; may "
            "be repeated");
  command.add_flag("--allow-production", given.allow_production,
                   "The target may be production itself");
  add_value(command, "--report", given.report, "FILE",
            "Where the report is kept, a line of JSON each time (fence-report.jsonl)");
  command.add_flag("--yes", given.yes, "Do it; without this it is a dry run");
}

Result<FenceOptions> fence_options(const GivenToFence& given) {
  FenceOptions options{.target = given.target,
                       .oplog = given.oplog,
                       .live = given.live,
                       .restore_report = given.restore_report,
                       .leave_gap = given.leave_gap,
                       .reopen = given.reopen,
                       .allow_production = given.allow_production,
                       .exclude = given.exclude};
  if (!given.limit.empty()) {
    const Result<Timestamp> limit = parse_timestamp(given.limit);
    if (!limit) return error_in(limit);
    options.limit = *limit;
  }
  for (const std::string& text : given.counters) {
    Result<CounterField> counter = parse_counter_field(text);
    if (!counter) return error_in(counter);
    options.counters.push_back(std::move(*counter));
  }
  for (const std::string& text : given.used_in) {
    Result<UsedIn> used = parse_used_in(text);
    if (!used) return error_in(used);
    options.used_in.push_back(std::move(*used));
  }
  return options;
}

// Appends a line to a file and syncs it. Keeps the lines of earlier runs. Terminates a last line
// that a kill cut.
Result<void> keep_line(const std::string& path, const std::string& line) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return unwritable(path, errno);
  std::string text = line + "\n";
  const off_t size = ::lseek(fd, 0, SEEK_END);
  char last = '\n';
  if (size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n') text.insert(0, "\n");
  int failed = 0;
  for (std::size_t written = 0; written < text.size() && failed == 0;) {
    const ssize_t some = ::write(fd, text.data() + written, text.size() - written);
    if (some < 0 && errno != EINTR) failed = errno;
    if (some > 0) written += static_cast<std::size_t>(some);
  }
  if (failed == 0 && ::fsync(fd) != 0 && errno != EINVAL) failed = errno;
  if (::close(fd) != 0 && failed == 0) failed = errno;
  if (failed != 0) return unwritable(path, failed);
  return {};
}

Result<void> keep_report(const std::string& path, const FenceReport& report,
                         std::string_view state) {
  nlohmann::ordered_json json = json_of(report, state);
  json["at"] = format_time(system_clock().now());
  return keep_line(path,
                   json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

Result<void> run_fence(Context& context, const GivenToFence& given) {
  const Result<FenceOptions> options = fence_options(given);
  if (!options) return error_in(options);
  FenceReport report;
  OnTerminal watch(context, {.about_to = [&](std::string_view) {
                     return keep_report(given.report, report, "planned");
                   }});
  const bool carry_out = given.yes;
  Result<void> done =
      fence(*options, carry_out ? FenceMode::kCarryOut : FenceMode::kPreview, watch, report);
  watch.end();
  if (report.carried_out) {
    Result<void> kept = keep_report(given.report, report, done ? "fenced" : "failed");
    if (done) done = std::move(kept);
  }
  if (!done && was_stopped(done.error()))
    return or_stopped(std::move(done), context,
                      report.carried_out ? "stopped: the same command fences the rest"
                                         : "stopped: nothing was written");
  const std::vector<std::string> refused = report.refused();
  // Without rows, the error alone tells what is wrong.
  if (done || !refused.empty()) {
    if (context.json) {
      const std::string_view state = !carry_out ? "dry run" : done ? "fenced" : "failed";
      write_json(context, json_of(report, state));
    } else {
      print_fence(context.out, report);
    }
  }
  if (!done) return done;
  if (!context.json)
    context.out.write(carry_out
                          ? "Fenced. The report is kept in " + shell_word(given.report) + ".\n"
                          : "Nothing was written: this is a dry run. Add --yes to fence.\n");
  if (!refused.empty()) context.status = exit_status(Code::kFailedPrecondition);
  return {};
}

}  // namespace

const Command kFence = {
    "fence", "Bring a restored server past every id that was handed out",
    with_options<GivenToFence, add_fence, run_fence>,
    R"(Every sequence and pool of idmint on the target goes past the largest value in
the oplog, in the live server and in the collections with such ids; every
counter document of the classic recipes goes to it. Stop everything that mints
first: values after the end of the oplog are not known. The same command
completes an interrupted fence, goes further if more is known, and never lowers
anything.

Counter documents have COUNT with MAXCOUNT or MAX_VALUE, seq, index or
uniqueIdentifierCounter beside an _id, and a value that never fell. Name any
other field with --counter. Other fields that never fell are shown.

If one cannot be fenced, nothing is written: mend it, or leave it out with
--exclude.

Examples:
  $ idmint-restore fence --target mongodb://127.0.0.1:27117/ --oplog oplog.bson
  $ idmint-restore fence --target mongodb://127.0.0.1:27117/ --oplog oplog.bson \
      --leave-gap --yes
)"};

}  // namespace idmint::restore
