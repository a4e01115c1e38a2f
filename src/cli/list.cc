// list, peek: the sequences and pools of a store, and one of them.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "advice/diagnosis.h"
#include "base/errors.h"
#include "base/figures.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/numbers_option.h"
#include "cli/store_option.h"
#include "idmint/clock.h"
#include "mint/definitions_toml.h"
#include "mint/sequence_facts.h"

namespace idmint::cli {

using namespace advice;

namespace {

struct ListArguments {
  bool toml = false;
  bool numbers = false;
};

void add_list(CLI::App& command, ListArguments& given) {
  command.add_flag("--toml", given.toml, "Print the definitions as a file for apply");
  add_numbers(command, given.numbers);
  add_over(command);
  add_store(command);
}

struct PeekArguments {
  std::string name;
  bool numbers = false;
};

void add_peek(CLI::App& command, PeekArguments& given) {
  command.add_option("NAME", given.name, "A sequence or a pool")->required()->type_name("");
  add_numbers(command, given.numbers);
  add_over(command);
  add_store(command);
}

std::string or_dash(std::optional<std::int64_t> value) {
  return value ? std::to_string(*value) : "-";
}

// How much of it is used up, of a pool how many of its worker ids are owned.
std::string used(const SequenceStatus& status) {
  const std::int64_t all = size_of(status.definition);
  const double share = static_cast<double>(all - status.left) / static_cast<double>(all);
  if (status.left == 0) return "100 %";
  if (share <= 0) return "0 %";
  return share < 0.01 ? "<1 %" : std::to_string(static_cast<int>(share * 100)) + " %";
}

// ", 1 of 2": offset and stride.
std::string with_stride(const Definition& definition) {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  if (sequence == nullptr || sequence->stride == 1) return "";
  return ", " + std::to_string(sequence->offset()) + " of " + std::to_string(sequence->stride);
}

// ", 2 stores, skew 4".
std::string with_stores(const SequenceStatus& status) {
  if (status.stripes.empty()) return "";
  return ", " + std::to_string(status.stripes.size()) + " stores, skew " +
         std::to_string(status.skew());
}

// "5", or "5 in the 1 of 2 stores that could be read".
std::string left(const SequenceStatus& status) {
  const std::size_t counted = stores_counted(status);
  std::string number = std::to_string(status.left);
  if (counted == status.stripes.size()) return number;
  return number + " in the " + std::to_string(counted) + " of " +
         std::to_string(status.stripes.size()) + " stores that could be read";
}

// "next 5, in URL", or what is wrong, which mostly names the URL, perhaps with a user.
std::string about(const StripeStatus& stripe) {
  const std::string& url = stripe.store.url;
  const std::string text = stripe.error ? stripe.error->message() : "next " + or_dash(stripe.next);
  return text.contains(url.substr(0, url.find(':') + 1)) ? text : text + ", in " + url;
}

// Leaves out what is damaged, and what to_toml() leaves out, and says so in comments. The error is
// that of the last damaged one, so that no partial list looks complete; those of the others are
// reported.
Result<void> print_toml(Output& out, std::span<const SequenceStatus> all) {
  std::vector<Definition> definitions;
  struct Damaged {
    std::string name;
    Error error;
  };
  std::vector<Damaged> damaged;
  for (const SequenceStatus& status : all) {
    const bool cut_off = status.error && (status.error->code == Code::kFailedPrecondition ||
                                          status.error->code == Code::kUnavailable);
    if (status.error && !cut_off)
      damaged.push_back({name(status.definition), *status.error});
    else
      definitions.push_back(status.definition);
  }
  const std::string text = to_toml(definitions);
  out.write(text);
  for (const Definition& definition : definitions) {
    const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
    if (sequence != nullptr && sequence->is_multi_store() && !sequence->retired)
      report_notice(sequence->name +
                        " is over several stores, and left out of the file: make it with idmint "
                        "create " +
                        sequence->name + " --over URL --over URL",
                    false);
  }
  if (damaged.empty()) return {};
  out.write((text.empty() ? "" : "\n") + std::string("# Damaged, so left out here:\n"));
  Result<void> result;
  for (Damaged& each : damaged) {
    out.write_line("#   " + each.name);
    if (!result) report(worded(result.error()), false);
    result = std::unexpected(std::move(each.error));
    add_outcome(result.error(), "it is left out of the list");
  }
  return result;
}

Result<void> run_list(Context& context, const ListArguments& given) {
  if (given.toml && context.json)
    return refuse("--toml and --json are two ways to print the list: give one");
  const Result<std::vector<SequenceStatus>> all = open_mint(context, Access::kReadOnly).list();
  if (!all) return std::unexpected(all.error());
  if (given.toml) return print_toml(context.out, *all);
  if (context.json) {
    context.out.write(json_sequences(*all, given.numbers) + "\n");
    return {};
  }
  if (all->empty()) {
    report_notice("no sequence yet: make one" + in_words({Remedy::kCreateStore}), false);
    return {};
  }
  std::vector<Row> rows;
  for (const SequenceStatus& status : *all) {
    const Definition& definition = status.definition;
    const std::string_view state = state_name(status);
    const bool known = !status.error.has_value() && state != "moved";
    rows.push_back({name(definition),
                    std::string(strategy_name(definition)) + with_stride(definition) +
                        with_stores(status) + (adopted_of(definition).empty() ? "" : ", adopted"),
                    or_dash(next_value(status)),
                    known ? print_count(static_cast<double>(status.left)) : "-",
                    known ? used(status) : "-", std::string(state)});
  }
  print_table(context.out,
              {{"NAME"},
               {"STRATEGY"},
               {"NEXT", Align::kRight},
               {"LEFT", Align::kRight},
               {"USED", Align::kRight},
               {"STATE"}},
              rows);
  return {};
}

Result<void> run_peek(Context& context, const PeekArguments& given) {
  Mint mint = open_mint(context, Access::kReadOnly);
  const Result<SequenceStatus> status = mint.peek(given.name);
  if (!status) return std::unexpected(status.error());
  const Result<std::string> store = mint.store_url();
  if (!store) return std::unexpected(store.error());
  const Definition& definition = status->definition;
  const auto* const pool = std::get_if<PoolDefinition>(&definition);
  std::optional<Instant> from;
  if (pool != nullptr && !pool->retired && !status->error) {
    const Result<std::vector<LeaseState>> workers = mint.list_workers(pool->name);
    if (!workers) return std::unexpected(workers.error());
    from = leased_from(pool->layout, *workers, system_clock().now());
  }
  if (context.json) {
    context.out.write(json_peeked(*status, *store, from, given.numbers) + "\n");
    return {};
  }
  std::vector<Row> rows = {{"strategy", std::string(strategy_name(definition))},
                           {"guarantee", std::string(name(guarantee(definition)))}};
  if (pool != nullptr) {
    rows.push_back({"layout", to_string(pool->layout)});
    rows.push_back({"workers", std::to_string(pool->workers)});
    if (!pool->form.prefix.empty()) rows.push_back({"prefix", pool->form.prefix});
    if (pool->form.encoding != Encoding::kCanonical)
      rows.push_back({"encoding", std::string(name(pool->form.encoding))});
    if (pool->form.check != Check::kNone)
      rows.push_back({"check", std::string(name(pool->form.check))});
    rows.push_back({"free", std::to_string(status->left) +
                                (from ? ", none before " + format_exact_time(*from) : "")});
  } else {
    const auto [first, last] = ends_of(definition);
    rows.push_back({"first", std::to_string(first)});
    rows.push_back({"last", std::to_string(last)});
    if (const auto& its = std::get<SequenceDefinition>(definition); its.stride != 1) {
      rows.push_back({"stride", std::to_string(its.stride)});
      rows.push_back({"offset", std::to_string(its.offset())});
    }
    rows.push_back({"next", or_dash(next_value(*status))});
    if (const auto index = next_index(*status)) rows.push_back({"index", std::to_string(*index)});
    rows.push_back({"left", left(*status)});
  }
  for (std::size_t k = 0; k < status->stripes.size(); ++k) {
    rows.push_back({"stripe " + std::to_string(k), about(status->stripes[k])});
  }
  if (!status->stripes.empty()) rows.push_back({"skew", std::to_string(status->skew())});
  rows.push_back({"state", std::string(state_name(*status))});
  if (const Move* const move = move_of(definition))
    rows.push_back({move->stage == Move::Stage::kArriving ? "from" : "to", move->url});
  if (const std::string_view adopted = adopted_of(definition); !adopted.empty())
    rows.push_back({"adopted", std::string(adopted)});
  rows.push_back({"store", *store});
  print_table(context.out, {{pool != nullptr ? "POOL" : "SEQUENCE"}, {name(definition)}}, rows);
  return {};
}

}  // namespace

const Command kList = {
    "list", "List the sequences and pools of a store",
    with_options<ListArguments, add_list, run_list>,
    R"(NEXT is a plain value, without prefix, check symbols or encoding. LEFT counts
the values that nobody has taken, as 9.22e+18 if there are 10^15 or more; for a
pool, the worker ids that nobody owns.
idmint peek shows the first and last value and the guarantee.
The file of --toml, applied to another store, makes sequences that mint the same
values again. Comments name what it leaves out: sequences over several stores;
moving, moved and retired ones; and damaged ones, whose error is the exit
status.

Examples:
  $ idmint list
  $ idmint list --json
)"};

const Command kPeek = {
    "peek", "Show a sequence or a pool without taking from it",
    with_options<PeekArguments, add_peek, run_peek>,
    R"(The value shown as next may be taken by somebody else before you ask for it. For
a permuted sequence the index says how many values came before. For a pool, free
counts the worker ids that nobody owns; "none before TIME" means that none can
be leased before, as their ids are ahead of the clock.

Examples:
  $ idmint create orders --start 1000
  $ idmint peek orders
)"};

}  // namespace idmint::cli
