// Documents of MongoDB that get their ids as they are inserted, so that no id is there twice
// whatever else writes to the collection: its own unique index is the claim. Where a sharded
// collection can have no such index, a proxy collection is.
//
//   auto accounts = mongodb::Collection::open("mongodb://db1,db2/app?replicaSet=prod", "accounts");
//   auto digits = mint.source("digits", {.digits = DigitsLayout{.digits = 12}});
//   auto inserted = mongodb::insert_with_id(*accounts, **digits, documents, {.field = "account"});
//
// Documents are raw BSON, so that no driver's type is needed. Needs a build with IDMINT_MONGODB and
// MongoDB's C driver on the host: kUnimplemented otherwise.
#pragma once

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
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "idmint/source.h"

namespace idmint {

// ---- values that are in use already, in a collection: what a sequence is to be raised past

// As a sequence's definition has them: texts of this form are read as its values.
struct ExistingForm {
  Form form{};
  std::int64_t first = 0;
  std::int64_t last = kLargestValue;
};

// Any thread may call it at any time.
class IDMINT_EXPORT ExistingValues {
 public:
  // The field `field` of the documents in `collection` ("DATABASE.COLLECTION"), on the servers of
  // `url`, whose path need not be a store. Values are int32, int64, doubles (their fraction is
  // cut off) and texts as `form` prints them; anything else is passed over. An index on the field
  // makes it quick. `deadline`: of each call. kInvalidArgument: no such URL or name is possible.
  // kNotFound: there is no such collection, or it has documents and none of them has the field; an
  // empty one is fine. As for largest(): kUnavailable, kPermissionDenied.
  [[nodiscard]] static Result<std::unique_ptr<ExistingValues>> open(
      std::string_view url, std::string_view collection, std::string_view field,
      const ExistingForm& form, std::chrono::milliseconds deadline = std::chrono::seconds{5});
  virtual ~ExistingValues() = default;

  // The largest of the values from `from` to `to`, both included, on the primary, whether or not a
  // majority has it; nothing where there is none. kFailedPrecondition: the field holds what cannot
  // be told apart from a value: an array, or text where the form does not give all values one
  // width. kUnavailable: no answer. kPermissionDenied: may not be read.
  [[nodiscard]] virtual Result<std::optional<std::int64_t>> largest(std::int64_t from,
                                                                    std::int64_t to) = 0;
};

}  // namespace idmint

namespace idmint::mongodb {

// ---- documents that get their ids as they are inserted

// One whole BSON document.
using Bytes = std::span<const std::byte>;

// Extended JSON, canonical or relaxed, as BSON. kInvalidArgument: it is none; the message says why.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<std::byte>> document_from_json(
    std::string_view json);

struct CollectionOptions {
  // The longest that one command waits; an insert of many documents is several. What is looked at
  // before the first one waits 5 s at most.
  std::chrono::milliseconds deadline = std::chrono::seconds{10};
};

// A collection, and what was found out about its indexes. Any thread may use it. After fork() only
// the parent may.
class IDMINT_EXPORT Collection final {
 public:
  // `name`: "DATABASE.COLLECTION", or "COLLECTION" in the database of the URL. Calls nobody yet.
  // kInvalidArgument: not a connection string (weaker write concerns than majority are refused), or
  // not the name of a collection.
  [[nodiscard]] static Result<Collection> open(std::string_view url, std::string_view name,
                                               const CollectionOptions& options = {});
  ~Collection();
  Collection(Collection&&) noexcept;
  Collection& operator=(Collection&&) noexcept;

  // "app.accounts".
  [[nodiscard]] const std::string& name() const noexcept;

  struct State;  // the implementation's
  [[nodiscard]] State& state() noexcept { return *state_; }

 private:
  explicit Collection(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

// How an id is stored.
enum class StoredAs : std::uint8_t {
  // UUID: binary, subtype 4. ObjectId: ObjectId. Snowflake, and integer whose form is Form{}:
  // int64.
  // All others, and all that have another form: text, as printed.
  kUsual,
  kText,    // as printed
  kNumber,  // int64: integers of any form, Snowflakes, and up to 18 digits (leading zeros are lost)
};

struct InsertOptions {
  // What the id is stored in, at the top of the document, which must not have it yet.
  std::string field = "_id";
  StoredAs stored_as = StoredAs::kUsual;
  // Ids tried for each document.
  int attempts = 10;
  // Make the index where it is missing: a unique one, and with a proxy one that is not.
  bool make_index = false;
  // Instead of a unique index: this collection of the same database, into which each id is inserted
  // before its document is, as {_id: ID, state: "claimed", at: TIME, owner: OWNER}; afterwards the
  // state is "used". Every program that inserts must use the same one. Its name does not begin with
  // the database's.
  std::optional<std::string> proxy{};
  std::string owner{};                  // for people, at most 200 bytes; empty: "HOST:PID"
  std::int64_t number_from = 1;         // what the first document is called in messages
  std::string counted_as = "document";  // likewise: "document 1 of app.accounts"
  // Called where a source that gives no value twice gave one that was there, so that it is behind
  // the data: is to move it past what is there, as Mint::raise() does with the values of
  // ExistingValues::open(). The documents then get new ids.
  std::function<Result<void>()> heal{};
};

struct Inserted {
  std::vector<Id> ids;          // of each document
  std::int64_t collisions = 0;  // ids that were there, for which others were taken
  // The source gives no value twice, in order, and gave some that were there: it is behind the data
  // and must be raised past it.
  bool behind = false;
};

struct Outcome {
  enum class Fate : std::uint8_t {
    kAbsent,    // not in the collection
    kInserted,  // with the id
    kUnknown,   // with the id, or not, now or later
  };
  Fate fate = Fate::kAbsent;
  Id id{};
};

// Not all documents were inserted.
struct NotInserted {
  Error error;  // the first one, with its document's number from 1, and how many are in
  std::vector<Outcome> outcomes{};  // of each document; empty: none was sent
  std::int64_t collisions = 0;
  std::optional<std::size_t> document{};  // the one, from 0, that the error is about
};

// Inserts each document with an id of its own. A duplicate key in the unique index of that field
// takes a new id for that document, and only that one is sent again. Every insert is one unordered
// command of at most 10,000 documents and 16 MB, acknowledged by a majority and in its journals; to
// a replica set it is sent until it is answered or the deadline is over, and is applied once. All
// documents are tried, whatever becomes of the others, until an outcome is unknown. Ids without an
// order are sent in order of their values, which the index is quicker with; which document gets
// which is as random as they are.
//
// kInvalidArgument: a document is not BSON, has the field already, or is over 16 MB, or an option
// is wrong; nothing was sent. kFailedPrecondition: no unique index on exactly the field (the
// message has the command that makes it), or with a proxy none to look up by; a sharded collection
// that can have none; or a source that is behind the data. kAlreadyExists: a document has a key
// that is taken in another unique index; or the index cannot be made, as documents have the same
// value. kResourceExhausted: an id was taken, so many times in a row as options.attempts says; the
// message has the rate. kOutOfRange and others of the source. kUnknown, kDeadlineExceeded: some
// documents may be in or not; see their outcomes, and do not send them again without a look.
[[nodiscard]] IDMINT_EXPORT std::expected<Inserted, NotInserted> insert_with_id(
    Collection& collection, Source& source, std::span<const Bytes> documents,
    const InsertOptions& options = {}, Clock& clock = system_clock());

struct SweepOptions {
  std::string field = "_id";
  std::string proxy{};  // empty: the collection's name and ".ids"
  // Only claims this old are looked at: longer than any insert takes.
  std::chrono::milliseconds older_than = std::chrono::hours{1};
  std::function<void(std::int64_t looked_at)> progress{};
};

struct Swept {
  std::int64_t used = 0;       // marked now: the document is there
  std::int64_t abandoned = 0;  // marked now: it is not
};

// Settles claims that an inserter left when it ended: marks those whose document is there as used,
// the others as abandoned. No claim is ever removed or given again, so an inserter that is only
// slow does no harm, nor does it suffer any; a later sweep marks what it inserted as used. Again is
// fine. kNotFound: no such collection, or no such proxy. kFailedPrecondition: no index begins with
// the field, so each look-up would read the whole collection.
[[nodiscard]] IDMINT_EXPORT Result<Swept> sweep(Collection& collection,
                                                const SweepOptions& options = {},
                                                Clock& clock = system_clock());

}  // namespace idmint::mongodb
