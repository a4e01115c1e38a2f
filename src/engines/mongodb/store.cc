// Stores mongodb://... and mongodb+srv://... In the database of the URL's path, or else "idmint":
//
//   idmint.store         {_id: "store", id: UUID, schema: 1, settled: N}            one document
//   idmint.counters      as counters.h says
//   idmint.definitions   {_id: NAME, json}                                          to_json
//   idmint.claims.SPACE  {_id: KEY}, and {_id: "space", name: SPACE, closed, store}
//   idmint.workers.POOL  as workers.h says
//
// `settled` is Store::settle_count(); none: 0. `next` is the next value to hand out. `store` is the
// id of the store that made the record: a handle hands out nothing from a record of another store,
// which may be there after the database was dropped. Older versions did not write it. NAME is a
// string, or binary if it is not UTF-8. The collection of a space or a pool is named by its SHA-256
// if its name cannot name a collection.
//
// Every write is one command on one document, or one unordered insert, sent as in servers.h. Uses
// only commands that MongoDB 4.4 to 8.0 have in common.
#include "idmint/store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engines/mongodb/adoption.h"
#include "engines/mongodb/claims.h"
#include "engines/mongodb/counters.h"
#include "engines/mongodb/database.h"
#include "engines/mongodb/definitions.h"
#include "engines/mongodb/existing_values.h"
#include "engines/mongodb/gapless.h"
#include "engines/mongodb/servers.h"
#include "engines/mongodb/workers.h"
#include "ids/lease_table.h"
#include "mongo/bson.h"
#include "store/backend.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint::stores {
namespace mongodb {
namespace {

constexpr std::int64_t kSchema = 1;

class MongodbStore final : public Store {
 public:
  // `url` includes passwords.
  MongodbStore(std::string_view url, Connected connected, Access access, Entropy& entropy)
      : database_{std::move(connected.url), std::move(connected.where), connected.deadline, access,
                  std::move(connected.servers)},
        entropy_(entropy),
        gapless_(database_, std::string(url)) {}

  const Uuid& id() const noexcept override { return database_.id; }
  std::string_view url() const noexcept override { return database_.url; }
  milliseconds deadline() const noexcept override { return database_.deadline; }
  CounterStore* counters() noexcept override { return &counters_.counters(); }
  Catalog* catalog() noexcept override { return &definitions_.catalog(); }
  UniqueIndex* unique_index() noexcept override { return &claims_; }
  LeaseTable* leases() noexcept override { return leases_.get(); }
  GaplessStore* gapless() noexcept override { return &gapless_; }
  Result<std::optional<Instant>> time(SteadyTime until) override;
  Result<void> settle(Settle how) override;
  std::int64_t settle_count() const noexcept override { return settled_.load(); }
  Result<std::int64_t> read_settle_count(SteadyTime until) override;

  // Called once, before anything else.
  Result<void> open(const StoreOptions& options);

 private:
  Result<bool> read_with_definition(std::string_view name, SteadyTime until,
                                    const Database::Use& use);
  Result<void> make_store(SteadyTime until);

  Database database_;
  Entropy& entropy_;
  DatabaseEngine engine_{database_, entropy_};
  CounterTable counters_{database_, engine_};
  DefinitionTable definitions_{database_, engine_};
  Claims claims_{database_};
  const std::shared_ptr<LeaseTable> leases_ = workers_of(database_, engine_);
  Gapless gapless_;
  std::atomic<std::int64_t> settled_{0};
};

// Reads the document of the store, and keeps the definition, if it is there, for the first find().
Result<bool> MongodbStore::read_with_definition(std::string_view name, SteadyTime until,
                                                const Database::Use& use) {
  if (name.empty()) return database_.read(kStore, "store", until, use);
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
  const Result<Bson> reply =
      database_.servers->run(std::move(command), Kind::kReadOne, until, "read");
  if (!reply) return std::unexpected(reply.error());
  bool found = false;
  reply->view().each_found([&](const Document& document) {
    found = true;
    use(document);
    document.each("definition", [&](const Document& json) {
      definitions_.catalog().remember(name, json.bytes("json").value_or(""));
    });
  });
  return found;
}

// If two processes come here at once, one creates the document, and the other finds it.
Result<void> MongodbStore::make_store(SteadyTime until) {
  const Uuid id = draw_store_id(entropy_);
  Bson document;
  document.add("_id", "store");
  add_uuid(document, "id", id);
  document.add("schema", kSchema);
  const auto made =
      database_.servers->insert_new(kStore, Bson().add("0", document), 1, until, "make a store in");
  if (!made) return std::unexpected(made.error());
  return {};
}

Result<void> MongodbStore::open(const StoreOptions& options) {
  const SteadyTime until =
      std::min(options.until, std::chrono::steady_clock::now() + database_.deadline);
  std::optional<std::int64_t> schema;
  std::optional<Uuid> id;
  const auto read_store = [&] {
    return read_with_definition(options.first_definition, until, [&](const Document& document) {
      schema = document.integer("schema").value_or(-1);
      settled_ = document.number("settled");
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
    const Result<void> looked = database_.read_all(kCounters, "", until, [&](const Document&) {
      counters = true;
      return false;
    });
    if (!looked) return looked;
    if (counters) {
      // Unless another process was just creating the store.
      there = read_store();
      if (!there) return std::unexpected(there.error());
      if (!*there)
        return database_.damaged(std::string("it has counters, and its document in ") + kStore +
                                 " is missing");
    }
  }
  if (!*there) {
    if (!options.create || options.access == Access::kReadOnly)
      return std::unexpected(
          Error{Code::kNotFound,
                "no store in " + database_.where + "; name the database of one, or make one",
                {Remedy::kCreateStore, database_.url}});
    if (Result<void> made = make_store(until); !made) return made;
    there = read_store();
    if (!there) return std::unexpected(there.error());
  }
  if (schema && *schema > kSchema)
    return std::unexpected(
        Error{Code::kFailedPrecondition,
              database_.where + " has schema version " + std::to_string(*schema) +
                  ", and this idmint knows versions up to " + std::to_string(kSchema) +
                  "; it was left as it is: use a newer idmint"});
  if (!id || schema != kSchema)
    return database_.damaged(std::string("its document in ") + kStore +
                             " is not as idmint writes it");
  database_.id = *id;
  return {};
}

// The servers keep every acknowledged value, so the store is never in doubt. But a restore in place
// brings an older state back, and what hosts know of the values that were handed out is above it
// until everything was raised: the count says that it was.
Result<void> MongodbStore::settle(Settle how) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  if (how != Settle::kRaised) return {};
  // Not a number that was used before an older state came back.
  const Bson update(R"({"0":{"$set":{"settled":{"$max":[)"
                    R"({"$toLong":{"$add":[{"$ifNull":["$settled",0]},1]}},)"
                    R"({"$toLong":{"$floor":{"$divide":[{"$toLong":"$$NOW"},1000]}}}]}}}})");
  Bson query("_id", "store");
  add_uuid(query, "id", database_.id);
  const Result<bool> counted =
      database_.change(kStore, std::move(query), update, *until, "settle", [](const Document&) {});
  if (!counted) return std::unexpected(counted.error());
  const Result<std::int64_t> now = read_settle_count(*until);
  if (!now) return std::unexpected(*counted ? after_a_write(now.error()) : now.error());
  return {};
}

Result<std::int64_t> MongodbStore::read_settle_count(SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  std::optional<Uuid> id;
  std::int64_t settled = 0;
  const Result<bool> there = database_.read(kStore, "store", *until, [&](const Document& store) {
    id = uuid_in(store, "id");
    settled = store.number("settled");
  });
  if (!there) return std::unexpected(there.error());
  if (!*there) return database_.damaged(std::string("its document in ") + kStore + " is missing");
  if (id && *id != database_.id)
    return std::unexpected(another_store(database_.where, *id, database_.id));
  settled_ = settled;
  return settled_.load();
}

Result<std::optional<Instant>> MongodbStore::time(SteadyTime until) {
  const Result<SteadyTime> by = database_.enter_to_read(until);
  if (!by) return std::unexpected(by.error());
  const Result<Bson> reply =
      database_.servers->run(Bson("hello", 1), Kind::kPlain, *by, "read the clock in");
  if (!reply) return std::unexpected(reply.error());
  const std::optional<milliseconds> date = reply->view().date("localTime");
  if (!date) return std::nullopt;
  return Instant(*date);
}

}  // namespace
}  // namespace mongodb

namespace {

Result<std::unique_ptr<Store>> open_mongodb(std::string_view url, const StoreOptions& options,
                                            Entropy& entropy) {
  Result<mongodb::Connected> connected =
      mongodb::connect(url, options.deadline, {.until = options.until});
  if (!connected) return std::unexpected(std::move(connected.error()));
  auto store =
      std::make_unique<mongodb::MongodbStore>(url, *std::move(connected), options.access, entropy);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(ok.error());
  return store;
}

}  // namespace

extern const Backend kMongodb;
constinit const Backend kMongodb{
    .kind = {.scheme = "mongodb",
             .example = "mongodb://HOST/DATABASE",
             .about = "MongoDB 4.4 or later, any number of hosts; survives fail-overs as a replica "
                      "set",
             .durability = "every value is in the journals of a majority, or of the one server "
                           "where there is no set, before it is handed out",
             .shared = true,
             .has_documents = true},
    .other_scheme = "mongodb+srv",  // the hosts come from DNS
    .open = open_mongodb,
    .existing_values = mongodb::open_values,
    .adoption = &mongodb::kAdoption};

}  // namespace idmint::stores
