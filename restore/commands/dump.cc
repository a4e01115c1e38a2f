// dump: a base backup of a running replica set.
#include "restore/backup/dump.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/quantity.h"
#include "base/shell.h"
#include "restore/commands/commands.h"
#include "restore/commands/options.h"
#include "terminal/progress.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

struct DumpOptions {
  std::string uri;
  std::string out;
  std::vector<std::string> exclude;
  unsigned readers = DumpPace{}.readers;
  bool gzip = false;
  bool archive = false;
  bool not_sharded = false;
};

void add_dump(CLI::App& command, DumpOptions& given) {
  add_value(command, "--uri", given.uri, "URI", "The replica set, as mongodb:// or mongodb+srv://")
      ->required();
  add_value(command, "--out", given.out, "PATH", "The folder to make, or with --archive the file")
      ->required();
  add_value(command, "--exclude", given.exclude, "NS",
            "Leave these out: DATABASE, DATABASE.COLLECTION, with * for any text; may be repeated");
  command.add_flag("--archive", given.archive, "One file instead of a folder");
  command.add_flag("--gzip", given.gzip, "Compress it");
  add_readers(command, given.readers);
  add_not_sharded(command, given.not_sharded);
}

void print(Context& context, const DumpOptions& given, const DumpFacts& facts) {
  if (context.json) {
    const nlohmann::ordered_json json = {
        {"base", given.out},
        {"form", given.archive ? "archive" : "folder"},
        {"gzip", given.gzip},
        {"member", facts.member},
        {"server_version", facts.version},
        {"databases", facts.databases},
        {"collections", facts.collections},
        {"documents", facts.documents},
        {"bytes", facts.bytes},
        {"oplog",
         {{"first", print_timestamp(facts.first)},
          {"last", print_timestamp(facts.last)},
          {"entries", facts.entries}}},
        {"notes", facts.notes},
    };
    write_json(context, json);
    return;
  }
  const auto count = [](std::int64_t number) { return print_count(static_cast<double>(number)); };
  print_fact(context.out, "base", given.out + (given.archive ? ", an archive" : ", a folder"));
  print_fact(context.out, "of", facts.member + ", MongoDB " + facts.version);
  print_fact(context.out, "documents",
             count(facts.documents) + " of " + count(facts.collections) + " collections in " +
                 count(facts.databases) + " databases, " + count(facts.bytes) + " bytes");
  print_fact(context.out, "oplog",
             count(facts.entries) + (facts.entries == 1 ? " entry, " : " entries, ") +
                 print_timestamp(facts.first) + " to " + print_timestamp(facts.last));
  print_fact(context.out, "moment",
             print_seconds(facts.last) +
                 ": dump the oplog from no later than that to restore to "
                 "a later one");
  for (const std::string& note : facts.notes) print_fact(context.out, "note", note);
}

Result<void> run_dump(Context& context, const DumpOptions& given) {
  if (given.out.find_first_not_of('/') == std::string::npos)
    return fail(Code::kInvalidArgument,
                shell_word(given.out) + " cannot be --out: name a new folder");
  const auto with_role = [](Error error) {
    if (error.code == Code::kPermissionDenied && error.place.empty())  // not of a file
      add_outcome(error, "the user needs the role backup of the database admin");
    return std::unexpected(std::move(error));
  };
  Result<Server> server = Server::connect(given.uri, to_read(given.not_sharded));
  if (!server) return error_in(server);
  std::optional<Progress> progress;
  const Result<DumpFacts> facts =
      dump(*std::move(server),
           {.path = given.out,
            .form = given.archive ? BackupForm::kArchive : BackupForm::kFolder,
            .gzip = given.gzip,
            .excluded = given.exclude},
           [&](std::int64_t done, std::int64_t total) -> Result<void> {
             if (!progress) progress.emplace("documents", total, Results::kAtEnd);
             progress->show(done);
             context.stopped_by = stop_signal();
             if (context.stopped_by == 0) return {};
             return fail(Code::kUnavailable, "stopped");
           },
           {.readers = given.readers});
  progress.reset();
  if (!facts && was_stopped(facts.error())) context.stopped_by = stop_signal();
  if (context.stopped_by != 0) return {};
  if (!facts) return with_role(facts.error());
  print(context, given, *facts);
  return {};
}

}  // namespace

const Command kDump = {"dump", "Back up a running replica set, as the base of a restore",
                       with_options<DumpOptions, add_dump, run_dump>,
                       R"(Examples:
  $ idmint-restore dump --uri mongodb://db1,db2,db3/?replicaSet=rs0 --out base
  $ idmint-restore dump --uri mongodb://db1/?replicaSet=rs0 --archive --gzip --out base.archive.gz
)"};

}  // namespace idmint::restore
