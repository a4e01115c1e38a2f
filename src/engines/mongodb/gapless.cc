// A transaction of gapless inserts: moves the counter by the number of documents, inserts the
// documents, and commits.
//
// Before the commit is sent, nothing has happened for certain, and a transient failure restarts it
// with a new number, which ends the old transaction. From then on the same commit is sent until its
// outcome is known or the deadline has passed. Even then there is no gap: counter and documents
// commit together or not at all.
//
// The transaction of a dead client holds the counter until the server ends it after 60 s
// (transactionLifetimeLimitSeconds). So the connections of each client have the sequence's name,
// and a client that finds the counter held ends the transactions of that name that have been idle
// for one second. A client that only slept restarts its transaction.
//
// A counter names the field that it numbers in `numbers`. An inserter writes it before it looks for
// other counters of that field, so of two that begin at the same time at least one sees the other.
// `numbers_in` has the UUIDs of the collections that had that name when an inserter was opened: a
// collection keeps its UUID when it is renamed, and the numbers in it are still this counter's.
#include "engines/mongodb/gapless.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/uniform.h"
#include "engines/mongodb/collection.h"
#include "engines/mongodb/definitions.h"
#include "engines/mongodb/document.h"
#include "engines/mongodb/servers.h"
#include "idmint/form.h"
#include "idmint/mongodb.h"
#include "mongo/bson.h"
#include "store/backend.h"
#include "store/counter_store.h"

namespace idmint::stores::mongodb {
namespace {

constexpr std::size_t kLargestCommand = std::size_t{12} << 20;  // or one document
constexpr milliseconds kHeld{100};                              // before looking up the holder
constexpr std::chrono::seconds kAbandoned{1};  // the idle time of an abandoned transaction

struct Plan {
  Uuid store;
  std::string where;  // the store, for messages
  SequenceDefinition definition;
  NumberField target;
  std::string database;  // the database of the store
  std::string application;
  Entropy& entropy;
};

// "app.invoices:number"
std::string shown_field(const NumberField& target) {
  return target.database + "." + target.collection + ":" + target.field;
}

// Whether a text of shown_field() names that field, of any collection.
bool is_of_field(std::string_view shown, const std::string& field) {
  return shown.ends_with(":" + field);
}

// Whether both can print the same. Integers without a form are int64, all others are text.
bool may_print_alike(const Form& one, const Form& other) {
  if ((one == Form{}) != (other == Form{})) return false;
  return one.prefix.starts_with(other.prefix) || other.prefix.starts_with(one.prefix);
}

// The outcome of one attempt.
struct Attempt {
  enum class What : std::uint8_t { kDone, kRefused, kAgain, kFailed, kUnknown } what;
  Error error{};
  std::int64_t first = 0;                 // kDone
  std::optional<std::size_t> document{};  // kRefused: its index
  bool held = false;                      // kAgain: another has the counter
};

// The answer of a job as a document: what it inserted, or which document was rejected.
Result<Bson> answer_of(const Attempt& outcome) {
  using enum Attempt::What;
  if (outcome.what == kDone) return std::move(Bson().add("first", outcome.first));
  if (outcome.what != kRefused) return std::unexpected(outcome.error);
  Bson refused;
  refused.add("code", static_cast<std::int32_t>(outcome.error.code))
      .add("why", std::string_view(outcome.error.message()));
  if (outcome.document) refused.add("document", static_cast<std::int64_t>(*outcome.document));
  return refused;
}

class Transaction {
 public:
  Transaction(const Plan& plan,
              std::span<const std::shared_ptr<const GaplessTransactions::Documents>> calls,
              std::int64_t floor, Exchange& exchange)
      : plan_(plan), floor_(floor), exchange_(exchange) {
    for (const auto& call : calls)
      for (const auto& document : *call) documents_.emplace_back(document);
  }

  Result<Bson> run();

 private:
  using What = Attempt::What;

  Attempt attempt();
  Attempt take(std::int64_t* first);
  Attempt insert(std::int64_t first);
  Attempt commit();
  void abort();
  void end_abandoned();
  milliseconds pause(int attempt);
  // Sends a command before the commit.
  std::optional<Attempt> step(Bson command, std::string_view database, Bson* reply);

  const Plan& plan_;
  const std::int64_t floor_;
  Exchange& exchange_;
  std::vector<std::span<const std::byte>> documents_{};
  std::int64_t number_ = 0;
  bool begun_ = false;
};

Result<Bson> Transaction::run() {
  std::optional<SteadyTime> look;  // when to look up the holder of the counter
  for (int attempts = 0;; ++attempts) {
    number_ = exchange_.next_number();
    begun_ = false;
    Attempt outcome = attempt();
    if (outcome.what != What::kAgain) return answer_of(outcome);
    if (!outcome.held) look.reset();
    const SteadyTime now = std::chrono::steady_clock::now();
    if (outcome.held && !look) look = now + kHeld;
    if (look && now >= *look) {
      end_abandoned();
      look = now + kAbandoned;
    }
    if (exchange_.wait(pause(attempts))) continue;
    abort();
    return std::unexpected(
        Error{Code::kUnavailable, outcome.error.message() + "; nothing was inserted; ask again"});
  }
}

Attempt Transaction::attempt() {
  std::int64_t first = 0;
  Attempt outcome = take(&first);
  if (outcome.what == What::kDone) outcome = insert(first);
  if (outcome.what == What::kDone) outcome = commit();
  if (outcome.what == What::kDone) outcome.first = first;
  if (outcome.what == What::kFailed || outcome.what == What::kRefused) abort();
  return outcome;
}

// With jitter; otherwise two processes would keep colliding.
milliseconds Transaction::pause(int attempt) {
  const auto most = std::uint64_t{2} << std::min(attempt, 5);
  return milliseconds{1 + static_cast<std::int64_t>(uniform_below(plan_.entropy, most))};
}

std::optional<Attempt> Transaction::step(Bson command, std::string_view database, Bson* reply) {
  if (!begun_) command.add("startTransaction", true);
  begun_ = true;
  command.add("autocommit", false);
  Meaning meaning{};
  std::optional<Error> error =
      exchange_.send({command, Kind::kPlain, database, number_}, reply, &meaning);
  if (!error) return std::nullopt;
  constexpr std::int64_t kWriteConflict = 112;
  constexpr std::int64_t kInterrupted = 11601;  // for example by another client's end_abandoned()
  const std::int64_t code = reply->view().number("code");
  if (meaning.passing || code == kInterrupted ||
      reply->view().lists("errorLabels", "TransientTransactionError"))
    return Attempt{
        .what = What::kAgain, .error = *std::move(error), .held = code == kWriteConflict};
  // Nothing is applied before the commit. A slow command may be repeated; any other one is rejected
  // by the server.
  if (meaning.applied) {
    const bool slow = meaning.code == Code::kDeadlineExceeded;
    error->code = slow ? Code::kUnavailable : Code::kFailedPrecondition;
    add_outcome(*error, slow ? "nothing was inserted; ask again" : "nothing was inserted");
  }
  return Attempt{.what = What::kFailed, .error = *std::move(error)};
}

// Nothing is final before the commit, so the counter is checked after it has moved.
Attempt Transaction::take(std::int64_t* first) {
  const SequenceDefinition& definition = plan_.definition;
  const auto count = static_cast<std::int64_t>(documents_.size());
  Bson sum;
  sum.add_array("$add", Bson().add("0", "$next").add("1", count));
  const std::string place = shown_field(plan_.target);
  Bson first_place;
  first_place.add_array(
      "$ifNull",
      Bson().add("0", "$numbers").add("1", Bson().add("$literal", std::string_view(place))));
  Bson update;
  update.add("0", Bson().add("$set", Bson().add("next", sum).add("numbers", first_place)));
  Bson command;
  command.add("findAndModify", kCounters)
      .add("query", Bson().add("_id", std::string_view(definition.name)))
      .add_array("update", update);
  Bson reply;
  const auto damaged = [&](const std::string& what) {
    return Attempt{.what = What::kFailed,
                   .error = {Code::kDataLoss,
                             "counter " + shown(definition.name) + " in " + kCounters + " " + what +
                                 "; nothing was inserted; look at it before you restore anything, "
                                 "and go on with a sequence that begins past every number in use"}};
  };
  if (auto failed = step(std::move(command), plan_.database, &reply)) {
    constexpr std::array<std::int64_t, 3> kNoNumber = {14, 16554, 7157723};  // $add of other types
    if (failed->what == What::kFailed &&
        std::ranges::find(kNoNumber, reply.view().number("code")) != kNoNumber.end())
      return damaged("is not as idmint writes it");
    return *std::move(failed);
  }
  const Document before = reply.view().document("value");
  if (!before) return damaged("is gone");
  if (const std::optional<Uuid> made_by = uuid_in(before, kMadeBy);
      made_by && *made_by != plan_.store)
    return {.what = What::kFailed, .error = another_store(plan_.where, *made_by, plan_.store)};
  const auto next = before.integer("next");
  const auto last = before.integer("last");
  const auto closed = before.boolean("closed");
  if (before.integer("first") != definition.first || before.integer("stride") != 1 || !next ||
      !last || !closed || *next < definition.first || *last < definition.first ||
      *last > kLargestValue || *next > *last + 1) {
    return damaged("is not as idmint writes it");
  }
  if (*next < floor_) {
    return damaged("gives " + std::to_string(*next) + " next, and " + std::to_string(floor_ - 1) +
                   " was given already: the store has gone back, or was changed by hand");
  }
  const CounterState state{definition.name, {definition.first, *last, 1}, *next, *closed};
  if (const auto bound = before.bytes("numbers"); bound && *bound != place) {
    return {.what = What::kFailed,
            .error = {Code::kFailedPrecondition,
                      "sequence " + definition.name + " numbers " + shown(*bound) +
                          ", and has a number for each document there; for " + shown(place) +
                          " create a gapless sequence of its own"}};
  }
  *first = *next;
  if (*closed || state.left() < count)
    return {.what = What::kRefused, .error = refused_advance(state, count)};
  return {.what = What::kDone};
}

Attempt Transaction::insert(std::int64_t first) {
  const NumberField& target = plan_.target;
  const bool plain = plan_.definition.form == Form{};
  for (std::size_t at = 0; at < documents_.size();) {
    const std::size_t begin = at;
    Bson documents;
    for (std::size_t bytes = 0; at < documents_.size(); ++at) {
      bytes += documents_[at].size() + 200;
      if (at > begin && bytes > kLargestCommand) break;
      const std::int64_t number = first + static_cast<std::int64_t>(at);
      Bson document;
      const bson_t given = view_of(documents_[at]);
      document.add_all(given);
      if (plain) {
        document.add(target.field.c_str(), number);
      } else {
        document.add(target.field.c_str(),
                     std::string_view(to_string(Id(number), plan_.definition.form)));
      }
      documents.add(std::to_string(at - begin).c_str(), document);
    }
    Bson command;
    command.add("insert", std::string_view(target.collection))
        .add_array("documents", documents)
        .add("ordered", true);
    Bson reply;
    std::optional<Attempt> failed = step(std::move(command), target.database, &reply);
    // The reply about a rejected document begins with "ok".
    std::optional<Attempt> refused;
    reply.view().each("writeErrors", [&](const Document& error) {
      if (refused) return;
      const std::size_t document = begin + static_cast<std::size_t>(error.number("index"));
      const bool taken = error.number("code") == kDuplicateKey;
      refused = {.what = What::kRefused,
                 .error = {taken ? Code::kAlreadyExists : Code::kInvalidArgument,
                           target.database + "." + target.collection + " refuses the document: " +
                               std::string(error.bytes("errmsg").value_or("no message")) +
                               "; it was not inserted, and no number was used"},
                 .document = document};
      const bool ours = error.document("keyPattern").is_only(target.field.c_str());
      if (taken && ours) {
        refused->document.reset();
        refused->what = What::kFailed;
        refused->error = {
            Code::kFailedPrecondition,
            target.database + "." + target.collection + " has the number " +
                std::to_string(first + static_cast<std::int64_t>(document)) + " in " +
                target.field + " already, and it did not come from sequence " +
                plan_.definition.name +
                "; nothing was inserted; find out who wrote it, and go on with a gapless sequence "
                "that begins above",
            {Remedy::kCreateAbove, "", {"gapless"}}};
      }
    });
    if (refused) return *std::move(refused);
    // The document itself may be the cause: too deeply nested, for example.
    if (failed && failed->what == What::kFailed) failed->what = What::kRefused;
    if (failed) return *std::move(failed);
  }
  return {.what = What::kDone};
}

Attempt Transaction::commit() {
  const Bson command = std::move(Bson().add("commitTransaction", 1).add("autocommit", false));
  bool maybe = false;
  for (int attempts = 0;; ++attempts) {
    Bson reply;
    Meaning meaning{};
    std::optional<Error> error =
        exchange_.send({command, Kind::kWrite, "admin", number_}, &reply, &meaning);
    if (!error) return {.what = What::kDone};
    // The server has no such transaction, and a majority confirms it.
    if (reply.view().lists("errorLabels", "TransientTransactionError") &&
        !reply.view().has("writeConcernError")) {
      exchange_.taken_back();
      return {.what = What::kAgain, .error = *std::move(error)};
    }
    // The session has a later number from a copy of this process, and was renewed. The answer to a
    // repeat in the new session would not show what an earlier attempt did.
    const bool renewed = reply.view().number("code") == kTransactionTooOld;
    if (renewed && !maybe) {
      exchange_.taken_back();
      return {.what = What::kAgain, .error = *std::move(error)};
    }
    maybe = maybe || meaning.applied;
    if (!renewed && exchange_.wait(pause(attempts))) continue;
    if (!maybe)
      return {
          .what = What::kFailed,
          .error = {Code::kUnavailable, error->message() + "; nothing was inserted; ask again"}};
    return {.what = What::kUnknown,
            .error = {Code::kUnknown,
                      error->message() +
                          "; the documents were inserted or not, all of them or none: look for "
                          "them before you insert them again"}};
  }
}

// Best effort: it also ends by itself, but later.
void Transaction::abort() {
  if (!begun_) return;
  const Bson command = std::move(Bson().add("abortTransaction", 1).add("autocommit", false));
  Bson reply;
  Meaning meaning{};
  static_cast<void>(exchange_.send({.what = command,
                                    .kind = Kind::kPlain,
                                    .database = "admin",
                                    .number = number_,
                                    .unasked = true},
                                   &reply, &meaning));
}

void Transaction::end_abandoned() {
  abort();
  Bson match;
  match.add("appName", std::string_view(plan_.application))
      .add("transaction.timeInactiveMicros",
           Bson().add("$gte", std::int64_t{std::chrono::microseconds(kAbandoned).count()}));
  Bson pipeline;
  pipeline
      .add("0", Bson().add("$currentOp", Bson().add("allUsers", false).add("idleSessions", true)))
      .add("1", Bson().add("$match", match));
  Bson command;
  command.add("aggregate", 1).add_array("pipeline", pipeline).add("cursor", Bson());
  Bson reply;
  Meaning meaning{};
  if (exchange_.send({command, Kind::kPlain, "admin"}, &reply, &meaning)) return;
  Bson sessions;
  int count = 0;
  reply.view().each_found([&](const Document& operation) {
    if (const auto id = operation.document("lsid").bytes("id"))
      sessions.add(std::to_string(count++).c_str(),
                   Bson().add_binary("id", BSON_SUBTYPE_UUID, *id));
  });
  if (count == 0) return;
  const Bson kill = std::move(Bson().add_array("killSessions", sessions));
  static_cast<void>(exchange_.send({kill, Kind::kPlain, "admin"}, &reply, &meaning));
}

class MongodbGapless final : public GaplessTransactions {
 public:
  MongodbGapless(OwnedServers servers, std::shared_ptr<const Plan> plan)
      : servers_(std::move(servers)), plan_(std::move(plan)) {}

  Result<void> check(std::span<const std::byte> document) const override;
  std::expected<First, Refused> insert(std::vector<std::shared_ptr<const Documents>> calls,
                                       std::int64_t floor, SteadyTime until) override;

 private:
  const OwnedServers servers_;
  std::shared_ptr<const Plan> plan_;
};

Result<void> MongodbGapless::check(std::span<const std::byte> document) const {
  if (const auto fault = fault_of(document, plan_->target.field))
    return std::unexpected(Error{Code::kInvalidArgument, "it " + *fault});
  return {};
}

std::expected<GaplessTransactions::First, GaplessTransactions::Refused> MongodbGapless::insert(
    std::vector<std::shared_ptr<const Documents>> calls, std::int64_t floor, SteadyTime until) {
  // The job and its data may outlive this call.
  const auto job = [plan = plan_, calls, floor](Exchange& exchange) {
    return Transaction(*plan, calls, floor, exchange).run();
  };
  const Result<Bson> reply = servers_->run(job, until, "insert gapless documents into");
  if (!reply) return std::unexpected(Refused{reply.error(), false, std::nullopt});
  const Document answer = reply->view();
  if (const auto first = answer.integer("first")) return First{*first};
  Refused refused{
      {static_cast<Code>(answer.number("code")), std::string(answer.bytes("why").value_or(""))},
      true,
      std::nullopt};
  if (const auto document = answer.integer("document")) {
    auto left = static_cast<std::size_t>(*document);
    std::size_t call = 0;
    while (left >= calls[call]->size()) left -= calls[call++]->size();
    refused.call = call;
    refused.error = of_document(left, refused.error);
  }
  return std::unexpected(std::move(refused));
}

}  // namespace

Result<void> Gapless::has_transactions(SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  const Result<Bson> hello =
      database_.servers->run(std::move(Bson().add("hello", 1)), Kind::kPlain, *until, "ask");
  if (!hello) return std::unexpected(hello.error());
  if (hello->view().has("setName")) return {};
  return std::unexpected(
      at_place(database_.where, {Code::kFailedPrecondition, std::string(kNoTransactions)}));
}

// False: there is no such collection. A user who may not list collections learns no UUID.
bool Gapless::find_uuid(Place& place, SteadyTime until) {
  Bson command;
  command.add("listCollections", 1)
      .add("filter", Bson("name", std::string_view(place.target.collection)));
  const Result<Bson> reply =
      database_.servers->run(std::move(command), Kind::kPlain, until, "look at collections in",
                             {.database = place.target.database});
  if (!reply) return true;
  bool found = false;
  reply->view().each_found([&](const Document& collection) {
    found = true;
    place.uuid = uuid_in(collection.document("info"), "uuid");
  });
  return found;
}

// A counter may be bound to another field only while it has given no number. A bound counter is
// not written, so that a transaction that holds the counter keeps nobody from opening. A missing
// collection is made, because its UUID is noted before it has a number.
Result<void> Gapless::bind(const SequenceDefinition& definition, Place& place, SteadyTime until) {
  std::optional<std::string> bound;
  std::optional<Uuid> made_by;
  std::vector<Uuid> uuids;
  bool is_new = false;
  const Result<bool> there =
      database_.read(kCounters, definition.name, until, [&](const Document& counter) {
        if (const auto numbers = counter.bytes("numbers")) bound = *numbers;
        made_by = uuid_in(counter, kMadeBy);
        is_new = counter.integer("next") == definition.first;
        bson_iter_t at;
        const Document all = counter.find("numbers_in", &at) ? mongo::as_document(at) : Document();
        all.each_field([&](const char* key, const bson_iter_t* /*at*/) {
          if (const auto uuid = uuid_in(all, key)) uuids.push_back(*uuid);
        });
      });
  if (!there) return std::unexpected(there.error());
  if (!*there) return {};  // the first transaction says so
  if (auto ours = database_.take_over(kCounters, Bson(), made_by, until); !ours) return ours;

  const bool same = bound == place.name;
  const bool anew = !bound || (!same && is_new);
  if (!find_uuid(place, until) && (anew || same)) {
    const Result<Bson> made = database_.servers->run(
        Bson("create", std::string_view(place.target.collection)), Kind::kWrite, until,
        "make a collection in", {.idempotent = true, .database = place.target.database});
    static_cast<void>(made);  // or another made it, or the first insert does
    find_uuid(place, until);
  }
  const bool renamed = !anew && !same && place.uuid && !uuids.empty() &&
                       uuids.back() == *place.uuid && is_of_field(*bound, place.target.field);
  const bool unknown = same && place.uuid && std::ranges::find(uuids, *place.uuid) == uuids.end();
  if (!anew && !renamed && !unknown) return {};

  Bson those;
  if (place.uuid) add_uuid(those, "0", *place.uuid);
  Bson all("$literal", BsonArray{std::move(those)});
  Bson query("_id", std::string_view(definition.name));
  Bson set;
  if (anew) {
    query.add_all(
        *Bson(R"({"$or":[{"numbers":{"$exists":false}},{"$expr":{"$eq":["$next","$first"]}}]})")
             .get());
  } else {
    query.add("numbers", std::string_view(*bound));
  }
  if (unknown) {
    Bson uuid;
    add_uuid(uuid, "$ne", *place.uuid);
    query.add("numbers_in", uuid);
    const BsonArray known = mongo::array("$numbers_in", BsonArray{});
    all = Bson("$concatArrays", mongo::array(Bson("$ifNull", known), all));
  } else {
    set.add("numbers", Bson("$literal", std::string_view(place.name)));
  }
  if (anew || unknown) set.add("numbers_in", all);
  // One that only lacks the UUID, as older versions made it, goes on without.
  const SteadyTime by =
      unknown ? std::min(until, std::chrono::steady_clock::now() + kAbandoned) : until;
  const Result<bool> done =
      database_.change(kCounters, std::move(query), Bson("0", Bson("$set", set)), by,
                       "bind a sequence in", [](const Document&) {});
  if (!done && !unknown) return std::unexpected(done.error());
  return {};
}

// Best effort: what stays bound without a number keeps others from the field, and says so.
void Gapless::unbind(const SequenceDefinition& definition, const Place& place, SteadyTime until) {
  Bson query(R"({"$expr":{"$eq":["$next","$first"]}})");
  query.add("_id", std::string_view(definition.name)).add("numbers", std::string_view(place.name));
  const Result<bool> unbound = database_.change(
      kCounters, std::move(query), Bson(R"({"0":{"$unset":["numbers","numbers_in"]}})"), until,
      "unbind a sequence in", [](const Document&) {});
  static_cast<void>(unbound);
}

// Another sequence that numbers the same field and can give the same numbers. One that is not
// retired can be extended, so that only its first number is certain.
Result<std::optional<std::string>> Gapless::rival_of(const SequenceDefinition& definition,
                                                     const Place& place, SteadyTime until) {
  Bson of_name("numbers", std::string_view(place.name));
  Bson of_uuid;
  if (place.uuid) add_uuid(of_uuid, "numbers_in", *place.uuid);
  const Bson filter("_id", Bson("$ne", std::string_view(definition.name)), "$or",
                    place.uuid ? mongo::array(of_name, of_uuid) : mongo::array(of_name));
  Bson command;
  command.add("find", kCounters)
      .add("filter", filter)
      .add("batchSize", 1000)
      .add("singleBatch", true);
  const Result<Bson> reply = database_.servers->run(std::move(command), Kind::kReadMany, until,
                                                    "look for sequences of the same field in");
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::string> others;
  reply->view().each_found([&](const Document& counter) {
    if (!is_of_field(counter.bytes("numbers").value_or(""), place.target.field)) return;
    const bool past = counter.boolean("closed").value_or(false) &&
                      counter.integer("next").value_or(kLargestValue) <= definition.first;
    if (!past) others.emplace_back(counter.bytes("_id").value_or(""));
  });
  for (const std::string& other : others) {
    bool alike = true;
    const Result<bool> there =
        database_.read(kDefinitions, other, until, [&](const Document& found) {
          const auto read = definition_from_json(found.bytes("json").value_or(""));
          alike = !read || may_print_alike(form(*read), definition.form);
        });
    if (!there) return std::unexpected(there.error());
    if (alike) return other;
  }
  return std::nullopt;
}

// The connections have the sequence's name.
Result<std::unique_ptr<GaplessTransactions>> Gapless::transactions(
    const SequenceDefinition& definition, std::string_view collection, std::string_view field,
    bool make_index, milliseconds deadline, Entropy& entropy) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  Result<NumberField> target = number_field(collection, field);
  if (!target) return std::unexpected(std::move(target).error());
  Place place{*target, shown_field(*target)};
  if (Result<void> bound = bind(definition, place, *until); !bound)
    return std::unexpected(std::move(bound).error());
  const Result<std::optional<std::string>> found = rival_of(definition, place, *until);
  if (!found) return std::unexpected(found.error());
  const std::optional<std::string>& rival = *found;
  if (make_index || rival) {
    Result<idmint::mongodb::Collection> numbered = idmint::mongodb::Collection::open(
        url_, target->database + "." + target->collection, {.deadline = deadline});
    if (!numbered) return std::unexpected(std::move(numbered).error());
    if (Result<void> guarded = numbered->state().need_unique(target->field, make_index); !guarded) {
      Error why = std::move(guarded).error();
      if (rival) {
        unbind(definition, place, *until);
        why = in_context("sequence " + *rival + " numbers " + shown(place.name) +
                             ", and sequence " + definition.name + " can give the same numbers",
                         std::move(why));
      }
      return std::unexpected(std::move(why));
    }
  }
  Result<Connected> connected = connect(url_, deadline, {.purpose = "gapless " + definition.name});
  if (!connected) return std::unexpected(std::move(connected).error());
  auto plan = std::make_shared<const Plan>(Plan{database_.id, database_.where, definition,
                                                *std::move(target), connected->database,
                                                connected->application, entropy});
  return std::make_unique<MongodbGapless>(std::move(connected->servers), std::move(plan));
}

}  // namespace idmint::stores::mongodb
