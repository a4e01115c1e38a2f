// mongodb://... and mongodb+srv://... In the database of the URL's path, or else "idmint":
//
//   idmint.store         {_id: "store", id: UUID, schema: 1}                        one document
//   idmint.counters      {_id: NAME, first, last, stride, next, closed}, or as adopted.h says
//   idmint.definitions   {_id: NAME, json}                                          to_json
//   idmint.claims.SPACE  {_id: KEY}, and {_id: "space", name: SPACE, closed}
//   idmint.workers.POOL  as leases.h says
//
// `next` is what the next advance hands out. NAME is a string, or binary where it is not UTF-8. The
// collection of a space or a pool whose name does not make one is called by its SHA-256.
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
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "mongo/bson.h"
#include "stores/backend.h"
#include "stores/mongodb/adopted.h"
#include "stores/mongodb/leases.h"
#include "stores/mongodb/names.h"
#include "stores/mongodb/servers.h"

namespace idmint::stores {
namespace mongodb {
namespace {

constexpr const char* kStore = "idmint.store";
constexpr const char* kDefinitions = "idmint.definitions";
constexpr const char* kSpace = "space";  // the _id of the document of a space among its claims
constexpr std::int64_t kSchema = 1;

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

// The update that makes the next value `expression`: a long, whatever a hand may have typed.
Bson next_becomes(const std::string& expression) {
  return Bson(R"({"0":{"$set":{"next":{"$toLong":)" + expression + "}}}}");
}

struct Record {
  CounterState state{};
  bool whole = false;                        // as idmint writes them
  std::shared_ptr<const Adopted> adopted{};  // null: a counter of idmint's own
  bool gone = false;                         // the adopted document is
  Reading reading{};                         // of the adopted document
};

Record record_of(const Document& document) {
  if (auto adopted = adopted_in(document)) return {.adopted = std::move(adopted)};
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
  return {.state = {std::string(*name), {*first, *last, *stride}, *next, *closed}, .whole = whole};
}

// With what its adopted document says.
Record filled(Record record, const Document& document) {
  record.gone = false;
  record.reading = read_adopted(*record.adopted, document);
  record.state = record.reading.state;
  record.whole = record.reading.wrong.empty();
  return record;
}

Error beyond_a_double(const Adopted& adopted, std::int64_t last) {
  return {Code::kInvalidArgument,
          "counter " + shown(adopted.name) + " cannot end at " + std::to_string(last) + ": " +
              adopted.record.field + " in " + place_of(adopted.record) +
              " is a double, which counts by one up to " + std::to_string(kLargestInDouble) +
              "; end there or below, or make it a NumberLong"};
}

// kAlreadyExists: the counter is another's than was wanted.
Error other_place(std::string_view counter, const std::optional<AdoptedRecord>& there,
                  const std::optional<AdoptedRecord>& wanted) {
  const auto text = [](const std::optional<AdoptedRecord>& record) {
    return record ? "in " + to_text(*record) : std::string("idmint's own");
  };
  return {Code::kAlreadyExists, "counter " + shown(counter) + " exists and is " + text(there) +
                                    ", not " + text(wanted) + "; use that or another name"};
}

class MongodbStore final : public Store,
                           private CounterStore,
                           private Catalog,
                           private UniqueIndex {
 public:
  MongodbStore(std::string url, std::string where, OwnedServers servers, milliseconds deadline,
               const StoreOptions& options)
      : url_(std::move(url)),
        where_(std::move(where)),
        deadline_(deadline),
        access_(options.access),
        servers_(std::move(servers)),
        leases_(*servers_, {url_, where_, deadline_, options}) {}

  const Uuid& id() const noexcept override { return id_; }
  std::string_view url() const noexcept override { return url_; }
  milliseconds deadline() const noexcept override { return deadline_; }
  CounterStore* counters() noexcept override { return this; }
  Catalog* catalog() noexcept override { return this; }
  UniqueIndex* unique_index() noexcept override { return this; }
  LeaseTable* leases() noexcept override { return &leases_; }
  Result<void> has_transactions(SteadyTime by) override;

  // Called once, before anything else.
  Result<void> open(const StoreOptions& options);

 private:
  // When a call that begins now, and is to answer by then, must have answered.
  Result<SteadyTime> enter_to_read(SteadyTime by = SteadyTime::max()) const {
    if (!servers_->owned()) return std::unexpected(inherited_handle(url_));
    return std::min(by, std::chrono::steady_clock::now() + deadline_);
  }
  Result<SteadyTime> enter(SteadyTime by = SteadyTime::max()) const {
    if (access_ == Access::kReadOnly) return std::unexpected(read_only_handle(where_));
    return enter_to_read(by);
  }

  Result<void> create(std::span<const NewCounter> counters) override;
  Result<Range> advance(std::string_view counter, std::int64_t count, Take take,
                        SteadyTime by) override;
  Result<std::vector<std::int64_t>> raise(std::span<const std::string> counters,
                                          std::int64_t floor) override;
  Result<std::vector<CounterBounds>> extend(std::span<const std::string> counters,
                                            std::int64_t last) override;
  Result<CounterState> peek(std::string_view counter, SteadyTime by) override;
  Result<std::vector<CounterState>> list(std::string_view prefix, SteadyTime by) override;
  Result<void> close(std::span<const std::string> counters) override;
  Result<Definition> define(const Definition& definition) override;
  Result<Definition> replace(const Definition& old, const Definition& updated) override;
  Result<Definition> find(std::string_view name, SteadyTime by) override;
  Result<std::vector<CatalogEntry>> list() override;
  Result<void> create_space(std::string_view space) override;
  Result<std::vector<bool>> insert(std::string_view space, std::span<const std::int64_t> keys,
                                   SteadyTime by) override;
  Result<std::int64_t> claimed(std::string_view space, SteadyTime by) override;
  Result<bool> contains(std::string_view space, std::int64_t key) override;
  Result<void> close_space(std::string_view space) override;

  using Use = std::function<void(const Document&)>;

  Result<bool> change(std::string_view collection, Bson query, const Bson& update, SteadyTime until,
                      std::string_view doing, const Use& before);
  Result<bool> read(std::string_view collection, const Bson& id, SteadyTime until, const Use& use);
  Result<bool> read(std::string_view collection, std::string_view name, SteadyTime until,
                    const Use& use) {
    return read(collection, Bson().add("_id", name), until, use);
  }
  Result<bool> read_with_definition(std::string_view name, SteadyTime until, const Use& use);
  std::optional<std::pair<std::string, std::string>> take_first_definition();
  Result<void> read_all(std::string_view collection, std::string_view from, SteadyTime until,
                        const std::function<bool(const Document&)>& use);
  Result<CounterState> read_counter(std::string_view counter, SteadyTime until);
  using Records = std::map<std::string, Record>;
  Result<Records> read_counters(std::span<const std::string> counters, SteadyTime until);
  Result<Records> find_counters(std::span<const std::string> counters, Kind kind, SteadyTime until);
  Result<void> read_adopted_of(Records& records, SteadyTime until);
  // Says of a counter whether it is as it is to be; an error where it never will.
  using Done = std::function<Result<bool>(const Record&)>;
  // Of those that were adopted.
  struct UpdateOfAdopted {
    std::function<Bson(const Adopted&)> document{};
    bool record = false;       // the one in idmint.counters gets the same as idmint's own counters
    bool may_be_gone = false;  // one that is gone is as good as not found: nothing is taken from it
  };
  Result<std::vector<CounterState>> change_each(std::span<const std::string> counters,
                                                const std::string& condition, const Bson& update,
                                                std::string_view doing, const Done& done,
                                                const UpdateOfAdopted& adopted);
  Result<void> can_end_at(std::int64_t last, std::span<const std::string> counters);
  Result<CounterState> checked(const Record& record, std::string_view counter) const;
  Result<void> make_some(std::span<const NewCounter> counters, SteadyTime until);
  void remember(const Records& records);
  std::shared_ptr<const Adopted> known(std::string_view counter);
  Result<Range> advance_adopted(std::string_view counter, std::int64_t count, Take take,
                                SteadyTime until);
  Result<void> adopt_some(std::span<const NewCounter> counters, SteadyTime until);
  Result<void> agrees_with_others(std::span<const std::shared_ptr<const Adopted>> all,
                                  SteadyTime until);
  Result<void> guard(const AdoptedRecord& record, SteadyTime until);
  Result<Definition> read_definition(std::string_view name, SteadyTime until,
                                     std::string* json = nullptr);
  Result<Definition> definition_of(std::string_view name, std::string_view json) const;
  Result<bool> read_space(std::string_view space, SteadyTime until);
  Result<void> make_store(const StoreOptions& options, SteadyTime until);
  std::unexpected<Error> damaged(std::string why) const;

  const std::string url_;
  const std::string where_;
  const milliseconds deadline_;
  const Access access_;
  const OwnedServers servers_;
  Leases leases_;
  Uuid id_;
  std::mutex first_mutex_;  // guards the name and text of StoreOptions::first_definition
  std::optional<std::pair<std::string, std::string>> first_definition_;
  std::mutex adopted_mutex_;  // guards the map
  // As they were last read: where they are never changes, and their ends only grow.
  std::map<std::string, std::shared_ptr<const Adopted>, std::less<>> adopted_;
};

std::unexpected<Error> MongodbStore::damaged(std::string why) const {
  return std::unexpected(
      Error{Code::kDataLoss, where_ + " is damaged: " + std::move(why) +
                                 "; look at it before you restore anything, and go on with "
                                 "sequences that begin past every value in use"});
}

// Changes the one document that `query` finds, and shows it as it was before. False: there is none.
Result<bool> MongodbStore::change(std::string_view collection, Bson query, const Bson& update,
                                  SteadyTime until, std::string_view doing, const Use& before) {
  Bson command;
  command.add("findAndModify", collection).add("query", query).add_array("update", update);
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kWrite, until, doing);
  if (!reply) return std::unexpected(reply.error());
  const Document value = reply->view().document("value");
  if (value) before(value);
  return bool(value);
}

// The one document with that _id.
Result<bool> MongodbStore::read(std::string_view collection, const Bson& id, SteadyTime until,
                                const Use& use) {
  Bson command;
  command.add("find", collection).add("filter", id).add("limit", 1).add("singleBatch", true);
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadOne, until, "read");
  if (!reply) return std::unexpected(reply.error());
  bool found = false;
  reply->view().each_found([&](const Document& document) {
    found = true;
    use(document);
  });
  return found;
}

// The document of the store; the definition, where it is there, is kept for the first find().
Result<bool> MongodbStore::read_with_definition(std::string_view name, SteadyTime until,
                                                const Use& use) {
  if (name.empty()) return read(kStore, "store", until, use);
  const auto of_name = [](std::string_view id) {
    return std::move(Bson().add("$match", Bson().add("_id", id)));
  };
  Bson definition;
  definition.add("from", kDefinitions)
      .add_array("pipeline", Bson().add("0", of_name(name)))
      .add("as", "definition");
  Bson stages;
  stages.add("0", of_name("store")).add("1", Bson().add("$lookup", definition));
  Bson command;
  command.add("aggregate", kStore).add_array("pipeline", stages).add("cursor", Bson());
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadOne, until, "read");
  if (!reply) return std::unexpected(reply.error());
  bool found = false;
  reply->view().each_found([&](const Document& document) {
    found = true;
    use(document);
    document.each("definition", [&](const Document& json) {
      const std::lock_guard lock(first_mutex_);
      first_definition_.emplace(std::string(name), json.bytes("json").value_or(""));
    });
  });
  return found;
}

// Once.
std::optional<std::pair<std::string, std::string>> MongodbStore::take_first_definition() {
  const std::lock_guard lock(first_mutex_);
  return std::exchange(first_definition_, std::nullopt);
}

// All documents from the name `from` on, in the order of their names, those whose names are strings
// first; a page at a time, since no cursor outlives its primary. Stops where `use` says false.
Result<void> MongodbStore::read_all(std::string_view collection, std::string_view from,
                                    SteadyTime until,
                                    const std::function<bool(const Document&)>& use) {
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
      reply->view().each_found([&](const Document& document) {
        ++found;
        last = document.bytes("_id").value_or("");
        more = more && use(document);
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

// ---- opening

Result<void> MongodbStore::open(const StoreOptions& options) {
  const SteadyTime until = std::min(options.until, std::chrono::steady_clock::now() + deadline_);
  std::optional<std::int64_t> schema;
  std::optional<Uuid> id;
  const auto read_store = [&] {
    return read_with_definition(options.first_definition, until, [&](const Document& document) {
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
    const Result<void> looked = read_all(kCounters, "", until, [&](const Document&) {
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
                "no store in " + where_ + "; name the database of one, or make one",
                {Remedy::kCreateStore, url_}});
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
  const auto made =
      servers_->insert_new(kStore, Bson().add("0", document), 1, until, "make a store in");
  if (!made) return std::unexpected(made.error());
  return {};
}

Result<void> MongodbStore::has_transactions(SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  const Result<Bson> hello =
      servers_->run(std::move(Bson().add("hello", 1)), Kind::kPlain, *until, "ask");
  if (!hello) return std::unexpected(hello.error());
  if (hello->view().has("setName")) return {};
  return std::unexpected(
      Error{Code::kFailedPrecondition, where_ + ": " + std::string(kNoTransactions)});
}

// ---- counters

Result<CounterState> MongodbStore::checked(const Record& record, std::string_view counter) const {
  if (record.whole) return record.state;
  if (record.adopted)
    return damaged(place_of(record.adopted->record) + ", which counter " + shown(counter) +
                   " was adopted from, " +
                   (record.gone ? "is gone" : "cannot be counted in: " + record.reading.wrong));
  return damaged("the record of counter " + shown(counter) + " in " + kCounters +
                 " is not as idmint writes it");
}

Result<CounterState> MongodbStore::read_counter(std::string_view counter, SteadyTime until) {
  Record record;
  const Result<bool> there =
      read(kCounters, counter, until, [&](const Document& found) { record = record_of(found); });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_counter(counter, url_));
  if (record.adopted) {
    const std::shared_ptr<const Adopted> adopted = record.adopted;
    record.gone = true;
    const Result<bool> read_too =
        read(adopted->record.collection, adopted->record.id, until,
             [&](const Document& document) { record = filled(std::move(record), document); });
    if (!read_too) return std::unexpected(read_too.error());
    remember({{std::string(counter), record}});
  }
  return checked(record, counter);
}

// Those that are there, all at once: there may be thousands. REQUIRES: few enough for one message.
Result<MongodbStore::Records> MongodbStore::read_counters(std::span<const std::string> counters,
                                                          SteadyTime until) {
  Result<Records> found = find_counters(counters, Kind::kReadMany, until);
  if (!found) return found;
  // What a majority has may be behind what it acknowledged, on a new primary: this read is not.
  for (const std::string& counter : counters) {
    if (found->contains(counter)) continue;
    const Result<bool> there = read(kCounters, counter, until, [&](const Document& document) {
      found->insert_or_assign(counter, record_of(document));
    });
    if (!there) return std::unexpected(there.error());
  }
  if (Result<void> read = read_adopted_of(*found, until); !read)
    return std::unexpected(std::move(read.error()));
  remember(*found);
  return found;
}

// Of those that were adopted, the documents.
Result<void> MongodbStore::read_adopted_of(Records& records, SteadyTime until) {
  std::map<std::string, std::multimap<std::string, Record*>> wanted;  // by collection and _id
  for (auto& [name, record] : records) {
    if (!record.adopted) continue;
    record.gone = true;
    wanted[record.adopted->record.collection].emplace(record.adopted->record.id, &record);
  }
  for (const auto& [collection, by_id] : wanted) {
    Bson ids;
    std::int32_t count = 0;
    for (auto at = by_id.begin(); at != by_id.end(); at = by_id.upper_bound(at->first))
      ids.add(std::to_string(count++).c_str(), std::string_view(at->first));
    Bson command;
    command.add("find", std::string_view(collection))
        .add("filter", Bson().add("_id", Bson().add_array("$in", ids)))
        .add("batchSize", count)
        .add("singleBatch", true);
    const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadMany, until, "read");
    if (!reply) return std::unexpected(reply.error());
    const auto use = [&](const Document& document) {
      const auto [first, end] = by_id.equal_range(std::string(document.bytes("_id").value_or("")));
      for (auto at = first; at != end; ++at) *at->second = filled(*at->second, document);
    };
    reply->view().each_found(use);
    for (const auto& [id, record] : by_id) {
      if (!record->gone) continue;
      const Result<bool> there = read(collection, id, until, use);
      if (!there) return std::unexpected(there.error());
    }
  }
  return {};
}

// Those that are there. Of kReadOne, each that was acknowledged before: the server looks first and
// makes sure afterwards that it is the primary, which holds for every document that it found.
Result<MongodbStore::Records> MongodbStore::find_counters(std::span<const std::string> counters,
                                                          Kind kind, SteadyTime until) {
  Bson names;
  for (std::size_t i = 0; i < counters.size(); ++i)
    names.add(std::to_string(i).c_str(), std::string_view(counters[i]));
  Bson command;
  command.add("find", kCounters)
      .add("filter", Bson().add("_id", Bson().add_array("$in", names)))
      .add("batchSize", static_cast<std::int32_t>(counters.size()))
      .add("singleBatch", true);
  const Result<Bson> reply = servers_->run(std::move(command), kind, until, "read");
  if (!reply) return std::unexpected(reply.error());
  Records found;
  reply->view().each_found([&](const Document& document) {
    found.insert_or_assign(std::string(document.bytes("_id").value_or("")), record_of(document));
  });
  return found;
}

// REQUIRES: few enough for one message.
Result<void> MongodbStore::make_some(std::span<const NewCounter> counters, SteadyTime until) {
  Bson documents;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const auto& [name, bounds, adopted] = counters[i];
    documents.add(std::to_string(i).c_str(), Bson()
                                                 .add("_id", std::string_view(name))
                                                 .add("first", bounds.first)
                                                 .add("last", bounds.last)
                                                 .add("stride", bounds.stride)
                                                 .add("next", bounds.first)
                                                 .add("closed", false));
  }
  const auto there =
      servers_->insert_new(kCounters, documents, std::ssize(counters), until, "make counters in");
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
    if (at->second.adopted)
      return std::unexpected(other_place(counters[i].name, at->second.adopted->record, {}));
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
  if (Result<void> ok = check_new_counters(counters, true); !ok) return ok;
  constexpr std::size_t kAtOnce = 5000;  // 6 MB at most, of the 16 that a message may have
  bool some = false;
  while (!counters.empty()) {
    const bool adopt = counters.front().adopted.has_value();
    const auto other = std::ranges::find_if(
        counters, [&](const NewCounter& each) { return each.adopted.has_value() != adopt; });
    const auto alike = static_cast<std::size_t>(other - counters.begin());
    const auto batch = counters.first(std::min(kAtOnce, alike));
    Result<void> made = adopt ? adopt_some(batch, *until) : make_some(batch, *until);
    if (!made && some) return std::unexpected(after_a_write(made.error()));
    if (!made) return made;
    some = true;
    counters = counters.subspan(batch.size());
  }
  return {};
}

// Whether nobody reads a field as the next value that another reads as the last one: both would
// hand out the same. Of two that adopt one at once, each having written its record, one sees the
// other's.
Result<void> MongodbStore::agrees_with_others(std::span<const std::shared_ptr<const Adopted>> all,
                                              SteadyTime until) {
  const auto disagree = [&](const AdoptedRecord& record, std::string_view other) {
    const auto text = [](bool holds_last) { return holds_last ? "last=" : "next="; };
    return std::unexpected(
        Error{Code::kFailedPrecondition,
              where_ + ": cannot adopt " + place_of(record) + " with " + text(record.holds_last) +
                  record.field + ": counter " + shown(other) + " was adopted from it with " +
                  text(!record.holds_last) + record.field +
                  ", and both would hand out the same values; the document was left as it is"});
  };
  using Place = std::tuple<std::string_view, std::string_view, bool>;  // collection, field, which
  std::map<Place, std::map<std::string_view, const Adopted*>> by_id;
  for (const auto& adopted : all) {
    const AdoptedRecord& record = adopted->record;
    by_id[{record.collection, record.field, record.holds_last}][record.id] = adopted.get();
  }
  for (const auto& [place, documents] : by_id) {
    const auto& [collection, field, holds_last] = place;
    Bson ids;
    int count = 0;
    const auto others = by_id.find({collection, field, !holds_last});
    for (const auto& [id, adopted] : documents) {
      ids.add(std::to_string(count++).c_str(), id);
      if (others == by_id.end()) continue;
      if (const auto other = others->second.find(id); other != others->second.end())
        return disagree(adopted->record, other->second->name);
    }
    Bson command;
    command.add("find", kCounters)
        .add("filter", Bson()
                           .add("adopted.collection", collection)
                           .add("adopted.field", field)
                           .add("adopted.holds_last", !holds_last)
                           .add("adopted.id", Bson().add_array("$in", ids)))
        .add("limit", 1)
        .add("singleBatch", true);
    const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadOne, until, "read");
    if (!reply) return std::unexpected(reply.error());
    std::optional<AdoptedRecord> record;
    std::string other;
    reply->view().each_found([&](const Document& found) {
      const auto adopted = adopted_in(found);
      if (!adopted) return;
      other = adopted->name;
      record = adopted->record;
    });
    if (!record) continue;
    record->holds_last = holds_last;
    return disagree(*record, other);
  }
  return {};
}

// The documents first, their records in idmint.counters last: where there is a record there was a
// document, and none is made again. REQUIRES: few enough for one message.
Result<void> MongodbStore::adopt_some(std::span<const NewCounter> counters, SteadyTime until) {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<const Adopted>> all;
  for (const NewCounter& counter : counters) {
    const AdoptedRecord record = counter.adopted.value_or(AdoptedRecord{});
    if (counter.bounds.stride != 1)
      return std::unexpected(
          Error{Code::kInvalidArgument, "cannot adopt " + place_of(record) + " in steps of " +
                                            std::to_string(counter.bounds.stride) +
                                            ": the others that use it count by one"});
    names.push_back(counter.name);
    all.push_back(std::make_shared<const Adopted>(counter.name, record, counter.bounds));
  }
  // A new primary's majority may lack a record, whose document would be made again.
  Result<Records> there = find_counters(names, Kind::kReadOne, until);
  if (!there) return std::unexpected(there.error());
  std::map<std::string, Bson> missing;  // by collection
  std::map<std::string, int> count;
  Records wanted;
  for (const auto& adopted : all) {
    if (there->contains(adopted->name)) continue;
    const std::string& collection = adopted->record.collection;
    missing[collection].add(std::to_string(count[collection]++).c_str(), new_document(*adopted));
    wanted[adopted->name].adopted = adopted;
  }
  if (Result<void> agreed = agrees_with_others(all, until); !agreed) return agreed;
  for (const auto& [collection, documents] : missing) {
    const auto made =
        servers_->insert_new(collection, documents, count[collection], until, "make counters in");
    if (!made) return std::unexpected(made.error());
  }
  // Every document that is to be adopted, made now or by others, is one to go on with.
  if (Result<void> read = read_adopted_of(wanted, until); !read)
    return std::unexpected(after_a_write(std::move(read.error())));
  Bson records;
  std::int64_t new_records = 0;
  for (const auto& [name, record] : wanted) {
    const CounterBounds& bounds = record.adopted->bounds;
    const Reading& reading = record.reading;
    std::string why = record.gone ? "it could not be made" : reading.wrong;
    const std::string& max = record.adopted->record.max;
    if (why.empty() && !max.empty() && reading.max != bounds.last)
      why = max + " is " + std::to_string(reading.max) + ", and the last value is to be " +
            std::to_string(bounds.last);
    if (why.empty() && reading.state.closed) why = "a sequence that was adopted from it is retired";
    if (why.empty() && reading.state.bounds.last != bounds.last)
      why = beyond_a_double(*record.adopted, bounds.last).message;
    if (!why.empty())
      return std::unexpected(Error{Code::kFailedPrecondition,
                                   where_ + ": cannot adopt " + place_of(record.adopted->record) +
                                       ": " + why + "; it was left as it is"});
    records.add(std::to_string(new_records++).c_str(), record_for(*record.adopted));
  }
  if (new_records > 0) {
    const auto made =
        servers_->insert_new(kCounters, records, new_records, until, "make counters in");
    if (!made) return std::unexpected(after_a_write(made.error()));
    if (Result<void> agreed = agrees_with_others(all, until); !agreed)
      return std::unexpected(after_a_write(std::move(agreed.error())));
    there = read_counters(names, until);
  } else if (Result<void> read = read_adopted_of(*there, until); !read) {
    return read;
  }
  if (!there) return std::unexpected(after_a_write(there.error()));
  for (const auto& adopted : all) {
    const auto at = there->find(adopted->name);
    if (at == there->end())
      return damaged("counter " + shown(adopted->name) + " went away while it was made");
    const Record& record = at->second;
    AdoptedRecord place = adopted->record;
    place.validator = false;
    if (!record.adopted) return std::unexpected(other_place(adopted->name, {}, place));
    if (record.adopted->record != place)
      return std::unexpected(other_place(adopted->name, record.adopted->record, place));
    if (const auto state = checked(record, adopted->name); !state)
      return std::unexpected(state.error());
    if (record.adopted->bounds != adopted->bounds)
      return std::unexpected(
          other_bounds({adopted->name, record.adopted->bounds}, adopted->bounds));
  }
  const AdoptedRecord* latest = nullptr;
  for (const auto& adopted : all) {
    const AdoptedRecord& record = adopted->record;
    const bool guarded = latest != nullptr && latest->collection == record.collection &&
                         latest->field == record.field && latest->max == record.max &&
                         latest->holds_last == record.holds_last;
    if (!record.validator || guarded) continue;
    if (Result<void> ok = guard(record, until); !ok) return ok;
    latest = &record;
  }
  return {};
}

// Puts a validator on the collection, unless it has another's.
Result<void> MongodbStore::guard(const AdoptedRecord& record, SteadyTime until) {
  const Bson validator = validator_for(record);
  Bson command;
  command.add("listCollections", 1)
      .add("filter", Bson().add("name", std::string_view(record.collection)));
  Result<Bson> reply = servers_->run(std::move(command), Kind::kPlain, until, "look at");
  if (!reply) return std::unexpected(after_a_write(reply.error()));
  bool has_one = false;
  bool same = false;
  reply->view().each_found([&](const Document& collection) {
    const Document there = collection.document("options").document("validator");
    has_one = there && !there.empty();
    same = there == validator.view();
  });
  if (same) return {};
  if (has_one)
    return std::unexpected(Error{
        Code::kFailedPrecondition,
        where_ + ": the collection " + record.collection +
            " has a validator already, which was left as it is: add to it that " + record.field +
            " may not pass " + record.max + ", and leave out the wish for a validator"});
  command = Bson();
  command.add("collMod", std::string_view(record.collection))
      .add("validator", validator)
      .add("validationLevel", "strict")
      .add("validationAction", "error");
  reply = servers_->run(std::move(command), Kind::kWrite, until, "put a validator into",
                        {.idempotent = true});
  if (!reply) return std::unexpected(after_a_write(reply.error()));
  return {};
}

// REQUIRES: they are in idmint.counters.
void MongodbStore::remember(const Records& records) {
  const std::lock_guard lock(adopted_mutex_);
  for (const auto& [name, record] : records)
    if (record.adopted) adopted_.insert_or_assign(name, record.adopted);
}

std::shared_ptr<const Adopted> MongodbStore::known(std::string_view counter) {
  const std::lock_guard lock(adopted_mutex_);
  const auto at = adopted_.find(counter);
  return at != adopted_.end() ? at->second : nullptr;
}

// As advance(), of a counter whose document is known().
Result<Range> MongodbStore::advance_adopted(std::string_view counter, std::int64_t count, Take take,
                                            SteadyTime until) {
  const std::int64_t least = take == Take::kAll ? count : 1;
  // Another round only if somebody extended it, or raised its MAX, between the two commands.
  for (;;) {
    const std::shared_ptr<const Adopted> adopted = known(counter);
    Record record{.adopted = adopted};
    const Result<bool> moved =
        change(adopted->record.collection, document_with(*adopted, least),
               take_up_to(*adopted, count), until, "take values from",
               [&](const Document& before) { record = filled(std::move(record), before); });
    if (!moved) return std::unexpected(moved.error());
    if (*moved) {
      const Result<CounterState> before = checked(record, counter);
      if (!before) return std::unexpected(before.error());
      return Range{before->next, 1, std::min(count, before->left())};
    }
    const Result<CounterState> state = read_counter(counter, until);
    if (!state) return std::unexpected(state.error());
    if (state->closed || state->left() < least)
      return std::unexpected(refused_advance(*state, count));
  }
}

Result<Range> MongodbStore::advance(std::string_view counter, std::int64_t count, Take take,
                                    SteadyTime by) {
  const Result<SteadyTime> until = enter(by);
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_count(counter, count); !ok) return std::unexpected(ok.error());
  if (known(counter)) return advance_adopted(counter, count, take, *until);
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
               [&](const Document& before) { record = record_of(before); });
    if (!moved) return std::unexpected(moved.error());
    if (*moved) {
      const Result<CounterState> before = checked(record, counter);
      if (!before) return std::unexpected(before.error());
      return Range{before->next, before->bounds.stride, std::min(count, before->left())};
    }
    const Result<CounterState> state = read_counter(counter, *until);
    if (!state) return std::unexpected(state.error());
    if (known(counter)) return advance_adopted(counter, count, take, *until);
    if (state->closed || state->left() < least)
      return std::unexpected(refused_advance(*state, count));
  }
}

// One update for each counter that is whole and meets the condition, all of them sent together;
// then they are read, and what was made meanwhile is changed too. What is not there is told last.
Result<std::vector<CounterState>> MongodbStore::change_each(
    std::span<const std::string> counters, const std::string& condition, const Bson& update,
    std::string_view doing, const Done& done, const UpdateOfAdopted& adopted) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_counters(counters.size()); !ok) return std::unexpected(ok.error());
  constexpr std::size_t kAtOnce = 2000;  // 6 MB at most, of the 16 that a message may have
  std::vector<CounterState> states;
  std::optional<Error> failure;
  bool some = false;
  while (!counters.empty()) {
    const auto batch = counters.first(std::min(kAtOnce, counters.size()));
    std::map<std::string, Bson> updates;  // by collection
    std::map<std::string, int> sizes;
    const auto add = [&](const std::string& collection, const Bson& query, const Bson& what) {
      updates[collection].add(std::to_string(sizes[collection]++).c_str(),
                              Bson().add("q", query).add_array("u", what));
    };
    for (const std::string& counter : batch) {
      // One that is not known yet is known when it was read, and changed then.
      const std::shared_ptr<const Adopted> place = known(counter);
      if (!place) {
        add(kCounters, counter_where(counter, condition), update);
        continue;
      }
      if (adopted.record) add(kCounters, Bson().add("_id", std::string_view(counter)), update);
      add(place->record.collection, whole_document(*place), adopted.document(*place));
    }
    for (const auto& [collection, all] : updates) {
      Bson command;
      command.add("update", std::string_view(collection))
          .add_array("updates", all)
          .add("ordered", false);
      const Result<Bson> reply = servers_->run(std::move(command), Kind::kWrite, *until, doing);
      if (!reply) return std::unexpected(some ? after_a_write(reply.error()) : reply.error());
      some = true;
    }
    const auto found = read_counters(batch, *until);
    if (!found) return std::unexpected(after_a_write(found.error()));
    bool again = false;
    std::vector<CounterState> now;
    for (const std::string& counter : batch) {
      const auto at = found->find(counter);
      if (at == found->end() || (at->second.gone && adopted.may_be_gone)) {
        failure = no_counter(counter, url_);
        continue;
      }
      Result<CounterState> state = checked(at->second, counter);
      if (!state) return std::unexpected(std::move(state).error());
      const Result<bool> as_wanted = done(at->second);
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
  const auto states = change_each(
      counters, "", update, "raise a counter in",
      [&](const Record& record) {
        return Result<bool>(record.state.next >= record.state.bounds.at_or_above(floor));
      },
      {.document = [&](const Adopted& adopted) { return raise_to(adopted, floor); }});
  if (!states) return std::unexpected(states.error());
  std::vector<std::int64_t> next;
  for (const CounterState& state : *states) next.push_back(state.next);
  return next;
}

Result<void> MongodbStore::can_end_at(std::int64_t last, std::span<const std::string> counters) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  if (Result<void> ok = check_counters(counters.size()); !ok) return ok;
  constexpr std::size_t kAtOnce = 5000;  // 6 MB at most, of the 16 that a message may have
  for (std::size_t from = 0; from < counters.size(); from += kAtOnce) {
    const auto found =
        read_counters(counters.subspan(from, std::min(kAtOnce, counters.size() - from)), *until);
    if (!found) return std::unexpected(found.error());
    for (const auto& [name, record] : *found)
      if (record.reading.is_double && record.whole)
        return std::unexpected(beyond_a_double(*record.adopted, last));
  }
  return {};
}

Result<std::vector<CounterBounds>> MongodbStore::extend(std::span<const std::string> counters,
                                                        std::int64_t last) {
  const std::string it_can_be = R"(,{"$lte":[)" + number(last) + R"(,{"$subtract":[)" +
                                number(kLargestValue) + R"(,{"$subtract":["$stride",1]}]}]})";
  const Bson update(R"([{"$set":{"last":{"$toLong":{"$max":["$last",)" + number(last) + "]}}}}]");
  // Before anything is changed: the end in idmint.counters would stay.
  if (last > kLargestInDouble)
    if (Result<void> ok = can_end_at(last, counters); !ok)
      return std::unexpected(std::move(ok.error()));
  const auto states = change_each(
      counters, it_can_be, update, "extend a counter in",
      [&](const Record& record) {
        const CounterState& state = record.state;
        const std::int64_t stride = state.bounds.stride;
        if (last > largest_last(stride))
          return Result<bool>(std::unexpected(too_large_an_end(state.name, last, stride)));
        if (record.reading.is_double && last > kLargestInDouble)
          return Result<bool>(std::unexpected(beyond_a_double(*record.adopted, last)));
        return Result<bool>(state.bounds.last >= last);
      },
      {.document = [&](const Adopted& adopted) { return extend_to(adopted, last); },
       .record = last <= kLargestValue});
  if (!states) return std::unexpected(states.error());
  std::vector<CounterBounds> bounds;
  for (const CounterState& state : *states) bounds.push_back(state.bounds);
  return bounds;
}

Result<CounterState> MongodbStore::peek(std::string_view counter, SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  return read_counter(counter, *until);
}

Result<std::vector<CounterState>> MongodbStore::list(std::string_view prefix, SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  // A prefix may end within a character.
  std::string_view from = prefix;
  while (!Bson::is_utf8(from)) from.remove_suffix(1);
  Records found;
  const Result<void> read = read_all(kCounters, from, *until, [&](const Document& document) {
    const auto name = document.bytes("_id");
    if (!name) return true;
    if (name->starts_with(prefix)) found.insert_or_assign(std::string(*name), record_of(document));
    return name->starts_with(from) || !Bson::is_utf8(*name);
  });
  if (!read) return std::unexpected(read.error());
  if (Result<void> filled = read_adopted_of(found, *until); !filled)
    return std::unexpected(std::move(filled.error()));
  remember(found);
  std::vector<CounterState> states;
  for (const auto& [name, record] : found) {
    Result<CounterState> state = checked(record, name);
    if (!state) return std::unexpected(std::move(state.error()));
    states.push_back(*std::move(state));
  }
  return states;
}

const char* const kClose = R"([{"$set":{"closed":true}}])";

Result<void> MongodbStore::close(std::span<const std::string> counters) {
  const auto states = change_each(
      counters, "", Bson(kClose), "close a counter in",
      [](const Record& record) { return Result<bool>(record.state.closed); },
      {.document = [](const Adopted&) { return close_document(); }, .may_be_gone = true});
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
  const Result<bool> there = read(kDefinitions, name, until, [&](const Document& found) {
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
  static_cast<void>(take_first_definition());
  if (Result<void> ok = check_stored(definition); !ok) return std::unexpected(ok.error());
  Bson document;
  document.add("_id", std::string_view(definition.name))
      .add("json", std::string_view(to_json(definition)));
  const auto made = servers_->insert_new(kDefinitions, Bson().add("0", document), 1, *until,
                                         "write a definition into");
  if (!made) return std::unexpected(made.error());
  Result<Definition> there = read_definition(definition.name, *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

// Replaces the text that was read, and no other.
Result<Definition> MongodbStore::replace(const Definition& old, const Definition& updated) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(take_first_definition());
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
                                   "replace a definition in", [](const Document&) {});
  if (!done) return std::unexpected(done.error());
  there = read_definition(old.name, *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

Result<Definition> MongodbStore::find(std::string_view name, SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  if (const auto first = take_first_definition(); first && first->first == name)
    return definition_of(name, first->second);
  return read_definition(name, *until);
}

Result<std::vector<CatalogEntry>> MongodbStore::list() {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(take_first_definition());
  std::vector<CatalogEntry> all;
  const Result<void> read = read_all(kDefinitions, "", *until, [&](const Document& document) {
    const std::string name(document.bytes("_id").value_or(""));
    all.push_back({name, definition_of(name, document.bytes("json").value_or(""))});
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return all;
}

// ---- claims

// The collection of a space.
std::string claims_of(std::string_view space) { return collection_of("idmint.claims", space); }

// Whether it is closed.
Result<bool> MongodbStore::read_space(std::string_view space, SteadyTime until) {
  std::optional<bool> closed;
  const Result<bool> there = read(claims_of(space), kSpace, until, [&](const Document& document) {
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
  const auto made = servers_->insert_new(claims_of(space), Bson().add("0", document), 1, *until,
                                         "make a space of claims in");
  if (!made) return std::unexpected(made.error());
  return {};
}

// A close that ends while this is under way may come before or after it.
Result<std::vector<bool>> MongodbStore::insert(std::string_view space,
                                               std::span<const std::int64_t> keys, SteadyTime by) {
  const Result<SteadyTime> until = enter(by);
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
        servers_->insert_new(collection, documents, std::ssize(some), *until, "claim numbers in");
    if (!taken && from > 0) return std::unexpected(after_a_write(taken.error()));
    if (!taken) return std::unexpected(taken.error());
    for (const std::size_t i : *taken) ours.at(from + i) = false;
  }
  return ours;
}

Result<std::int64_t> MongodbStore::claimed(std::string_view space, SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  const Result<bool> closed = read_space(space, *until);
  if (!closed) return std::unexpected(closed.error());
  Bson command;
  command.add("count", std::string_view(claims_of(space)));
  const Result<Bson> reply = servers_->run(std::move(command), Kind::kReadMany, *until, "read");
  if (!reply) return std::unexpected(reply.error());
  return reply->view().number("n") - 1;
}

Result<bool> MongodbStore::contains(std::string_view space, std::int64_t key) {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return std::unexpected(until.error());
  const Result<bool> closed = read_space(space, *until);
  if (!closed) return std::unexpected(closed.error());
  return read(claims_of(space), Bson().add("_id", key), *until, [](const Document&) {});
}

Result<void> MongodbStore::close_space(std::string_view space) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  const Result<bool> there =
      change(claims_of(space), std::move(Bson().add("_id", kSpace)), Bson(kClose), *until,
             "close a space of claims in", [](const Document&) {});
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
      connected->deadline, options);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(ok.error());
  return store;
}

}  // namespace idmint::stores
