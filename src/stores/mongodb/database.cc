#include "stores/mongodb/database.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "stores/backend.h"

namespace idmint::stores::mongodb {

Result<SteadyTime> Database::enter_to_read(SteadyTime by) const {
  if (!servers->owned()) return std::unexpected(inherited_handle(url));
  return std::min(by, std::chrono::steady_clock::now() + deadline);
}

Result<SteadyTime> Database::enter(SteadyTime by) const {
  if (access == Access::kReadOnly) return std::unexpected(read_only_handle(where));
  return enter_to_read(by);
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

Result<bool> Database::read(std::string_view collection, const Bson& id, SteadyTime until,
                            const Use& use) const {
  Bson command;
  command.add("find", collection).add("filter", id).add("limit", 1).add("singleBatch", true);
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

}  // namespace idmint::stores::mongodb
