// alter, retire: permanent changes of a sequence.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <string>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/numbers_option.h"
#include "cli/source_options.h"
#include "cli/store_option.h"
#include "idmint/definition.h"
#include "terminal/confirm.h"

namespace idmint::cli {

namespace {

struct AlterOptions {
  std::string name;
  std::string max;
  bool numbers = false;
};

constexpr std::array kMeantByAlter = {Meant{"--to", "--max"}, Meant{"--last", "--max"},
                                      Meant{"--maxvalue", "--max"}};

void add_alter(CLI::App& command, AlterOptions& given) {
  command.add_option("NAME", given.name, "A sequence")->required()->type_name("");
  command.add_option("--max", given.max, "The new last value, larger than the present one")
      ->required()
      ->type_name("N");
  add_numbers(command, given.numbers);
  add_over(command);
  add_store(command);
}

struct RetireOptions {
  std::string name;
  bool yes = false;  // do not ask
  bool numbers = false;
};

void add_retire(CLI::App& command, RetireOptions& given) {
  command.add_option("NAME", given.name, "A sequence or a pool")->required()->type_name("");
  add_numbers(command, given.numbers);
  add_over(command);
  add_store(command);
  command.add_flag("--yes", given.yes, "Do not ask");
}

// Reports the change: one line on standard error for a terminal, or JSON on standard output.
Result<void> tell(Context& context, const Mint& mint, const SequenceStatus& status,
                  const std::string& what, bool numbers) {
  if (context.json) {
    const Result<std::string> url = mint.store_url();
    if (!url) return std::unexpected(url.error());
    context.out.write(json_sequence(status, *url, numbers) + "\n");
  } else if (::isatty(STDERR_FILENO) == 1) {
    report_notice(what, false);
  }
  return {};
}

Result<void> run_alter(Context& context, const AlterOptions& given) {
  const Result<std::int64_t> last = whole_number("--max", given.max, 1, kLargestValue);
  if (!last) return std::unexpected(last.error());
  const std::string& name = given.name;
  Mint mint = open_mint(context);
  const Result<Changed> altered = mint.alter(name, *last);
  if (!altered) return std::unexpected(altered.error());
  return tell(context, mint, altered->status, name + " ends at " + std::to_string(*last),
              given.numbers);
}

Result<void> run_retire(Context& context, const RetireOptions& given) {
  const std::string& name = given.name;
  Mint mint = open_mint(context);
  if (!given.yes) {
    const Result<SequenceStatus> status = mint.peek(name);
    if (!status) return std::unexpected(status.error());
    const Result<void> confirmed =
        confirm(context.out, context.json,
                {.text = "No value comes from " + name + " any more, for ever. Retire it?",
                 .undone = "nothing was changed",
                 .otherwise = "a retired name is never given again; add --yes to retire it"});
    if (!confirmed) return confirmed;
  }
  const Result<Changed> retired = mint.retire(name);
  if (!retired) return std::unexpected(retired.error());
  return tell(context, mint, retired->status, name + " is retired: no value comes from it any more",
              given.numbers);
}

}  // namespace

const Command kAlter = {
    "alter",
    "Move the last value of a sequence up",
    with_options<AlterOptions, add_alter, run_alter>,
    R"(Nothing else of a sequence can be changed. The last value can only be raised, at
most to the largest that the digits or the width of the sequence can print.

Examples:
  $ idmint create small --max 10
  $ idmint alter small --max 20
)",
    {},
    kMeantByAlter,
    "--max"};

const Command kRetire = {
    "retire", "End a sequence or a pool for ever",
    with_options<RetireOptions, add_retire, run_retire>,
    R"(No process gets another value, or another lease of a pool. The name stays taken,
so that no new sequence gives the old values again. It asks first, as there is
no way back.

Examples:
  $ idmint create old-orders
  $ idmint retire old-orders --yes
)"};

}  // namespace idmint::cli
