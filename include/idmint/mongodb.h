// Inserts documents into MongoDB with an id each. A unique index of the collection keeps each id
// from coming twice, whatever else writes there. If a sharded collection cannot have such an index,
// ids are claimed in a proxy collection. Also finds the values that a collection or table has
// already.
//
//   auto accounts = mongodb::Collection::open("mongodb://db1,db2/app?replicaSet=prod", "accounts");
//   auto digits = mint.source("digits", {.digits = DigitsLayout{.digits = 12}});
//   auto inserted = mongodb::insert_with_id(*accounts, **digits, documents, {.field = "account"});
//
// Documents are raw BSON, so no type of a driver is needed. kUnimplemented: idmint was built
// without IDMINT_MONGODB, or the host lacks MongoDB's C driver.
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

// ---- values in use, past which a sequence must be raised

// The form and the range of a sequence's definition: texts of this form are read as its values.
struct ExistingForm {
  Form form{};
  std::int64_t first = 0;
  std::int64_t last = kLargestValue;
};

// The values in a field of a collection or in a column of a table. Any thread may call it at any
// time.
class IDMINT_EXPORT ExistingValues {
 public:
  // Reads a field of a collection of MongoDB, or a column of a table of SQL:
  // - MongoDB: the field `field` of the documents in `collection` ("DATABASE.COLLECTION"), on the
  //   servers of `url`, whose path need not be a store. Values are int32, int64, doubles
  //   (truncated) and texts as `form` prints them. Other types are ignored, except arrays (see
  //   largest()).
  // - SQL: the column `field` of the table `collection`, in the database that `url` names: in
  //   PostgreSQL "TABLE" (of the schema public) or "SCHEMA.TABLE", in MariaDB "TABLE".
  // Without an index it does a full scan. `deadline` limits each call. Errors, besides kUnavailable
  // and kPermissionDenied as for largest():
  // - kInvalidArgument: the URL or a name is not valid.
  // - kNotFound: the collection does not exist, or it has documents but none with the field (an
  //   empty one is fine); or there is no such table or column.
  // - kFailedPrecondition: a column of a type that holds neither numbers nor texts.
  [[nodiscard]] static Result<std::unique_ptr<ExistingValues>> open(
      std::string_view url, std::string_view collection, std::string_view field,
      const ExistingForm& form, std::chrono::milliseconds deadline = std::chrono::seconds{5});
  virtual ~ExistingValues() = default;

  // The largest value from `from` to `to`, both inclusive, on the primary, including values that
  // are not majority-committed yet. Nothing: there is none. Errors:
  // - kFailedPrecondition: the field has entries that may be values: an array, or text if the form
  //   does not give all values one width.
  // - kUnavailable: no answer.
  // - kPermissionDenied: the collection may not be read.
  [[nodiscard]] virtual Result<std::optional<std::int64_t>> largest(std::int64_t from,
                                                                    std::int64_t to) = 0;
};

}  // namespace idmint

namespace idmint::mongodb {

// ---- documents that get their ids as they are inserted

// One whole BSON document.
using Bytes = std::span<const std::byte>;

// Converts Extended JSON, canonical or relaxed, to BSON. kInvalidArgument: not Extended JSON; the
// message says why.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<std::byte>> document_from_json(
    std::string_view json);

struct CollectionOptions {
  // The longest that one command waits; an insert of many documents takes several commands. The
  // checks before the first insert wait 5 s at most.
  std::chrono::milliseconds deadline = std::chrono::seconds{10};
};

// A collection and the known state of its indexes. Any thread may use it. After fork() only the
// parent may.
class IDMINT_EXPORT Collection final {
 public:
  // `name` is "DATABASE.COLLECTION", or "COLLECTION" in the database of the URL. Does not connect
  // yet. kInvalidArgument: not a connection string, a write concern weaker than majority, or not
  // the name of a collection.
  [[nodiscard]] static Result<Collection> open(std::string_view url, std::string_view name,
                                               const CollectionOptions& options = {});
  ~Collection();
  Collection(Collection&&) noexcept;
  Collection& operator=(Collection&&) noexcept;

  // "app.accounts".
  [[nodiscard]] const std::string& name() const noexcept;

  struct State;  // private
  [[nodiscard]] State& state() noexcept { return *state_; }

 private:
  explicit Collection(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

// How an id is stored.
enum class StoredAs : std::uint8_t {
  // UUID: binary, subtype 4. ObjectId: ObjectId. Snowflake ids, and integers with Form{}: int64.
  // Everything else, and every id with another form: text, as printed.
  kUsual,
  kText,    // as printed
  kNumber,  // int64: integers of any form, Snowflake ids, and ids of up to 18 digits (leading
            // zeros are lost)
};

struct InsertOptions {
  // The top-level field of the id. The documents must not have it yet.
  std::string field = "_id";
  StoredAs stored_as = StoredAs::kUsual;
  // The most ids that are tried for one document.
  int attempts = 10;
  // Create the index if it is missing: a unique one, or with a proxy a non-unique one.
  bool make_index = false;
  // A collection of the same database that replaces the unique index, named without the database.
  // Each id is inserted into it before the document, as {_id: ID, state: "claimed", at: TIME,
  // owner: OWNER}; afterwards the state is "used". Every program that inserts must use the same
  // proxy.
  std::optional<std::string> proxy{};
  std::string owner{};                  // for operators, at most 200 bytes; empty: "HOST:PID"
  std::string counted_as = "document";  // in messages: "document 1 of app.accounts"
  // The numbers of the documents in messages, such as their line numbers in a file. Empty: from 1
  // on. They must outlive the call.
  std::span<const std::int64_t> numbers{};
  // Called if a source that never repeats a value gave one that the collection has already. Must
  // raise the source past the data, as Mint::raise() does with ExistingValues. The documents then
  // get new ids.
  std::function<Result<void>()> heal{};
};

struct Inserted {
  std::vector<Id> ids;          // one for each document
  std::int64_t collisions = 0;  // ids that were taken already and were replaced
  // The source is ordered and never repeats a value, yet some of its values were in the collection
  // already: it must be raised past the data.
  bool behind = false;
};

struct Outcome {
  enum class Fate : std::uint8_t {
    kAbsent,    // not in the collection
    kInserted,  // with the id
    kUnknown,   // may be in the collection with the id, now or later
  };
  Fate fate = Fate::kAbsent;
  Id id{};
};

// The outcome if not all documents were inserted.
struct NotInserted {
  Error error;  // the first error, with its document's number (InsertOptions::numbers) and the
                // number of documents inserted
  std::vector<Outcome> outcomes{};  // one for each document; empty: none was sent
  std::int64_t collisions = 0;
  std::optional<std::size_t> document{};  // the zero-based index of the document with the error
};

// Inserts each document with an id of its own. If an id is a duplicate key in the unique index of
// the field, only that document is sent again, with a new id. Documents are sent in unordered
// commands of at most 10,000 documents and 16 MB, with write concern majority and journal. On a
// replica set each command is a retryable write: it is repeated until it is answered or the
// deadline has passed, and is applied once. A failed document does not stop the others; an unknown
// outcome does. Ids without an order are sorted before they are sent, which is faster for the
// index; their assignment to the documents stays random.
//
// Errors:
// - kInvalidArgument: a document is not BSON, has the field already or exceeds 16 MB, or an option
//   is wrong. Nothing was sent.
// - kFailedPrecondition: there is no unique index on exactly the field (the message has the command
//   that creates it), or with a proxy no index for look-ups; the collection is sharded and can have
//   none; or the source is behind the data.
// - kAlreadyExists: a document has a duplicate key in another unique index; or the index cannot be
//   created because documents have the same value.
// - kResourceExhausted: options.attempts ids in a row were taken; the message has the rate.
// - kUnknown, kDeadlineExceeded: some documents may have been inserted. See their outcomes, and
//   look for them before you insert them again.
// - kOutOfRange and others: errors of the source.
[[nodiscard]] IDMINT_EXPORT std::expected<Inserted, NotInserted> insert_with_id(
    Collection& collection, Source& source, std::span<const Bytes> documents,
    const InsertOptions& options = {}, Clock& clock = system_clock());

struct SweepOptions {
  std::string field = "_id";
  std::string proxy{};  // empty: the collection's name followed by ".ids"
  // The minimum age of the claims that are examined; longer than any insert takes.
  std::chrono::milliseconds older_than = std::chrono::hours{1};
  std::function<void(std::int64_t looked_at)> progress{};
};

struct Swept {
  std::int64_t used = 0;       // marked now: the document is there
  std::int64_t abandoned = 0;  // marked now: it is not
};

// Settles claims that an interrupted inserter left: marks a claim as used if its document is in the
// collection, and as abandoned otherwise. Claims are never removed or reused, so a sweep and a slow
// inserter do each other no harm: a later sweep marks the claims of documents that were inserted
// meanwhile as used. Can be repeated. Errors:
// - kNotFound: no such collection or proxy.
// - kFailedPrecondition: no index begins with the field, so each look-up would scan the whole
//   collection.
[[nodiscard]] IDMINT_EXPORT Result<Swept> sweep(Collection& collection,
                                                const SweepOptions& options = {},
                                                Clock& clock = system_clock());

}  // namespace idmint::mongodb
