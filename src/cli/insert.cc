// insert and sweep: documents into MongoDB, each with an id of its own.
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

#include "base/shell.h"
#include "base/url.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "idmint/form.h"
#include "idmint/gapless.h"
#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "terminal/progress.h"
#include "terminal/quantity.h"
#include "terminal/stop.h"

namespace idmint::cli {

namespace {

using mongodb::Bytes;
using mongodb::Collection;
using mongodb::Outcome;

// Of one call, which is one command then: its ids are printed before the next is sent.
constexpr std::size_t kMostLines = 10'000;
constexpr std::size_t kMostBytes = std::size_t{12} * 1024 * 1024;
// Longer than an election, as an outcome that is unknown is work for people.
constexpr std::chrono::seconds kDeadline{30};

std::unexpected<Error> refuse(std::string why) {
  return std::unexpected(Error{Code::kInvalidArgument, std::move(why)});
}

Result<Collection> open_collection(const Arguments& arguments) {
  const std::string& store = arguments.store;
  if (!store.starts_with("mongodb:") && !store.starts_with("mongodb+srv:"))
    return refuse((store.empty() ? "no MongoDB is given"
                                 : "the store " + redacted(store) + " is no MongoDB") +
                  ": give its URL with --store or in IDMINT_STORE, such as mongodb://HOST/app");
  return Collection::open(store, arguments.insert.collection,
                          {.deadline = arguments.timeout.value_or(kDeadline)});
}

Result<mongodb::StoredAs> stored_as(const std::string& name) {
  using mongodb::StoredAs;
  constexpr std::array<std::pair<std::string_view, StoredAs>, 3> kNames = {
      {{"usual", StoredAs::kUsual}, {"text", StoredAs::kText}, {"number", StoredAs::kNumber}}};
  for (const auto& [known, as] : kNames)
    if (known == name) return as;
  return refuse("--stored-as is \"" + shortened(name) + "\": give usual, text or number");
}

// A source of the mint that can be opened anew: what a cached sequence holds in memory is from
// before it was raised.
class Reopened final : public Source {
 public:
  Reopened(Mint& mint, const Arguments& arguments) : mint_(mint), arguments_(arguments) {}

  Result<void> open() {
    Result<std::unique_ptr<Source>> opened = mint_.source(arguments_.name, arguments_.format);
    if (!opened) return std::unexpected(std::move(opened.error()));
    source_ = *std::move(opened);
    return {};
  }
  const Declaration& declaration() const noexcept override { return source_->declaration(); }
  using Source::next;
  Result<void> next(std::span<Id> out) override { return source_->next(out); }

 private:
  Mint& mint_;
  const Arguments& arguments_;
  std::unique_ptr<Source> source_;
};

// Past those of its values that are in the collection.
Result<void> heal(Mint& mint, const Arguments& arguments, Reopened& source,
                  const std::string& collection) {
  const Result<SequenceStatus> status = mint.peek(arguments.name);
  if (!status) return std::unexpected(status.error());
  const Result<Raised> raised =
      raise_past_field(mint, status->definition, arguments.store, collection,
                       arguments.insert.field, arguments.timeout.value_or(kDeadline));
  // With a proxy the ids may be there alone, of documents that never came.
  if (!raised && raised.error().code == Code::kNotFound) return source.open();
  if (!raised) return std::unexpected(raised.error());
  report_notice(arguments.name + " was behind the data: it was raised, and " +
                    std::to_string(raised->skipped) + " values were passed over",
                arguments.json);
  return source.open();
}

// How documents go in, the first of which is called `number_from`.
struct Inserter {
  std::function<std::expected<mongodb::Inserted, mongodb::NotInserted>(
      std::span<const Bytes> documents, std::int64_t number_from)>
      insert;
  std::string into;                          // "DATABASE.COLLECTION"
  Form form{};                               // of the ids
  std::size_t most_lines = kMostLines;       // of one call
  std::function<void(const Id& last)> note;  // told after each call that inserted
  bool chooses_ids = true;  // or else the ids are not known of what is not known to be in
};

// One after the other, a batch of lines.
class Import {
 public:
  Import(Context& context, Inserter inserter) : context_(context), inserter_(std::move(inserter)) {}

  // False: no more lines are wanted.
  bool take(std::string_view line, std::size_t number) {
    Result<std::vector<std::byte>> document = mongodb::document_from_json(line);
    if (!document) {
      result_ = std::unexpected(
          Error{document.error().code, "standard input, line " + std::to_string(number) + ": " +
                                           document.error().message + "; " + so_far() +
                                           ", and none of the lines from " +
                                           std::to_string(done_ + 1) + " on"});
      return false;
    }
    bytes_ += document->size();
    documents_.push_back(*std::move(document));
    return (documents_.size() < inserter_.most_lines && bytes_ < kMostBytes) || send(true);
  }

  // What is left.
  Result<void> finish() {
    if (result_ && !documents_.empty() && stop_signal() == 0) send(false);
    if (result_ && context_.arguments.json)
      context_.out.write("{\"inserted\":" + std::to_string(inserted_) +
                         ",\"collisions\":" + std::to_string(collisions_) + "}\n");
    const Arguments& arguments = context_.arguments;
    if (result_ && behind_)
      report_notice(arguments.name + " is behind the data: idmint raise " + arguments.name +
                        " --from-collection " + shell_word(inserter_.into) + " --field " +
                        shell_word(arguments.insert.field) + " (or --heal)",
                    arguments.json);
    if (result_ && stop_signal() != 0 && !context_.out.failed())
      report_notice(
          "stopped by a signal: " +
              (done_ == 0 ? std::string("no line was inserted")
                          : "the lines 1 to " + std::to_string(done_) +
                                " were inserted, and their ids printed; go on with line " +
                                std::to_string(done_ + 1)),
          arguments.json);
    context_.stopped_by = stop_signal();
    context_.unwritten = (result_ ? so_far() : result_.error().message) +
                         ", but the ids could not all be told: look for them in the collection, "
                         "and insert the other lines only";
    return result_;
  }

  std::string so_far() const {
    return (done_ == 0 ? std::string("no line before it was inserted")
                       : "the lines 1 to " + std::to_string(done_) + " were inserted");
  }

 private:
  // What is printed stands, so that no id of a document that is in is lost. `more`: there may be
  // lines after these.
  bool send(bool more) {
    const std::vector<Bytes> views(documents_.begin(), documents_.end());
    auto inserted = inserter_.insert(views, done_ + 1);
    if (inserted) {
      for (const Id& id : inserted->ids) print({Outcome::Fate::kInserted, id});
      collisions_ += inserted->collisions;
      behind_ = behind_ || inserted->behind;
      if (!inserted->ids.empty()) inserter_.note(inserted->ids.back());
      done_ += std::ssize(documents_);
    } else {
      for (const Outcome& outcome : inserted.error().outcomes) print(outcome);
      Error error = std::move(inserted.error().error);
      if (done_ > 0) error.message += "; the lines 1 to " + std::to_string(done_) + " are in";
      if (more)
        error.message += "; nothing from line " +
                         std::to_string(done_ + std::ssize(documents_) + 1) + " on was sent";
      result_ = std::unexpected(std::move(error));
    }
    context_.out.flush();
    documents_.clear();
    bytes_ = 0;
    return result_.has_value() && !context_.out.failed() && stop_signal() == 0;
  }

  void print(const Outcome& outcome) {
    ++printed_;
    const bool absent = outcome.fate == Outcome::Fate::kAbsent;
    const bool unknown = outcome.fate == Outcome::Fate::kUnknown;
    if (!absent && !unknown) ++inserted_;
    const bool no_id = absent || (unknown && !inserter_.chooses_ids);
    const std::string text = no_id ? "" : to_string(outcome.id, inserter_.form);
    if (!context_.arguments.json) {
      context_.out.write((absent ? "-" : unknown ? "?" + text : text) + "\n");
      return;
    }
    const auto* const integer = std::get_if<std::int64_t>(&outcome.id);
    const bool bare =
        inserter_.form == Form{} && integer != nullptr && *integer <= kLargestJsonNumber;
    context_.out.write("{\"line\":" + std::to_string(printed_) + ",\"outcome\":\"" +
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
  const Inserter inserter_;
  std::vector<std::vector<std::byte>> documents_{};
  std::size_t bytes_ = 0;
  std::int64_t done_ = 0;  // lines that are in, before those in documents_
  std::int64_t printed_ = 0;
  std::int64_t inserted_ = 0;
  std::int64_t collisions_ = 0;
  bool behind_ = false;
  Result<void> result_{};
};

Result<void> import_lines(Context& context, Inserter inserter) {
  stop_at_signals();
  Import import(context, std::move(inserter));
  const Result<void> read = while_lines(
      context.out,
      [&](std::string_view line, std::size_t number) { return import.take(line, number); });
  if (Result<void> done = import.finish(); !done || read) return done;
  return std::unexpected(Error{read.error().code, read.error().message + "; " + import.so_far()});
}

// The message of a call with the lines instead of the documents: "document 3: it has..." is about
// one, and any other about all.
std::string in_lines(std::string_view message, std::int64_t number_from, std::int64_t count) {
  constexpr std::string_view kDocument = "document ";
  std::int64_t document = 0;
  if (message.starts_with(kDocument)) {
    const char* const end = message.data() + message.size();
    const auto [at, why] = std::from_chars(message.data() + kDocument.size(), end, document);
    if (why == std::errc{})
      return "line " + std::to_string(number_from + document - 1) + std::string(at, end) +
             "; nothing of the lines from " + std::to_string(number_from) + " on was inserted";
  }
  return "lines " + std::to_string(number_from) + " to " + std::to_string(number_from + count - 1) +
         ": " + std::string(message);
}

// All documents of a call or none; what is not known has no number that is known.
Result<void> insert_gapless(Context& context, const Collection& collection,
                            const Definition& definition,
                            std::function<void(const Id& last)> note) {
  const Arguments& arguments = context.arguments;
  InsertArguments plain;
  plain.collection = arguments.insert.collection;
  plain.field = arguments.insert.field;
  if (arguments.insert != plain)
    return refuse(arguments.name +
                  " is gapless: its numbers are taken with the documents, so of the options only "
                  "--field goes with it");
  const Result<std::unique_ptr<GaplessInserter>> opened = GaplessInserter::open(
      arguments.store, arguments.name, collection.name(), arguments.insert.field,
      {.deadline = arguments.timeout.value_or(kDeadline)});
  if (!opened) return std::unexpected(opened.error());
  Inserter inserter{.insert = {},
                    .into = collection.name(),
                    .form = definition.form,
                    .most_lines = GaplessInserter::kMaxDocuments,
                    .note = std::move(note),
                    .chooses_ids = false};
  inserter.insert =
      [&numbers = **opened](
          std::span<const Bytes> documents,
          std::int64_t number_from) -> std::expected<mongodb::Inserted, mongodb::NotInserted> {
    const Result<Range> range = numbers.insert(documents);
    if (!range) {
      Error error = range.error();
      error.message = in_lines(error.message, number_from, std::ssize(documents));
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
  return import_lines(context, std::move(inserter));
}

}  // namespace

Result<void> run_insert(Context& context) {
  const Arguments& arguments = context.arguments;
  const InsertArguments& wanted = arguments.insert;
  const Result<mongodb::StoredAs> as = stored_as(wanted.stored_as);
  if (!as) return std::unexpected(as.error());
  Result<Collection> collection = open_collection(arguments);
  if (!collection) return std::unexpected(collection.error());
  Mint mint = open_mint(arguments);
  const auto note = [&, used_in = collection->name() + ":" + wanted.field](const Id& last) {
    note_given(mint, arguments.name, last, used_in);
  };
  Reopened source(mint, arguments);
  if (Result<void> opened = source.open(); !opened) {
    if (opened.error().code != Code::kFailedPrecondition) return opened;
    const Result<SequenceStatus> status = mint.peek(arguments.name);
    if (status && status->definition.strategy == Strategy::kGapless)
      return insert_gapless(context, *collection, status->definition, note);
    return opened;
  }
  mongodb::InsertOptions options;
  options.field = wanted.field;
  options.stored_as = *as;
  options.attempts = wanted.attempts;
  options.make_index = wanted.create_index;
  options.counted_as = "line";
  if (!wanted.proxy.empty()) options.proxy = wanted.proxy;
  if (wanted.heal) {
    options.heal = [&] { return heal(mint, arguments, source, collection->name()); };
  }
  // What is wrong is told before lines are read.
  if (const auto ready = mongodb::insert_with_id(*collection, source, {}, options); !ready)
    return std::unexpected(ready.error().error);
  const auto insert = [&](std::span<const Bytes> documents, std::int64_t number_from) {
    options.number_from = number_from;
    return mongodb::insert_with_id(*collection, source, documents, options);
  };
  return import_lines(context, {.insert = insert,
                                .into = collection->name(),
                                .form = source.declaration().form,
                                .note = note});
}

Result<void> run_sweep(Context& context) {
  const Arguments& arguments = context.arguments;
  const auto age = parse_duration(arguments.insert.older_than);
  if (!age) return refuse("--older-than: " + age.error().message);
  Result<Collection> collection = open_collection(arguments);
  if (!collection) return std::unexpected(collection.error());
  mongodb::SweepOptions options;
  options.field = arguments.insert.field;
  options.proxy = arguments.insert.proxy;
  options.older_than = std::chrono::floor<std::chrono::milliseconds>(*age);
  Progress progress("claims");
  options.progress = [&](std::int64_t looked_at) { progress.show(looked_at); };
  const Result<mongodb::Swept> swept = mongodb::sweep(*collection, options);
  if (!swept) return std::unexpected(swept.error());
  const std::string used = std::to_string(swept->used);
  const std::string abandoned = std::to_string(swept->abandoned);
  if (arguments.json) {
    context.out.write("{\"used\":" + used + ",\"abandoned\":" + abandoned + "}\n");
  } else {
    print_table(context.out, {{"CLAIMS"}, {"MARKED NOW", Align::kRight}},
                {{"used", used}, {"abandoned", abandoned}});
  }
  return {};
}

}  // namespace idmint::cli
