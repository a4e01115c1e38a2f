#include "restore/record.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace idmint::restore {
namespace {

constexpr std::array<std::string_view, 5> kStages = {"base", "slice", "indexes", "oplog", "done"};

bool same(Document a, Document b) { return std::ranges::equal(a.bytes(), b.bytes()); }

}  // namespace

void append_concern(bson_t* command, const Server& server, bool durable) {
  bson_t concern;
  BSON_APPEND_DOCUMENT_BEGIN(command, "writeConcern", &concern);
  if (server.set_name().empty()) {
    BSON_APPEND_INT32(&concern, "w", 1);
  } else {
    BSON_APPEND_UTF8(&concern, "w", "majority");
    BSON_APPEND_INT32(&concern, "wtimeout", 120'000);
  }
  if (durable) BSON_APPEND_BOOL(&concern, "j", true);
  bson_append_document_end(command, &concern);
}

std::string_view name(RunStage stage) { return kStages[static_cast<std::size_t>(stage)]; }

Result<std::map<std::string, OwnDocument>> Record::get_all(std::string_view prefix) {
  // All that begin with it are from it up to, not including, the same with its last byte one more.
  std::string end(prefix);
  if (!end.empty()) end.back() = static_cast<char>(end.back() + 1);
  const OwnDocument filter =
      end.empty() ? own(bson_new())
                  : own(BCON_NEW("_id", "{", "$gte", BCON_UTF8(std::string(prefix).c_str()), "$lt",
                                 BCON_UTF8(end.c_str()), "}"));
  mongoc_collection_t* const progress =
      mongoc_client_get_collection(server_->client(), kRecordDatabase, "progress");
  mongoc_cursor_t* const cursor =
      mongoc_collection_find_with_opts(progress, filter.get(), nullptr, nullptr);
  std::map<std::string, OwnDocument> found;
  const bson_t* each = nullptr;
  while (mongoc_cursor_next(cursor, &each)) {
    bson_iter_t at;
    if (Document::of(each).find("_id", &at)) found[std::string(as_text(at))] = own(bson_copy(each));
  }
  bson_error_t error{};
  const bool failed = mongoc_cursor_error(cursor, &error);
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(progress);
  if (failed)
    return std::unexpected(
        told(std::string("reading ") + kRecordNamespace + " on " + server_->shown_uri(), error));
  return found;
}

Result<std::optional<OwnDocument>> Record::get(std::string_view id) {
  Result<std::map<std::string, OwnDocument>> all = get_all(id);
  if (!all) return std::unexpected(std::move(all.error()));
  const auto at = all->find(std::string(id));
  if (at == all->end()) return std::nullopt;
  return std::move(at->second);
}

Result<void> Record::put(std::string_view id, const bson_t* fields) {
  const std::string text(id);
  const OwnDocument document = own(BCON_NEW("_id", BCON_UTF8(text.c_str())));
  bson_concat(document.get(), fields);
  if (!owner_.empty()) return put_as_owner(document.get());
  const OwnDocument command =
      own(BCON_NEW("update", BCON_UTF8("progress"), "updates", "[", "{", "q", "{", "_id",
                   BCON_UTF8(text.c_str()), "}", "u", BCON_DOCUMENT(document.get()), "upsert",
                   BCON_BOOL(true), "}", "]"));
  append_concern(command.get(), *server_, true);
  const Result<OwnDocument> reply = server_->command(kRecordDatabase, command.get());
  if (!reply) return std::unexpected(reply.error());
  bson_iter_t at;
  for (const char* const field : {"writeErrors", "writeConcernError"}) {
    if (reply->view().find(field, &at))
      return std::unexpected(Error{Code::kUnavailable, std::string(kRecordNamespace) + " on " +
                                                           server_->shown_uri() + ": " +
                                                           to_relaxed_json(reply->view())});
  }
  return {};
}

// A batch of applyOps, all of it or nothing: where the owner's document is gone, its update fails.
Result<void> Record::put_as_owner(const bson_t* document) {
  constexpr std::int64_t found_nothing = 218;
  const OwnDocument command =
      own(BCON_NEW("applyOps", "[", "{", "op", BCON_UTF8("u"), "ns", BCON_UTF8(kRecordNamespace),
                   "o", "{", "$v", BCON_INT32(2), "diff", "{", "u", "{", "writes", BCON_BOOL(true),
                   "}", "}", "}", "o2", "{", "_id", BCON_UTF8(owner_.c_str()), "}", "}", "{", "op",
                   BCON_UTF8("i"), "ns", BCON_UTF8(kRecordNamespace), "o", BCON_DOCUMENT(document),
                   "}", "]", "allowAtomic", BCON_BOOL(true), "alwaysUpsert", BCON_BOOL(false)));
  append_concern(command.get(), *server_, true);
  bson_t reply;
  bson_error_t error{};
  const bool ok = mongoc_client_command_with_opts(server_->client(), "admin", command.get(),
                                                  nullptr, nullptr, &reply, &error);
  const OwnDocument answer = own(bson_copy(&reply));
  bson_destroy(&reply);
  const std::string where = std::string(kRecordNamespace) + " on " + server_->shown_uri();
  bson_iter_t at;
  if (!ok && answer.view().find("code", &at) && as_integer(at) == found_nothing)
    return std::unexpected(Error{
        Code::kUnavailable, where + " belongs to another run by now, or the server has lost what "
                                    "it had done: where no other is at work, the same command "
                                    "goes on"});
  if (!ok) return std::unexpected(told("writing " + where, error));
  if (answer.view().find("writeConcernError", &at))
    return std::unexpected(
        Error{Code::kUnavailable, where + ": " + to_relaxed_json(answer.view())});
  return {};
}

// Of two that do this at the same time one or none is left.
Result<void> Record::own_it() {
  bson_oid_t unique;
  bson_oid_init(&unique, nullptr);
  std::array<char, 25> text{};
  bson_oid_to_string(&unique, text.data());
  const std::string owner = std::string("owner:") + text.data();
  const OwnDocument nothing = own(bson_new());
  if (Result<void> made = put(owner, nothing.get()); !made) return made;
  const OwnDocument command =
      own(BCON_NEW("delete", BCON_UTF8("progress"), "deletes", "[", "{", "q", "{", "_id", "{",
                   "$gte", BCON_UTF8("owner:"), "$lt", BCON_UTF8("owner;"), "$ne",
                   BCON_UTF8(owner.c_str()), "}", "}", "limit", BCON_INT32(0), "}", "]"));
  append_concern(command.get(), *server_, true);
  const Result<OwnDocument> reply = server_->command(kRecordDatabase, command.get());
  if (!reply) return std::unexpected(reply.error());
  owner_ = owner;
  return {};
}

Result<std::optional<Record>> Record::find(Server& server) {
  Record record(server);
  const Result<std::optional<OwnDocument>> read = record.get("run");
  if (!read) return std::unexpected(read.error());
  const std::optional<OwnDocument>& run = *read;
  if (!run) return std::nullopt;
  const Document document = run->view();
  bson_iter_t at;
  if (document.find("fingerprint", &at) && as_document(at)) {
    const bson_t fingerprint = as_document(at).view();
    record.fingerprint_ = own(bson_copy(&fingerprint));
  }
  const auto* const stage =
      document.find("stage", &at) ? std::ranges::find(kStages, as_text(at)) : kStages.end();
  if (stage == kStages.end() || record.fingerprint_.get() == nullptr)
    return std::unexpected(
        Error{Code::kDataLoss, std::string(kRecordNamespace) + " on " + server.shown_uri() +
                                   " is damaged: empty the target and begin anew"});
  record.stage_ = static_cast<RunStage>(stage - kStages.begin());
  record.resumed_ = true;
  return std::optional(std::move(record));
}

Result<void> Record::expect(Document fingerprint) const {
  if (same(this->fingerprint(), fingerprint)) return {};
  return std::unexpected(
      Error{Code::kAlreadyExists,
            server_->shown_uri() +
                " has another restore, of other inputs or another limit: begin with an empty "
                "server or a new --spare folder; this one was " +
                to_relaxed_json(this->fingerprint())});
}

Result<Record> Record::begin(Server& server, Document fingerprint) {
  Result<std::optional<Record>> read = find(server);
  if (!read) return std::unexpected(std::move(read.error()));
  if (std::optional<Record>& found = *read) {
    if (Result<void> same_run = found->expect(fingerprint); !same_run)
      return std::unexpected(std::move(same_run.error()));
    if (Result<void> ours = found->own_it(); !ours) return std::unexpected(std::move(ours.error()));
    return *std::move(found);
  }
  Record record(server);
  const bson_t view = fingerprint.view();
  record.fingerprint_ = own(bson_copy(&view));
  if (Result<void> ours = record.own_it(); !ours) return std::unexpected(std::move(ours.error()));
  if (Result<void> begun = record.reach(RunStage::kBase); !begun)
    return std::unexpected(std::move(begun.error()));
  return record;
}

Result<void> Record::reach(RunStage stage) {
  const OwnDocument fields =
      own(BCON_NEW("fingerprint", BCON_DOCUMENT(fingerprint_.get()), "stage",
                   BCON_UTF8(kStages[static_cast<std::size_t>(stage)].data())));
  if (Result<void> written = put("run", fields.get()); !written) return written;
  stage_ = stage;
  return {};
}

Result<void> Record::forget(Server& server) {
  const OwnDocument command = own(BCON_NEW("dropDatabase", BCON_INT32(1)));
  append_concern(command.get(), server, true);
  const Result<OwnDocument> reply = server.command(kRecordDatabase, command.get());
  if (!reply) return std::unexpected(reply.error());
  return {};
}

}  // namespace idmint::restore
