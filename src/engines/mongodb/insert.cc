// Inserts documents with an id each, and replaces ids that are in the collection already.
//
// An id of our own insert is never mistaken for one that was there before. On a replica set a
// command is repeated only under its transaction number, so the servers know what they did. On a
// standalone each command is sent once, and nothing is sent after an unknown outcome.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "base/errors.h"
#include "engines/mongodb/collection.h"
#include "engines/mongodb/document.h"
#include "idmint/form.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {

namespace {

using idmint::mongodb::Bytes;
using idmint::mongodb::Collection;
using idmint::mongodb::Inserted;
using idmint::mongodb::InsertOptions;
using idmint::mongodb::NotInserted;
using idmint::mongodb::Outcome;
using idmint::mongodb::StoredAs;

constexpr std::size_t kMostDocuments = 10'000;        // the reply has a line for each error
constexpr std::size_t kMostBytes = kLargestDocument;  // for a command, which may have 16 KB more

// ---- ids in BSON

using Value = std::variant<std::int64_t, std::string, Uuid, ObjectId>;

Result<Value> value_of(const Id& id, const Form& form, StoredAs as) {
  const auto out_of_range = [&] {
    return std::unexpected(
        Error{Code::kOutOfRange, "the id " + to_string(id, form) +
                                     " does not fit a 64-bit integer of BSON: store it as text"});
  };
  if (as == StoredAs::kText) return to_string(id, form);
  const bool plain = form == Form{};
  const bool number = as == StoredAs::kNumber;
  if (const auto* const integer = std::get_if<std::int64_t>(&id); integer && (plain || number))
    return *integer;
  if (const auto* const flake = std::get_if<Snowflake>(&id); flake && (plain || number)) {
    if (flake->value() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return out_of_range();
    return static_cast<std::int64_t>(flake->value());
  }
  if (number) {
    const auto* const digits = std::get_if<Digits>(&id);
    if (digits == nullptr)
      return refuse("ids of the format " + std::string(format_of(id)) +
                    " are no numbers: store them as usual or as text");
    if (digits->size() > 18) return out_of_range();
    return static_cast<std::int64_t>(digits->value());
  }
  if (const auto* const uuid = std::get_if<Uuid>(&id); uuid && plain) return *uuid;
  if (const auto* const object = std::get_if<ObjectId>(&id); object && plain) return *object;
  return to_string(id, form);
}

void append(bson_t* to, const char* key, const Value& value) {
  const bool done = std::visit(
      [&]<class T>(const T& id) {
        if constexpr (std::is_same_v<T, std::int64_t>) {
          return bson_append_int64(to, key, -1, id);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return bson_append_utf8(to, key, -1, id.data(), static_cast<int>(id.size()));
        } else if constexpr (std::is_same_v<T, Uuid>) {
          return bson_append_binary(to, key, -1, BSON_SUBTYPE_UUID, id.bytes().data(), 16);
        } else {
          bson_oid_t oid;
          std::ranges::copy(id.bytes(), oid.bytes);
          return bson_append_oid(to, key, -1, &oid);
        }
      },
      value);
  if (!done) std::abort();  // fails only beyond 2 GB
}

// ---- one call

struct Pending {
  std::size_t document;
  Id id{};
  Value value{};
};

// The outcome of one document that was not inserted.
struct Refused {
  bool taken = false;  // its id was taken
  Code code = Code::kUnknown;
  std::string why{};
};

class Insertion {
 public:
  Insertion(Target& target, Source& source, std::span<const Bytes> documents,
            const InsertOptions& options, Clock& clock)
      : target_(target),
        source_(source),
        documents_(documents),
        options_(options),
        clock_(clock),
        proxy_(options.proxy.value_or("")) {}

  std::expected<Inserted, NotInserted> run();

 private:
  Result<void> check() const;
  Result<void> prepare();
  Result<void> all();
  Result<void> batch(std::span<Pending> batch, std::vector<std::size_t>& again);
  Result<void> mint(std::span<Pending> batch);
  Result<std::vector<Pending>> claim(std::span<const Pending> batch,
                                     std::vector<std::size_t>& again);
  void mark_used(std::span<const Pending> batch);
  Result<void> look_behind(std::int64_t collisions_before);

  // One outcome for each of the batch; nothing: inserted.
  template <class Write>
  Result<std::vector<std::optional<Refused>>> send(const std::string& collection,
                                                   std::span<const Pending> batch,
                                                   std::string_view doing, const Write& write);
  Refused refused(const Document& error) const;

  void fail(std::size_t document, Code code, std::string why, Advice advice = {});
  std::string numbered(std::size_t document) const {
    const std::int64_t number = document < options_.numbers.size()
                                    ? options_.numbers[document]
                                    : static_cast<std::int64_t>(document) + 1;
    return options_.counted_as + " " + std::to_string(number);
  }

  Target& target_;
  Source& source_;
  const std::span<const Bytes> documents_;
  const InsertOptions& options_;
  Clock& clock_;
  const std::string proxy_;  // if options_ has one
  std::vector<Outcome> outcomes_{};
  std::int64_t collisions_ = 0;
  std::int64_t tried_ = 0;
  std::int64_t in_ = 0;
  bool behind_ = false;
  std::optional<Error> silent_{};  // the servers did not answer
  struct Failure {
    std::size_t document;
    Error error;
  };
  std::optional<Failure> failure_{};  // the first rejected document
};

Result<void> Insertion::check() const {
  if (Result<void> ok = check_field(options_.field); !ok) return ok;
  if (options_.attempts < 1 || options_.attempts > 1000)
    return refuse("attempts is " + std::to_string(options_.attempts) + ": give 1 to 1000");
  if (options_.owner.size() > 200 || !Bson::is_utf8(options_.owner))
    return refuse("the owner of claims is to be at most 200 bytes of UTF-8");
  if (options_.proxy) {
    if (Result<void> ok = target_.check_proxy(proxy_); !ok) return ok;
  }
  return {};
}

Result<void> Insertion::prepare() {
  if (Result<void> ok = check(); !ok) return ok;
  for (std::size_t i = 0; i < documents_.size(); ++i)
    if (const auto fault = fault_of(documents_[i], options_.field); fault)
      return refuse(numbered(i) + " " + *fault + "; nothing was inserted");
  if (!options_.proxy) return target_.need_unique(options_.field, options_.make_index);
  if (Result<void> apart = target_.need_proxy(proxy_); !apart) return apart;
  return target_.need_look_up(options_.field, options_.make_index);
}

void Insertion::fail(std::size_t document, Code code, std::string why, Advice advice) {
  if (failure_ && failure_->document <= document) return;
  failure_ = Failure{document,
                     {code, numbered(document) + " of " + target_.name() + ": " + std::move(why),
                      std::move(advice)}};
}

// Reads an error of the reply to an insert.
Refused Insertion::refused(const Document& error) const {
  const std::string_view text = error.bytes("errmsg").value_or("");
  if (error.number("code") != kDuplicateKey) {
    std::string why = "the server refused it: " + std::string(text);
    const std::int64_t code = error.number("code");
    return {false, code == kUnauthorized ? Code::kPermissionDenied : Code::kInvalidArgument,
            why + " (error " + std::to_string(code) + ")"};
  }
  int fields = 0;
  bool of_the_id = false;
  std::string pattern;
  error.document("keyPattern").each_field([&](const char* name, const bson_iter_t*) {
    of_the_id = of_the_id || name == options_.field;
    pattern += (fields++ > 0 ? ", " : "") + std::string(name);
  });
  // An index on several fields counts too: its key includes the id, and another id makes another
  // key.
  if (of_the_id) return {.taken = true, .code = Code::kAlreadyExists};
  constexpr std::string_view kIndex = "index: ";
  std::string_view index;
  if (const std::size_t at = text.find(kIndex); at != std::string_view::npos) {
    index = text.substr(at + kIndex.size());
    index = index.substr(0, index.find(" dup key"));
  }
  return {false, Code::kAlreadyExists,
          "its key is taken in another unique index, " +
              (index.empty() ? "on " + pattern : shown(index)) + ": " + std::string(text)};
}

// `write` appends the fields of one document.
template <class Write>
Result<std::vector<std::optional<Refused>>> Insertion::send(const std::string& collection,
                                                            std::span<const Pending> batch,
                                                            std::string_view doing,
                                                            const Write& write) {
  Bson command;
  command.add("insert", std::string_view(collection)).add("ordered", false);
  bson_t array;
  bool whole = bson_append_array_begin(command.get(), "documents", -1, &array);
  for (std::size_t i = 0; whole && i < batch.size(); ++i) {
    bson_t document;
    whole = bson_append_document_begin(&array, std::to_string(i).c_str(), -1, &document);
    if (whole) write(&document, batch[i]);
    whole = whole && bson_append_document_end(&array, &document);
  }
  if (!whole || !bson_append_array_end(command.get(), &array)) std::abort();  // past 2 GB
  const Result<Bson> reply = target_.write(std::move(command), doing, {.errors_in_reply = true});
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::optional<Refused>> refusals(batch.size());
  std::int64_t errors = 0;
  reply->view().each("writeErrors", [&](const Document& error) {
    const auto i = static_cast<std::size_t>(error.number("index"));
    if (i < refusals.size() && !refusals[i]) ++errors;
    if (i < refusals.size()) refusals[i] = refused(error);
  });
  if (reply->view().number("n") + errors != std::ssize(batch))
    return std::unexpected(Error{Code::kUnknown,
                                 "the servers do not say of each document whether "
                                 "it was inserted into " +
                                     target_.name()});
  return refusals;
}

Result<void> Insertion::mint(std::span<Pending> batch) {
  std::vector<Id> ids(batch.size());
  const Declaration& declaration = source_.declaration();
  const auto most = declaration.largest_count > 0
                        ? static_cast<std::size_t>(declaration.largest_count)
                        : ids.size();
  for (std::span<Id> left = ids; !left.empty();) {
    const std::span<Id> some = left.first(std::min(most, left.size()));
    if (Result<void> filled = source_.next(some); !filled) return filled;
    left = left.subspan(some.size());
  }
  const Form& form = declaration.form;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Result<Value> value = value_of(ids[i], form, options_.stored_as);
    if (!value) return std::unexpected(std::move(value.error()));
    batch[i].id = ids[i];
    batch[i].value = *std::move(value);
  }
  // Sorted for the index, which finds adjacent places faster: a tenth to a fifth more documents a
  // second. The assignment of ids to documents stays random.
  if (declaration.order == Order::kNone) std::ranges::sort(batch, {}, &Pending::value);
  tried_ += std::ssize(batch);
  return {};
}

std::string owner_of(const InsertOptions& options) {
  if (!options.owner.empty()) return options.owner;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return "?";
  return std::string(host.data()) + ":" + std::to_string(::getpid());
}

// Inserts the ids into the proxy; returns the part of the batch whose ids are claimed now. Unused
// claims stay and are abandoned: no claim is ever reused.
Result<std::vector<Pending>> Insertion::claim(std::span<const Pending> batch,
                                              std::vector<std::size_t>& again) {
  const auto now = std::chrono::floor<milliseconds>(clock_.now().time_since_epoch());
  Bson rest;
  rest.add("state", "claimed").add("at", now).add("owner", std::string_view(owner_of(options_)));
  const auto refusals =
      send(proxy_, batch, "claim ids in the proxy of", [&](bson_t* to, const Pending& one) {
        append(to, "_id", one.value);
        if (!bson_concat(to, rest.get())) std::abort();
      });
  if (!refusals) {
    // Whatever happened to the claims, no document was sent.
    Error error = refusals.error();
    if (error.code == Code::kUnknown || error.code == Code::kDeadlineExceeded)
      error = {
          .code = Code::kUnavailable, .what = error.message(), .outcome = "no document was sent"};
    return std::unexpected(std::move(error));
  }
  std::vector<Pending> ours;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& refusal = (*refusals)[i];
    if (!refusal) {
      ours.push_back(batch[i]);
    } else if (refusal->code == Code::kAlreadyExists) {
      ++collisions_;  // any index, since the proxy has only that of _id
      again.push_back(batch[i].document);
    } else {
      fail(batch[i].document, refusal->code, "its id was not claimed: " + refusal->why);
    }
  }
  return ours;
}

// If it fails, a sweep does it later; and if the servers do not answer, nothing more is sent, so
// that the call does not wait twice.
void Insertion::mark_used(std::span<const Pending> batch) {
  if (batch.empty()) return;
  Bson ids;
  for (std::size_t i = 0; i < batch.size(); ++i)
    append(ids.get(), std::to_string(i).c_str(), batch[i].value);
  Bson those;
  those.add("_id", Bson().add_array("$in", ids));
  const auto marked = target_.mark(proxy_, those, "used");
  if (!marked &&
      (marked.error().code == Code::kUnavailable || marked.error().code == Code::kDeadlineExceeded))
    silent_ = marked.error();
}

Result<void> Insertion::batch(std::span<Pending> batch, std::vector<std::size_t>& again) {
  if (silent_) return std::unexpected(Error{Code::kUnavailable, silent_->message()});
  if (Result<void> minted = mint(batch); !minted) {
    Error& error = minted.error();
    if (error.code == Code::kUnknown || error.code == Code::kDeadlineExceeded) {
      error.code = Code::kUnavailable;
      add_outcome(error, "if so these values are lost, and no document was sent with them");
    }
    return minted;
  }
  std::vector<Pending> claimed;
  if (options_.proxy) {
    Result<std::vector<Pending>> ours = claim(batch, again);
    if (!ours) return std::unexpected(std::move(ours.error()));
    claimed = *std::move(ours);
    batch = claimed;
    if (batch.empty()) return {};
  }
  const auto refusals = send(target_.collection(), batch, "insert documents into",
                             [&](bson_t* to, const Pending& one) {
                               const bson_t document = view_of(documents_[one.document]);
                               append(to, options_.field.c_str(), one.value);
                               if (!bson_concat(to, &document)) std::abort();  // past 2 GB
                             });
  if (!refusals) {
    const Error& error = refusals.error();
    if (error.code == Code::kUnknown || error.code == Code::kDeadlineExceeded)
      for (const Pending& one : batch) outcomes_[one.document] = {Outcome::Fate::kUnknown, one.id};
    return std::unexpected(error);
  }
  std::vector<Pending> used;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Pending& one = batch[i];
    const auto& refusal = (*refusals)[i];
    if (!refusal) {
      outcomes_[one.document] = {Outcome::Fate::kInserted, one.id};
      ++in_;
      if (options_.proxy) used.push_back(one);
    } else if (refusal->taken) {
      ++collisions_;
      again.push_back(one.document);
    } else {
      fail(one.document, refusal->code, refusal->why);
    }
  }
  if (options_.proxy) mark_used(used);
  return {};
}

// Called when a source that never repeats a value gave taken ones.
Result<void> Insertion::look_behind(std::int64_t collisions_before) {
  const Declaration& declaration = source_.declaration();
  if (collisions_ == collisions_before || declaration.guarantee < Guarantee::kUnique ||
      declaration.format != "integer")
    return {};
  if (declaration.order == Order::kNone && !options_.heal) return {};
  if (options_.heal) return options_.heal();
  behind_ = true;
  return {};
}

Result<void> Insertion::all() {
  std::vector<std::size_t> left(documents_.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  for (int attempt = 0; attempt < options_.attempts && !left.empty(); ++attempt) {
    std::vector<std::size_t> again;
    const std::int64_t before = collisions_;
    for (std::size_t from = 0; from < left.size();) {
      std::vector<Pending> some;
      std::size_t bytes = 0;
      for (; from < left.size() && some.size() < kMostDocuments; ++from) {
        bytes += size_with_id(documents_[left[from]].size(), options_.field);
        if (!some.empty() && bytes > kMostBytes) break;
        some.push_back({left[from]});
      }
      if (Result<void> done = batch(some, again); !done) return done;
    }
    left = std::move(again);
    std::ranges::sort(left);
    if (Result<void> looked = look_behind(before); !looked) return looked;
  }
  if (left.empty()) return {};
  const std::string name = source_.declaration().name;
  const std::string taken =
      std::to_string(options_.attempts) + " ids in a row that were taken, and so were " +
      std::to_string(collisions_) + " of " + std::to_string(tried_) + " in all";
  if (behind_)
    fail(left.front(), Code::kFailedPrecondition,
         "sequence " + name + " is behind the data: it gave " + taken +
             "; raise it past the values that are there",
         {Remedy::kRaisePastField, name, {std::string(target_.name()), options_.field}});
  else
    fail(left.front(), Code::kResourceExhausted,
         "the source " + name + " gave " + taken +
             ": use one with more ids, or with one that knows what is there");
  return {};
}

std::expected<Inserted, NotInserted> Insertion::run() {
  if (Result<void> ready = prepare(); !ready) {
    Error& error = ready.error();
    // The uncertain part is no insert, but for example the creation of an index.
    if (error.code == Code::kUnknown || error.code == Code::kDeadlineExceeded) {
      error.code = Code::kUnavailable;
      add_outcome(error, "no document was sent");
    }
    return std::unexpected(NotInserted{std::move(ready.error())});
  }
  outcomes_.resize(documents_.size());
  const Result<void> done = all();
  if (done && !failure_) {
    Inserted inserted{.ids = {}, .collisions = collisions_, .behind = behind_};
    inserted.ids.reserve(outcomes_.size());
    for (const Outcome& outcome : outcomes_) inserted.ids.push_back(outcome.id);
    return inserted;
  }
  // The error that ended the call says more than the error of one document.
  NotInserted not_all{.error = {}, .outcomes = std::move(outcomes_), .collisions = collisions_};
  if (!done) {
    not_all.error = done.error();
  } else if (failure_) {
    not_all.error = failure_->error;
    not_all.document = failure_->document;
  }
  const auto unknown =
      std::ranges::count(not_all.outcomes, Outcome::Fate::kUnknown, &Outcome::fate);
  std::string inserted =
      std::to_string(in_) + " of " + std::to_string(documents_.size()) + " documents were inserted";
  if (unknown != 0) {
    const auto first = std::ranges::find(not_all.outcomes, Outcome::Fate::kUnknown, &Outcome::fate);
    inserted += ", and " + std::to_string(unknown) + " may have been, from " +
                numbered(static_cast<std::size_t>(first - not_all.outcomes.begin())) +
                " on: look for their ids before you send them again";
  }
  add_outcome(not_all.error, inserted);
  return std::unexpected(std::move(not_all));
}

}  // namespace

}  // namespace idmint::stores::mongodb

namespace idmint::mongodb {

std::expected<Inserted, NotInserted> insert_with_id(Collection& collection, Source& source,
                                                    std::span<const Bytes> documents,
                                                    const InsertOptions& options, Clock& clock) {
  return stores::mongodb::Insertion(collection.state(), source, documents, options, clock).run();
}

Result<std::vector<std::byte>> document_from_json(std::string_view json) {
  return stores::mongodb::from_json(json);
}

}  // namespace idmint::mongodb
