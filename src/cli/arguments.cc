#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/url.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/source_options.h"
#include "idmint/mint.h"
#include "terminal/credentials.h"
#include "terminal/help.h"
#include "terminal/output.h"
#include "terminal/quantity.h"

namespace idmint::cli {

namespace {

// What was given, before numbers are read.
struct Given {
  std::string store;
  FormatTexts format;
  SequenceTexts sequence;
  std::optional<std::string> digits;  // of check
  std::optional<std::string> width;   // of check and convert
  std::string version = "5";
  std::string count = "1";
  std::optional<std::string> timeout{};
  std::string attempts = "10";
  std::string threads = "1";
  std::string batch = "1";
  std::string seconds = "1";
};

struct Command {
  std::string_view name;
  std::string_view about;
  void (*add_options)(CLI::App& app, Arguments& arguments, Given& given);
  Result<void> (*run)(Context& context);
  std::string_view footer;
};

void add_json(CLI::App& app, Arguments& arguments) {
  app.add_flag("--json", arguments.json, "Print JSON, on standard error too");
}

void add_store(CLI::App& app, Given& given) {
  app.add_option("--store", given.store,
                 "sqlite:PATH, mongodb://HOST/DATABASE or memory: (default: ids.db in "
                 "~/.local/share/idmint)")
      ->type_name("URL");
}

// `usual`: what it is where it is not given.
void add_timeout(CLI::App& app, Given& given, const std::string& usual) {
  app.add_option("--timeout", given.timeout, "The longest wait for the store (" + usual + ")")
      ->type_name("DURATION");
}

void add_form(CLI::App& app, FormTexts& form) {
  app.add_option("--prefix", form.prefix, "Print this before each id; for typeid its type")
      ->type_name("TEXT");
  app.add_option("--encoding", form.encoding,
                 "decimal, hex, base32, base32-lower, base32hex, base36, base58 or base62")
      ->type_name("E");
  app.add_option("--check", form.check,
                 "After each id: luhn; of decimal digits damm, verhoeff, mod11-10 or mod97-10; of "
                 "base32 mod37")
      ->type_name("C");
  app.add_option("--digits", form.digits,
                 "Exactly N decimal digits, those of the prefix and of the check included")
      ->type_name("N");
  app.add_flag("--no-leading-zeros", form.no_leading_zeros, "The first digit is not 0");
}

void add_snowflake(CLI::App& app, FormatTexts& format) {
  app.add_option("--worker", format.worker,
                 "snowflake: a worker id that no other generator uses (0 to 1023 in the usual "
                 "layout); or whence it comes: env:NAME, a variable; ordinal, the N of a host name "
                 "web-N; address, or address:INTERFACE, the low bits of the IP address; mac, a "
                 "hash of the hardware addresses; random")
      ->type_name("W");
  app.add_option("--layout", format.layout,
                 "snowflake: a preset (idmint formats --layouts) or fields such as 41t10w12s")
      ->type_name("L");
  app.add_option("--epoch", format.epoch, "snowflake: when its time begins")->type_name("TIME");
  app.add_option("--unit", format.unit, "snowflake: what its time counts (1ms)")->type_name("T");
  app.add_option("--run-ahead", format.run_ahead,
                 "snowflake: go on ahead of the clock by so much, instead of waiting; 5s at most")
      ->type_name("T");
}

void add_next(CLI::App& app, Arguments& arguments, Given& given) {
  std::string formats;
  for (const Declaration& format : Mint::formats()) {
    formats += (formats.empty() ? "" : ", ") + format.name;
  }
  app.add_option("SOURCE", arguments.name, "A format (" + formats + "), a sequence or a pool")
      ->required()
      ->type_name("");
  app.add_option("-n,--count", given.count, "How many ids (1)")->type_name("N");
  add_form(app, given.format.form);
  add_snowflake(app, given.format);
  app.add_option("--window", given.format.window,
                 "a pool: how far ahead its lease is kept, and so how long ids are minted while "
                 "the store does not answer (15s); two units of its layout at least, 1h at most")
      ->type_name("T");
  app.add_flag("--wait", arguments.wait,
               "a pool: where every worker id is owned, wait until the first one is no longer held "
               "(15s after its owner was killed), instead of --timeout");
  app.add_option("--node", given.format.node,
                 "uuid1, uuid2: mac (uuid1: random), random or 12 hexadecimal digits")
      ->type_name("NODE");
  app.add_option("--domain", given.format.domain, "uuid2: person, group or org")->type_name("D");
  app.add_option("--local-id", given.format.local_id, "uuid2: of the domain, a user id, say")
      ->type_name("N");
  add_timeout(app, given, "5s");
  add_store(app, given);
}

void add_create(CLI::App& app, Arguments& arguments, Given& given) {
  SequenceTexts& sequence = given.sequence;
  app.add_option("NAME", arguments.name,
                 "1 to 120 of A-Z a-z 0-9 . _ - beginning with a letter or digit")
      ->required()
      ->type_name("");
  app.add_option("--kind", sequence.kind, "sequence (the usual one), or pool: of worker ids")
      ->type_name("K");
  app.add_option("--layout", sequence.layout,
                 "pool: of its Snowflake ids, a preset or fields such as \"41t10w12s epoch "
                 "2025-01-01\" (sequence-generator)")
      ->type_name("L");
  app.add_option(
         "--workers", sequence.workers,
         "pool: how many worker ids, up to 65536 of those that its layout has (all, or 1024 "
         "where there are more)")
      ->type_name("N");
  app.add_option(
         "--strategy", sequence.strategy,
         "counter (the usual one), striped, interleaved, cached, random, permuted or gapless")
      ->type_name("S");
  app.add_option("--start", sequence.start, "The first value (1; see below for --digits)")
      ->type_name("N");
  app.add_option("--max", sequence.max,
                 "The last value (" + std::to_string(kLargestValue) +
                     ", or what --digits or --width allows)")
      ->type_name("N");
  app.add_option("--stripes", sequence.stripes, "striped, interleaved: how many counters")
      ->type_name("K");
  app.add_option("--step", sequence.step, "cached: values in a range (follows the rate)")
      ->type_name("N");
  app.add_option("--largest-count", sequence.largest_count,
                 "The most values that one call may take (no limit)")
      ->type_name("N");
  add_form(app, sequence.form);
  app.add_option("--width", sequence.form.width,
                 "Of --encoding: so many characters, prefix and check apart (what the last value "
                 "takes)")
      ->type_name("N");
  app.add_option("--adopt", sequence.adopt,
                 "mongodb: take from documents that other programs count in: counter, counters, "
                 "ids:NAME, or COLLECTION/ID:next=FIELD (last=FIELD: it holds the value before)")
      ->type_name("DOC");
  app.add_flag("--validator", sequence.validator,
               "Of --adopt: MongoDB refuses what would pass the last value, whoever writes it");
  add_store(app, given);
}

void add_yes(CLI::App& app, Arguments& arguments) {
  app.add_flag("--yes", arguments.yes, "Do not ask");
}

void add_raise(CLI::App& app, Arguments& arguments, Given& given) {
  RaiseArguments& raise = arguments.raise;
  app.add_option("NAME", arguments.name, "A sequence")->type_name("");
  app.add_flag("--all", raise.all,
               "Instead: everything in the store, which then gives values again");
  app.add_option("--past", raise.past, "The largest value that is not to come any more")
      ->type_name("N");
  app.add_option("--past-each", raise.past_each,
                 "striped, interleaved: of each counter the largest, V,V,...; without one it stays")
      ->type_name("V,V");
  app.add_option("--past-from", raise.past_from,
                 "Past what another store has come to, such as the file that a backup replaced")
      ->type_name("URL");
  app.add_flag("--moved", raise.moved,
               "--all: nothing was handed out since, the store was only moved or copied");
  CLI::Option* const collection =
      app.add_option("--from-collection", raise.from_collection,
                     "Past the largest that is in this field, DATABASE.COLLECTION:FIELD")
          ->type_name("C");
  app.add_option("--field", raise.from_field,
                 "Its field, instead of :FIELD; for names that have a colon")
      ->needs(collection)
      ->type_name("F");
  app.add_option("--from", raise.from, "The collection's servers, mongodb://... (the store's)")
      ->needs(collection)
      ->type_name("URL");
  app.add_flag("--dry-run", arguments.dry_run, "Say what would be passed over, and change nothing");
  add_yes(app, arguments);
  add_store(app, given);
}

void add_alter(CLI::App& app, Arguments& arguments, Given& given) {
  app.add_option("NAME", arguments.name, "A sequence")->required()->type_name("");
  app.add_option("--max", given.sequence.max, "The new last value, larger than the present one")
      ->required()
      ->type_name("N");
  add_store(app, given);
}

void add_collection(CLI::App& app, Arguments& arguments, Given& given) {
  InsertArguments& insert = arguments.insert;
  app.add_option("COLLECTION", insert.collection,
                 "DATABASE.COLLECTION, or COLLECTION in the database of the store")
      ->required()
      ->type_name("");
  app.add_option("--field", insert.field, "Where the id goes (_id)")->type_name("F");
  add_store(app, given);
}

void add_insert(CLI::App& app, Arguments& arguments, Given& given) {
  InsertArguments& insert = arguments.insert;
  add_collection(app, arguments, given);
  app.add_option("--from", arguments.name, "A format, a sequence or a pool (with --digits: digits)")
      ->type_name("SOURCE");
  app.add_option("--stored-as", insert.stored_as,
                 "usual (UUID and ObjectId as such, plain integers as int64, all else as text), "
                 "text or number")
      ->type_name("T");
  app.add_option("--attempts", given.attempts, "Ids tried for each document (10)")->type_name("N");
  app.add_flag("--create-index", insert.create_index,
               "Make the index if it is missing: a unique one, or with --proxy one to look up by");
  app.add_option("--proxy", insert.proxy,
                 "Claim the ids first in this collection of the same database, instead of a unique "
                 "index")
      ->type_name("NAME");
  app.add_flag("--heal", insert.heal, "Raise a sequence that is behind the data past it");
  add_timeout(app, given, "30s; for ids 5s");
  add_form(app, given.format.form);
  add_snowflake(app, given.format);
}

void add_sweep(CLI::App& app, Arguments& arguments, Given& given) {
  InsertArguments& insert = arguments.insert;
  add_collection(app, arguments, given);
  // By another field no document would be found, and each claim would be abandoned.
  app.get_option("--field")->required()->description("Where the ids are, as of insert");
  app.add_option("--proxy", insert.proxy, "The collection of the claims (COLLECTION.ids)")
      ->type_name("NAME");
  app.add_option("--older-than", insert.older_than,
                 "Only claims this old: longer than any insert takes (1h)")
      ->type_name("T");
}

void add_formats(CLI::App& app, Arguments& arguments, Given&) {
  app.add_flag("--layouts", arguments.layouts, "List the layouts of snowflake instead");
}

void add_list(CLI::App& app, Arguments& arguments, Given& given) {
  app.add_flag("--toml", arguments.toml, "Print the definitions as a file for apply");
  add_store(app, given);
}

void add_peek(CLI::App& app, Arguments& arguments, Given& given) {
  app.add_option("NAME", arguments.name, "A sequence or a pool")->required()->type_name("");
  add_store(app, given);
}

void add_retire(CLI::App& app, Arguments& arguments, Given& given) {
  add_peek(app, arguments, given);
  add_yes(app, arguments);
}

void add_workers(CLI::App& app, Arguments& arguments, Given& given) {
  WorkersArguments& workers = arguments.workers;
  app.add_option("ACTION", workers.action, "list, release or raise")->required()->type_name("");
  app.add_option("POOL", arguments.name, "A pool (create --kind pool)")->required()->type_name("");
  app.add_option("WORKER", workers.worker, "release: the worker id")->type_name("");
  app.add_option("--past", workers.past, "raise: no id of this time or before comes any more")
      ->type_name("TIME");
  app.add_flag("--all", workers.all, "list: those too that nobody has used");
  add_store(app, given);
}

void add_texts(CLI::App& app, Arguments& arguments) {
  app.add_option("ID", arguments.texts, "Ids; - reads them from standard input, one a line")
      ->required()
      ->type_name("");
}

void add_plan(CLI::App& app, Arguments& arguments, Given&) {
  PlanArguments& plan = arguments.plan;
  app.add_option("--digits", plan.digits, "Exactly N printed decimal digits, 1 to 36")
      ->type_name("N");
  app.add_option("--bits", plan.bits, "At most N bits, 1 to 160 (instead of --digits)")
      ->type_name("N");
  app.add_option("--count", plan.count, "How many ids in all (1e9)")->type_name("N");
  app.add_option("--hosts", plan.hosts, "How many hosts mint them (1)")->type_name("N");
  app.add_option("--rate", plan.rate, "Ids in a second, on all hosts together (1000/s)")
      ->type_name("N/s");
  app.add_option("--order", plan.order, "none, per-host; on all hosts: strict, gapless (none)")
      ->type_name("O");
  app.add_option("--database", plan.database,
                 "Their key there: none, mongodb, postgresql, mysql, sqlite, redis (none)")
      ->type_name("D");
  app.add_option("--round-trip", plan.round_trip,
                 "Of the store, durable (1ms; 25ms of one that several hosts share)")
      ->type_name("T");
  app.add_flag("--shared-store", plan.shared_store,
               "There is a store that all hosts reach (as --database mongodb is)");
  app.add_flag("--unguessable", plan.unguessable, "Who knows some ids cannot tell others");
}

void add_plan_change(CLI::App& app, Arguments& arguments, Given&) {
  ChangeArguments& change = arguments.change;
  app.add_option("--from", change.from, "The old layout")->required()->type_name("L");
  app.add_option("--to", change.to, "The new layout")->required()->type_name("L");
  app.add_option("--at", change.at, "When the old ones stop and the new ones start (now)")
      ->type_name("TIME");
  app.add_option("--from-workers", change.from_workers,
                 "Worker ids of the old ones, as 0-511 (all)")
      ->type_name("W");
  app.add_option("--to-workers", change.to_workers, "Of the new ones (all)")->type_name("W");
  app.add_option("--since", change.since, "No old id has an earlier time (that of their epoch)")
      ->type_name("TIME");
  app.add_option("--drift", change.drift,
                 "How far old ids may be ahead of the clock of their host (20s)")
      ->type_name("T");
  app.add_option("--clock-error", change.clock_error,
                 "How far the clock of any host may be from UTC (1s)")
      ->type_name("T");
}

void add_bench(CLI::App& app, Arguments& arguments, Given& given) {
  app.add_option("SOURCE", arguments.texts, "Formats, sequences and pools (the formats)")
      ->type_name("");
  app.add_option("--threads", given.threads, "That share each source (1)")->type_name("N");
  app.add_option("--seconds", given.seconds, "For each source (1)")->type_name("S");
  app.add_option("--batch", given.batch, "Ids in one call (1)")->type_name("N");
  app.add_option("--svg", arguments.bench.svg, "Also draw the bars into this file")
      ->type_name("FILE");
  add_snowflake(app, given.format);
  add_store(app, given);
}

void add_layout(CLI::App& app, Arguments& arguments, const char* use) {
  app.add_option("--layout", arguments.ids.layout, use)->type_name("L");
}

void add_inspect(CLI::App& app, Arguments& arguments, Given&) {
  add_texts(app, arguments);
  add_layout(app, arguments, "A Snowflake layout to read numbers in, besides those with a name");
}

void add_bounds(CLI::App& app, Arguments& arguments, Given&) {
  app.add_option("FORMAT", arguments.name,
                 "uuid6, uuid7, ulid, object-id, object-id-classic, ksuid, xid, snowflake")
      ->required()
      ->type_name("");
  app.add_option("--at", arguments.ids.at, "The instant, or the beginning of the span")
      ->required()
      ->type_name("TIME");
  app.add_option("--until", arguments.ids.until, "The end of the span, which is not part of it")
      ->type_name("TIME");
  add_layout(app, arguments, "Of snowflake (sequence-generator)");
}

void add_convert(CLI::App& app, Arguments& arguments, Given& given) {
  IdArguments& ids = arguments.ids;
  add_texts(app, arguments);
  app.add_option("--to", ids.to, "An encoding, a format or a spelling: see below")
      ->required()
      ->type_name("WHAT");
  app.add_option("--from", ids.from, "What the ids are: FORMAT, ENCODING or FORMAT:ENCODING")
      ->type_name("WHAT");
  app.add_option("--prefix", ids.prefix, "Of a TypeID, or to print before the id")->type_name("P");
  app.add_option("--check", ids.check, "Check symbols to print after the id")->type_name("C");
  app.add_option("--width", given.width,
                 "Of an integer in an encoding: N characters (as many as 64 bits take)")
      ->type_name("N");
}

void add_check(CLI::App& app, Arguments& arguments, Given& given) {
  IdArguments& ids = arguments.ids;
  add_texts(app, arguments);
  app.add_option("--as", ids.as, "What they must be: ids of a format, or of a sequence or pool")
      ->type_name("WHAT");
  app.add_option("--check", ids.check,
                 "Check symbols they must have: luhn, damm, verhoeff, mod11-10, mod97-10, mod37")
      ->type_name("C");
  app.add_option("--prefix", ids.prefix, "What they must begin with")->type_name("P");
  app.add_option("--encoding", ids.encoding, "Their encoding, such as base58")->type_name("E");
  app.add_option("--digits", given.digits, "How many decimal digits they must have, 1 to 36")
      ->type_name("N");
  app.add_option("--width", given.width,
                 "How many characters an integer has in the encoding (as many as 64 bits take)")
      ->type_name("N");
  add_store(app, given);
}

void add_name(CLI::App& app, Arguments& arguments, Given& given) {
  app.add_option("NAMESPACE", arguments.name, "dns, url, oid, x500 or a UUID")
      ->required()
      ->type_name("");
  app.add_option("TEXT", arguments.texts, "Names; - reads them from standard input, one a line")
      ->required()
      ->type_name("");
  app.add_option("--version", given.version, "Of the UUID: 5 (SHA-1) or 3 (MD5)")->type_name("V");
}

void add_doctor(CLI::App& app, Arguments& arguments, Given& given) {
  DoctorArguments& doctor = arguments.doctor;
  app.add_option("--warn-below", doctor.warn_below, "Least part of a sequence that is left (10%)")
      ->type_name("P");
  app.add_option("--horizon", doctor.horizon, "What ends sooner is a warning (90d)")
      ->type_name("T");
  app.add_flag("--all", doctor.all, "List every layout, used here or not");
  app.add_option("--rate", doctor.rates, "Of a sequence: NAME=50k/s; again for another")
      ->type_name("R");
  app.add_option("--used-in", doctor.used_in,
                 "Where values are: NAME=DATABASE.COLLECTION:FIELD; again for another")
      ->type_name("F");
  add_store(app, given);
}

void add_apply(CLI::App& app, Arguments& arguments, Given& given) {
  app.add_option("FILE", arguments.name, "A TOML file of sequences and pools; - is standard input")
      ->required()
      ->type_name("");
  app.add_flag("--dry-run", arguments.dry_run, "Only say what would be done");
  add_store(app, given);
}

void add_nothing(CLI::App&, Arguments&, Given&) {}

void add_completion(CLI::App& app, Arguments& arguments, Given&) {
  app.add_option("SHELL", arguments.name, "bash, zsh or fish")->required()->type_name("");
}

constexpr std::array kCommands = {
    Command{"next", "Print new ids, one a line", add_next, run_next,
            R"(Ids of a sequence are taken from its store before they are printed, up to
1000000 in one step: all of them, or none and exit status 6. When fewer are left
than you ask for, nothing is taken unless another process takes at the same
time. What was taken and could not be printed is lost; it never comes again.
With --json each id is one line {"id":...,"source":...}. Ids are strings, but
for the integers of a sequence up to 2^53, which are numbers.

Opening the store and taking the first ids end within --timeout together, and
each further step of 1000000 within as long again. Exit status 7 says that
nothing was taken; 11, that ids may have been taken, which are lost. A format
that keeps a state file waits as long for whoever holds it.

Of a pool, ids are Snowflake ids of a worker id that this process leases. If all
are owned it waits as long for one, and then ends with exit status 8 and says
until when the first one is held. With --wait it waits that long.

Examples:
  $ idmint next uuid7
  $ idmint next uuid7 -n 3
  $ idmint create web --kind pool --layout sequence-generator
  $ idmint next web
  $ idmint next snowflake --worker 5
  $ idmint next snowflake --layout twitter --worker mac
  $ POD=7 idmint next snowflake --worker env:POD
  $ idmint next typeid --prefix user
  $ idmint next digits --digits 16 --prefix 4 --check luhn
  $ idmint next uuid7 --encoding base58
  $ idmint create orders --start 1000
  $ idmint next orders -n 5 --json
)"},
    Command{"create", "Make a sequence, or a pool of worker ids", add_create, run_create,
            R"(Again with the same values is fine and changes nothing. There is no way to
remove a sequence or to set it back: its values would come twice.

The strategies:
  counter      one counter: continuous, increasing, across all processes
  striped      K counters, each with a block of the values; for databases with
               hot spots
  interleaved  K counters; counter k gives k, k+K, k+2K, ...
  cached       ranges held in memory: fastest, increasing for each thread
  random       drawn at random and claimed in the store: never twice
  permuted     a counter in an order that a key gives: looks random, costs as a
               counter
  gapless      no number missing, ever: each comes in the transaction that
               inserts the document which bears it; on MongoDB only

A pool holds worker ids of Snowflake generators. Each process that mints from it
leases one, so that no two ever mint with the same one at the same id-time. Its
layout and how many worker ids it has never change; --prefix, --encoding and
--check say how its ids are printed.

With --digits N the values are all that fit N digits, from 0 on; where they come
in order (counter, cached) from 1 on. More than 18 digits want a --max. In
another encoding all have the width of the last value, or --width N. What is
given here is kept in the store, for every process.

With --adopt the next value stays where programs with MongoDB's classic recipes
keep it, and they and idmint take from it side by side. What is missing is made,
what is there keeps its value. counter: uniqueIdentifierCounter, COUNT;
counters: 1000 of them with a MAX_VALUE each, 12 digits; ids:NAME: ids, index.

Examples:
  $ idmint create orders --start 1000
  $ idmint create small --start 1 --max 10
  $ idmint create accounts --digits 12 --stripes 1000
  $ idmint create tickets --strategy cached --step 1000
  $ idmint create cards --digits 16 --strategy permuted --check luhn
  $ idmint create codes --digits 12 --strategy random
  $ idmint create links --max 999999999 --encoding base62
  $ idmint create invoices --prefix INV- --digits 6
  $ idmint create web --kind pool --layout sequence-generator

In the database of the application:
  $ IDMINT_STORE=mongodb://db1,db2/shop idmint create users --adopt counter
)"},
    Command{"raise", "Skip values of a sequence", add_raise, run_raise,
            R"(Afterwards no value up to and including N comes from the store: for numbers that
are in use elsewhere. What processes hold in memory (strategy cached) still
comes. A permuted sequence is raised by index: past the first N of its values.
It asks before it passes over more than a tenth of the values that are left.

--past-each raises each block of a striped sequence past its own value, where
--past N would use up every block below N.

--from-collection app.orders:number reads what a collection of MongoDB holds:
integers, and texts as the sequence prints them where all have one width. Each
block of a striped sequence is raised past the largest value within it. What is
written meanwhile may be missed: raise when the programs that write there have
stopped, or mint from idmint.

--all is for a store that holds less than it handed out, and so gives no value:
a copy, a restored backup, a file whose log is gone. With nobody minting,
  --past-from URL  raises all past what the newer store has come to
  --past N         raises counters past the value N, a permuted sequence past
                   its first N values and each block of a striped one past its
                   own first N; what this cannot be right for is named
  --moved          raises nothing: nothing was handed out since
Pools go past this clock and every bound that is known. Claims of a random
sequence cannot be raised, nor can a gapless one: what can still repeat is said.
Again is fine, and finishes what was cut off.

Examples:
  $ idmint create orders --start 1000
  $ idmint raise orders --past 81234
  $ idmint create accounts --digits 12 --stripes 1000
  $ idmint raise accounts --past-each 17,1000000042

ids.db was replaced by a backup, and the newer file is kept as old.db:
  $ IDMINT_STORE=sqlite:ids.db idmint raise --all --past-from sqlite:old.db
)"},
    Command{"alter", "Move the last value of a sequence up", add_alter, run_alter,
            R"(Nothing else of a sequence can be changed, and the last value only be made
larger: as far as the digits or the width that its values are printed in go.

Examples:
  $ idmint create small --max 10
  $ idmint alter small --max 20
)"},
    Command{"retire", "End a sequence or a pool for ever", add_retire, run_retire,
            R"(No process gets another value, or of a pool another lease. The name stays taken,
so that the sequence is never made again with the values it gave before. It asks
first, as there is no way back.

Examples:
  $ idmint create old-orders
  $ idmint retire old-orders --yes
)"},
    Command{"list", "List the sequences and pools of a store", add_list, run_list,
            R"(NEXT, FIRST and LAST are values before they are printed with prefix, check or
encoding. What --toml prints makes, applied to another store, sequences that
mint the same values again.

Examples:
  $ idmint list
  $ idmint list --json
)"},
    Command{"peek", "Show a sequence or a pool without taking from it", add_peek, run_peek,
            R"(The value shown as next may be taken by somebody else before you ask for it. Of
a permuted sequence the index says how many values came before it. Of a pool
free are the worker ids that nobody owns, none before a time where ids under all
of them are ahead of the clock.

Examples:
  $ idmint create orders --start 1000
  $ idmint peek orders
)"},
    Command{"workers", "Show, release and raise the worker ids of a pool", add_workers, run_workers,
            R"(list     who holds which worker id, until when ids may have been minted under
         it, and how long it is held without being renewed
release  takes a worker id from its holder, who may be gone. It may still mint
         below its bound, which is safe: whoever gets the worker id next begins
         there.
raise    takes all worker ids from their holders, and lets none mint an id of
         TIME or before. For a store that was restored from a backup: with
         nobody minting, a minute past the time when the last one stopped (ids
         may be ahead of the clock: add a --window that is longer than 20s).
         There is no way back, so TIME is at most a day ahead of this clock.

Examples:
  $ idmint create web --kind pool
  $ idmint workers list web
  $ idmint workers release web 3
  $ idmint workers raise web --past 2026-01-01T12:00:00Z
)"},
    Command{"inspect", "Say what ids mean: every reading, likeliest first", add_inspect,
            run_inspect,
            R"(A layout is the name of one (idmint formats), or its fields from the top:
"41t10w12s epoch 2015-01-01T00:00:00Z unit 1ms".

Examples:
  $ idmint inspect 454947766275222906
  $ idmint inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f --json
  $ idmint inspect 180363646902239241 --layout "29t21w13s epoch 2016-09-20 unit 1s"
  $ idmint next ulid -n 2 | idmint inspect -
)"},
    Command{"plan", "Say which source to use, and what it costs", add_plan, run_plan,
            R"(One source is recommended; the others follow, best first, then those that do not
fit, each with its reason. Nothing is opened and nothing is made.
Numbers: 1000, 50k, 2M, 1e9, 10^9. Rates: 50k/s, 600/min, 2M/h, 1e6/d.

Examples:
  $ idmint plan
  $ idmint plan --digits 12 --count 1e9 --hosts 40 --rate 50k/s --order none
  $ idmint plan --digits 12 --hosts 40 --rate 50k/s --shared-store
  $ idmint plan --bits 64 --hosts 40 --order per-host --database postgresql
  $ idmint plan --digits 16 --unguessable --json
)"},
    Command{"plan-change", "Say when one Snowflake layout can follow another", add_plan_change,
            run_plan_change,
            R"(Proves that no integer is an id of both when the old generators stop by the time
of the switch and the new ones start then or later, whatever each mints. Or it
names an id of both with its two times, the earliest time that is safe, and the
pause that would do; the exit status is then 5. Nothing is opened.
All times are UTC; clocks may be wrong by --clock-error (1s), and old ids may be
ahead of the clock of their host by --drift (20s).

Examples:
  $ idmint plan-change --from sequence-generator --to instagram
  $ idmint plan-change --from twitter --to "41t10w12s epoch 2010-01-01" --json
  $ idmint plan-change --from twitter --since 2020-01-01 --to js-safe
  $ idmint plan-change --from twitter --from-workers 0-511 --to discord --to-workers 512-1023
)"},
    Command{"bench", "Mint for a while, and tell how fast", add_bench, run_bench,
            R"(Without a SOURCE, all formats that need nothing to be given. What a sequence
mints is used up, so sequences run only when they are named; it says how many
values they have lost.
NS/ID is the time that one thread takes for an id: the median of blocks of 1024
calls, or of the calls where they ask a store. The other times are those of one
call: of a store, its round trips. The time of reading the clock is subtracted.
Ctrl-C ends it with the results so far.

Examples:
  $ idmint bench uuid7 ulid --seconds 0.1
  $ idmint bench uuid7 --threads 2 --batch 1000 --seconds 0.1 --svg uuid7.svg
  $ idmint bench uuid4 --seconds 0.1 --json
)"},
    Command{"bounds", "Print the smallest and the largest id of a time", add_bounds, run_bounds,
            R"(Two lines, both ends included, for range queries on a column of ids, without an
index on a time. --until TIME makes it a span, which ends before that time.
Times: 2026-01-01, 2026-01-01T08:30:00.5+01:00, @1767225600 (seconds),
@1767225600000ms.

Examples:
  $ idmint bounds uuid7 --at 2026-01-01T00:00:00Z
  $ idmint bounds object-id --at 2026-01-01 --until 2026-02-01
  $ idmint bounds snowflake --layout discord --at 2026-01-01 --json

All orders of January 2026, by their key alone:
  $ set -- $(idmint bounds uuid7 --at 2026-01-01 --until 2026-02-01)
  $ psql -c "SELECT count(*) FROM orders WHERE id BETWEEN '$1' AND '$2'"
)"},
    Command{"convert", "Print ids in another encoding, spelling or format", add_convert,
            run_convert,
            R"(The bits stay the same. --to takes
  an encoding   canonical, decimal, hex, base32, base32-lower, base32hex,
                base36, base58, base62: of fixed width, and in the order of the
                ids; of an integer --width N says which (as 64 bits take)
  a format      uuid, ulid, typeid (128 bits); object-id, xid (96 bits);
                integer (64 bits). A TypeID keeps its prefix, or gets --prefix
  a spelling    of a UUID: upper, braces, urn, bare (no dashes), microsoft (the
                first three fields in the other byte order); bson: MongoDB's
                Extended JSON, of UUIDs in subtype 4
Without --from the likeliest reading is taken if it is clear, and else the
readings are named.

Examples:
  $ idmint convert 01890a5d-ac96-774b-bcce-b302099a8057 --to base58
  $ idmint convert 01890a5d-ac96-774b-bcce-b302099a8057 --to typeid --prefix user
  $ idmint convert 02tcRIyrxLXTR81B3dqdOx --from uuid:base62 --to uuid
  $ idmint convert 01ARZ3NDEKTSV4RRFFQ69G5FAV --to bson
  $ idmint next uuid7 -n 3 | idmint convert - --to base62
)"},
    Command{"check", "Say whether ids are valid: check symbols, form, spelling", add_check,
            run_check,
            R"(Each id gets a line: that it is valid, and of which format, or what is wrong.
When one is not valid, the exit status is 3. Without options an id is valid if
it has a reading, and the likeliest one is spelled as its format prints it. With
--check, --prefix or --digits it must be decimal digits, unless --as says
otherwise, and may be parted by blanks or dashes, as on a card. As ids of a
sequence they must have its form, and values of its range; whether they were
issued is not known; likewise ids of a pool, its layout and its worker ids.

Examples:
  $ idmint check 79927398713 --check luhn
  $ idmint check 017f22e2-79b0-7cc3-98c4-dc0c0c07398f --as uuid7
  $ idmint check user_01h455vb4pex5vsknk084sn02q --as typeid --prefix user
  $ idmint next uuid4 -n 3 | idmint check -
  $ idmint create cards --digits 16 --strategy permuted --check luhn
  $ idmint next cards -n 3 | idmint check - --as cards
)"},
    Command{"name", "Print the UUIDs of names", add_name, run_name,
            R"(The same namespace and name give the same UUID everywhere: version 5, or 3 where
that is asked for. Nothing is minted, and the name is not hidden: who can guess
it can check. A line of standard input is a name with every blank in it.

Examples:
  $ idmint name dns www.example.com
  $ idmint name url https://example.com/ --version 3
  $ printf 'anna\nbert\n' | idmint name 6ba7b810-9dad-11d1-80b4-00c04fd430c8 -
)"},
    Command{"doctor", "Say what runs out when, and what is wrong", add_doctor, run_doctor,
            R"(One line for the store, its disk, every sequence and pool, every state file,
the clock, and each layout that a state file is of or whose time ends within
--horizon; with --all every layout. Each begins with ok, warn or fail.
Nothing is changed. --json lists everything.
What next and insert on this host gave last, and the largest value in the
fields that insert filled and --used-in names, are compared with the store:
where it does not know of them it was set back, as by a restore, and gives
values again.
Exit status: 0 all ok, 20 a warning, 21 a failure; others as of every command.

Examples:
  $ idmint doctor
  $ idmint create orders --max 1000000000
  $ idmint doctor --rate orders=100/s --horizon 30d
  $ idmint doctor --json --warn-below 5%
)"},
    Command{"apply", "Make the sequences and pools of a TOML file", add_apply, run_apply,
            R"(Each [sequence.NAME] of the file is created, was there, is extended (its max
moved up) or is refused, because it is defined otherwise. All are looked at
first: when one is refused, none is changed, and the exit status is 5. Again is
fine.
Keys: strategy, start, max, digits, width, no_leading_zeros, stripes, step,
prefix, encoding, check, key, largest_count, adopt; with kind = "pool" layout,
workers, prefix, encoding, check, largest_count.

Examples:
  $ printf '[sequence.invoices]\nstart = 1000\n' >sources.toml
  $ idmint apply sources.toml --dry-run
  $ idmint apply sources.toml
  $ idmint list --toml
)"},
    Command{"insert", "Insert documents into MongoDB, each with a new id", add_insert, run_insert,
            R"(Reads documents from standard input, one a line, in Extended JSON, and prints
their ids in the same order. The collection's own unique index on exactly that
field keeps an id from coming twice, whoever else writes to it: where it refuses
one, that document alone gets another.

10,000 lines go at a time, and their ids are printed when they are in. When a
line is no document, nothing of its 10,000 is inserted, and the message has the
lines that are in. When a document is refused, the others of its 10,000 are
inserted, and it ends; - stands for its id, and ?ID where it is not known
whether the document is in. Ctrl-C ends it after the lines that were sent; it
says how many are in.

A collection that is sharded by another field can have no such index: --proxy.

Examples:
  $ export IDMINT_STORE='mongodb://db1,db2,db3/app?replicaSet=prod'
  $ idmint insert accounts --digits 12 --field account <docs.ndjson
  $ idmint insert app.orders --from orders --create-index --field n <docs.ndjson
  $ idmint insert events --from uuid7 --json <docs.ndjson
  $ idmint insert users --from uuid4 --field id --proxy users.ids <docs.ndjson
)"},
    Command{"sweep", "Settle claims that were left in a proxy collection", add_sweep, run_sweep,
            R"(For collections that documents are inserted into with insert --proxy. A claim
whose document is there is marked as used, and one whose document is not as
abandoned. None is ever freed, so an insert that is only slow does no harm.

Examples:
  $ idmint sweep app.users --field id --proxy users.ids
  $ idmint sweep app.users --field id --proxy users.ids --older-than 10min
)"},
    Command{"formats", "List the formats and what each guarantees", add_formats, run_formats,
            R"(Examples:
  $ idmint formats
  $ idmint formats --layouts
)"},
    Command{"completion", "Print the completion script of a shell", add_completion, run_completion,
            R"(Examples:
  $ idmint completion bash
)"},
    Command{"version", "Print the version", add_nothing, run_version, R"(Examples:
  $ idmint version
)"},
};

std::string main_footer() {
  std::string text = R"(Environment:
  IDMINT_STORE   as --store
  IDMINT_WORKER  as --worker
  NO_COLOR       when it is not empty: no colour on a terminal

Exit status:
   0  done
)";
  int last = 0;
  for (const ExitStatus& row : kExitStatuses) {
    if (std::exchange(last, row.status) == row.status) continue;
    text += exit_status_row(row.status, row.meaning);
  }
  return text + R"(  Stopped by a signal, it ends by that signal: 130 (Ctrl-C), 141 (the reader of
  a pipe went away) and 143 in a shell.

Examples:
  $ idmint next uuid7 -n 3
  $ idmint create orders --start 1000
  $ idmint next orders -n 5
  $ idmint inspect 454947766275222906

What a command takes: idmint COMMAND --help
)";
}

std::unexpected<Error> usage(std::string message) {
  return std::unexpected(Error{Code::kInvalidArgument, std::move(message)});
}

// Only what the command uses: a bad IDMINT_WORKER does not keep anyone from `list`.
Result<void> read_numbers(const Given& given, Arguments& arguments) {
  struct Row {
    std::string_view command;
    std::string_view option;
    std::string text;
    std::int64_t least;
    std::int64_t most;
    std::int64_t* value;
  };
  std::int64_t threads = 1;
  std::int64_t batch = 1;
  std::int64_t attempts = 10;
  const std::array rows = {
      Row{"next", "-n", given.count, 1, std::numeric_limits<std::int64_t>::max(), &arguments.count},
      Row{"bench", "--threads", given.threads, 1, 1024, &threads},
      Row{"insert", "--attempts", given.attempts, 1, 1000, &attempts},
      Row{"bench", "--batch", given.batch, 1, 1'000'000, &batch},
      Row{"name", "--version", given.version, 3, 5, &arguments.value},
      Row{"alter", "--max", given.sequence.max.value_or(""), 1, kLargestValue, &arguments.value},
  };
  for (const Row& row : rows) {
    if (row.command != arguments.command) continue;
    const Result<std::int64_t> value = whole_number(row.option, row.text, row.least, row.most);
    if (!value) return std::unexpected(value.error());
    *row.value = *value;
  }
  if (given.timeout) {
    constexpr std::chrono::hours kMost{24};
    const auto wait = parse_duration(*given.timeout);
    if (!wait || *wait < std::chrono::milliseconds{1} || *wait > kMost)
      return usage("--timeout is \"" + shortened(*given.timeout) +
                   "\": give how long to wait for the store, such as 500ms, 20s or 2min, 24h at "
                   "most");
    arguments.timeout = std::chrono::floor<std::chrono::milliseconds>(*wait);
  }
  arguments.bench.threads = static_cast<int>(threads);
  arguments.bench.batch = static_cast<int>(batch);
  arguments.insert.attempts = static_cast<int>(attempts);
  if (given.digits) {
    const Result<std::int64_t> digits = whole_number("--digits", *given.digits, 1, 36);
    if (!digits) return std::unexpected(digits.error());
    arguments.ids.digits = static_cast<int>(*digits);
  }
  if (given.width) {
    const Result<std::int64_t> width = whole_number("--width", *given.width, 1, kMostWidth);
    if (!width) return std::unexpected(width.error());
    arguments.ids.width = static_cast<int>(*width);
  }
  if (arguments.command == "bench") {
    const char* const end = given.seconds.data() + given.seconds.size();
    const auto [at, why] = std::from_chars(given.seconds.data(), end, arguments.bench.seconds);
    if (why != std::errc{} || at != end || !(arguments.bench.seconds >= 0.01) ||
        arguments.bench.seconds > 3600) {
      return usage("--seconds is \"" + shortened(given.seconds) + "\": give 0.01 to 3600");
    }
  }
  return {};
}

// The environment, and what only some values of the options allow.
Result<void> settle(const CLI::App& sub, Given& given, Arguments& arguments) {
  const auto is_given = [&](const char* option) {
    return sub.get_option_no_throw(option) != nullptr && sub.count(option) > 0;
  };
  if (sub.get_option_no_throw("--store") != nullptr) {
    if (!is_given("--store")) {
      const char* const value = std::getenv("IDMINT_STORE");
      given.store = value != nullptr ? value : "";
      arguments.store_is_from_environment = !given.store.empty();
    } else if (given.store.empty()) {
      return usage("--store is empty: give a URL such as sqlite:ids.db, or leave it out");
    }
    if (has_secret(arguments.name) || arguments.name.find('@') != std::string::npos)
      return usage(
          "there is a URL where a name is taken: give the store with --store, or in "
          "IDMINT_STORE");
    for (const auto& [option, url] : {std::pair{"--from", &arguments.raise.from},
                                      std::pair{"--past-from", &arguments.raise.past_from}}) {
      if (url->empty()) continue;
      Result<std::string> whole = url_given(option, *url);
      if (!whole) return std::unexpected(std::move(whole.error()));
      *url = *std::move(whole);
    }
    Result<std::string> url =
        url_given(arguments.store_is_from_environment ? "IDMINT_STORE" : "--store", given.store);
    if (!url) return std::unexpected(std::move(url.error()));
    given.store = *std::move(url);
    if (given.store.starts_with("sqlite:~/")) {
      return usage("idmint does not expand ~ in the store " + given.store +
                   (arguments.store_is_from_environment ? " (from IDMINT_STORE)" : "") +
                   ": write sqlite:$HOME" + given.store.substr(8));
    }
    // The others can do without a store.
    constexpr std::array need_none = {std::string_view{"next"}, std::string_view{"bench"},
                                      std::string_view{"check"}};
    if (given.store.starts_with("memory:") &&
        std::ranges::find(need_none, arguments.command) == need_none.end()) {
      return usage("the store " + given.store +
                   " begins empty and is gone when the command ends: give one that stays, such as "
                   "sqlite:ids.db");
    }
    arguments.store = given.store;
  }
  if (arguments.toml && arguments.json) {
    return usage("--toml and --json are two ways to print the list: give one");
  }
  if (arguments.command == "create") {
    Result<Definition> made = definition(arguments.name, given.sequence);
    if (!made) return std::unexpected(std::move(made.error()));
    arguments.definition = *std::move(made);
    arguments.usual_layout = arguments.definition.layout && !given.sequence.layout;
    return {};
  }
  const bool is_insert = arguments.command == "insert";
  if (is_insert && arguments.name.empty()) {
    if (!given.format.form.digits) {
      return usage(
          "no source of ids is given: name a format or a sequence with --from, or give "
          "--digits N for random digits");
    }
    arguments.name = "digits";
  }
  const bool mints_snowflakes =
      arguments.command == "next" || is_insert
          ? arguments.name == "snowflake"
          : arguments.command == "bench" &&
                std::ranges::find(arguments.texts, "snowflake") != arguments.texts.end();
  if (const char* const value = std::getenv("IDMINT_WORKER");
      mints_snowflakes && !given.format.worker && value != nullptr && *value != '\0') {
    given.format.worker = value;
  }
  if (arguments.command != "next" && arguments.command != "bench" && !is_insert) return {};
  Result<FormatOptions> options = format_options(arguments.name, given.format);
  if (!options) return std::unexpected(std::move(options.error()));
  arguments.format = *std::move(options);
  return {};
}

}  // namespace

Result<Arguments> parse(int argc, const char* const* argv) {
  Arguments arguments;
  Given given;
  CLI::App app("idmint mints globally unique ids, and never the same one twice.", "idmint");
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", "idmint " IDMINT_VERSION "\n", "Print the version");
  app.require_subcommand(1);
  fit_help(app);
  app.footer(main_footer);
  const std::string_view first = argc > 1 ? argv[1] : "";
  const auto* const command = std::ranges::find(kCommands, first, &Command::name);
  const bool known = command != kCommands.end();
  for (const Command& row : kCommands) {
    if (known && row.name != first) continue;  // spares the common call the others' set-up
    CLI::App* const sub = app.add_subcommand(std::string(row.name), std::string(row.about));
    row.add_options(*sub, arguments, given);
    add_json(*sub, arguments);
    sub->footer(std::string(row.footer));
    sub->group("Commands");
  }
  const auto print = [&](std::string text) -> Result<Arguments> {
    arguments.command = "help";
    arguments.run = run_help;
    arguments.text = std::move(text);
    return std::move(arguments);
  };
  if (argc < 2) return usage("no command is given: see idmint --help");
  if (first == "help") {  // as --help; help COMMAND as COMMAND --help
    const std::array words = {argv[0], argc > 2 ? argv[2] : "--help", "--help"};
    return parse(static_cast<int>(words.size()), words.data());
  }
  if (!known && !first.starts_with('-')) {
    for (const Declaration& format : Mint::formats()) {
      if (format.name != first) continue;
      return usage("\"" + format.name +
                   "\" is a format, not a command: did you mean: idmint next " + format.name);
    }
    return usage("there is no command \"" + shortened(redacted(first)) +
                 "\": see idmint --help; for ids: idmint next SOURCE");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return print(app.help());
  } catch (const CLI::CallForVersion& version) {
    return print(version.what());
  } catch (const CLI::ParseError& error) {
    const std::span words(argv, static_cast<std::size_t>(argc));
    const CLI::App& taker = known ? *app.get_subcommand(std::string(first)) : app;
    std::string message = wrong_usage(error.what(), taker, words.subspan(1));
    if (first == "create" && (message.ends_with("\"--epoch\"") || message.ends_with("\"--unit\"")))
      message += ", but --layout \"sequence-generator epoch 2025-01-01 unit 1ms\"";
    return usage(message + ": see idmint " + (known ? std::string(first) + " " : "") + "--help");
  }
  arguments.command = first;
  arguments.run = command->run;
  const CLI::App& sub = *app.get_subcommand(std::string(first));
  if (Result<void> settled = settle(sub, given, arguments); !settled) {
    return std::unexpected(std::move(settled.error()));
  }
  if (Result<void> read = read_numbers(given, arguments); !read) {
    return std::unexpected(std::move(read.error()));
  }
  return arguments;
}

}  // namespace idmint::cli
