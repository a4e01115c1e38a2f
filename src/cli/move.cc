// move: moves a sequence to another store, while programs take from it.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/figures.h"
#include "base/url.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/numbers_option.h"
#include "idmint/definition.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "terminal/advice.h"
#include "terminal/confirm.h"
#include "terminal/credentials.h"
#include "terminal/output.h"
#include "terminal/progress.h"

namespace idmint::cli {

namespace {

struct MoveOptions {
  std::string name;
  std::string from;
  std::string to;
  bool dry_run = false;
  bool yes = false;  // do not ask
  bool numbers = false;
};

void add_move(CLI::App& command, MoveOptions& given) {
  command.add_option("NAME", given.name, "A sequence")->required()->type_name("");
  command.add_option("--from", given.from, "The store that it is in")->required()->type_name("URL");
  command.add_option("--to", given.to, "The store that it goes to")->required()->type_name("URL");
  command.add_flag("--dry-run", given.dry_run, "Say what would be moved, and change nothing");
  command.add_flag("--yes", given.yes, "Do not ask");
  add_numbers(command, given.numbers);
}

// The URL of --from or --to, with its password.
Result<std::string> lasting_url(std::string_view option, const std::string& given) {
  Result<std::string> url = url_given(option, given);
  if (!url) return url;
  const StoreKind* const kind = store_kind(*url);
  if (kind != nullptr && !kind->lasts)
    return refuse(std::string(option) + " " + redacted(*url) +
                  " begins empty and is gone when the command ends: give one that stays");
  return url;
}

// "1,741 comes next, and 258 values are left".
std::string what_is_left(const Moved& moved) {
  std::string left = print_count(static_cast<double>(moved.left)) +
                     (moved.left == 1 ? " value is left" : " values are left");
  if (!moved.next || moved.left == 0 || moved.definition.strategy == Strategy::kPermuted)
    return left;
  return std::to_string(*moved.next) + " comes next, and " + left;
}

Result<void> confirm_move(Context& context, const std::string& name, const Moved& seen,
                          std::string_view from, const std::string& to) {
  return confirm(
      context.out, context.json,
      {.text = name + " goes from " + std::string(from) + " to " + to +
               " for good: " + what_is_left(seen) +
               ". Programs that were not given that store with --also get no value any more. "
               "Move?",
       .undone = "nothing was changed",
       .otherwise = "a sequence that was moved does not come back; add --yes to move it, or "
                    "--dry-run to look"});
}

Result<void> run_move(Context& context, const MoveOptions& given) {
  const Result<std::string> from_url = lasting_url("--from", given.from);
  if (!from_url) return std::unexpected(from_url.error());
  const Result<std::string> to_url = lasting_url("--to", given.to);
  if (!to_url) return std::unexpected(to_url.error());
  const std::string from_shown = redacted(*from_url);
  const auto told = [&](Error error) {
    return std::unexpected(idmint::worded(std::move(error), from_shown));
  };
  StoreOptions options{.create = false};
  if (given.dry_run) options.access = Access::kReadOnly;
  const Result<std::unique_ptr<Store>> from = Store::open(*from_url, options);
  if (!from) return told(from.error());
  if (const std::optional<Error> why = (*from)->unrecorded())
    report_notice(why->message(), context.json);
  Result<std::unique_ptr<Store>> to = Store::open(*to_url, options);
  const bool is_new = !to && to.error().code == Code::kNotFound;
  if (!to && !is_new) return std::unexpected(idmint::worded(to.error(), redacted(*to_url)));

  // A store that is not there yet is as empty as this one.
  const std::unique_ptr<Store> empty = is_new ? Store::open("memory:").value() : nullptr;
  Result<Moved> moved =
      move_sequence(**from, is_new ? *empty : **to, given.name, MoveMode::kPreview);
  if (!moved) return told(std::move(moved.error()));
  const std::string to_shown = is_new ? redacted(*to_url) : std::string((*to)->url());
  if (!given.dry_run) {
    if (!given.yes && !moved->was_begun) {
      const Result<void> confirmed =
          confirm_move(context, given.name, *moved, (*from)->url(), to_shown);
      if (!confirmed) return confirmed;
    }
    if (is_new) {
      options.create = true;
      to = Store::open(*to_url, options);
      if (!to) return std::unexpected(idmint::worded(to.error(), redacted(*to_url)));
    }
    Progress progress("counters", moved->counters, Results::kAtEnd);
    moved = move_sequence(**from, **to, given.name, MoveMode::kCarryOut,
                          [&](std::int64_t done, std::int64_t /*of*/) { progress.show(done); });
    if (!moved) return told(std::move(moved.error()));
  }
  const std::string from_there((*from)->url());
  if (context.json) {
    context.out.write(json_moved(*moved, from_there, to_shown, given.dry_run, given.numbers) +
                      "\n");
    return {};
  }
  const std::string done = moved->was_done    ? " was moved before: in "
                           : given.dry_run    ? " would be moved: in "
                           : moved->was_begun ? " was moved, as was begun before: in "
                                              : " was moved: in ";
  context.out.write(given.name + done + to_shown + " " + what_is_left(*moved) + "\n");
  return {};
}

}  // namespace

const Command kMove = {
    "move", "Move a sequence to another store", with_options<MoveOptions, add_move, run_move>,
    R"(The sequence is closed in one store and goes on in the other, while programs
ask for values: none comes twice, and no untaken one is skipped. It asks first,
as there is no way back. After an interruption, even by kill -9, the same
command completes the move; until then the sequence may give no values (exit
status 7).

Programs that were given the other store follow: idmint next --also URL, the
variable IDMINT_ALSO, idmintd --also URL. Others get exit status 5 and the URL
of the new store. A process hands out the range that it holds in memory
(strategy cached) until it follows, and skips the rest.

Sequences of strategy counter, cached, striped, interleaved and permuted can be
moved. A pool, a random or gapless sequence, one over several stores, and one
that counts in a record of other programs are refused with the reason. An older
idmint refuses a sequence that moves or was moved: upgrade the programs first.

Examples:
  $ idmint create orders --start 1000 --store sqlite:old.db
  $ idmint move orders --from sqlite:old.db --to sqlite:new.db --yes
  $ idmint next orders --store sqlite:old.db --also sqlite:new.db
)"};

}  // namespace idmint::cli
