// seed: a new replica set from the folder of a restored server.
#include "restore/promote/seed.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "restore/commands/commands.h"
#include "restore/commands/on_terminal.h"
#include "restore/commands/options.h"
#include "terminal/confirm.h"

namespace idmint::restore {
namespace {

struct SeedArguments {
  std::string spare;
  std::string set;
  std::vector<std::string> members;
  std::string mongod;
  std::vector<std::string> arguments;
  bool dry_run = false;
  bool yes = false;
};

void add_seed(CLI::App& command, SeedArguments& given) {
  add_value(command, "--spare", given.spare, "DIR", "The folder of the restored server")
      ->required();
  add_value(command, "--set", given.set, "NAME", "The name of the new replica set")->required();
  add_value(command, "--member", given.members, "M",
            "HOST:PORT=DIR, a new folder here; or HOST:PORT of another host; may be repeated")
      ->required();
  add_value(command, "--mongod", given.mongod, "PATH",
            "The mongod to start (default: that on the PATH)");
  add_value(command, "--argument", given.arguments, "ARG",
            "A further argument of each mongod, such as --argument=--auth; may be repeated");
  command.add_flag("--dry-run", given.dry_run, "Print the steps, and do nothing");
  command.add_flag("--yes", given.yes, "Do not ask");
}

// Prints a step: done next, or left to do.
void print_step(Context& context, const char* key, const std::string& before,
                std::string_view command) {
  if (context.json) {
    context.out.write(nlohmann::ordered_json{{key, command}}.dump() + "\n");
  } else {
    context.out.write_line("  " + before + std::string(command));
  }
  context.out.flush();
}

Result<void> run_seed(Context& context, const SeedArguments& given) {
  SeedOptions options{
      .spare = given.spare, .set = given.set, .mongod = given.mongod, .arguments = given.arguments};
  for (const std::string& text : given.members) {
    Result<SeedMember> member = parse_member(text);
    if (!member) return error_in(member);
    options.members.push_back(*std::move(member));
  }
  const Result<std::vector<std::string>> steps = seed_steps(options);
  if (!steps) return error_in(steps);
  if (given.dry_run) {
    for (const std::string& step : *steps) print_step(context, "to_do", "", step);
    return {};
  }
  if (!given.yes) {
    Result<void> confirmed =
        confirm(context.out, context.json,
                {.text = "End the spare, and make a replica set of it?",
                 .undone = "nothing was done",
                 .otherwise = "add --yes to do it, or --dry-run to see the steps"});
    if (!confirmed) return confirmed;
  }
  OnTerminal watch(context, {.about_to = [&](std::string_view command) -> Result<void> {
                               print_step(context, "done", "", command);
                               return {};
                             },
                             .notice =
                                 [&](std::string_view command) {
                                   print_step(context, "to_do", "still to do: ", command);
                                 }});
  Result<void> done = seed(options, watch);
  if (done && !context.json)
    context.out.write("The set is up. Make its users, point clients to it, and take a new base.\n");
  return or_stopped(std::move(done), context, "stopped: the same command goes on where it was");
}

}  // namespace

const Command kSeed = {
    "seed", "Make a replica set of the folder of a restored server",
    with_options<SeedArguments, add_seed, run_seed>,
    R"(Prints each step as it is done. It drops the record of the restore, ends the
spare, copies its folder to the first member, makes that member a set of one,
and copies its folder to the other members here, which need no initial sync. For
members on other hosts it prints the steps. After any kill the same command goes
on. Run idmint-restore fence first.

Examples:
  $ idmint-restore seed --spare spare --set rs0 --member db1:27017=/data/db1 \
      --member db2:27017 --member db3:27017 --dry-run
)"};

}  // namespace idmint::restore
