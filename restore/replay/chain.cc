#include "restore/replay/chain.h"

#include "base/errors.h"
#include "restore/oplog/fields.h"
#include "restore/replay/record.h"

namespace idmint::restore {

std::int64_t Counts::* Counts::of(Op op) {
  return op == Op::kNoop     ? nullptr
         : op == Op::kInsert ? &Counts::inserts
         : op == Op::kUpdate ? &Counts::updates
         : op == Op::kDelete ? &Counts::deletes
                             : &Counts::commands;
}

Counts counts_of(Document document) {
  Counts counts;
  for (const CountField& field : kCountFields) counts.*field.count = document.number(field.name);
  return counts;
}

void Chain::append_check(Operations& operations) const {
  const Bson o2 = Bson("_id", id());
  static const Bson touch = Bson("$v", 2, "diff", Bson("u", Bson("over", true)));
  operations.append("u", kRecordNamespace, touch.view(), o2.view());
}

void Chain::append_next(Operations& operations, const Position& to, const Counts& totals,
                        const Bson& more) const {
  append_check(operations);
  const Bson last = Bson("_id", id());
  operations.append("d", kRecordNamespace, last.view(), {});
  const std::string id = prefix_ + std::to_string(number_ + 1);
  Bson next = Bson("_id", id, "ts", to_bson(to.ts), "index", std::int64_t{to.index});
  for (const CountField& field : kCountFields) next.add(field.name, totals.*field.count);
  next.add_all(*more.get());
  operations.append("i", kRecordNamespace, next.view(), {});
}

Result<void> is_there(Server& server, const Chain& chain) {
  const Result<Bson> reply = server.command(
      kRecordDatabase, Bson("find", "progress", "filter", Bson("_id", chain.id()), "limit", 1));
  if (!reply) return error_in(reply);
  if (reply->view().first_found()) return {};
  return fail(Code::kUnavailable, server.shown_uri() +
                                      " has lost what it had done, as it was ended and started "
                                      "again, or another replay is at work there; the same command "
                                      "goes on from what is there");
}

}  // namespace idmint::restore
