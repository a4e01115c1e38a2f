// raise: raises one sequence, or all in a store, past a given value.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "advice/diagnosis.h"
#include "base/errors.h"
#include "base/quantity.h"
#include "base/sqlite_url.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/commands.h"
#include "cli/given.h"
#include "cli/json.h"
#include "cli/numbers_option.h"
#include "cli/source_options.h"
#include "cli/store_option.h"
#include "idmint/clock.h"
#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "mint/seen.h"
#include "terminal/confirm.h"

namespace idmint::cli {

using namespace advice;

namespace {

// As given; empty: not given.
struct RaiseOptions {
  std::string name;
  std::string past;             // a number
  std::string past_each;        // V,V,...
  std::string past_from;        // the URL of a store
  std::string from_collection;  // DATABASE.COLLECTION:FIELD
  std::string from_field;       // its field; empty: part of from_collection
  std::string from_table;       // TABLE.COLUMN
  std::string uri;              // the URL of its servers; empty: the store's
  bool all = false;
  bool moved = false;
  bool dry_run = false;
  bool yes = false;  // do not ask
  bool numbers = false;
};

constexpr std::array kRaiseRenamed = {Renamed{"--from", "--uri"}};
constexpr std::array kMeantByRaise = {Meant{"--to", "--past"}, Meant{"--value", "--past"},
                                      Meant{"--start", "--past"}, Meant{"--min", "--past"}};

void add_raise(CLI::App& command, RaiseOptions& given) {
  command.add_option("NAME", given.name, "A sequence")->type_name("");
  command.add_flag("--all", given.all,
                   "Instead: everything in the store, which then gives values again");
  command.add_option("--past", given.past, "The largest value to skip")->type_name("N");
  command
      .add_option("--past-each", given.past_each,
                  "striped, interleaved: a value of each counter to raise, V,V,...; others stay")
      ->type_name("V,V");
  command
      .add_option("--past-from", given.past_from,
                  "Past the position of another store, such as the file that a backup replaced")
      ->type_name("URL");
  command.add_flag("--moved", given.moved,
                   "--all: the store was only moved or copied, and handed out nothing afterwards");
  CLI::Option* const collection =
      command
          .add_option("--from-collection", given.from_collection,
                      "Past the largest value in this field, DATABASE.COLLECTION:FIELD")
          ->type_name("C");
  command
      .add_option("--field", given.from_field,
                  "Its field, instead of :FIELD; for names that have a colon")
      ->needs(collection)
      ->type_name("F");
  command
      .add_option("--from-table", given.from_table,
                  "Past the largest value in this column of PostgreSQL or MariaDB, TABLE.COLUMN")
      ->type_name("T");
  command
      .add_option("--uri", given.uri, "The servers of the collection or the table (the store's)")
      ->type_name("URL");
  command.add_flag("--dry-run", given.dry_run, "Say what would be passed over, and change nothing");
  command.add_flag("--yes", given.yes, "Do not ask");
  add_numbers(command, given.numbers);
  add_over(command);
  add_store(command);
}

// One kind of raise, applied to one sequence.
using RaiseOne = std::function<Result<Raised>(RaiseMode)>;

std::string number(std::int64_t value) { return print_count(static_cast<double>(value)); }

// "12 of the 100 values that are left (12 %)".
std::string share(const Raised& raised) {
  const double part =
      raised.left == 0 ? 0 : static_cast<double>(raised.skipped) / static_cast<double>(raised.left);
  return number(raised.skipped) + " of the " + number(raised.left) + " values that are left (" +
         print_percent(part) + ")";
}

// A raise that skips more than a tenth of the remaining values needs a confirmation.
bool is_much(const Raised& raised) { return raised.skipped > raised.left / 10; }

Result<void> confirm_raise(
    Context& context, const std::string& what,
    const std::string& why = "it would pass over more than a tenth of what is left") {
  return confirm(
      context.out, context.json,
      {.text = what + ". Raise?",
       .undone = "nothing was changed",
       .otherwise = why + " (" + what + "); add --yes to raise it, or --dry-run to look"});
}

// The place of values in use: a collection and a field of it, or a table and a column.
struct InUse {
  std::string collection;
  std::string field;
};

Result<InUse> in_use_in(const RaiseOptions& given) {
  if (!given.from_table.empty()) {
    const std::string& where = given.from_table;
    const std::size_t dot = where.rfind('.');
    if (dot == std::string::npos)
      return refuse("--from-table is \"" + shortened(where) +
                    "\": give TABLE.COLUMN, such as orders.number, or SCHEMA.TABLE.COLUMN");
    return InUse{where.substr(0, dot), where.substr(dot + 1)};
  }
  const std::string& where = given.from_collection;
  if (!given.from_field.empty()) return InUse{where, given.from_field};
  const std::size_t colon = where.find(':');
  if (colon == std::string::npos || colon != where.rfind(':'))
    return refuse("--from-collection is \"" + shortened(where) +
                  "\": give DATABASE.COLLECTION:FIELD, such as app.orders:number, or, where a "
                  "name has a colon in it, DATABASE.COLLECTION and the field with --field");
  return InUse{where.substr(0, colon), where.substr(colon + 1)};
}

// Raises past the values there.
Result<RaiseOne> past_those_in_use(Mint& mint, const RaiseOptions& given) {
  Result<SequenceStatus> status = mint.peek(given.name);
  if (!status) return std::unexpected(status.error());
  Result<InUse> place = in_use_in(given);
  if (!place) return std::unexpected(std::move(place.error()));
  return [&mint, definition = std::move(status->definition), place = *std::move(place),
          url = given.uri.empty() ? store_given() : given.uri](RaiseMode mode) {
    return raise_past_field(mint, definition, url, place.collection, place.field,
                            std::chrono::seconds{5}, mode);
  };
}

// "17,1042".
Result<std::vector<std::int64_t>> values_of(std::string_view text) {
  std::vector<std::int64_t> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const Result<std::int64_t> value =
        whole_number("--past-each", std::string(text.substr(begin, end - begin)), 0, kLargestValue);
    if (!value) return std::unexpected(value.error());
    values.push_back(*value);
    begin = end + 1;
  }
  return values;
}

// Whether both name the same file.
bool is_same_file(std::string_view a, std::string_view b) {
  const StoreKind* const kind = store_kind(a);
  if (kind == nullptr || !kind->is_file || kind != store_kind(b)) return false;
  const Result<SqliteUrl> one = parse_sqlite_url(a);
  const Result<SqliteUrl> other = parse_sqlite_url(b);
  std::error_code none;
  return one && other && std::filesystem::equivalent(one->path, other->path, none);
}

// With --yes it is used without a question.
Result<std::unique_ptr<Store>> open_newer(const std::string& url, Mint& mint, bool yes) {
  const Result<std::string> own = mint.store_url();
  if (!own) return std::unexpected(own.error());
  if (is_same_file(url, *own))
    return refuse("--past-from " + redacted(url) +
                  " is the store itself: name the newer one, or give --moved if it was only moved "
                  "or copied");
  Result<std::unique_ptr<Store>> from =
      Store::open(url, {.create = false, .access = Access::kReadOnly});
  if (!from && from.error().code == Code::kNotFound)
    return fail(Code::kNotFound, "--past-from " + redacted(url) +
                                     ": there is no store to compare with; look at the URL");
  if (!from || yes) return from;
  const auto refuse = [&](Code code, const std::string& why) {
    return std::unexpected(Error{code, "--past-from " + std::string((*from)->url()) + ": " + why +
                                           "; add --yes to go past what it has all the same"});
  };
  if (const std::optional<Error> doubt = (*from)->doubt())
    return refuse(doubt->code,
                  "it may itself be behind what it handed out (" + doubt->message() + ")");
  const Result<std::shared_ptr<Store>> store = mint.store();
  if (store && (*store)->id() != (*from)->id())
    return refuse(Code::kFailedPrecondition, "it is another store, and no newer state of this one");
  return from;
}

// The only given option of these, which selects the action.
Result<std::string_view> way_of(const RaiseOptions& given) {
  struct Way {
    std::string_view option;
    bool is_given;
    bool one;  // goes with a NAME
    bool all;  // goes with --all
  };
  const std::array ways = {Way{"--past", !given.past.empty(), true, true},
                           Way{"--past-each", !given.past_each.empty(), true, false},
                           Way{"--past-from", !given.past_from.empty(), true, true},
                           Way{"--from-collection", !given.from_collection.empty(), true, false},
                           Way{"--from-table", !given.from_table.empty(), true, false},
                           Way{"--moved", given.moved, false, true}};
  const Way* chosen = nullptr;
  for (const Way& way : ways) {
    if (!way.is_given) continue;
    if (chosen != nullptr)
      return refuse("raise takes either " + std::string(chosen->option) + " or " +
                    std::string(way.option) + ": give one");
    chosen = &way;
  }
  if (chosen == nullptr)
    return refuse(given.all ? "past what? Give --past-from URL of the newer store, --past N, or "
                              "--moved if it was only moved or copied"
                            : "past what? Give --past N, --past-each V,V, --past-from URL, "
                              "--from-collection DATABASE.COLLECTION:FIELD or --from-table "
                              "TABLE.COLUMN");
  if (given.all && !chosen->all)
    return refuse(std::string(chosen->option) + " is for one sequence: leave --all out");
  if (!given.all && !chosen->one)
    return refuse(std::string(chosen->option) + " is for a whole store: add --all");
  if (!given.uri.empty() && !chosen->option.starts_with("--from-"))
    return refuse("--uri is for --from-collection and --from-table: leave it out");
  return chosen->option;
}

std::string settle_command() { return "idmint raise --all --moved" + store_again(); }

Result<void> raise_one(Context& context, const RaiseOptions& given, std::string_view way) {
  const std::string& name = given.name;
  Mint mint = open_mint(context);
  std::unique_ptr<Store> from;
  RaiseOne raise;
  if (way == "--past") {
    const Result<std::int64_t> past = whole_number(way, given.past, 0, kLargestValue);
    if (!past) return std::unexpected(past.error());
    raise = [&, past = *past](RaiseMode mode) { return mint.raise(name, past, mode); };
  } else if (way == "--past-each") {
    Result<std::vector<std::int64_t>> values = values_of(given.past_each);
    if (!values) return std::unexpected(values.error());
    raise = [&, values = *std::move(values)](RaiseMode mode) {
      return mint.raise(name, values, mode);
    };
  } else if (way == "--past-from") {
    Result<std::unique_ptr<Store>> opened = open_newer(given.past_from, mint, given.yes);
    if (!opened) return std::unexpected(opened.error());
    from = *std::move(opened);
    raise = [&](RaiseMode mode) { return mint.raise(name, *from, mode); };
  } else {
    Result<RaiseOne> made = past_those_in_use(mint, given);
    if (!made) return std::unexpected(made.error());
    raise = *std::move(made);
  }

  Raised raised;
  if (given.dry_run || !given.yes) {
    const Result<Raised> preview = raise(RaiseMode::kPreview);
    if (!preview) return std::unexpected(preview.error());
    raised = *preview;
    if (!given.dry_run && is_much(raised)) {
      if (auto confirmed = confirm_raise(context, name + " passes over " + share(raised));
          !confirmed)
        return confirmed;
    }
  }
  if (!given.dry_run) {
    const Result<Raised> done = raise(RaiseMode::kCarryOut);
    if (!done) return std::unexpected(done.error());
    raised = *done;
  }
  if (context.json) {
    if (const auto& its = std::get<SequenceDefinition>(raised.status.definition);
        its.is_multi_store() && raised.status.stripes.empty()) {  // one counter was raised
      Result<SequenceStatus> status = mint.peek(name);
      if (!status) return std::unexpected(std::move(status.error()));
      raised.status = *std::move(status);
    }
    const Result<std::string> url = mint.store_url();
    if (!url) return std::unexpected(url.error());
    context.out.write(json_raised(raised, *url, given.dry_run, given.numbers) + "\n");
  } else if (given.dry_run) {
    context.out.write(name + " would pass over " + share(raised) + "\n");
  } else if (::isatty(STDERR_FILENO) == 1) {
    report_notice(raised.skipped == 0 ? name + " was past it already: no value was passed over"
                                      : name + " was raised: " + std::to_string(raised.skipped) +
                                            " values were passed over",
                  false);
  }
  if (const Result<std::shared_ptr<Store>> store = mint.store();
      store && (*store)->doubt() && !given.dry_run)
    report_notice(std::string((*store)->url()) +
                      " gives no value yet: when everything in it is past what it handed out: " +
                      settle_command(),
                  context.json);
  return {};
}

std::string outcome(const RaisedSource& source, bool dry_run) {
  if (source.error) return "not raised";
  if (source.retired) return dry_run ? "would be retired" : "retired";
  if (const auto* const pool = std::get_if<PoolDefinition>(&source.definition);
      pool != nullptr && source.past_unit) {
    const std::optional<Instant> past = time_of(pool->layout, *source.past_unit);
    return std::string(dry_run ? "would be raised" : "raised") + " past " +
           (past ? format_exact_time(*past) : "2262");
  }
  if (!source.remains.empty() || source.raised.skipped == 0) return "as it was";
  return dry_run ? "would be raised" : "raised";
}

void print_sources(Output& out, const std::vector<RaisedSource>& sources, bool dry_run) {
  std::vector<Row> rows;
  for (const RaisedSource& each : sources) {
    const bool counts = each.raised.left != 0;
    rows.push_back({name(each.definition), std::string(strategy_name(each.definition)),
                    counts ? number(each.raised.skipped) : "-",
                    counts ? number(each.raised.left) : "-", outcome(each, dry_run)});
  }
  if (!rows.empty())
    print_table(
        out,
        {{"NAME"}, {"STRATEGY"}, {"SKIPPED", Align::kRight}, {"OF", Align::kRight}, {"OUTCOME"}},
        rows);
  for (const RaisedSource& each : sources) {
    if (each.error) out.write_line(each.error->message());
    if (!each.remains.empty()) out.write_line(name(each.definition) + ": " + each.remains);
  }
}

// The last values of the store's sequences and pools on this host, from its data folder.
std::vector<GivenValue> all_given_here(Store& store, bool doubtful) {
  std::vector<GivenValue> given;
  std::set<std::pair<std::string, std::int64_t>> values;  // what was printed was counted, too
  for (const Seen& seen : seen_of(store, doubtful)) {
    if (!values.emplace(seen.source, seen.value).second) continue;
    given.push_back(
        {.source = seen.source,
         .value = seen.value,
         .evidence = given_here(seen) + (doubtful ? " by this store or a copy of it" : "")});
  }
  return given;
}

// Refuses to settle a store that lacks values of this host: it was not only moved.
Result<void> check_only_moved(Store& store, std::span<const GivenValue> given) {
  std::string lacking;
  for (const GivenValue& each : given) {
    const Result<SequenceStatus> status = peek_sequence(store, each.source);
    const bool is_gone = !status && status.error().code == Code::kNotFound;
    if (!status && !is_gone) return std::unexpected(status.error());
    if (is_gone) {
      lacking += "; " + each.source + ": " + each.evidence +
                 ", and the store has nothing of that name: made anew, it is to begin above every "
                 "value in use";
      continue;
    }
    const Definition& definition = status->definition;
    if (is_retired(definition)) continue;
    const Result<bool> known = has_given(store, each.source, each.value);
    // kInvalidArgument: the value belongs to another sequence that had the name.
    if (!known && known.error().code != Code::kInvalidArgument)
      return std::unexpected(known.error());
    if (known.value_or(true)) continue;
    const Finding lost = diagnose_lost({}, definition, each.value, each.evidence);
    lacking += "; " + each.source + ": " + lost.text + in_words(lost.advice);
  }
  if (lacking.empty()) return {};
  return std::unexpected(Error{
      Code::kFailedPrecondition,
      std::string(store.url()) +
          " was not only moved, and gives no value yet; do what is said of each sequence, and give "
          "this command again, with --yes if one cannot be raised" +
          lacking});
}

Result<void> raise_all_of(Context& context, const RaiseOptions& given, std::string_view way) {
  Mint mint = open_mint(context);
  const Result<std::shared_ptr<Store>> opened = mint.store();
  if (!opened) return std::unexpected(opened.error());
  Store& store = **opened;
  const std::string url(store.url());
  const bool doubtful = store.doubt().has_value();
  const std::vector<GivenValue> given_values = all_given_here(store, doubtful);
  if (way == "--moved") {
    if (doubtful && !given.yes)
      if (auto moved = check_only_moved(store, given_values); !moved) return moved;
    if (!given.dry_run) {
      Result<void> settled =
          store.settle(given.yes ? Store::Settle::kRaised : Store::Settle::kOnlyMoved);
      if (!settled && settled.error().code == Code::kDataLoss && !given.yes) {
        settled.error() = worded(std::move(settled.error()));
        add_outcome(settled.error(),
                    "if each sequence was raised by itself: " + settle_command() + " --yes");
      }
      if (!settled) return settled;
      if (doubtful) void_seen({store.name_on_host(), url});
    }
    if (context.json)
      context.out.write(json_raised_all({}, url, !store.doubt(), given.dry_run, given.numbers) +
                        "\n");
    else
      report_notice(!doubtful       ? url + " gives values already: nothing was to be settled"
                    : given.dry_run ? url + " would give values again; nothing was changed"
                                    : url + " gives values again",
                    false);
    return {};
  }
  std::unique_ptr<Store> from;
  std::int64_t past = 0;
  if (way == "--past-from") {
    Result<std::unique_ptr<Store>> newer = open_newer(given.past_from, mint, given.yes);
    if (!newer) return std::unexpected(newer.error());
    from = *std::move(newer);
  } else {
    const Result<std::int64_t> number = whole_number(way, given.past, 0, kLargestValue);
    if (!number) return std::unexpected(number.error());
    past = *number;
  }
  const auto raise = [&](RaiseMode mode) {
    return from != nullptr ? raise_all(store, *from, mode, given_values)
                           : raise_all(store, past, mode, given_values);
  };
  Result<std::vector<RaisedSource>> sources = raise(RaiseMode::kPreview);
  if (!sources) return std::unexpected(sources.error());
  if (!given.dry_run) {
    std::string much;
    for (const RaisedSource& each : *sources)
      if (each.retired || is_much(each.raised))
        much += (much.empty() ? "" : "; ") + name(each.definition) +
                (each.retired ? " is retired for ever, as it is in the newer store"
                              : " passes over " + share(each.raised));
    if (!much.empty() && !given.yes) {
      auto confirmed = confirm_raise(
          context, much,
          "it would pass over more than a tenth of what is left, or retire a sequence");
      if (!confirmed) return confirmed;
    }
    sources = raise(RaiseMode::kCarryOut);
    if (!sources) return std::unexpected(sources.error());
  }
  for (RaisedSource& each : *sources)
    if (each.error) each.error = worded(*std::move(each.error));
  if (context.json) {
    context.out.write(json_raised_all(*sources, url, !store.doubt(), given.dry_run, given.numbers) +
                      "\n");
  } else {
    print_sources(context.out, *sources, given.dry_run);
  }
  std::size_t failed = 0;
  Code first = Code::kInternal;
  for (const RaisedSource& each : *sources) {
    if (each.error && failed++ == 0) first = each.error->code;
  }
  if (failed != 0) {
    return std::unexpected(Error{
        first,
        std::to_string(failed) + " of " + std::to_string(sources->size()) +
            (given.dry_run ? " would not be raised" : " were not raised") +
            (store.doubt()
                 ? ", and " + url + " gives no value yet: raise each by itself as said, then: " +
                       settle_command()
                 : ": raise each by itself as said")});
  }
  if (!given.dry_run) {
    if (doubtful) void_seen({store.name_on_host(), url});
    accept_seen({store.name_on_host(), url}, store.settle_count());
  }
  if (context.json) return {};
  if (given.dry_run)
    report_notice("nothing was changed: this was a dry run", false);
  else if (doubtful)
    report_notice(url + " gives values again", false);
  return {};
}

Result<void> run_raise(Context& context, const RaiseOptions& given) {
  if (given.all == !given.name.empty())
    return refuse(given.all ? "raise takes either a NAME or --all: give one"
                            : "which one? Give idmint raise NAME, or --all for the whole store");
  const Result<std::string_view> way = way_of(given);
  if (!way) return std::unexpected(way.error());
  return given.all ? raise_all_of(context, given, *way) : raise_one(context, given, *way);
}

}  // namespace

const Command kRaise = {"raise",
                        "Skip values of a sequence",
                        with_options<RaiseOptions, add_raise, run_raise>,
                        R"(For numbers in use elsewhere: the store then hands out no value up to and
including N. Ranges that processes hold in memory (strategy cached) are still
handed out. A permuted sequence is raised by index: past the first N of its
values. The command asks before it passes over more than a tenth of the values
that are left.

--past-each raises each block of a striped sequence past its own value;
--past N would use up every block below N.

--from-collection app.orders:number reads what a collection of MongoDB holds:
integers, and texts as the sequence prints them if all have one width. Each
block of a striped sequence is raised past the largest value within it. What is
written meanwhile may be missed: raise when the programs that write there have
stopped, or mint from idmint. --from-table shop.orders.number does the same with
a column of PostgreSQL (schema, table and column) or MariaDB (table and column).
Without an index on the column the whole table is read, for 5 s at most.

--all is for a store that is behind what it handed out, and so gives no value:
a copy, a restored backup, a file whose log is gone. With nobody minting,
  --past-from URL  raises everything past the position of the newer store
  --past N         raises counters past the value N, a permuted sequence past
                   its first N values and each block of a striped one past its
                   own first N; sources for which N cannot be right are named
  --moved          raises nothing: the store was only moved or copied, and
                   handed out nothing afterwards
Pools go past this clock and every bound that is known. Random and gapless
sequences cannot be raised; the command says which of their values can repeat.
The same command completes an interrupted raise.

Examples:
  $ idmint create orders --start 1000
  $ idmint raise orders --past 81234
  $ idmint create accounts --digits 12 --stripes 1000
  $ idmint raise accounts --past-each 17,1000000042

ids.db was replaced by a backup, and the newer file is kept as old.db:
  $ IDMINT_STORE=sqlite:ids.db idmint raise --all --past-from sqlite:old.db
)",
                        kRaiseRenamed,
                        kMeantByRaise,
                        "--past"};

}  // namespace idmint::cli
