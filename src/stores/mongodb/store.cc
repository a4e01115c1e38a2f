// mongodb://... and mongodb+srv://... In the database of the URL's path, or else "idmint":
//
//   idmint.store         {_id: "store", id: UUID, schema: 1}                        one document
//   idmint.counters      {_id: NAME, first, last, stride, next, closed}
//   idmint.definitions   {_id: NAME, json}                                          to_json
//   idmint.claims.SPACE  {_id: KEY}, and {_id: "space", name: SPACE, closed}
//
// `next` is what the next advance hands out. NAME is a string, or binary where it is not UTF-8. The
// collection of a space whose name does not make one is called by its SHA-256.
//
// Every write is one command on one document, or one unordered insert, sent as servers.h says. The
// commands are those that MongoDB 4.4 to 8.0 have in common.
#include "idmint/store.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/fork_wiped.h"
#include "stores/backend.h"
#include "stores/mongodb/bson.h"
#include "stores/mongodb/servers.h"

namespace idmint::stores {
namespace mongodb {
namespace {

constexpr const char* kStore = "idmint.store";
constexpr const char* kCounters = "idmint.counters";
constexpr const char* kDefinitions = "idmint.definitions";
constexpr const char* kSpace = "space";  // the _id of the document of a space among its claims
constexpr std::int64_t kSchema = 1;

// An integer as extended JSON.
std::string number(std::int64_t value) {
  return R"({"$numberLong":")" + std::to_string(value) + R"("})";
}

// The arithmetic of CounterState::left() and CounterBounds::at_or_above(), in a record's own
// strides. No sum overflows: 0 <= first, next <= last + stride <= 2^63 - 1. A product may, and is
// then a double above every rest.
const std::string kRest = R"({"$add":[{"$subtract":["$last","$next"]},"$stride"]})";
const std::string kWhole =
    R"({"$subtract":[)" + kRest + R"(,{"$mod":[)" + kRest + R"(,"$stride"]}]})";

// The query for the counter, where its record is as record_of() wants it and `condition` holds: of
// any other nothing is changed, or a damage would be mended in silence, and values come again.
Bson counter_where(std::string_view counter, const std::string& condition) {
  // Asked one after the other: the arithmetic of each is possible where those before it hold.
  const std::string numbers =
      R"({"$and":[{"$isNumber":"$first"},{"$isNumber":"$last"},{"$isNumber":"$stride"},)"
      R"({"$isNumber":"$next"},{"$in":["$closed",[true,false]]}]})";
  const std::string bounds =
      R"({"$and":[{"$gte":["$stride",1]},{"$gte":["$first",0]},{"$lte":["$first","$last"]},)"
      R"({"$lte":["$last",{"$subtract":[)" +
      number(kLargestValue) + R"(,{"$subtract":["$stride",1]}]}]}]})";
  const std::string next =
      R"({"$and":[{"$gte":["$next","$first"]},{"$lte":["$next",{"$add":["$last","$stride"]}]},)"
      R"({"$eq":[{"$mod":[{"$subtract":["$next","$first"]},"$stride"]},0]})" +
      condition + "]}";
  const auto only_if = [](const std::string& first, const std::string& then) {
    return R"({"$cond":[)" + first + "," + then + ",false]}";
  };
  Bson query(R"({"$expr":)" + only_if(numbers, only_if(bounds, next)) + "}");
  Bson integer;
  integer.add_array("$type", Bson().add("0", "int").add("1", "long"));
  for (const char* const field : {"first", "last", "stride", "next"}) query.add(field, integer);
  query.add("_id", counter);
  return query;
}

std::string in_strides(std::int64_t count) {
  return R"({"$multiply":[)" + number(count) + R"(,"$stride"]})";
}

// The update that makes the next value `expression`, of the type that it has. (In JSON "$type" is
// of binary data.)
Bson next_becomes(const std::string& expression) {
  Bson is_int;
  is_int.add_array("$eq", Bson().add("0", Bson().add("$type", "$next")).add("1", "int"));
  Bson kept;
  kept.add_array("$cond", Bson()
                              .add("0", is_int)
                              .add("1", Bson(R"({"$toInt":)" + expression + "}"))
                              .add("2", Bson(R"({"$toLong":)" + expression + "}")));
  Bson update;
  update.add("0", Bson().add("$set", Bson().add("next", kept)));
  return update;
}

struct Record {
  CounterState state{};
  bool whole = false;  // as idmint writes them
};

Record record_of(const View& document) {
  const auto first = document.integer("first");
  const auto last = document.integer("last");
  const auto stride = document.integer("stride");
  const auto next = document.integer("next");
  const auto closed = document.boolean("closed");
  const auto name = document.bytes("_id");
  if (!first || !last || !stride || !next || !closed || !name) return {};
  const bool whole = 0 <= *first && 1 <= *stride && *first <= *last &&
                     *last <= largest_last(*stride) && *first <= *next &&
                     *next <= *last + *stride && (*next - *first) % *stride == 0;
  return {{std::string(*name), {*first, *last, *stride}, *next, *closed}, whole};
}

class MongodbStore final : public Store,
                           private CounterStore,
                           private Catalog,
                           private UniqueIndex {
 public:
  MongodbStore(std::string url, std::string where, std::unique_ptr<Servers> servers,
               milliseconds deadline, Access access)
      : url_(std::move(url)),
        where_(std::move(where)),
        deadline_(deadline),
        access_(access),
        servers_(std::move(servers)) {}

  // In a child of fork() the driver's clients, and the threads that are not there, are left as they
  // are, on purpose.
  ~MongodbStore() override {
    if (owner_) return;
    [[maybe_unused]] const Servers* const left = servers_.release();
  }
  MongodbStore(const MongodbStore&) = delete;
  MongodbStore& operator=(const MongodbStore&) = delete;

  const Uuid& id() const noexcept override { return id_; }
  std::string_view url() const noexcept override { return url_; }
  CounterStore* counters() noexcept override { return this; }
  Catalog* catalog() noexcept override { return this; }
  UniqueIndex* unique_index() noexcept override { return this; }

  // Called once, before anything else.
  Result<void> open(const StoreOptions& options);

 private:
  // When a call that begins now must have answered.
  Result<SteadyTime> enter_to_read() const {
    if (!owner_) return std::unexpected(inherited_handle(url_));
    return std::chrono::steady_clock::now() + deadline_;
  }
  Result<SteadyTime> enter() const {
    if (access_ == Access::kReadOnly)
      return std::unexpected(
          Error{Code::kPermissionDenied, where_ + " was opened to read only; open it to write "
                                                  "(StoreOptions::access)"});
    return enter_to_read();
  }

  Result<void> create(std::span<const NewCounter> counters) override;
  Result<Range> advance(std::string_view counter, std::int64_t count, Take take) override;
  Result<std::vector<std::int64_t>> raise(std::span<const std::string> counters,
                                          std::int64_t floor) override;
  Result<std::vector<CounterBounds>> extend(std::span<const std::string> counters,
                                            std::int64_t last) override;
  Result<CounterState> peek(std::string_view counter) override;
  Result<std::vector<CounterState>> list(std::string_view prefix) override;
  Result<void> close(std::span<const std::string> counters) override;
  Result<Definition> define(const Definition& definition) override;
  Result<Definition> replace(const Definition& old, const Definition& updated) override;
  Result<Definition> find(std::string_view name) override;
  Result<std::vector<CatalogEntry>> list() override;
  Result<void> create_space(std::string_view space) override;
  Result<std::vector<bool>> insert(std::string_view space,
                                   std::span<const std::int64_t> keys) override;
  Result<std::int64_t> claimed(std::string_view space) override;
  Result<void> close_space(std::string_view space) override;

  using Use = std::function<void(const View&)>;

  Result<bool> change(std::string_view collection, Bson query, const Bson& update, SteadyTime until,
                      std::string_view doing, const Use& before);
  Result<bool> read(std::string_view collection, std::string_view name, SteadyTime until,
                    const Use& use);
  Result<void> read_all(std::string_view collection, std::string_view from, SteadyTime until,
                        const std::function<bool(const View&)>& use);
  Result<std::vector<std::size_t>> insert_new(std::string_view collection, const Bson& documents,
                                              std::int64_t count, SteadyTime until,
                                              std::string_view doing);
  Result<CounterState> read_counter(std::string_view counter, SteadyTime until);
  Result<std::map<std::string, Record>> read_counters(std::span<const std::string> counters,
                                                      SteadyTime until);
  // Says of a counter whether it is as it is to be; an error where it never will.
  using Done = std::function<Result<bool>(const CounterState&)>;
  Result<std::vector<CounterState>> change_each(std::span<const std::string> counters,
                                                const std::string& condition, const Bson& update,
                                                std::string_view doing, const Done& done);
  Result<CounterState> checked(const Record& record, std::string_view counter) const;
  Result<void> make_some(std::span<const NewCounter> counters, SteadyTime until);
  Result<Definition> read_definition(std::string_view name, SteadyTime until,
                                     std::string* json = nullptr);
  Result<Definition> definition_of(std::string_view name, std::string_view json) const;
  Result<bool> read_space(std::string_view space, SteadyTime until);
  Result<void> make_store(const StoreOptions& options, SteadyTime until);
  std::unexpected<Error> damaged(std::string why) const;

  const OwnedByProcess owner_;
  const std::string url_;
  const std::string where_;
  const milliseconds deadline_;
  const Access access_;
  std::unique_ptr<Servers> servers_;
  Uuid id_;
};

std::unexpected<Error> MongodbStore::damaged(std::string why) const {
  return std::unexpected(
      Error{Code::kDataLoss, where_ + " is damaged: " + std::move(why) +
                                 "; look at it before you restore anything, and go on with "
                                 "sequences that begin past every value in use"});
}

// What was done may have been, if what came after it failed.
Error after_a_write(Error error) {
  if (error.code == Code::kUnavailable) error.code = Code::kUnknown;
  return error;
}

// Changes the one document that `query` finds, and shows it as it was before. False: there is none.
Result<bool> MongodbStore::change(std::string_view collection, Bson query, const Bson& update,
                                  SteadyTime until, std::string_view doing, const Use& before) {
  Bson command;
  command.add("findAndModify", collection).add("query", query).add_array("update", update);
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kWrite, until, doing);
  if (!reply) return std::unexpected(reply.error());
  return reply->view().document("value", before);
}

Result<bool> MongodbStore::read(std::string_view collection, std::string_view name,
                                SteadyTime until, const Use& use) {
  Bson command;
  command.add("find", collection)
      .add("filter", Bson().add("_id", name))
      .add("limit", 1)
      .add("singleBatch", true);
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadOne, until, "read");
  if (!reply) return std::unexpected(reply.error());
  bool found = false;
  reply->view().document("cursor", [&](const View& cursor) {
    cursor.each("firstBatch", [&](const View& document) {
      found = true;
      use(document);
    });
  });
  return found;
}

// All documents from the name `from` on, in the order of their names, those whose names are strings
// first; a page at a time, since no cursor outlives its primary. Stops where `use` says false.
Result<void> MongodbStore::read_all(std::string_view collection, std::string_view from,
                                    SteadyTime until, const std::function<bool(const View&)>& use) {
  constexpr std::int32_t kPage = 5000;
  // MongoDB compares only what has one type.
  for (const bool strings : {true, false}) {
    Bson filter;
    filter.add("_id", strings ? std::move(Bson().add("$gte", from))
                              : std::move(Bson().add_binary("$gte", BSON_SUBTYPE_BINARY, "")));
    for (;;) {
      Bson command;
      command.add("find", collection)
          .add("filter", filter)
          .add("sort", Bson().add("_id", 1))
          .add("limit", kPage)
          .add("batchSize", kPage)
          .add("singleBatch", true);
      const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadMany, until, "read");
      if (!reply) return std::unexpected(reply.error());
      std::int32_t found = 0;
      bool more = true;
      std::string last;
      reply->view().document("cursor", [&](const View& cursor) {
        cursor.each("firstBatch", [&](const View& document) {
          ++found;
          last = document.bytes("_id").value_or("");
          more = more && use(document);
        });
      });
      if (!more || found < kPage) break;
      Bson past;
      if (strings) {
        past.add("$gt", last);
      } else {
        past.add_binary("$gt", BSON_SUBTYPE_BINARY, last);
      }
      filter = Bson();
      filter.add("_id", past);
    }
  }
  return {};
}

// Inserts those of the documents whose _id is not there; returns the places of the others.
Result<std::vector<std::size_t>> MongodbStore::insert_new(std::string_view collection,
                                                          const Bson& documents, std::int64_t count,
                                                          SteadyTime until,
                                                          std::string_view doing) {
  Bson command;
  command.add("insert", collection).add_array("documents", documents).add("ordered", false);
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kWrite, until, doing);
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::size_t> taken;
  reply->view().each("writeErrors", [&](const View& error) {
    taken.push_back(static_cast<std::size_t>(error.number("index")));
  });
  // One that was sent again counts what the first one did.
  if (reply->view().number("n") + static_cast<std::int64_t>(taken.size()) != count)
    return std::unexpected(Error{Code::kUnknown, "could not " + std::string(doing) + " " + where_ +
                                                     ": the answer does not say of each whether it "
                                                     "was done"});
  return taken;
}

// ---- opening

Result<void> MongodbStore::open(const StoreOptions& options) {
  const SteadyTime until = std::chrono::steady_clock::now() + deadline_;
  std::optional<std::int64_t> schema;
  std::optional<Uuid> id;
  const auto read_store = [&] {
    return read(kStore, "store", until, [&](const View& document) {
      schema = document.integer("schema").value_or(-1);
      const auto bytes = document.bytes("id");
      Uuid::Bytes raw{};
      if (!bytes || bytes->size() != raw.size()) return;
      std::ranges::copy(*bytes, raw.begin());
      id = Uuid(raw);
    });
  };
  Result<bool> there = read_store();
  if (!there) return std::unexpected(there.error());
  if (!*there) {
    bool counters = false;
    const Result<void> looked = read_all(kCounters, "", until, [&](const View&) {
      counters = true;
      return false;
    });
    if (!looked) return looked;
    if (counters) {
      // Unless another process was making the store just now.
      there = read_store();
      if (!there) return std::unexpected(there.error());
      if (!*there)
        return damaged(std::string("it has counters, and its document in ") + kStore +
                       " is missing");
    }
  }
  if (!*there) {
    if (!options.create || options.access == Access::kReadOnly)
      return std::unexpected(
          Error{Code::kNotFound,
                "no store in " + where_ + "; make a store with: idmint create NAME --store " +
                    url_ + " (in a program: StoreOptions::create), or name the database of one"});
    if (Result<void> made = make_store(options, until); !made) return made;
    there = read_store();
    if (!there) return std::unexpected(there.error());
  }
  if (schema && *schema > kSchema)
    return std::unexpected(
        Error{Code::kFailedPrecondition, where_ + " has schema version " + std::to_string(*schema) +
                                             ", and this idmint knows versions up to " +
                                             std::to_string(kSchema) +
                                             "; it was left as it is: use a newer idmint"});
  if (!id || schema != kSchema)
    return damaged(std::string("its document in ") + kStore + " is not as idmint writes it");
  id_ = *id;
  return {};
}

// Of two that come here at once, one makes the document, and the other finds it made.
Result<void> MongodbStore::make_store(const StoreOptions& options, SteadyTime until) {
  const Uuid id = draw_store_id(options);
  Bson document;
  document.add("_id", "store")
      .add_binary(
          "id", BSON_SUBTYPE_UUID,
          std::string_view(reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()))
      .add("schema", kSchema);
  const auto made = insert_new(kStore, Bson().add("0", document), 1, until, "make a store in");
  if (!made) return std::unexpected(made.error());
  return {};
}

// ---- counters

Result<CounterState> MongodbStore::checked(const Record& record, std::string_view counter) const {
  if (record.whole) return record.state;
  return damaged("the record of counter " + shown(counter) + " in " + kCounters +
                 " is not as idmint writes it");
}

Result<CounterState> MongodbStore::read_counter(std::string_view counter, SteadyTime until) {
  Record record;
  const Result<bool> there =
      read(kCounters, counter, until, [&](const View& found) { record = record_of(found); });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_counter(counter, url_));
  return checked(record, counter);
}

// Those that are there, all at once: there may be thousands. REQUIRES: few enough for one message.
Result<std::map<std::string, Record>> MongodbStore::read_counters(
    std::span<const std::string> counters, SteadyTime until) {
  Bson names;
  for (std::size_t i = 0; i < counters.size(); ++i)
    names.add(std::to_string(i).c_str(), std::string_view(counters[i]));
  Bson command;
  command.add("find", kCounters)
      .add("filter", Bson().add("_id", Bson().add_array("$in", names)))
      .add("batchSize", static_cast<std::int32_t>(counters.size()))
      .add("singleBatch", true);
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadMany, until, "read");
  if (!reply) return std::unexpected(reply.error());
  std::map<std::string, Record> found;
  reply->view().document("cursor", [&](const View& cursor) {
    cursor.each("firstBatch", [&](const View& document) {
      found.insert_or_assign(std::string(document.bytes("_id").value_or("")), record_of(document));
    });
  });
  // What a majority has may be behind what it acknowledged, on a new primary: this read is not.
  for (const std::string& counter : counters) {
    if (found.contains(counter)) continue;
    const Result<bool> there = read(kCounters, counter, until, [&](const View& document) {
      found.insert_or_assign(counter, record_of(document));
    });
    if (!there) return std::unexpected(there.error());
  }
  return found;
}

// REQUIRES: few enough for one message.
Result<void> MongodbStore::make_some(std::span<const NewCounter> counters, SteadyTime until) {
  Bson documents;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const auto& [name, bounds] = counters[i];
    documents.add(std::to_string(i).c_str(), Bson()
                                                 .add("_id", std::string_view(name))
                                                 .add("first", bounds.first)
                                                 .add("last", bounds.last)
                                                 .add("stride", bounds.stride)
                                                 .add("next", bounds.first)
                                                 .add("closed", false));
  }
  const auto there =
      insert_new(kCounters, documents, std::ssize(counters), until, "make counters in");
  if (!there) return std::unexpected(there.error());
  if (there->empty()) return {};

  // Those that were there already must be the same.
  std::vector<std::string> names;
  for (const std::size_t i : *there) names.push_back(counters[i].name);
  const auto found = read_counters(names, until);
  if (!found) return std::unexpected(after_a_write(found.error()));
  for (const std::size_t i : *there) {
    const auto at = found->find(counters[i].name);
    if (at == found->end())
      return damaged("counter " + shown(counters[i].name) + " went away while it was made");
    const Result<CounterState> state = checked(at->second, counters[i].name);
    if (!state) return std::unexpected(state.error());
    if (state->bounds != counters[i].bounds)
      return std::unexpected(other_bounds(*state, counters[i].bounds));
  }
  return {};
}

Result<void> MongodbStore::create(std::span<const NewCounter> counters) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_new_counters(counters); !ok) return ok;
  constexpr std::size_t kAtOnce = 5000;  // 6 MB at most, of the 16 that a message may have
  bool some = false;
  for (; !counters.empty(); counters = counters.subspan(std::min(kAtOnce, counters.size()))) {
    Result<void> made = make_some(counters.first(std::min(kAtOnce, counters.size())), *until);
    if (!made && some) return std::unexpected(after_a_write(made.error()));
    if (!made) return made;
    some = true;
  }
  return {};
}

Result<Range> MongodbStore::advance(std::string_view counter, std::int64_t count, Take take) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_count(counter, count); !ok) return std::unexpected(ok.error());
  const std::int64_t least = take == Take::kAll ? count : 1;
  const Bson update =
      next_becomes(R"({"$add":["$next",{"$min":[)" + in_strides(count) + "," + kWhole + "]}]}");
  // Another round only if somebody made, or extended, the counter between the two commands.
  for (;;) {
    Bson query = counter_where(counter, R"(,{"$gte":[)" + kWhole + "," + in_strides(least) + "]}");
    query.add("closed", false);
    Record record;
    const Result<bool> moved =
        change(kCounters, std::move(query), update, *until, "take values from",
               [&](const View& before) { record = record_of(before); });
    if (!moved) return std::unexpected(moved.error());
    if (*moved) {
      const Result<CounterState> before = checked(record, counter);
      if (!before) return std::unexpected(before.error());
      return Range{before->next, before->bounds.stride, std::min(count, before->left())};
    }
    const Result<CounterState> state = read_counter(counter, *until);
    if (!state) return std::unexpected(state.error());
    if (state->closed || state->left() < least)
      return std::unexpected(refused_advance(*state, count));
  }
}

// One update for each counter that is whole and meets the condition, all of them sent together;
// then they are read, and what was made meanwhile is changed too. What is not there is told last.
Result<std::vector<CounterState>> MongodbStore::change_each(std::span<const std::string> counters,
                                                            const std::string& condition,
                                                            const Bson& update,
                                                            std::string_view doing,
                                                            const Done& done) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_counters(counters.size()); !ok) return std::unexpected(ok.error());
  constexpr std::size_t kAtOnce = 2000;  // 6 MB at most, of the 16 that a message may have
  std::vector<CounterState> states;
  std::optional<Error> failure;
  bool some = false;
  while (!counters.empty()) {
    const auto batch = counters.first(std::min(kAtOnce, counters.size()));
    Bson updates;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Bson one;
      one.add("q", counter_where(batch[i], condition)).add_array("u", update);
      updates.add(std::to_string(i).c_str(), one);
    }
    Bson command;
    command.add("update", kCounters).add_array("updates", updates).add("ordered", false);
    const Result<Bson> reply = servers_->run(std::move(command), Kind::kWrite, *until, doing);
    if (!reply) return std::unexpected(some ? after_a_write(reply.error()) : reply.error());
    some = true;
    const auto found = read_counters(batch, *until);
    if (!found) return std::unexpected(after_a_write(found.error()));
    bool again = false;
    std::vector<CounterState> now;
    for (const std::string& counter : batch) {
      const auto at = found->find(counter);
      if (at == found->end()) {
        failure = no_counter(counter, url_);
        continue;
      }
      Result<CounterState> state = checked(at->second, counter);
      if (!state) return std::unexpected(std::move(state).error());
      const Result<bool> as_wanted = done(*state);
      if (!as_wanted) failure = as_wanted.error();
      again = again || (as_wanted && !*as_wanted);
      now.push_back(*std::move(state));
    }
    if (again) continue;
    std::ranges::move(now, std::back_inserter(states));
    counters = counters.subspan(batch.size());
  }
  if (failure) return std::unexpected(*std::move(failure));
  return states;
}

Result<std::vector<std::int64_t>> MongodbStore::raise(std::span<const std::string> counters,
                                                      std::int64_t floor) {
  const std::string from_first = R"({"$subtract":[{"$min":[{"$max":[)" + number(floor) +
                                 R"(,"$first"]},{"$add":["$last",1]}]},"$first"]})";
  const std::string up = R"({"$add":[)" + from_first + R"(,{"$subtract":["$stride",1]}]})";
  const Bson update = next_becomes(R"({"$max":["$next",{"$add":["$first",{"$subtract":[)" + up +
                                   R"(,{"$mod":[)" + up + R"(,"$stride"]}]}]}]})");
  const auto states =
      change_each(counters, "", update, "raise a counter in", [&](const CounterState& state) {
        return Result<bool>(state.next >= state.bounds.at_or_above(floor));
      });
  if (!states) return std::unexpected(states.error());
  std::vector<std::int64_t> next;
  for (const CounterState& state : *states) next.push_back(state.next);
  return next;
}

Result<std::vector<CounterBounds>> MongodbStore::extend(std::span<const std::string> counters,
                                                        std::int64_t last) {
  const std::string it_can_be = R"(,{"$lte":[)" + number(last) + R"(,{"$subtract":[)" +
                                number(kLargestValue) + R"(,{"$subtract":["$stride",1]}]}]})";
  const Bson update(R"([{"$set":{"last":{"$toLong":{"$max":["$last",)" + number(last) + "]}}}}]");
  const auto states = change_each(
      counters, it_can_be, update, "extend a counter in", [&](const CounterState& state) {
        const std::int64_t stride = state.bounds.stride;
        if (last > largest_last(stride))
          return Result<bool>(std::unexpected(too_large_an_end(state.name, last, stride)));
        return Result<bool>(state.bounds.last >= last);
      });
  if (!states) return std::unexpected(states.error());
  std::vector<CounterBounds> bounds;
  for (const CounterState& state : *states) bounds.push_back(state.bounds);
  return bounds;
}

Result<CounterState> MongodbStore::peek(std::string_view counter) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  return read_counter(counter, *until);
}

Result<std::vector<CounterState>> MongodbStore::list(std::string_view prefix) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  // A prefix may end within a character.
  std::string_view from = prefix;
  while (!Bson::is_utf8(from)) from.remove_suffix(1);
  std::vector<CounterState> found;
  std::optional<Error> error;
  const Result<void> read = read_all(kCounters, from, *until, [&](const View& document) {
    const auto name = document.bytes("_id");
    if (!name) return true;
    if (name->starts_with(prefix)) {
      Result<CounterState> state = checked(record_of(document), *name);
      if (!state) error = state.error();
      if (state) found.push_back(*std::move(state));
    }
    return name->starts_with(from) || !Bson::is_utf8(*name);
  });
  if (!read) return std::unexpected(read.error());
  if (error) return std::unexpected(*error);
  std::ranges::sort(found, {}, &CounterState::name);
  return found;
}

const char* const kClose = R"([{"$set":{"closed":true}}])";

Result<void> MongodbStore::close(std::span<const std::string> counters) {
  const auto states =
      change_each(counters, "", Bson(kClose), "close a counter in",
                  [](const CounterState& state) { return Result<bool>(state.closed); });
  if (!states) return std::unexpected(states.error());
  return {};
}

// ---- definitions

Result<Definition> MongodbStore::definition_of(std::string_view name, std::string_view json) const {
  Result<Definition> definition = definition_from_json(json);
  if (!definition) {
    definition.error().message = where_ + ", " + shown(name) + ": " + definition.error().message;
  } else if (definition->name != name) {
    return damaged("the definition of " + shown(name) + " is that of " + shown(definition->name));
  }
  return definition;
}

// Puts the text itself into `json`.
Result<Definition> MongodbStore::read_definition(std::string_view name, SteadyTime until,
                                                 std::string* json) {
  std::string text;
  const Result<bool> there = read(kDefinitions, name, until, [&](const View& found) {
    text = found.bytes("json").value_or("");
  });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_definition(name, url_));
  if (json != nullptr) *json = text;
  return definition_of(name, text);
}

Result<Definition> MongodbStore::define(const Definition& definition) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_stored(definition); !ok) return std::unexpected(ok.error());
  Bson document;
  document.add("_id", std::string_view(definition.name))
      .add("json", std::string_view(to_json(definition)));
  const auto made =
      insert_new(kDefinitions, Bson().add("0", document), 1, *until, "write a definition into");
  if (!made) return std::unexpected(made.error());
  Result<Definition> there = read_definition(definition.name, *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

// Replaces the text that was read, and no other.
Result<Definition> MongodbStore::replace(const Definition& old, const Definition& updated) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_replacement(old, updated); !ok) return std::unexpected(ok.error());
  std::string json;
  Result<Definition> there = read_definition(old.name, *until, &json);
  if (!there || *there != old) return there;
  Bson query;
  query.add("_id", std::string_view(old.name)).add("json", std::string_view(json));
  Bson update;
  update.add(
      "0", Bson().add("$set", Bson().add("json", Bson().add("$literal",
                                                            std::string_view(to_json(updated))))));
  const Result<bool> done = change(kDefinitions, std::move(query), update, *until,
                                   "replace a definition in", [](const View&) {});
  if (!done) return std::unexpected(done.error());
  there = read_definition(old.name, *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

Result<Definition> MongodbStore::find(std::string_view name) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  return read_definition(name, *until);
}

Result<std::vector<CatalogEntry>> MongodbStore::list() {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  std::vector<CatalogEntry> all;
  const Result<void> read = read_all(kDefinitions, "", *until, [&](const View& document) {
    const std::string name(document.bytes("_id").value_or(""));
    all.push_back({name, definition_of(name, document.bytes("json").value_or(""))});
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return all;
}

// ---- claims

// The collection of a space.
std::string claims_of(std::string_view space) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
  if (!space.empty() && space.size() <= 120 &&
      space.find_first_not_of(kPlain) == std::string_view::npos && !space.ends_with('.') &&
      !space.starts_with('.') && !space.contains("..") && !space.contains("system."))
    return "idmint.claims." + std::string(space);
  const auto hash = digest_of(Digest::kSha256, {std::as_bytes(std::span(space))});
  if (!hash) return "";  // no OpenSSL offers no SHA-256; the server refuses the name
  std::string name = "idmint.claims-of-";
  for (const std::uint8_t byte : *hash) {
    constexpr std::string_view kHex = "0123456789abcdef";
    name += kHex[byte >> 4];
    name += kHex[byte & 15];
  }
  return name;
}

// Whether it is closed.
Result<bool> MongodbStore::read_space(std::string_view space, SteadyTime until) {
  std::optional<bool> closed;
  const Result<bool> there = read(claims_of(space), kSpace, until, [&](const View& document) {
    closed = document.boolean("closed");
  });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_space(space, url_));
  if (!closed)
    return damaged("the document \"space\" in " + claims_of(space) + " is not as idmint writes it");
  return *closed;
}

Result<void> MongodbStore::create_space(std::string_view space) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_new_space(space); !ok) return ok;
  Bson document;
  document.add("_id", kSpace).add("name", space).add("closed", false);
  const auto made = insert_new(claims_of(space), Bson().add("0", document), 1, *until,
                               "make a space of claims in");
  if (!made) return std::unexpected(made.error());
  return {};
}

// A close that ends while this is under way may come before or after it.
Result<std::vector<bool>> MongodbStore::insert(std::string_view space,
                                               std::span<const std::int64_t> keys) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_keys(space, keys.size()); !ok) return std::unexpected(ok.error());
  const Result<bool> closed = read_space(space, *until);
  if (!closed) return std::unexpected(closed.error());
  if (*closed) return std::unexpected(closed_space(space));
  const std::string collection = claims_of(space);
  std::vector<bool> ours(keys.size(), true);
  constexpr std::size_t kAtOnce = 10'000;  // of each that is taken the reply has a line
  for (std::size_t from = 0; from < keys.size(); from += kAtOnce) {
    const auto some = keys.subspan(from, std::min(kAtOnce, keys.size() - from));
    Bson documents;
    for (std::size_t i = 0; i < some.size(); ++i)
      documents.add(std::to_string(i).c_str(), Bson().add("_id", some[i]));
    const auto taken =
        insert_new(collection, documents, std::ssize(some), *until, "claim numbers in");
    if (!taken && from > 0) return std::unexpected(after_a_write(taken.error()));
    if (!taken) return std::unexpected(taken.error());
    for (const std::size_t i : *taken) ours.at(from + i) = false;
  }
  return ours;
}

Result<std::int64_t> MongodbStore::claimed(std::string_view space) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  const Result<bool> closed = read_space(space, *until);
  if (!closed) return std::unexpected(closed.error());
  Bson command;
  command.add("count", std::string_view(claims_of(space)));
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadMany, *until, "read");
  if (!reply) return std::unexpected(reply.error());
  return reply->view().number("n") - 1;
}

Result<void> MongodbStore::close_space(std::string_view space) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  const Result<bool> there =
      change(claims_of(space), std::move(Bson().add("_id", kSpace)), Bson(kClose), *until,
             "close a space of claims in", [](const View&) {});
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_space(space, url_));
  return {};
}

}  // namespace
}  // namespace mongodb

Result<std::unique_ptr<Store>> open_mongodb(std::string_view url, const StoreOptions& options) {
  Result<mongodb::Connected> connected = mongodb::connect(url, options.deadline);
  if (!connected) return std::unexpected(std::move(connected.error()));
  auto store = std::make_unique<mongodb::MongodbStore>(
      std::move(connected->url), std::move(connected->where), std::move(connected->servers),
      connected->deadline, options.access);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(ok.error());
  return store;
}

}  // namespace idmint::stores
