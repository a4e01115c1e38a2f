#include "restore/replay/one_step.h"

#include <string>

#include "restore/replay/zero_timestamps.h"

namespace idmint::restore {
namespace {

Bson id_written(const Operation& write) {
  return only_id(write.op == Op::kUpdate ? write.o2 : write.o);
}

}  // namespace

Result<bool> has_document(Server& server, const Operation& write) {
  const Bson find = Bson("find", write.collection(), "filter", id_written(write), "limit", 1);
  const Result<Bson> reply = server.command(std::string(write.database()), find);
  if (!reply) return error_in(reply);
  bool found = false;
  reply->view().each_found([&](const Document&) { found = true; });
  return found;
}

Answer write_in_one_step(Server& server, const Operation& write) {
  Operations operations;
  operations.append("d", write.ns, id_written(write).view(), {});
  operations.append("i", write.ns, write.o, {});
  return apply_one_by_one(server, operations);
}

std::int64_t Counts::* count_in_one_step(const Operation& write, bool present) {
  if (write.op == Op::kInsert) return present ? &Counts::replaced : &Counts::inserts;
  if (present) return &Counts::updates;
  return write.upsert ? &Counts::inserts : &Counts::missed;
}

std::int64_t Outcome::* outcome_in_one_step(const Operation& write, bool present) {
  if (write.op == Op::kInsert) return write.by_hand && present ? &Outcome::replaced : nullptr;
  return write.upsert && !present ? &Outcome::upserted : nullptr;
}

}  // namespace idmint::restore
