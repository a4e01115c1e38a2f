// insert and sweep: inserts documents into MongoDB with an id each.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "base/quantity.h"
#include "base/shell.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/commands.h"
#include "cli/given.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "cli/numbers_option.h"
#include "cli/source_options.h"
#include "cli/store_option.h"
#include "idmint/form.h"
#include "idmint/gapless.h"
#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "mint/sequence_facts.h"
#include "terminal/progress.h"
#include "terminal/stop.h"

namespace idmint::cli {

namespace {

void add_collection(CLI::App& command, std::string& collection, std::string& field) {
  command
      .add_option("COLLECTION", collection,
                  "DATABASE.COLLECTION, or COLLECTION in the database of the store")
      ->required()
      ->type_name("");
  command.add_option("--field", field, "Where the id goes (_id)")->type_name("F");
  add_store(command);
}

// As given.
struct InsertOptions {
  std::string collection;
  std::string field = "_id";
  std::string source;  // empty: not given
  std::string stored_as = "usual";
  std::string attempts = "10";
  std::string proxy;  // a collection; empty: none
  bool create_index = false;
  bool heal = false;
  std::optional<std::string> timeout;
  FormatTexts format;
  bool numbers = false;
};

void add_insert(CLI::App& command, InsertOptions& given) {
  add_collection(command, given.collection, given.field);
  command
      .add_option("--from", given.source, "A format, a sequence or a pool (with --digits: digits)")
      ->type_name("SOURCE");
  command
      .add_option("--stored-as", given.stored_as,
                  "usual (UUID and ObjectId as such, plain integers as int64, all else as text), "
                  "text or number")
      ->type_name("T");
  command.add_option("--attempts", given.attempts, "Ids tried for each document (10)")
      ->type_name("N");
  command.add_flag(
      "--create-index", given.create_index,
      "Make the index if it is missing: a unique one, or with --proxy one to look up by");
  command
      .add_option(
          "--proxy", given.proxy,
          "Claim the ids first in this collection of the same database, instead of a unique "
          "index")
      ->type_name("NAME");
  command.add_flag("--heal", given.heal, "Raise a sequence past the data if it is behind");
  add_timeout(command, given.timeout, "30s; for ids 5s");
  add_numbers(command, given.numbers);
  add_form(command, given.format.form);
  add_snowflake(command, given.format);
}

// As given.
struct SweepOptions {
  std::string collection;
  std::string field;
  std::string proxy;  // empty: that of insert
  std::string older_than = "1h";
};

void add_sweep(CLI::App& command, SweepOptions& given) {
  add_collection(command, given.collection, given.field);
  // With another field no document would be found, and each claim would be abandoned.
  command.get_option("--field")->required()->description("The field of the ids, as in insert");
  command.add_option("--proxy", given.proxy, "The collection of the claims (COLLECTION.ids)")
      ->type_name("NAME");
  command
      .add_option("--older-than", given.older_than,
                  "Only claims this old: longer than any insert takes (1h)")
      ->type_name("T");
}

using mongodb::Bytes;
using mongodb::Collection;
using mongodb::Outcome;

// The limits of one call, which is then one command: its ids are printed before the next one is
// sent.
constexpr std::size_t kMostLines = 10'000;
constexpr std::size_t kMostBytes = std::size_t{12} * 1024 * 1024;
// Longer than an election, because an unknown outcome is manual work.
constexpr std::chrono::seconds kDeadline{30};

Result<Collection> open_collection(const std::string& collection,
                                   std::chrono::milliseconds deadline) {
  const std::string& store = store_given();
  const StoreKind* const kind = store_kind(store);
  if (store.empty() || (kind != nullptr && !kind->has_documents))
    return refuse((store.empty() ? "no MongoDB is given"
                                 : "the store " + redacted(store) + " is no MongoDB") +
                  ": give its URL with --store or in IDMINT_STORE, such as mongodb://HOST/app");
  return Collection::open(store, collection, {.deadline = deadline});
}

Result<mongodb::StoredAs> stored_as(const std::string& name) {
  using mongodb::StoredAs;
  constexpr std::array<std::pair<std::string_view, StoredAs>, 3> kNames = {
      {{"usual", StoredAs::kUsual}, {"text", StoredAs::kText}, {"number", StoredAs::kNumber}}};
  for (const auto& [known, as] : kNames)
    if (known == name) return as;
  return refuse("--stored-as is \"" + shortened(name) + "\": give usual, text or number");
}

// A source of the mint that can be reopened: the values that a cached sequence holds in memory are
// older than a raise.
class Reopened final : public Source {
 public:
  Reopened(Mint& mint, std::string name, FormatOptions format)
      : mint_(mint), name_(std::move(name)), format_(std::move(format)) {}

  Result<void> open() {
    Result<std::unique_ptr<Source>> opened = mint_.source(name_, format_);
    if (!opened) return std::unexpected(std::move(opened.error()));
    source_ = *std::move(opened);
    return {};
  }
  const Declaration& declaration() const noexcept override { return source_->declaration(); }
  using Source::next;
  Result<void> next(std::span<Id> out) override { return source_->next(out); }

 private:
  Mint& mint_;
  const std::string name_;
  const FormatOptions format_;
  std::unique_ptr<Source> source_;
};

// Raises the sequence past its values in the collection.
Result<void> heal(Mint& mint, const std::string& sequence, Reopened& source,
                  const std::string& collection, const std::string& field,
                  std::chrono::milliseconds deadline, bool json) {
  const Result<SequenceStatus> status = mint.peek(sequence);
  if (!status) return std::unexpected(status.error());
  const Result<Raised> raised =
      raise_past_field(mint, status->definition, store_given(), collection, field, deadline);
  // With a proxy, the ids may be there without documents.
  if (!raised && raised.error().code == Code::kNotFound) return source.open();
  if (!raised) return std::unexpected(raised.error());
  report_notice(sequence + " was behind the data: it was raised, and " +
                    std::to_string(raised->skipped) + " values were passed over",
                json);
  return source.open();
}

// The numbers of the lines of documents, one for each. Blank lines have a number and no document.
using Lines = std::span<const std::int64_t>;

// The way to insert documents.
struct Inserter {
  std::function<std::expected<mongodb::Inserted, mongodb::NotInserted>(
      std::span<const Bytes> documents, Lines lines)>
      insert;
  std::string source{};
  std::string into{};                        // "DATABASE.COLLECTION"
  Form form{};                               // of the ids
  std::size_t most_lines = kMostLines;       // lines of one call
  std::function<void(const Id& last)> note;  // called after each successful insert
  bool chooses_ids = true;  // false: the ids of documents with an unknown outcome are unknown
};

constexpr std::string_view kBlank = " \t\r";

// The format of a line that is no document, if its characters show it, and the tool that makes
// documents of it. Empty: unclear.
std::string_view other_format(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  line = line.substr(0, line.find_last_not_of(kBlank) + 1);
  if (line.starts_with('['))
    return "an array, and each line is to be one document: jq -c '.[]' writes its elements so";
  if (line == "{")
    return "only the beginning of a document, and each line is to be a whole one: jq -c . writes "
           "documents so";
  if (!line.starts_with('{') && line.find_first_of(",;\t") != std::string_view::npos)
    return "CSV, as it looks, and each line is to be one document of JSON: mlr --icsv --ojsonl cat "
           "(of Miller) converts it";
  return "";
}

// Inserts the lines in batches, one after the other.
class Import {
 public:
  Import(Context& context, const InsertOptions& given, Inserter inserter)
      : context_(context), given_(given), inserter_(std::move(inserter)) {}

  // False: no more lines are wanted.
  bool take(std::string_view line, std::size_t number) {
    if (line.find_first_not_of(kBlank) == std::string_view::npos) return true;
    Result<std::vector<std::byte>> document = mongodb::document_from_json(line);
    if (!document) {
      const std::string_view other = other_format(line);
      result_ = std::unexpected(Error{
          document.error().code,
          place_of(number) +
              (other.empty() ? document.error().message() : "it is " + std::string(other)) + "; " +
              so_far() + ", and none of the lines from " + std::to_string(done_ + 1) + " on"});
      return false;
    }
    bytes_ += document->size();
    documents_.push_back(*std::move(document));
    lines_.push_back(static_cast<std::int64_t>(number));
    return (documents_.size() < inserter_.most_lines && bytes_ < kMostBytes) || send(true);
  }

  // Inserts the rest.
  Result<void> finish() {
    if (result_ && !documents_.empty() && stop_signal() == 0) send(false);
    if (result_ && context_.json)
      context_.out.write("{\"inserted\":" + std::to_string(inserted_) +
                         ",\"collisions\":" + std::to_string(collisions_) + "}\n");
    if (result_ && behind_)
      report_notice(inserter_.source + " is behind the data: idmint raise " + inserter_.source +
                        " --from-collection " + shell_word(inserter_.into) + " --field " +
                        shell_word(given_.field) + " (or --heal)",
                    context_.json);
    if (result_ && stop_signal() != 0 && !context_.out.failed())
      report_notice(
          "stopped by a signal: " +
              (done_ == 0 ? std::string("no line was inserted")
                          : "the lines 1 to " + std::to_string(done_) +
                                " were inserted, and their ids printed; go on with line " +
                                std::to_string(done_ + 1)),
          context_.json);
    context_.stopped_by = stop_signal();
    context_.unwritten = (result_ ? so_far() : result_.error().message()) +
                         ", but the ids could not all be told: look for them in the collection, "
                         "and insert the other lines only";
    return result_;
  }

  std::string so_far() const {
    return (done_ == 0 ? std::string("no line before it was inserted")
                       : "the lines 1 to " + std::to_string(done_) + " were inserted");
  }

 private:
  // Prints the ids of inserted documents in any case, so that none is lost. `more`: more lines may
  // follow.
  bool send(bool more) {
    const std::vector<Bytes> views(documents_.begin(), documents_.end());
    auto inserted = inserter_.insert(views, lines_);
    if (inserted) {
      for (std::size_t i = 0; i < inserted->ids.size(); ++i)
        print(lines_[i], {Outcome::Fate::kInserted, inserted->ids[i]});
      collisions_ += inserted->collisions;
      behind_ = behind_ || inserted->behind;
      if (!inserted->ids.empty()) inserter_.note(inserted->ids.back());
      done_ = lines_.back();
    } else {
      const std::vector<Outcome>& outcomes = inserted.error().outcomes;
      for (std::size_t i = 0; i < outcomes.size(); ++i) print(lines_[i], outcomes[i]);
      Error error = std::move(inserted.error().error);
      error = worded(std::move(error));
      if (done_ > 0) add_outcome(error, "the lines 1 to " + std::to_string(done_) + " are in");
      if (more)
        add_outcome(error,
                    "nothing from line " + std::to_string(lines_.back() + 1) + " on was sent");
      result_ = std::unexpected(std::move(error));
    }
    context_.out.flush();
    documents_.clear();
    lines_.clear();
    bytes_ = 0;
    return result_.has_value() && !context_.out.failed() && stop_signal() == 0;
  }

  void print(std::int64_t line, const Outcome& outcome) {
    const bool absent = outcome.fate == Outcome::Fate::kAbsent;
    const bool unknown = outcome.fate == Outcome::Fate::kUnknown;
    if (!absent && !unknown) ++inserted_;
    const bool no_id = absent || (unknown && !inserter_.chooses_ids);
    const std::string text = no_id ? "" : to_string(outcome.id, inserter_.form);
    if (!context_.json) {
      context_.out.write((absent ? "-" : unknown ? "?" + text : text) + "\n");
      return;
    }
    const bool bare = given_.numbers && inserter_.form == Form{} && is_integer(outcome.id);
    context_.out.write("{\"line\":" + std::to_string(line) + ",\"outcome\":\"" +
                       (absent    ? "absent\""
                        : unknown ? "unknown\""
                                  : "inserted\"") +
                       (no_id ? "" : ",\"id\":") +
                       (no_id  ? ""
                        : bare ? text
                               : json_text(text)) +
                       "}\n");
  }

  Context& context_;
  const InsertOptions& given_;
  const Inserter inserter_;
  std::vector<std::vector<std::byte>> documents_{};
  std::vector<std::int64_t> lines_{};  // of documents_
  std::size_t bytes_ = 0;
  std::int64_t done_ = 0;  // the last inserted line before those of documents_
  std::int64_t inserted_ = 0;
  std::int64_t collisions_ = 0;
  bool behind_ = false;
  Result<void> result_{};
};

Result<void> import_lines(Context& context, const InsertOptions& given, Inserter inserter) {
  stop_at_signals();
  Import import(context, given, std::move(inserter));
  const Result<void> read = while_lines(
      context.out, kLongestDocument,
      [&](std::string_view line, std::size_t number) { return import.take(line, number); });
  if (Result<void> done = import.finish(); !done || read) return done;
  Error error = read.error();
  add_outcome(error, import.so_far());
  return std::unexpected(std::move(error));
}

// The error of a call that inserts all of its documents or none, with their lines.
Error in_lines(Error error, Lines lines) {
  const std::string first = std::to_string(lines.front());
  error = in_context(lines.size() == 1 ? "line " + first
                                       : "lines " + first + " to " + std::to_string(lines.back()),
                     std::move(error));
  std::size_t number = 0;
  const std::string& document = error.advice.subject;
  if (error.advice.remedy == Remedy::kMendDocument &&
      std::from_chars(document.data(), document.data() + document.size(), number).ec ==
          std::errc{} &&
      number >= 1 && number <= lines.size())
    add_outcome(error, "mend line " + std::to_string(lines[number - 1]) +
                           "; nothing of the lines from " + first + " on was inserted");
  return error;
}

// Inserts all documents of a call or none. Documents with an unknown outcome have no known number.
Result<void> insert_gapless(Context& context, const InsertOptions& given, Mint& mint,
                            const Collection& collection, const SequenceDefinition& definition,
                            std::chrono::milliseconds deadline,
                            std::function<void(const Id& last)> note) {
  const InsertOptions usual;
  if (given.stored_as != usual.stored_as || given.attempts != usual.attempts ||
      given.proxy != usual.proxy || given.heal)
    return refuse(definition.name +
                  " is gapless: its numbers are taken with the documents, so of the options only "
                  "--field and --create-index go with it");
  const Result<std::shared_ptr<Store>> store = mint.store();
  if (!store) return std::unexpected(store.error());
  const Result<std::unique_ptr<GaplessInserter>> opened =
      GaplessInserter::open(**store, definition.name, collection.name(), given.field,
                            {.deadline = deadline, .make_index = given.create_index});
  if (!opened) return std::unexpected(opened.error());
  Inserter inserter{.insert = {},
                    .source = definition.name,
                    .into = collection.name(),
                    .form = definition.form,
                    .most_lines = GaplessInserter::kMaxDocuments,
                    .note = std::move(note),
                    .chooses_ids = false};
  inserter.insert = [&numbers = **opened](
                        std::span<const Bytes> documents,
                        Lines lines) -> std::expected<mongodb::Inserted, mongodb::NotInserted> {
    const Result<Range> range = numbers.insert(documents);
    if (!range) {
      Error error = worded(in_lines(range.error(), lines));
      const bool unknown = error.code == Code::kUnknown || error.code == Code::kDeadlineExceeded;
      return std::unexpected(mongodb::NotInserted{
          std::move(error),
          std::vector<Outcome>(documents.size(),
                               {unknown ? Outcome::Fate::kUnknown : Outcome::Fate::kAbsent, {}})});
    }
    mongodb::Inserted inserted;
    for (std::int64_t i = 0; i < range->count; ++i) inserted.ids.emplace_back(range->at(i));
    return inserted;
  };
  return import_lines(context, given, std::move(inserter));
}

Result<void> run_insert(Context& context, const InsertOptions& wanted) {
  if (wanted.source.empty() && !wanted.format.form.digits)
    return refuse(
        "no source of ids is given: name a format or a sequence with --from, or give "
        "--digits N for random digits");
  const std::string name = wanted.source.empty() ? "digits" : wanted.source;
  const Result<FormatOptions> format = format_options(name, wanted.format);
  if (!format) return std::unexpected(format.error());
  const Result<std::int64_t> attempts = whole_number("--attempts", wanted.attempts, 1, 1000);
  if (!attempts) return std::unexpected(attempts.error());
  const auto timeout = timeout_option(wanted.timeout, kDeadline);
  if (!timeout) return std::unexpected(timeout.error());
  const Result<mongodb::StoredAs> as = stored_as(wanted.stored_as);
  if (!as) return std::unexpected(as.error());
  Result<Collection> collection = open_collection(wanted.collection, *timeout);
  if (!collection) return std::unexpected(collection.error());
  MintOptions over = mint_options(context);
  if (wanted.timeout) over.store_options.deadline = *timeout;
  Mint mint(std::move(over));
  const auto note = [&, used_in = collection->name() + ":" + wanted.field](const Id& last) {
    note_given(mint, name, last, used_in);
  };
  Reopened source(mint, name, *format);
  if (Result<void> opened = source.open(); !opened) {
    if (opened.error().code != Code::kFailedPrecondition) return opened;
    const Result<SequenceStatus> status = mint.peek(name);
    if (status && has_strategy(status->definition, Strategy::kGapless))
      return insert_gapless(context, wanted, mint, *collection,
                            std::get<SequenceDefinition>(status->definition), *timeout, note);
    return opened;
  }
  mongodb::InsertOptions options;
  options.field = wanted.field;
  options.stored_as = *as;
  options.attempts = static_cast<int>(*attempts);
  options.make_index = wanted.create_index;
  options.counted_as = "line";
  if (!wanted.proxy.empty()) options.proxy = wanted.proxy;
  if (wanted.heal) {
    options.heal = [&] {
      return heal(mint, name, source, collection->name(), wanted.field, *timeout, context.json);
    };
  }
  // Reports errors before lines are read.
  if (const auto ready = mongodb::insert_with_id(*collection, source, {}, options); !ready)
    return std::unexpected(ready.error().error);
  const auto insert = [&](std::span<const Bytes> documents, Lines lines) {
    options.numbers = lines;
    return mongodb::insert_with_id(*collection, source, documents, options);
  };
  return import_lines(context, wanted,
                      {.insert = insert,
                       .source = name,
                       .into = collection->name(),
                       .form = source.declaration().form,
                       .note = note});
}

Result<void> run_sweep(Context& context, const SweepOptions& given) {
  const auto age = parse_duration(given.older_than);
  if (!age) return refuse("--older-than: " + age.error().message());
  Result<Collection> collection = open_collection(given.collection, kDeadline);
  if (!collection) return std::unexpected(collection.error());
  mongodb::SweepOptions options;
  options.field = given.field;
  options.proxy = given.proxy;
  options.older_than = std::chrono::floor<std::chrono::milliseconds>(*age);
  Progress progress("claims");
  options.progress = [&](std::int64_t looked_at) { progress.show(looked_at); };
  const Result<mongodb::Swept> swept = mongodb::sweep(*collection, options);
  if (!swept) return std::unexpected(swept.error());
  const std::string used = std::to_string(swept->used);
  const std::string abandoned = std::to_string(swept->abandoned);
  if (context.json) {
    context.out.write("{\"used\":" + used + ",\"abandoned\":" + abandoned + "}\n");
  } else {
    print_table(context.out, {{"CLAIMS"}, {"MARKED NOW", Align::kRight}},
                {{"used", used}, {"abandoned", abandoned}});
  }
  return {};
}

}  // namespace

const Command kInsert = {
    "insert", "Insert documents into MongoDB, each with a new id",
    with_options<InsertOptions, add_insert, run_insert>,
    R"(Reads documents from standard input, one a line, in Extended JSON, and prints
their ids in the same order; blank lines are skipped. The collection's own
unique index on exactly the field of the id keeps an id from coming twice,
whoever else writes to it: if it refuses an id, only that document gets another.

Lines are inserted 10,000 (or 12 MiB) at a time, and then their ids are printed.
If one is not a document, none of them is inserted, and the message says which
lines were inserted before. If a document is refused, the others are inserted
(gapless: none) and the command ends; - is printed for its id, and ?ID if the
outcome is unknown. Ctrl-C ends it after the lines that were sent; it says how
many were inserted.

A collection that is sharded by another field cannot have such an index: use
--proxy.

Examples:
  $ export IDMINT_STORE='mongodb://db1,db2,db3/app?replicaSet=prod'
  $ idmint insert accounts --digits 12 --field account <docs.ndjson
  $ idmint insert app.orders --from orders --create-index --field n <docs.ndjson
  $ idmint insert events --from uuid7 --json <docs.ndjson
  $ idmint insert users --from uuid4 --field id --proxy users.ids <docs.ndjson
)"};

const Command kSweep = {
    "sweep", "Settle claims that were left in a proxy collection",
    with_options<SweepOptions, add_sweep, run_sweep>,
    R"(For collections into which insert --proxy inserts. A claim is marked as used if
its document exists, and otherwise as abandoned. No claim is ever freed, so an
insert that is only slow does no harm.

Examples:
  $ idmint sweep app.users --field id --proxy users.ids
  $ idmint sweep app.users --field id --proxy users.ids --older-than 10min
)"};

}  // namespace idmint::cli
