#include "engines/mongodb/database.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "store/backend.h"

namespace idmint::stores::mongodb {

Result<SteadyTime> Database::enter_to_read(SteadyTime by) const {
  if (!servers->owned()) return std::unexpected(inherited_handle(url));
  return std::min(by, std::chrono::steady_clock::now() + deadline);
}

Result<SteadyTime> Database::enter(SteadyTime by) const {
  if (access == Access::kReadOnly) return std::unexpected(read_only_handle(where));
  return enter_to_read(by);
}

Bson Database::made_here() const {
  Bson any;
  any.add("0", nullptr);  // null matches a missing field, too
  add_uuid(any, "1", id);
  return std::move(Bson().add_array("$in", any));
}

Result<void> Database::take_over(std::string_view collection, Bson which,
                                 const std::optional<Uuid>& made_by, SteadyTime until) const {
  if (!made_by || *made_by == id) return {};
  std::optional<Uuid> now;
  const Result<bool> there = read(kStore, "store", until,
                                  [&](const Document& document) { now = uuid_in(document, "id"); });
  if (!there) return std::unexpected(there.error());
  if (!now) return damaged(std::string("its document in ") + kStore + " is missing or without id");
  if (*now != id) return std::unexpected(another_store(where, *now, id));
  if (access == Access::kReadOnly) return {};
  add_uuid(which, kMadeBy, *made_by);
  Bson mine;
  add_uuid(mine, kMadeBy, id);
  Bson command;
  command.add("update", collection)
      .add("updates", mongo::array(Bson("q", which, "u", Bson("$set", mine), "multi", true)));
  const Result<Bson> taken = servers->run(std::move(command), Kind::kWrite, until,
                                          "take over records in", {.idempotent = true});
  if (!taken) return std::unexpected(taken.error());
  return {};
}

Result<void> Database::take_over(std::string_view collection, const std::set<Uuid>& made_by,
                                 SteadyTime until) const {
  for (const Uuid& store : made_by)
    if (Result<void> taken = take_over(collection, Bson(), store, until); !taken) return taken;
  return {};
}

std::unexpected<Error> Database::damaged(std::string_view why) const {
  return std::unexpected(damaged_database(where, why));
}

Result<bool> Database::change(std::string_view collection, Bson query, const Bson& update,
                              SteadyTime until, std::string_view doing, const Use& before) const {
  Bson command;
  command.add("findAndModify", collection).add("query", query).add_array("update", update);
  const Result<Bson> reply = servers->run(std::move(command), Kind::kWrite, until, doing);
  if (!reply) return std::unexpected(reply.error());
  const Document value = reply->view().document("value");
  if (value) before(value);
  return bool(value);
}

Result<bool> Database::read(std::string_view collection, const Bson& query, SteadyTime until,
                            const Use& use) const {
  Bson command;
  command.add("find", collection).add("filter", query).add("limit", 1).add("singleBatch", true);
  const Result<Bson> reply = servers->run(std::move(command), Kind::kReadOne, until, "read");
  if (!reply) return std::unexpected(reply.error());
  bool found = false;
  reply->view().each_found([&](const Document& document) {
    found = true;
    use(document);
  });
  return found;
}

Result<void> Database::read_all(std::string_view collection, std::string_view from,
                                SteadyTime until,
                                const std::function<bool(const Document&)>& use) const {
  constexpr std::int32_t kPage = 5000;
  // MongoDB compares only values of one type.
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
      const Result<Bson> reply = servers->run(std::move(command), Kind::kReadMany, until, "read");
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

std::optional<Uuid> uuid_in(const Document& document, const char* key) {
  bson_iter_t at;
  if (!document.find(key, &at) || bson_iter_type(&at) != BSON_TYPE_BINARY) return std::nullopt;
  bson_subtype_t subtype{};
  std::uint32_t size = 0;
  const std::uint8_t* data = nullptr;
  bson_iter_binary(&at, &subtype, &size, &data);
  Uuid::Bytes bytes{};
  if (subtype != BSON_SUBTYPE_UUID || size != bytes.size()) return std::nullopt;
  std::copy_n(data, size, bytes.begin());
  return Uuid(bytes);
}

Error another_store(const std::string& where, const Uuid& there, const Uuid& opened) {
  return {Code::kFailedPrecondition, where + ": another store is there now, with the id " +
                                         there.to_string() + " and not " + opened.to_string()};
}

void add_uuid(Bson& to, const char* key, const Uuid& id) {
  to.add_binary(
      key, BSON_SUBTYPE_UUID,
      std::string_view(reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()));
}

bool names_its_store(const Document& record) {
  const bson_type_t type = record.type(kMadeBy);
  return type == BSON_TYPE_EOD || type == BSON_TYPE_NULL || uuid_in(record, kMadeBy).has_value();
}

}  // namespace idmint::stores::mongodb
