#include "restore/replay/record.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "restore/cursor.h"

namespace idmint::restore {
namespace {

constexpr std::array<std::string_view, 5> kStages = {"base", "slice", "indexes", "oplog", "done"};

std::string where_it_is(const Server& server) {
  return std::string(kRecordNamespace) + " on " + server.shown_uri();
}

}  // namespace

std::string unique_text() {
  bson_oid_t unique;
  bson_oid_init(&unique, nullptr);
  std::array<char, 25> text{};
  bson_oid_to_string(&unique, text.data());
  return text.data();
}

Bson with_concern(Bson command, const Server& server, bool durable) {
  Bson concern =
      server.set_name().empty() ? Bson("w", 1) : Bson("w", "majority", "wtimeout", 120'000);
  if (durable) concern.add("j", true);
  command.add("writeConcern", concern);
  return command;
}

std::string_view name(RunStage stage) { return kStages[static_cast<std::size_t>(stage)]; }

Result<std::map<std::string, Bson>> Record::get_all(std::string_view prefix) {
  // The range of a prefix ends before the prefix with its last byte incremented.
  std::string end(prefix);
  if (!end.empty()) end.back() = static_cast<char>(end.back() + 1);
  if (kept_) {
    std::map<std::string, Bson> found;
    for (const auto& [id, document] : *kept_)
      if (id.starts_with(prefix)) found[id] = Bson::copy_of(document.view());
    return found;
  }
  const Bson filter = end.empty() ? Bson() : Bson("_id", Bson("$gte", prefix, "$lt", end));
  std::map<std::string, Bson> found;
  Result<void> read = find_each(
      *server_, kRecordNamespace, filter, {},
      [&](Document document) -> Result<void> {
        if (document.has("_id")) found[text_of(document, "_id")] = Bson::copy_of(document);
        return {};
      },
      "reading " + where_it_is(*server_));
  if (!read) return error_in(read);
  return found;
}

Result<std::optional<Bson>> Record::get(std::string_view id) {
  Result<std::map<std::string, Bson>> all = get_all(id);
  if (!all) return error_in(all);
  const auto at = all->find(std::string(id));
  if (at == all->end()) return std::nullopt;
  return std::move(at->second);
}

Result<void> Record::put(std::string_view id, const Bson& fields) {
  Bson document = Bson("_id", id);
  document.add_all(*fields.get());
  if (!owner_.empty()) return put_as_owner(document);
  const Bson update = Bson("q", Bson("_id", id), "u", document, "upsert", true);
  const Result<Bson> reply = server_->command(
      kRecordDatabase,
      with_concern(Bson("update", "progress", "updates", array(update)), *server_));
  if (!reply) return error_in(reply);
  if (reply->view().has("writeErrors") || reply->view().has("writeConcernError"))
    return fail(Code::kUnavailable, where_it_is(*server_) + ": " + to_relaxed_json(reply->view()));
  return {};
}

// Writes in one atomic applyOps, which fails if the owner's document is gone.
Result<void> Record::put_as_owner(const Bson& document) {
  Bson command = Bson(
      "applyOps",
      array(Bson("op", "u", "ns", kRecordNamespace, "o",
                 Bson("$v", 2, "diff", Bson("u", Bson("writes", true))), "o2", Bson("_id", owner_)),
            Bson("op", "i", "ns", kRecordNamespace, "o", document)),
      "allowAtomic", true, "alwaysUpsert", false);
  command = with_concern(std::move(command), *server_);
  bson_t reply;
  bson_error_t error{};
  const bool ok = mongoc_client_command_with_opts(server_->client(), "admin", command.get(),
                                                  nullptr, nullptr, &reply, &error);
  const Bson answer = Bson::taken_from(&reply);
  const std::string where = where_it_is(*server_);
  if (!ok && answer.view().number("code") == kUpdateOperationFailed)
    return fail(Code::kUnavailable,
                where +
                    " belongs to another run by now, or the server has lost what it had done: "
                    "where no other is at work, the same command goes on");
  if (!ok) return std::unexpected(told("writing " + where, error));
  if (answer.view().has("writeConcernError"))
    return fail(Code::kUnavailable, where + ": " + to_relaxed_json(answer.view()));
  return {};
}

// If two runs do this at the same time, at most one remains the owner.
Result<void> Record::own_it() {
  const std::string owner = "owner:" + unique_text();
  if (Result<void> made = put(owner, {}); !made) return made;
  const Bson others = Bson("_id", Bson("$gte", "owner:", "$lt", "owner;", "$ne", owner));
  const Result<Bson> reply = server_->command(
      kRecordDatabase,
      with_concern(Bson("delete", "progress", "deletes", array(Bson("q", others, "limit", 0))),
                   *server_));
  if (!reply) return error_in(reply);
  owner_ = owner;
  return {};
}

Result<std::optional<Record>> Record::find(Server& server) { return read(Record(server)); }

Result<Record> Record::kept(Server& server, std::map<std::string, Bson> documents) {
  Record record(server);
  record.kept_ = std::move(documents);
  Result<std::optional<Record>> read_of_it = read(std::move(record));
  if (!read_of_it) return error_in(read_of_it);
  if (std::optional<Record>& found = *read_of_it) return *std::move(found);
  return fail(Code::kDataLoss, "it has no run");
}

Result<std::optional<Record>> Record::read(Record record) {
  const Result<std::optional<Bson>> read = record.get("run");
  if (!read) return error_in(read);
  const std::optional<Bson>& run = *read;
  if (!run) return std::nullopt;
  const Document document = run->view();
  if (const Document fingerprint = document.document("fingerprint"))
    record.fingerprint_ = Bson::copy_of(fingerprint);
  const auto* const stage = std::ranges::find(kStages, document.text("stage"));
  if (stage == kStages.end() || !record.fingerprint_)
    return fail(Code::kDataLoss,
                where_it_is(*record.server_) + " is damaged: empty the target and begin anew");
  record.stage_ = static_cast<RunStage>(stage - kStages.begin());
  record.resumed_ = true;
  return std::optional(std::move(record));
}

Result<void> Record::expect(Document fingerprint) const {
  if (this->fingerprint() == fingerprint) return {};
  return std::unexpected(
      Error{.code = Code::kAlreadyExists,
            .what = "it has other inputs or another limit: begin with an empty server or a new "
                    "--spare folder; it was " +
                    to_relaxed_json(this->fingerprint()),
            .subject = std::string(kAnotherRestore),
            .place = server_->shown_uri()});
}

Result<Record> Record::begin(Server& server, Document fingerprint) {
  Result<std::optional<Record>> read = find(server);
  if (!read) return error_in(read);
  if (std::optional<Record>& found = *read) {
    if (Result<void> same_run = found->expect(fingerprint); !same_run) return error_in(same_run);
    if (Result<void> ours = found->own_it(); !ours) return error_in(ours);
    return *std::move(found);
  }
  Record record(server);
  record.fingerprint_ = Bson::copy_of(fingerprint);
  if (Result<void> ours = record.own_it(); !ours) return error_in(ours);
  if (Result<void> begun = record.reach(RunStage::kBase); !begun) return error_in(begun);
  return record;
}

Result<void> Record::reach(RunStage stage) {
  const Bson fields =
      Bson("fingerprint", fingerprint_, "stage", kStages[static_cast<std::size_t>(stage)].data());
  if (Result<void> written = put("run", fields); !written) return written;
  stage_ = stage;
  return {};
}

Result<void> Record::forget(Server& server) {
  return only_error(server.command(kRecordDatabase, with_concern(Bson("dropDatabase", 1), server)));
}

}  // namespace idmint::restore
