#include "restore/replay/report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/shell.h"
#include "idmint/clock.h"
#include "restore/backup/metadata.h"
#include "restore/collections.h"
#include "restore/input_file.h"
#include "restore/output_file.h"
#include "restore/replay/spare.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMark = "idmint_restore";
constexpr std::size_t kLongest = std::size_t{256} << 20;

// Distinguishes this server's data from all others: mongod creates local.startup_log with a new
// UUID when it first starts on a folder.
Result<std::string> identity_of(Server& server) {
  const Result<Bson> reply = server.command(
      "local", Bson("listCollections", 1, "filter", Bson("name", "startup_log"), "cursor", Bson()));
  if (!reply) return error_in(reply);
  std::string text;
  reply->view().each_found([&](const Document& row) { text = facts_of("local", row).uuid; });
  if (text.empty())
    return fail(Code::kFailedPrecondition,
                server.shown_uri() + " has no local.startup_log, by which its report is known");
  return text;
}

// The file may contain anything: a member of another type counts as missing.
Json member_of(const Json& json, const std::string& key) {
  const auto at = json.find(key);
  return at != json.end() ? *at : Json();
}
std::string text_in(const Json& json, const std::string& key) {
  const Json member = member_of(json, key);
  return member.is_string() ? member.get<std::string>() : std::string();
}
std::uint64_t number_in(const Json& json, const std::string& key) {
  const Json member = member_of(json, key);
  return member.is_number_unsigned() ? member.get<std::uint64_t>() : 0;
}

ReplayCounts counts_of(const Json& json) {
  ReplayCounts counts;
  counts.inserts = number_in(json, "inserts");
  counts.updates = number_in(json, "updates");
  counts.deletes = number_in(json, "deletes");
  counts.commands = number_in(json, "commands");
  counts.missed = number_in(json, "missed");
  counts.replaced = number_in(json, "replaced");
  return counts;
}

Error damaged(const std::string& path, std::string_view why) {
  return {Code::kDataLoss, "the report " + shell_word(path) + " is damaged: " + std::string(why) +
                               "; give another one with --report, or restore anew"};
}

// Reads the JSON of the file. nullopt: there is no file.
Result<std::optional<Json>> read_json(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const Result<std::string> text = read_text(path, kLongest);
  if (!text) return error_in(text);
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || number_in(json, kMark) != 1)
    return std::unexpected(damaged(path, "it is no report of idmint-restore run"));
  return json;
}

Result<DoneRestore> report_of(Server& server, const std::string& path, const Json& json) {
  std::map<std::string, Bson> documents;
  for (const Json& each : member_of(json, "record")) {
    Result<Bson> document =
        read_extended_json(each.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (!document) return std::unexpected(damaged(path, document.error().message()));
    documents[text_of(document->view(), "_id")] = std::move(*document);
  }
  Result<Record> record = Record::kept(server, std::move(documents));
  if (!record) return std::unexpected(damaged(path, record.error().message()));
  DoneRestore report{.record = *std::move(record)};
  report.restored = {.documents = number_in(json, "documents"),
                     .indexes = number_in(json, "indexes"),
                     .slice = counts_of(member_of(json, "slice")),
                     .oplog = counts_of(member_of(json, "replayed"))};
  for (const Json& note : member_of(json, "notes"))
    if (note.is_string()) report.restored.notes.push_back(note);
  return report;
}

}  // namespace

Json json_of(const ReplayCounts& counts) {
  return {{"inserts", counts.inserts}, {"updates", counts.updates},
          {"deletes", counts.deletes}, {"commands", counts.commands},
          {"missed", counts.missed},   {"replaced", counts.replaced}};
}

std::string report_beside(const std::string& folder) {
  std::string path = std::filesystem::absolute(folder).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path + ".report.json";
}

std::string report_here(const Server& server) {
  std::string name;
  std::string_view hosts = server.shown_uri();
  if (const std::size_t scheme = hosts.find("://"); scheme != std::string_view::npos)
    hosts.remove_prefix(scheme + 3);
  hosts = hosts.substr(0, hosts.find('/'));
  hosts = hosts.substr(hosts.rfind('@') + 1);  // npos + 1 is 0
  for (const char c : hosts)
    name += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.'
                ? c
                : '-';
  return "restore-" + name + ".report.json";
}

Result<void> write_report(Record& record, const Restored& restored, const std::string& path) {
  const Result<std::string> identity = identity_of(record.server());
  if (!identity) return error_in(identity);
  const Result<std::map<std::string, Bson>> documents = record.get_all("");
  if (!documents) return error_in(documents);
  Json json = {{kMark, 1},
               {"server", record.server().shown_uri()},
               {"identity", *identity},
               {"finished", format_exact_time(system_clock().now())},
               {"documents", restored.documents},
               {"indexes", restored.indexes},
               {"slice", json_of(restored.slice)},
               {"replayed", json_of(restored.oplog)},
               {"notes", restored.notes},
               {"collections", Json::object()},
               {"record", Json::array()}};
  const Result<std::vector<CollectionFacts>> there =
      list_collections(record.server(), record.users());
  if (!there) return error_in(there);
  for (const CollectionFacts& each : *there)
    if (!each.uuid.empty()) json["collections"][each.ns()] = each.uuid;
  for (const auto& [id, document] : *documents) {
    if (id.starts_with("owner:")) continue;
    const Result<std::string> text = write_extended_json(document.view());
    if (!text) return error_in(text);
    json["record"].push_back(Json::parse(*text));
  }
  return replace_file(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<std::optional<DoneRestore>> read_report(Server& server, const std::string& path) {
  const Result<std::optional<Json>> read = read_json(path);
  if (!read) return error_in(read);
  const std::optional<Json>& json = *read;
  if (!json) return std::nullopt;
  const Result<std::string> identity = identity_of(server);
  if (!identity) return error_in(identity);
  if (text_in(*json, "identity") != *identity) return std::nullopt;
  Result<DoneRestore> report = report_of(server, path, *json);
  if (!report) return error_in(report);
  const Result<std::vector<CollectionFacts>> there =
      list_collections(server, report->record.users());
  if (!there) return error_in(there);
  const Json restored = member_of(*json, "collections");
  report->is_there = std::ranges::any_of(*there, [&](const CollectionFacts& each) {
    return !each.uuid.empty() && text_in(restored, each.ns()) == each.uuid;
  });
  return std::optional(*std::move(report));
}

Result<std::optional<FoundRecord>> find_record(Server& server, const std::string& path) {
  Result<std::optional<Record>> on_server = Record::find(server);
  if (!on_server) return error_in(on_server);
  if (std::optional<Record>& there = *on_server) return FoundRecord{.record = *std::move(there)};
  std::vector<std::string> places;
  if (!path.empty()) {
    places.push_back(path);
  } else {
    // The server may be on another host with other folders.
    std::error_code ignored;
    const std::optional<std::string> folder = data_folder(server);
    if (folder && std::filesystem::is_directory(*folder, ignored))
      places.push_back(report_beside(*folder));
    places.push_back(report_here(server));
  }
  for (const std::string& place : places) {
    Result<std::optional<DoneRestore>> read = read_report(server, place);
    if (!read) return error_in(read);
    if (std::optional<DoneRestore>& report = *read)
      return FoundRecord{.record = std::move(report->record), .report = place};
  }
  if (path.empty()) return std::nullopt;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return fail(Code::kNotFound, "there is no report " + shell_word(path));
  return fail(Code::kFailedPrecondition, "the report " + shell_word(path) +
                                             " is of another server than " + server.shown_uri() +
                                             ": give that which run wrote for this one");
}

}  // namespace idmint::restore
