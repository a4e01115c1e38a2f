// create: a sequence, or a pool of worker ids.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "cli/adopted.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/numbers_option.h"
#include "cli/source_options.h"
#include "cli/store_option.h"
#include "idmint/definition.h"
#include "idmint/worker_pool.h"
#include "ids/snowflake_space.h"
#include "mint/given_before.h"
#include "mint/sequence_facts.h"
#include "terminal/confirm.h"
#include "terminal/progress.h"

namespace idmint::cli {

namespace {

struct CreateOptions {
  std::string name;
  SequenceTexts sequence;
  std::vector<std::string> over;
  bool yes = false;
  bool numbers = false;
};

constexpr std::string_view kOwnLayout = "--layout \"sequence-generator epoch 2025-01-01 unit 1ms\"";
constexpr std::array kMeantByCreate = {
    // of next snowflake
    Meant{"--epoch", kOwnLayout}, Meant{"--unit", kOwnLayout},
    // of seq and SQL
    Meant{"--from", "--start"}, Meant{"--to", "--max"}, Meant{"--first", "--start"},
    Meant{"--last", "--max"}, Meant{"--minvalue", "--start"}, Meant{"--maxvalue", "--max"},
    Meant{"--cache", "--strategy cached --step"}};

void add_create(CLI::App& command, CreateOptions& given) {
  SequenceTexts& sequence = given.sequence;
  command
      .add_option("NAME", given.name,
                  "1 to 120 of A-Z a-z 0-9 . _ - beginning with a letter or digit")
      ->required()
      ->type_name("");
  command.add_option("--kind", sequence.kind, "sequence (default) or pool of worker ids")
      ->type_name("K");
  command
      .add_option("--layout", sequence.layout,
                  "pool: the layout of its Snowflake ids, a preset or fields such as \"41t10w12s "
                  "epoch 2025-01-01\" (sequence-generator)")
      ->type_name("L");
  command
      .add_option(
          "--workers", sequence.workers,
          "pool: how many worker ids, up to 65536 of those that its layout has (all, or 1024 "
          "if there are more)")
      ->type_name("N");
  command
      .add_option("--strategy", sequence.strategy,
                  "counter (default), striped, interleaved, cached, random, permuted or gapless")
      ->type_name("S");
  command.add_option("--start", sequence.start, "The first value (1; see below for --digits)")
      ->type_name("N");
  command
      .add_option("--max", sequence.max,
                  "The last value (" + std::to_string(kLargestValue) +
                      ", or what --digits or --width allows)")
      ->type_name("N");
  command
      .add_option("--stride", sequence.stride,
                  "With --offset: every K-th value, so that K servers never give the same value")
      ->type_name("K");
  command
      .add_option("--offset", sequence.offset,
                  "With --stride: which of the K servers, 1 to K; its values leave the remainder k "
                  "when divided by K (K: the remainder 0)")
      ->type_name("k");
  command
      .add_option(
          "--over", given.over,
          "interleaved: the store of one stripe; give it 2 to 16 times. Ids go on while one "
          "store is down")
      ->allow_extra_args(false)
      ->type_name("URL");
  command.add_option("--stripes", sequence.stripes, "striped, interleaved: how many counters")
      ->type_name("K");
  command.add_option("--step", sequence.step, "cached: values in a range (follows the rate)")
      ->type_name("N");
  command
      .add_option("--largest-count", sequence.largest_count,
                  "The most values that one call may take (no limit)")
      ->type_name("N");
  add_form(command, sequence.form);
  command
      .add_option("--width", sequence.form.width,
                  "With --encoding: this many characters, without prefix and check (as many as the "
                  "last value takes)")
      ->type_name("N");
  command
      .add_option(
          "--adopt", sequence.adopt,
          "Share a counter of other programs. mongodb: counter, counters, ids:NAME, or "
          "COLLECTION/ID:next=FIELD (last=FIELD: it holds the last value taken); postgresql, "
          "mysql: row:TABLE/KEY=VALUE:next=COLUMN; postgresql: sequence:NAME; mysql: tickets; "
          "redis: key:NAME")
      ->type_name("RECORD");
  command
      .add_option("--where", sequence.where,
                  "With --adopt COLLECTION:next=FIELD in MongoDB: the one document that has these "
                  "fields, in extended JSON, such as '{\"id\": \"orders\"}'")
      ->type_name("JSON");
  command.add_flag("--make", sequence.make,
                   "With --adopt: make a document of MongoDB that is missing. Otherwise that is an "
                   "error, as a misspelt name would begin a second counter");
  command.add_flag(
      "--validator", sequence.validator,
      "With --adopt: MongoDB refuses changes that would pass the last value, whoever makes them");
  command.add_flag("--yes", given.yes,
                   "Begin below what this host was given before, from a store that is gone");
  add_numbers(command, given.numbers);
  add_store(command);
}

// Asks before values come again that this host was given, from a store at one of the URLs that is
// gone.
Result<void> confirm_below(Context& context, Mint& mint, const Definition& wanted,
                           std::span<const std::string> urls) {
  for (const std::string& url : urls) {
    const std::optional<Repeats> repeats = would_repeat(url, wanted, system_clock().now());
    if (!repeats) continue;
    const Result<SequenceStatus> there = mint.peek(name(wanted));
    if (there || there.error().code != Code::kNotFound) return {};
    return confirm(
        context.out, context.json,
        {.text = repeats->why + ". Create it?",
         .undone = repeats->why + ": nothing was created",
         .otherwise = (repeats->last ? "give --start " + std::to_string(*repeats->last + 1) +
                                           ", or more, to go on above every value in "
                                           "use, or"
                                     : std::string("give it another name, or")) +
                      " --yes if nothing keeps the old ones"});
  }
  return {};
}

// Reports the pools of the store with the same layout, apart from the width of the time: they mint
// the same ids.
void tell_of_equal_pools(Mint& mint, const PoolDefinition& pool, bool json) {
  const auto all = mint.list();
  if (!all) return;
  std::string names;
  for (const SequenceStatus& each : *all) {
    const auto* const other = std::get_if<PoolDefinition>(&each.definition);
    if (other == nullptr || other->name == pool.name || other->retired ||
        space_of(other->layout) != space_of(pool.layout))
      continue;
    names += (names.empty() ? "" : ", ") + other->name;
  }
  if (!names.empty())
    report_notice(pool.name + " gives the same ids as " + names +
                      ", for it has the same layout: where ids of both meet, use one pool",
                  json);
}

// The specification of a sequence over several stores: interleaved, with a stripe in each.
Result<SequenceTexts> over_several(SequenceTexts texts, const std::vector<std::string>& over) {
  if (over.empty()) return texts;
  texts.over_stores = true;
  const std::string stores = std::to_string(over.size());
  if (has_store_option())
    return refuse("--over names each store of the sequence: leave --store out");
  if (texts.stripes && *texts.stripes != stores)
    return refuse("there is one stripe in each store: leave --stripes out, or give " + stores);
  if (!texts.strategy) texts.strategy = "interleaved";
  if (*texts.strategy == "interleaved") {
    if (over.size() < 2) return refuse("--over is given once: give it for each of several stores");
    texts.stripes = stores;
    return texts;
  }
  return refuse("--over is for a sequence of strategy interleaved: leave one of them out");
}

Result<void> run_create(Context& context, const CreateOptions& given) {
  const std::string& name = given.name;
  const std::vector<std::string>& over = given.over;
  MintOptions options = mint_options(context);
  if (!over.empty()) options.store = over.front();
  options.over = over;
  Mint mint(std::move(options));
  const Result<SequenceTexts> texts = over_several(given.sequence, over);
  if (!texts) return std::unexpected(texts.error());
  Result<Definition> wanted = definition(name, *texts, mint.store_url().value_or(""));
  if (!wanted) return std::unexpected(wanted.error());
  auto* const pool = std::get_if<PoolDefinition>(&*wanted);
  const bool usual_layout = pool != nullptr && !given.sequence.layout;
  const bool tell = !context.json && ::isatty(STDERR_FILENO) == 1;
  const Result<std::string> own_url = mint.store_url();
  if (!own_url) return std::unexpected(own_url.error());
  if (!given.yes) {
    const Result<void> may = confirm_below(
        context, mint, *wanted, over.empty() ? std::span(&*own_url, 1) : std::span(over));
    if (!may) return may;
  }
  if (usual_layout) {
    const Result<SequenceStatus> there = mint.peek(name);
    // A store that does not answer now is not asked again and again.
    if (!there && there.error().code != Code::kNotFound) return std::unexpected(there.error());
    if (const auto* const other = there ? std::get_if<PoolDefinition>(&there->definition) : nullptr)
      pool->layout = other->layout;
  }
  Result<Changed> created;
  {
    Progress progress("counters",
                      pool != nullptr ? 1 : std::get<SequenceDefinition>(*wanted).stripes);
    const auto show = [&](std::int64_t done, std::int64_t) { progress.show(done); };
    created = over.empty() ? mint.create(*wanted, {.progress = show})
                           : mint.create_over(std::get<SequenceDefinition>(*wanted), over);
    if (!created) return std::unexpected(std::move(created.error()));
  }
  if (usual_layout && created->made)
    report_notice(name + " has the layout sequence-generator, as no --layout was given",
                  context.json);
  if (pool != nullptr) tell_of_equal_pools(mint, *pool, context.json);
  if (given.sequence.adopt)
    tell_of_adopted(mint, created->status, given.sequence.make, context.json);
  if (!tell && !context.json) return {};
  const Result<std::string> url = mint.store_url();
  if (!url) return std::unexpected(url.error());
  const std::string& store = *url;
  if (tell) {
    const std::string next = ": try idmint next " + name;
    const std::string made =
        !over.empty()
            ? "over " + std::to_string(over.size()) + " stores" + next + " --store " + store
        : pool != nullptr ? "in " + store + next + store_again() + " and idmint workers list " +
                                name + store_again()
                          : "in " + store;
    const auto ends = first_and_last_id(*wanted);
    const std::string ids =
        ends ? "; its ids are " + ends->first + " to " + ends->second : std::string();
    report_notice(
        (created->made ? "made " + name + " " + made : name + " was there already, as defined") +
            ids,
        false);
    return {};
  }
  context.out.write(json_created(*created, store, given.numbers) + "\n");
  return {};
}

}  // namespace

const Command kCreate = {
    "create",
    "Make a sequence, or a pool of worker ids",
    with_options<CreateOptions, add_create, run_create>,
    R"(The same command again changes nothing. There is no way to remove a sequence or
to set it back: its values would come twice. If the store that had a sequence of
this name is gone, and this host was given values of it, the command asks before
it begins below them; programs give --yes or a larger --start.

The strategies:
  counter      one counter: continuous, increasing, across all processes
  striped      K counters, each with a block of the values; for databases with
               hot spots
  interleaved  K counters, of which each gives every K-th value
  cached       ranges held in memory: fastest, increasing for each thread
  random       drawn at random and claimed in the store: never twice
  permuted     a keyed permutation of a counter: looks random, at a counter's
               cost
  gapless      no number is ever missing: each is taken in the transaction that
               inserts its document; MongoDB only

With --stride K --offset k the values are those from --start to --max that leave
the remainder k when divided by K, as with MySQL's auto_increment_increment and
auto_increment_offset. K servers that share nothing, with the same --start,
--max and K and the offsets 1 to K, give all values, and none comes twice.

With --over each stripe is in a store of its own: stripe k in the k-th --over.
Ids go on while one store is down; once it is back, it serves alone until it has
caught up. Later commands take any of the stores as --store and find the others
by the URLs in the definition. These have no passwords: give --over URL again
for a store with one. The same command completes an interrupted create.

A pool holds worker ids of Snowflake generators. Each process that mints from it
leases one, so that no two ever mint with the same one at the same id-time. Its
layout and its number of worker ids never change; --prefix, --encoding and
--check say how its ids are printed.

With --digits N the values are all that fit N digits: from 0, or from 1 if they
come in order (counter, cached). More than 18 digits need a --max. Digits in the
prefix are counted, too: INV-2026- with --digits 10 has six behind it. In
another encoding all have the width of the last value, or --width N. The store
keeps these options for every process. On a terminal the first and the last id
are printed.

With --adopt the next value stays where other programs keep it, and they and
idmint take from it side by side. The record must be there and keeps its value;
only --make makes a document of MongoDB that is missing. The classic recipes:
counter is COUNT in uniqueIdentifierCounter, counters is 1000 documents, each
with COUNT and MAX_VALUE, for 12 digits, and ids:NAME is index in ids. Another
document is COLLECTION/ID, where ID is a text or an integer; oid=, int=, long=,
double=, uuid= or text= before it says the type of the _id; or --where names it.
In PostgreSQL and MariaDB the record is a row, in which a column holds the next
value or the last one (row:...); in PostgreSQL also a sequence, such as that of
a serial or identity column (sequence:orders_id_seq); in MariaDB also Flickr's
Tickets64 (tickets), with --stride and --offset, or --over, for a pair of
servers. In Redis it is a key of INCR (key:orders).

Examples:
  $ idmint create orders --start 1000
  $ idmint create small --start 1 --max 10
  $ idmint create tickets --stride 2 --offset 1
  $ idmint create accounts --digits 12 --stripes 1000
  $ idmint create events --strategy cached --step 1000
  $ idmint create parcels --over sqlite:a.db --over sqlite:b.db
  $ idmint create cards --digits 16 --strategy permuted --check luhn
  $ idmint create codes --digits 12 --strategy random
  $ idmint create links --max 999999999 --encoding base62
  $ idmint create invoices --prefix INV- --digits 6
  $ idmint create web --kind pool --layout sequence-generator

In the database of the application:
  $ IDMINT_STORE=mongodb://db1,db2/shop idmint create users --adopt counter
)",
    {},
    kMeantByCreate,
    "--start"};

}  // namespace idmint::cli
