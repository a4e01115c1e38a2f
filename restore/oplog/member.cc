#include "restore/oplog/member.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "mongo/errors.h"
#include "restore/namespaces.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

using Description =
    std::unique_ptr<mongoc_server_description_t,
                    MongocDeleter<mongoc_server_description_t, mongoc_server_description_destroy>>;

// The size of a batch in bytes. Larger ones cost both sides fresh memory each time.
constexpr std::size_t kLargeBatch = std::size_t{4} << 20;

constexpr std::array kGone = {kNamespaceNotFound, kQueryPlanKilled};

struct DescriptionsDeleter {
  std::size_t size;
  void operator()(mongoc_server_description_t** descriptions) const {
    mongoc_server_descriptions_destroy_all(descriptions, size);
  }
};

std::string host_of(const mongoc_server_description_t* description) {
  return mongoc_server_description_host(description)->host_and_port;
}

}  // namespace

Error rolled_over(Timestamp at) {
  return {Code::kOutOfRange,
          "the oplog rolled over while the backup was made: its entry " + print_timestamp(at) +
              " is gone; give the members a larger one (replSetResizeOplog), or make the backup "
              "while less is written"};
}

Result<Member> Member::choose(Server server) {
  if (server.set_name().empty())
    return fail(Code::kFailedPrecondition,
                server.shown_uri() +
                    " is no member of a replica set: it has no oplog, without "
                    "which a backup of a running server is of no one moment");
  Member member(std::move(server));
  mongoc_client_t* const client = member.server_.client();
  bson_error_t error{};
  const Description chosen(
      mongoc_client_select_server(client, false, read_preference(client).get(), &error));
  if (!chosen) return std::unexpected(told("connecting to " + member.server_.shown_uri(), error));
  member.id_ = mongoc_server_description_id(chosen.get());
  member.host_ = host_of(chosen.get());
  if (Result<void> begun = member.begin_session(); !begun) return error_in(begun);
  return member;
}

Result<void> Member::begin_session() {
  bson_error_t error{};
  session_.reset(mongoc_client_start_session(server_.client(), nullptr, &error));
  if (!session_) return std::unexpected(told("a session on " + server_.shown_uri(), error));
  return {};
}

Result<Member> Member::another() const {
  Result<Server> server = server_.another();
  if (!server) return error_in(server);
  Member member(*std::move(server));
  mongoc_client_t* const client = member.server_.client();
  // Any member will do: then the client knows all.
  const Preference any(mongoc_read_prefs_new(MONGOC_READ_NEAREST));
  bson_error_t error{};
  const Description chosen(mongoc_client_select_server(client, false, any.get(), &error));
  if (!chosen) return std::unexpected(told("connecting to " + host_, error));
  std::size_t size = 0;
  mongoc_server_description_t** const all = mongoc_client_get_server_descriptions(client, &size);
  const std::unique_ptr<mongoc_server_description_t*, DescriptionsDeleter> owned(all, {size});
  const auto same = std::find_if(all, all + size, [&](const mongoc_server_description_t* each) {
    return host_of(each) == host_;
  });
  if (same == all + size)
    return fail(Code::kUnavailable, host_ + " is no longer a member of the replica set");
  member.id_ = mongoc_server_description_id(*same);
  member.host_ = host_;
  if (Result<void> begun = member.begin_session(); !begun) return error_in(begun);
  return member;
}

Error Member::told_of(const Bson& command, const bson_error_t& error) const {
  return server_.explained(told(std::string(command.view().first_key()) + " on " + host_, error));
}

Member::Reply Member::run(const std::string& database, const Bson& command) {
  // The member was chosen: accept it in any state.
  const Preference any(mongoc_read_prefs_new(MONGOC_READ_NEAREST));
  Reply reply;
  const Bson options = Bson("serverId", static_cast<std::int32_t>(id_));
  if (!mongoc_client_session_append(session_.get(), options.get(), &reply.error)) return reply;
  bson_t answer;
  reply.ok = mongoc_client_command_with_opts(server_.client(), database.c_str(), command.get(),
                                             any.get(), options.get(), &answer, &reply.error);
  reply.document = Bson::taken_from(&answer);
  return reply;
}

Result<Bson> Member::command(const std::string& database, const Bson& command) {
  Reply reply = run(database, command);
  if (!reply.ok) return std::unexpected(told_of(command, reply.error));
  return std::move(reply.document);
}

Result<Member::Batch> Member::batch_of(Reply reply, const Bson& command) const {
  if (!reply.ok) return std::unexpected(told_of(command, reply.error));
  Batch batch{.reply = std::move(reply.document)};
  const Document cursor = batch.reply.view().document("cursor");
  batch.documents = cursor.array(cursor.has("firstBatch") ? "firstBatch" : "nextBatch");
  if (!batch.documents)
    return fail(Code::kUnavailable, host_ + " answered without a batch of documents");
  const std::int64_t id = cursor.number("id");
  if (id == 0) return batch;
  const std::string ns = text_of(cursor, "ns");
  batch.next = Bson("getMore", id, "collection", collection_of(ns));
  return batch;
}

Result<Member::Batch> Member::batch(const std::string& database, const Bson& command) {
  return batch_of(run(database, command), command);
}

Result<bool> Member::batches(const std::string& database, const Bson& command,
                             const TakeBatch& take) {
  Bson next = Bson::none();
  std::int32_t size = 1000;  // documents in the next batch
  for (const Bson* now = &command; *now; now = &next) {
    Reply reply = run(database, *now);
    if (!reply.ok && std::ranges::find(kGone, std::int64_t{reply.error.code}) != kGone.end() &&
        (reply.error.domain == MONGOC_ERROR_SERVER || reply.error.domain == MONGOC_ERROR_QUERY))
      return false;
    Result<Batch> batch = batch_of(std::move(reply), *now);
    if (!batch) return error_in(batch);
    const std::size_t bytes = batch->documents.bytes().size();
    if (bytes > kLargeBatch) size = std::max(1, size / 2);
    if (bytes < kLargeBatch / 2) size = std::min(100'000, size * 2);
    if (Result<void> taken = take(std::move(batch->reply), batch->documents); !taken)
      return error_in(taken);
    next = std::move(batch->next);
    if (next) next.add("batchSize", size);
  }
  return true;
}

Result<bool> Member::documents(const std::string& database, const Bson& command,
                               const std::function<Result<void>(Document)>& take) {
  return batches(database, command, [&](const Bson&, Document batch) -> Result<void> {
    for (const Field& field : Fields(batch))
      if (Result<void> taken = take(field.document()); !taken) return taken;
    return {};
  });
}

Result<OpTime> Member::end_of_oplog(int direction, const char* read_concern) {
  const Bson find = Bson("find", "oplog.rs", "sort", Bson("$natural", direction), "limit", 1,
                         "singleBatch", true, "readConcern", Bson("level", read_concern));
  std::optional<OpTime> found;
  const Result<bool> read = documents("local", find, [&](Document document) -> Result<void> {
    const Result<Entry> entry = parse_entry(document);
    if (!entry) return error_in(entry);
    found = entry->at;
    return {};
  });
  if (!read) return error_in(read);
  if (!found) return fail(Code::kFailedPrecondition, host_ + " has an empty oplog");
  return *found;
}

Result<OpTime> Member::newest() { return end_of_oplog(-1, "local"); }
Result<OpTime> Member::oldest() { return end_of_oplog(1, "local"); }
Result<void> Member::still_has(Timestamp at) {
  const Result<OpTime> first = oldest();
  if (!first) return error_in(first);
  if (first->ts > at) return std::unexpected(rolled_over(at));
  return {};
}
Result<OpTime> Member::newest_of_majority() { return end_of_oplog(-1, "majority"); }

Result<Bson> Member::entry_of_majority(Timestamp at) {
  const Bson find =
      Bson("find", "oplog.rs", "filter", Bson("ts", to_bson(at)), "limit", 1, "singleBatch", true,
           "readConcern", Bson("level", "majority", "afterClusterTime", to_bson(at)), "maxTimeMS",
           60'000);
  const Reply reply = run("local", find);
  if (!reply.ok && reply.error.code == mongo::kMaxTimeExpired)
    return fail(Code::kUnavailable, "a majority of the members does not have the entry " +
                                        print_timestamp(at) +
                                        " after a minute: look at the others");
  if (!reply.ok) return std::unexpected(told_of(find, reply.error));
  Bson found;
  reply.document.view().each_found([&](const Document& entry) { found = Bson::copy_of(entry); });
  return found;
}

}  // namespace idmint::restore
