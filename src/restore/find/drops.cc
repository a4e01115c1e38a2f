#include "restore/find/drops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "restore/find/hash.h"
#include "restore/oplog/operation_text.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kSequences = 1024;          // databases
constexpr std::size_t kNamedCollections = 5;      // in a sentence
constexpr std::uint32_t kDropPause = 60;          // seconds between the drops of a dropDatabase
constexpr std::uint32_t kDropDatabaseWait = 900;  // seconds; dropDatabase waits for a majority

// Nothing: the entry does not say how many documents the collection had.
std::optional<std::uint64_t> records_of(const Operation& command) {
  bson_iter_t at;
  const std::optional<std::int64_t> records =
      command.o2.find("numRecords", &at) ? as_integer(at) : std::nullopt;
  if (!records) return std::nullopt;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, *records));
}

}  // namespace

void Drops::command(const Operation& operation, const Place& place, bool wanted) {
  const std::string_view command = operation.command();
  if (command == "drop") return dropped(operation, place, wanted);
  if (command == "dropDatabase") return dropped_database(operation, place, wanted);
  write(operation.database());
  if (wanted && command == "emptycapped") emptied(operation, place);
  if (wanted && command == "renameCollection") renamed(operation, place);
}

void Drops::emptied(const Operation& command, const Place& place) {
  Suspect found = suspect_at(place, Reason::kEmptied, target_of(command), command);
  found.score = 80;
  found.why = "all documents of " + found.ns + " removed";
  suspects_.keep(std::move(found));
}

void Drops::renamed(const Operation& rename, const Place& place) {
  bson_iter_t at;
  const bool over =
      rename.o.find("dropTarget", &at) && (!BSON_ITER_HOLDS_BOOL(&at) || bson_iter_bool(&at));
  if (!over || !rename.o.find("to", &at)) return;
  const std::string to(as_text(at));
  const std::string from = target_of(rename);
  const bool temporary = is_temporary_name(std::string_view(from).substr(from.find('.') + 1));
  const std::optional<std::uint64_t> documents = records_of(rename);
  Suspect found = suspect_at(place, Reason::kRenameOver, to, rename);
  found.key = hash_of(to, 5) | 1;
  found.score = temporary ? 35 : 76;
  found.why = from + " took the place of " + to +
              (documents ? " of " + plural(*documents, "document") : "") +
              (temporary ? ", as $out and convertToCapped do" : "");
  suspects_.keep(std::move(found));
}

void Drops::dropped(const Operation& drop, const Place& place, bool wanted) {
  const std::string database(drop.database());
  Suspect found = suspect_at(place, Reason::kDrop, target_of(drop), drop);
  const std::string_view collection = std::string_view(found.ns).substr(database.size() + 1);
  const std::optional<std::uint64_t> documents = records_of(drop);
  const bool temporary = is_temporary_name(collection);
  found.key = hash_of(found.ns, 4) | 1;
  found.score = temporary        ? 5
                : !documents     ? 78
                : *documents > 0 ? log_score(78, 2, *documents, 90)
                                 : 25;
  found.why = found.ns + " dropped" +
              (!documents       ? ""
               : *documents > 0 ? " with " + plural(*documents, "document")
                                : "; it was empty") +
              (temporary ? "; MongoDB had made it for itself" : "");

  auto sequence = sequences_.find(database);
  if (sequence != sequences_.end() &&
      place.at.seconds - sequence->second.last.seconds > kDropPause) {
    sequences_.erase(sequence);
    sequence = sequences_.end();
  }
  if (sequence == sequences_.end()) {
    if (sequences_.size() == kSequences) sequences_.erase(sequences_.begin());
    sequence = sequences_.emplace(database, Sequence{.first = found, .names = {}}).first;
    begun_.push_back(database);
  }
  Sequence& all = sequence->second;
  all.wanted = all.wanted || wanted;
  all.last = place.at;
  all.documents += documents.value_or(0);
  all.documents_known = all.documents_known && documents;
  all.temporary = all.temporary && temporary;
  if (++all.collections <= kNamedCollections)
    all.names += (all.collections == 1 ? "" : ", ") + std::string(collection);
  if (all.collections == kNamedCollections + 1) all.names += " and others";
  if (wanted) suspects_.keep(std::move(found));
}

void Drops::dropped_database(const Operation& drop, const Place& place, bool wanted) {
  const std::string database(drop.database());
  Suspect found = suspect_at(place, Reason::kDropDatabase, database, drop);
  found.key = hash_of(database, 6) | 1;
  found.score = 60;
  found.why = "database " + database + " dropped; it had no collections";
  const auto sequence = sequences_.find(database);
  if (sequence == sequences_.end() ||
      place.at.seconds - sequence->second.last.seconds > kDropDatabaseWait) {
    if (wanted) suspects_.keep(std::move(found));
    return;
  }
  const Sequence all = std::move(sequence->second);
  sequences_.erase(sequence);
  if (!wanted && !all.wanted) return;
  suspects_.remove_drops(database, all.first.limit);
  const std::uint64_t key = found.key;
  found = all.first;
  found.reason = Reason::kDropDatabase;
  found.key = key;
  found.ns = database;
  found.last = place.at;
  found.operations = all.collections + 1;
  const bool nothing = all.temporary || (all.documents_known && all.documents == 0);
  found.score = nothing ? 40 : 96;
  found.why = "database " + database + " dropped, which begins with the drop of its " +
              plural(all.collections, "collection") + " (" + shortened(all.names) + ")";
  if (all.documents_known) found.why += " with " + plural(all.documents, "document");
  suspects_.keep(std::move(found));
}

void Drops::end_sequence(std::string_view database) {
  const auto sequence = sequences_.find(database);
  if (sequence != sequences_.end()) sequences_.erase(sequence);
}

void Drops::next_entry(Timestamp at) {
  for (const std::string& database : begun_) {
    const auto sequence = sequences_.find(database);
    if (sequence != sequences_.end()) sequence->second.first.after = at;
  }
  begun_.clear();
}

}  // namespace idmint::restore
