// create, alter, retire, list, peek: the sequences and pools of a store.
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/url.h"
#include "cli/commands.h"
#include "cli/diagnosis.h"
#include "cli/json.h"
#include "cli/sequence_facts.h"
#include "idmint/catalog.h"
#include "idmint/clock.h"
#include "ids/snowflake_space.h"
#include "mint/definitions_toml.h"
#include "terminal/confirm.h"
#include "terminal/progress.h"

namespace idmint::cli {

MintOptions mint_options(const Arguments& arguments, Access access) {
  MintOptions options;
  options.store = arguments.store;
  options.store_options.access = access;
  options.store_options.deadline = arguments.timeout.value_or(options.store_options.deadline);
  options.notice = [json = arguments.json](std::string_view text) { report_notice(text, json); };
  return options;
}

Mint open_mint(const Arguments& arguments, Access access) {
  return Mint(mint_options(arguments, access));
}

// Tells of the pools of the store that have the same layout, but for the width of the time: each of
// them gives the ids of the others.
void tell_of_equal_pools(Mint& mint, const Definition& pool, bool json) {
  const auto all = mint.list();
  if (!all || !pool.layout) return;
  std::string names;
  for (const SequenceStatus& each : *all) {
    const Definition& other = each.definition;
    if (other.name == pool.name || other.retired || !other.layout ||
        space_of(*other.layout) != space_of(*pool.layout))
      continue;
    names += (names.empty() ? "" : ", ") + other.name;
  }
  if (!names.empty())
    report_notice(pool.name + " gives the same ids as " + names +
                      ", for it has the same layout: where ids of both meet, use one pool",
                  json);
}

Result<void> run_create(Context& context) {
  const Arguments& arguments = context.arguments;
  Mint mint = open_mint(arguments);
  const bool tell = !arguments.json && ::isatty(STDERR_FILENO) == 1;
  Definition definition = arguments.definition;
  bool there = false;
  if (tell || arguments.json || arguments.usual_layout) {
    const Result<SequenceStatus> status = mint.peek(arguments.name);
    there = status.has_value();
    if (there && arguments.usual_layout && status->definition.layout)
      definition.layout = status->definition.layout;
  }
  {
    Progress progress("counters", definition.stripes);
    if (Result<void> created =
            mint.create(definition, [&](std::int64_t done, std::int64_t) { progress.show(done); });
        !created) {
      return created;
    }
  }
  if (arguments.usual_layout && !there)
    report_notice(arguments.name + " has the layout sequence-generator, as no --layout was given",
                  arguments.json);
  tell_of_equal_pools(mint, arguments.definition, arguments.json);
  if (!tell && !arguments.json) return {};
  const Result<std::string> url = mint.store_url();
  if (!url) return std::unexpected(url.error());
  const std::string& store = *url;
  const std::string hint =
      arguments.definition.layout
          ? ": try idmint next " + arguments.name + " and idmint workers list " + arguments.name
          : "";
  if (tell) {
    report_notice(there ? arguments.name + " was there already, as defined"
                        : "made " + arguments.name + " in " + store + hint,
                  false);
    return {};
  }
  const Result<SequenceStatus> status = mint.peek(arguments.name);
  if (!status) return std::unexpected(status.error());
  context.out.write(json_created(*status, store, !there) + "\n");
  return {};
}

namespace {

// One line of what was done: for people on standard error, where that is a terminal; as JSON on
// standard output.
Result<void> tell(Context& context, Mint& mint, const std::string& what) {
  if (context.arguments.json) {
    const Result<SequenceStatus> status = mint.peek(context.arguments.name);
    if (!status) return std::unexpected(status.error());
    const Result<std::string> url = mint.store_url();
    if (!url) return std::unexpected(url.error());
    context.out.write(json_sequence(*status, *url) + "\n");
  } else if (::isatty(STDERR_FILENO) == 1) {
    report_notice(what, false);
  }
  return {};
}

}  // namespace

Result<void> run_alter(Context& context) {
  const Arguments& arguments = context.arguments;
  Mint mint = open_mint(arguments);
  const Result<Definition> altered = mint.extend(arguments.name, arguments.value);
  if (!altered) return std::unexpected(altered.error());
  return tell(context, mint, arguments.name + " ends at " + std::to_string(altered->last));
}

Result<void> run_retire(Context& context) {
  const Arguments& arguments = context.arguments;
  Mint mint = open_mint(arguments);
  if (!arguments.yes) {
    const Result<SequenceStatus> status = mint.peek(arguments.name);
    if (!status) return std::unexpected(status.error());
    const Result<void> confirmed = confirm(
        context.out, arguments.json,
        {.text = "No value comes from " + arguments.name + " any more, for ever. Retire it?",
         .undone = "nothing was changed",
         .otherwise = "a retired name is never given again; add --yes to retire it"});
    if (!confirmed) return confirmed;
  }
  if (Result<void> retired = mint.retire(arguments.name); !retired) return retired;
  return tell(context, mint, arguments.name + " is retired: no value comes from it any more");
}

namespace {

std::string or_dash(std::optional<std::int64_t> value) {
  return value ? std::to_string(*value) : "-";
}

}  // namespace

Result<void> run_list(Context& context) {
  const Result<std::vector<SequenceStatus>> all =
      open_mint(context.arguments, Access::kReadOnly).list();
  if (!all) return std::unexpected(all.error());
  if (context.arguments.toml) {
    std::vector<Definition> definitions;
    for (const SequenceStatus& status : *all) {
      if (status.error && status.error->code != Code::kFailedPrecondition) {
        return std::unexpected(*status.error);  // part of them would pass for all
      }
      definitions.push_back(status.definition);
    }
    context.out.write(to_toml(definitions));
    return {};
  }
  if (context.arguments.json) {
    context.out.write(json_sequences(*all) + "\n");
    return {};
  }
  if (all->empty()) {
    const std::string& store = context.arguments.store;
    report_notice("no sequence yet: make one with idmint create NAME" +
                      (store.empty() ? "" : " in the same store, " + redacted(store)),
                  false);
    return {};
  }
  std::vector<Row> rows;
  for (const SequenceStatus& status : *all) {
    rows.push_back({status.definition.name,
                    std::string(name(status.definition.strategy)) +
                        (status.definition.adopted ? ", adopted" : ""),
                    std::string(name(guarantee(status.definition.strategy))),
                    or_dash(next_value(status)), std::to_string(status.definition.first),
                    std::to_string(status.definition.last), std::string(state_name(status))});
  }
  print_table(context.out,
              {{"NAME"},
               {"STRATEGY"},
               {"GUARANTEE"},
               {"NEXT", Align::kRight},
               {"FIRST", Align::kRight},
               {"LAST", Align::kRight},
               {"STATE"}},
              rows);
  return {};
}

Result<void> run_peek(Context& context) {
  Mint mint = open_mint(context.arguments, Access::kReadOnly);
  const Result<SequenceStatus> status = mint.peek(context.arguments.name);
  if (!status) return std::unexpected(status.error());
  const Result<std::string> store = mint.store_url();
  if (!store) return std::unexpected(store.error());
  const Definition& definition = status->definition;
  std::optional<Instant> from;
  if (definition.layout && !definition.retired && !status->error) {
    const Result<std::vector<LeaseState>> workers = mint.workers(definition.name);
    if (!workers) return std::unexpected(workers.error());
    from = leased_from(*definition.layout, *workers, system_clock().now());
  }
  if (context.arguments.json) {
    context.out.write(json_peeked(*status, *store, from) + "\n");
    return {};
  }
  std::vector<Row> rows = {{"strategy", std::string(name(definition.strategy))},
                           {"guarantee", std::string(name(guarantee(definition.strategy)))}};
  if (definition.layout) {
    rows.push_back({"layout", to_string(*definition.layout)});
    rows.push_back({"workers", std::to_string(definition.last + 1)});
    if (!definition.form.prefix.empty()) rows.push_back({"prefix", definition.form.prefix});
    if (definition.form.encoding != Encoding::kCanonical)
      rows.push_back({"encoding", std::string(name(definition.form.encoding))});
    if (definition.form.check != Check::kNone)
      rows.push_back({"check", std::string(name(definition.form.check))});
    rows.push_back({"free", std::to_string(status->left) +
                                (from ? ", none before " + format_exact_time(*from) : "")});
  } else {
    rows.push_back({"first", std::to_string(definition.first)});
    rows.push_back({"last", std::to_string(definition.last)});
    rows.push_back({"next", or_dash(next_value(*status))});
    if (const auto index = next_index(*status)) rows.push_back({"index", std::to_string(*index)});
    rows.push_back({"left", std::to_string(status->left)});
  }
  rows.push_back({"state", std::string(state_name(*status))});
  if (definition.adopted) rows.push_back({"adopted", to_text(*definition.adopted)});
  rows.push_back({"store", *store});
  print_table(context.out, {{definition.layout ? "POOL" : "SEQUENCE"}, {definition.name}}, rows);
  return {};
}

}  // namespace idmint::cli
