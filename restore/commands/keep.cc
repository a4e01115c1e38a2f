// keep: backups of a replica set, made and removed as time passes.
#include "restore/keep/keep.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "base/quantity.h"
#include "restore/commands/commands.h"
#include "restore/commands/on_terminal.h"
#include "restore/commands/options.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

struct KeepArguments {
  std::string uri;
  std::string to;
  std::string every = "24h";
  std::string keep = "7d";
  std::string slice = "10min";
  std::vector<std::string> exclude;
  unsigned readers = KeepOptions{}.readers;
  bool gzip = false;
  bool once = false;
  bool not_sharded = false;
};

void add_keep(CLI::App& command, KeepArguments& given) {
  add_value(command, "--uri", given.uri, "URI", "The replica set, as mongodb:// or mongodb+srv://")
      ->required();
  add_value(command, "--to", given.to, "DIR",
            "The folder to keep the backups in, made if it is missing")
      ->required();
  add_value(command, "--every", given.every, "T", "Make a base each time this has passed (24h)");
  add_value(command, "--keep", given.keep, "T",
            "Every moment of this time can be restored; what is older goes (7d)");
  add_value(command, "--slice", given.slice, "T",
            "Begin a slice of the oplog each time this has passed (10min)");
  add_value(command, "--exclude", given.exclude, "NS",
            "Leave these out: DATABASE, DATABASE.COLLECTION, with * for any text; may be repeated");
  command.add_flag("--gzip", given.gzip, "Compress the bases");
  command.add_flag("--once", given.once, "Do what is due now, and end: for a timer");
  add_readers(command, given.readers);
  add_not_sharded(command, given.not_sharded);
}

// A whole number of seconds.
Result<std::chrono::seconds> seconds_in(const char* option, const std::string& text) {
  const Result<std::chrono::nanoseconds> parsed = parse_duration(text);
  if (!parsed) return error_in(parsed);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(*parsed);
  if (seconds >= std::chrono::seconds{1}) return seconds;
  return refuse(std::string(option) + " " + text + " is less than a second");
}

void print_notice(Context& context, std::string_view what) {
  const std::string now =
      format_exact_time(std::chrono::floor<std::chrono::seconds>(system_clock().now()));
  if (context.json) {
    write_json(context, {{"at", now}, {"told", what}});
  } else {
    context.out.write_line(now + "  " + std::string(what));
  }
  context.out.flush();
}

Result<void> run_keep(Context& context, const KeepArguments& given) {
  const Result<std::chrono::seconds> every = seconds_in("--every", given.every);
  if (!every) return error_in(every);
  const Result<std::chrono::seconds> keep = seconds_in("--keep", given.keep);
  if (!keep) return error_in(keep);
  const Result<std::chrono::seconds> slice = seconds_in("--slice", given.slice);
  if (!slice) return error_in(slice);
  OnTerminal watch(context,
                   {.notice = [&](std::string_view what) { print_notice(context, what); }});
  const Result<Kept> kept = keep_backups({.uri = given.uri,
                                          .folder = given.to,
                                          .connect = to_read(given.not_sharded),
                                          .every = *every,
                                          .slice = *slice,
                                          .keep = *keep,
                                          .readers = given.readers,
                                          .gzip = given.gzip,
                                          .excluded = given.exclude,
                                          .once = given.once},
                                         watch);
  context.stopped_by = stop_signal();
  if (kept) print_notice(context, kept->in_words());
  if (!kept && context.stopped_by == 0) return error_in(kept);
  return {};
}

}  // namespace

const Command kKeep = {
    "keep", "Keep backups of a running replica set",
    with_options<KeepArguments, add_keep, run_keep>,
    R"(The folder has bases, and the oplog from the first one on in slices, each with
checksums. A base goes only when another one reaches back as far as --keep says,
and has proved whole. After a kill, a fail-over or a full disk the same command
goes on. Where the oplog has rolled over what comes next, it says what can be
restored, and makes a base at once. It runs until it is stopped; with --once, as
a timer of systemd starts it, it ends when nothing is due.

ready --from DIR watches over the folder, and run --from DIR --at TIME restores
from it.

Examples:
  $ idmint-restore keep --uri mongodb://db1,db2,db3/?replicaSet=rs0 --to /backup/rs0
  $ idmint-restore keep --uri mongodb://db1,db2,db3/?replicaSet=rs0 --to /backup/rs0 --once
  $ idmint-restore ready --from /backup/rs0
  $ idmint-restore run --from /backup/rs0 --at '2026-11-23 02:15' --spare /var/lib/spare
)"};

}  // namespace idmint::restore
