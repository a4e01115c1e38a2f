// insert and sweep: documents into MongoDB, each with an id of its own.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "cli/progress.h"
#include "cli/quantity.h"
#include "cli/stop.h"
#include "idmint/form.h"
#include "idmint/mongodb.h"
#include "idmint/sequence.h"

namespace idmint::cli {

namespace {

using mongodb::Bytes;
using mongodb::Collection;
using mongodb::Outcome;

constexpr std::size_t kMostLines = 100'000;                        // of one call
constexpr std::size_t kMostBytes = std::size_t{48} * 1024 * 1024;  // likewise

std::unexpected<Error> refuse(std::string why) {
  return std::unexpected(Error{Code::kInvalidArgument, std::move(why)});
}

Result<Collection> open_collection(const Arguments& arguments) {
  const std::string& store = arguments.store;
  if (!store.starts_with("mongodb:") && !store.starts_with("mongodb+srv:"))
    return refuse((store.empty() ? "no MongoDB is given"
                                 : "the store " + without_password(store) + " is no MongoDB") +
                  ": give its URL with --store or in IDMINT_STORE, such as mongodb://HOST/app");
  // Longer than an election, as an outcome that is unknown is work for people.
  return Collection::open(store, arguments.insert.collection,
                          {.deadline = std::chrono::seconds{30}});
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
  Result<void> next(std::span<Id> out) override { return source_->next(out); }

 private:
  Mint& mint_;
  const Arguments& arguments_;
  std::unique_ptr<Source> source_;
};

// Moves a sequence past the largest value that is in the collection.
Result<void> heal(Mint& mint, const Arguments& arguments, Reopened& source, std::int64_t largest) {
  const Result<SequenceStatus> status = mint.peek(arguments.name);
  if (!status) return std::unexpected(status.error());
  const Strategy strategy = status->definition.strategy;
  if (strategy != Strategy::kCounter && strategy != Strategy::kCached &&
      strategy != Strategy::kInterleaved)
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 "--heal raises sequences whose values come in order, and " +
                                     arguments.name + " is " + std::string(name(strategy)) +
                                     ": raise it by hand, or leave --heal out"});
  if (const auto raised = mint.raise(arguments.name, largest); !raised)
    return std::unexpected(raised.error());
  report_notice(
      arguments.name + " was behind the data: it was raised past " + std::to_string(largest),
      arguments.json);
  return source.open();
}

// One after the other, a batch of lines.
class Import {
 public:
  Import(Context& context, Collection& collection, Reopened& source, mongodb::InsertOptions options)
      : context_(context), collection_(collection), source_(source), options_(std::move(options)) {}

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
    return (documents_.size() < kMostLines && bytes_ < kMostBytes) || send();
  }

  // What is left.
  Result<void> finish() {
    if (result_ && !documents_.empty() && stop_signal() == 0) send();
    if (result_ && context_.arguments.json)
      context_.out.write("{\"inserted\":" + std::to_string(inserted_) +
                         ",\"collisions\":" + std::to_string(collisions_) + "}\n");
    if (result_ && behind_)
      report_notice(context_.arguments.name + " is behind the data, which has values up to " +
                        std::to_string(*behind_) + ": idmint raise " + context_.arguments.name +
                        " --past " + std::to_string(*behind_) + " (or --heal)",
                    context_.arguments.json);
    context_.stopped_by = stop_signal();
    return result_;
  }

 private:
  std::string so_far() const {
    return (done_ == 0 ? std::string("no line before it was inserted")
                       : "the lines 1 to " + std::to_string(done_) + " were inserted");
  }

  // What is printed stands, so that no id of a document that is in is lost.
  bool send() {
    options_.number_from = done_ + 1;
    const std::vector<Bytes> views(documents_.begin(), documents_.end());
    auto inserted = mongodb::insert_with_id(collection_, source_, views, options_);
    if (inserted) {
      for (const Id& id : inserted->ids) print({Outcome::Fate::kInserted, id});
      collisions_ += inserted->collisions;
      if (inserted->behind) behind_ = inserted->behind;
    } else {
      for (const Outcome& outcome : inserted.error().outcomes) print(outcome);
      result_ = std::unexpected(std::move(inserted.error().error));
    }
    context_.out.flush();
    done_ += std::ssize(documents_);
    documents_.clear();
    bytes_ = 0;
    return result_.has_value() && !context_.out.failed() && stop_signal() == 0;
  }

  void print(const Outcome& outcome) {
    const Declaration& declaration = source_.declaration();
    ++printed_;
    const bool absent = outcome.fate == Outcome::Fate::kAbsent;
    const bool unknown = outcome.fate == Outcome::Fate::kUnknown;
    if (!absent && !unknown) ++inserted_;
    const std::string text = absent ? "" : to_string(outcome.id, declaration.form);
    if (!context_.arguments.json) {
      context_.out.write((absent ? "-" : unknown ? "?" + text : text) + "\n");
      return;
    }
    const auto* const integer = std::get_if<std::int64_t>(&outcome.id);
    const bool bare =
        declaration.form == Form{} && integer != nullptr && *integer <= kLargestJsonNumber;
    context_.out.write("{\"line\":" + std::to_string(printed_) + ",\"outcome\":\"" +
                       (absent    ? "absent\""
                        : unknown ? "unknown\",\"id\":"
                                  : "inserted\",\"id\":") +
                       (absent ? ""
                        : bare ? text
                               : json_text(text)) +
                       "}\n");
  }

  Context& context_;
  Collection& collection_;
  Reopened& source_;
  mongodb::InsertOptions options_;
  std::vector<std::vector<std::byte>> documents_{};
  std::size_t bytes_ = 0;
  std::int64_t done_ = 0;  // lines before those in documents_
  std::int64_t printed_ = 0;
  std::int64_t inserted_ = 0;
  std::int64_t collisions_ = 0;
  std::optional<std::int64_t> behind_{};
  Result<void> result_{};
};

}  // namespace

Result<void> run_insert(Context& context) {
  const Arguments& arguments = context.arguments;
  const InsertArguments& wanted = arguments.insert;
  const Result<mongodb::StoredAs> as = stored_as(wanted.stored_as);
  if (!as) return std::unexpected(as.error());
  Result<Collection> collection = open_collection(arguments);
  if (!collection) return std::unexpected(collection.error());
  Mint mint = open_mint(arguments);
  Reopened source(mint, arguments);
  if (Result<void> opened = source.open(); !opened) return opened;
  mongodb::InsertOptions options;
  options.field = wanted.field;
  options.stored_as = *as;
  options.attempts = wanted.attempts;
  options.make_index = wanted.create_index;
  if (!wanted.proxy.empty()) options.proxy = wanted.proxy;
  if (wanted.heal) {
    options.heal = [&](std::int64_t largest) { return heal(mint, arguments, source, largest); };
  }
  stop_at_signals();
  Import import(context, *collection, source, std::move(options));
  const Result<void> read = while_lines(
      context.out,
      [&](std::string_view line, std::size_t number) { return import.take(line, number); });
  Result<void> done = import.finish();
  return !done || read ? done : read;
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
