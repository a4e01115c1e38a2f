#include "restore/oplog/live.h"

#include <string>
#include <utility>

#include "base/errors.h"

namespace idmint::restore {
namespace {

constexpr std::int32_t kSecond = 1000;  // milliseconds

// Finds the entries of the span.
Bson find_in_oplog(const OplogSpan& span) {
  const Bson range = Bson("$gte", to_bson(span.from), "$lte", to_bson(span.to));
  return Bson("find", "oplog.rs", "readConcern", Bson("level", "majority"), "filter",
              Bson("ts", range));
}

}  // namespace

Result<Member> connect_to_oplog(const std::string& uri, const ConnectOptions& options) {
  Result<Server> server = Server::connect(uri, options);
  if (!server) return error_in(server);
  if (server->set_name().empty())
    return fail(Code::kNotFound,
                server->shown_uri() + " has no oplog: only the members of a replica set have one");
  return Member::choose(*std::move(server));
}

Result<OplogWindow> oplog_window(Member& member) {
  const Result<OpTime> first = member.oldest();
  if (!first) return error_in(first);
  const Result<OpTime> last = member.newest_of_majority();
  if (!last) return error_in(last);
  return OplogWindow{.first = first->ts, .last = last->ts};
}

Result<Bson> oplog_entry_from(Member& member, Timestamp at) {
  Bson find = find_in_oplog({.from = at});
  find.append("limit", 1, "singleBatch", true, "maxTimeMS", 60 * kSecond);
  const Result<Member::Batch> found = member.batch("local", find);
  if (!found) return error_in(found);
  const Document first = found->documents.document("0");
  return first ? Bson::copy_of(first) : Bson::none();
}

LiveOplog::LiveOplog(Member& member, const OplogSpan& span, bool follow)
    : member_(&member), follow_(follow), command_(find_in_oplog(span)) {
  if (follow) command_.append("tailable", true, "awaitData", true);
}

Result<std::optional<Document>> LiveOplog::next() {
  for (;;) {
    if (Field entry; rest_.next(entry)) return entry.document();
    if (!command_) {
      if (!follow_) return std::nullopt;
      return fail(Code::kUnavailable,
                  "reading the oplog of " + member_->host() + ": the cursor was closed");
    }
    Result<Member::Batch> batch = member_->batch("local", command_);
    if (!batch && batch.error().code == Code::kOutOfRange)
      add_outcome(
          batch.error(),
          "the oplog rolled over entries before they were read; it is too small for the writes "
          "of this set");
    if (!batch) return error_in(batch);
    batch_ = *std::move(batch);
    command_ = std::move(batch_.next);
    if (follow_ && command_) command_.add("maxTimeMS", kSecond);
    rest_ = Fields(batch_.documents);
    if (follow_ && command_ && batch_.documents.empty()) return std::nullopt;
  }
}

}  // namespace idmint::restore
