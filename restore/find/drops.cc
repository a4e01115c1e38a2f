#include "restore/find/drops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/figures.h"
#include "base/text.h"
#include "restore/find/hash.h"
#include "restore/namespaces.h"
#include "restore/oplog/operation_text.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kSequences = 1024;          // databases
constexpr std::size_t kNamedCollections = 5;      // in a sentence
constexpr std::uint32_t kDropPause = 60;          // seconds between the drops of a dropDatabase
constexpr std::uint32_t kMadeAnew = 600;          // seconds until a program misses it
constexpr std::uint32_t kDropDatabaseWait = 900;  // seconds; dropDatabase waits for a majority

// nullopt: the entry does not have the number of documents in the collection.
std::optional<std::uint64_t> records_of(const Operation& command) {
  const std::optional<std::int64_t> records = command.o2.numeric("numRecords");
  if (!records) return std::nullopt;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, *records));
}

}  // namespace

void Drops::command(const Operation& operation, const Place& place, bool wanted) {
  const std::string_view command = operation.command();
  if (command == "drop") return dropped(operation, place, wanted);
  if (command == "dropDatabase") return dropped_database(operation, place, wanted);
  write(operation.database());
  if (command == "create") created(target_of(operation), place.at);
  if (wanted && command == "emptycapped") emptied(operation, place);
  if (command == "renameCollection") renamed(operation, place, wanted);
}

void Drops::created(const std::string& ns, Timestamp at) {
  const std::uint64_t key = hash_of(ns, 9);
  auto& life = lives_.take(key);
  life.uses = at.seconds;
  life.value = {.born = at};
  const auto* const was = gone_.find(key);
  if (was == nullptr || at.seconds - was->value.seconds > kMadeAnew) return;
  auto& again = anew_.take(hash_of(ns, was->value.seconds) + was->value.ordinal);
  again.uses = at.seconds;
  again.value = at;
}

void Drops::gone(const std::string& ns, Timestamp at) {
  auto& slot = gone_.take(hash_of(ns, 9));
  slot.uses = at.seconds;
  slot.value = at;
}

void Drops::inserted(std::string_view ns) {
  if (auto* const life = lives_.find(hash_of(ns, 9)); life != nullptr) ++life->value.documents;
}

void Drops::emptied(const Operation& command, const Place& place) {
  Suspect found = suspect_at(place, Reason::kEmptied, target_of(command), command);
  found.score = 80;
  found.why = "all documents of " + found.ns + " removed";
  suspects_.keep(std::move(found));
}

void Drops::renamed(const Operation& rename, const Place& place, bool wanted) {
  if (!rename.o.has("to")) return;
  const std::string to = text_of(rename.o, "to");
  const std::string from = target_of(rename);
  gone(from, place.at);
  if (!wanted) return;
  const bool over = rename.o.has("dropTarget") && rename.o.boolean("dropTarget").value_or(true);
  if (over) return renamed_over(rename, from, to, place);
  // The renamer also created the collection in this oplog, as MongoDB does for its own ones.
  if (lives_.find(hash_of(from, 9)) != nullptr || is_temporary_name(collection_of(from))) return;
  Suspect found = suspect_at(place, Reason::kRenameAway, from, rename);
  found.key = hash_of(name_pattern(from), 7) | 1;
  found.score = 45;
  found.why = from + " is " + to + " since then";
  suspects_.keep(std::move(found));
}

void Drops::renamed_over(const Operation& rename, const std::string& from, const std::string& to,
                         const Place& place) {
  const std::string_view collection = std::string_view(from).substr(from.find('.') + 1);
  const bool capped = collection.contains(".convertToCapped.");
  const bool temporary = is_temporary_name(collection);
  const std::optional<std::uint64_t> documents = records_of(rename);
  Suspect found =
      suspect_at(place, temporary ? Reason::kReplaced : Reason::kRenameOver, to, rename);
  found.key = hash_of(to, 5) | 1;
  found.documents = documents;
  found.score = documents == 0 ? 30 : 76;
  found.why = from + " took the place of " + to +
              (documents ? " of " + plural(*documents, "document") : "");
  if (temporary) {
    found.score = 45;
    found.why = (capped ? "convertToCapped" : "$out or mapReduce") + (" put a new " + to) +
                " in the place of the old one" +
                (documents ? " of " + plural(*documents, "document") : "");
    const auto* const life = lives_.find(hash_of(from, 9));
    if (life != nullptr && documents) {
      const std::uint64_t now = life->value.documents;
      found.why += "; the new one has " + print_count(static_cast<double>(now));
      if (now < *documents / 2) found.score = log_score(70, 4, *documents - now, 90);
    }
  }
  suspects_.keep(std::move(found));
}

void Drops::dropped(const Operation& drop, const Place& place, bool wanted) {
  const std::string database(drop.database());
  Suspect found = suspect_at(place, Reason::kDrop, target_of(drop), drop);
  const std::string_view collection = std::string_view(found.ns).substr(database.size() + 1);
  const std::optional<std::uint64_t> documents = records_of(drop);
  const bool temporary = is_temporary_name(collection);
  const bool kept = is_kept_name(found.ns);
  found.key = hash_of(name_pattern(found.ns), 4) | 1;
  found.documents = documents;
  found.score = temporary        ? 5
                : kept           ? 15
                : !documents     ? 78
                : *documents > 0 ? log_score(78, 2, *documents, 90)
                                 : 25;
  const auto* const life = lives_.find(hash_of(found.ns, 9));
  const bool own = life != nullptr && !temporary && !kept && documents;
  if (own) found.score -= found.score / 4;
  gone(found.ns, place.at);
  found.why = found.ns + " dropped" +
              (!documents       ? ""
               : *documents > 0 ? " with " + plural(*documents, "document")
                                : "; it was empty") +
              (temporary ? "; MongoDB had made it for itself" : "") +
              (kept ? "; a promotion had kept it, and its --finish drops it" : "") +
              (own ? "; it had been made " +
                         print_duration(place.at.seconds - life->value.born.seconds + 1) + " before"
                   : "");

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
  found.key = hash_of(name_pattern(database + "."), 6) | 1;
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
  if (all.documents_known) found.documents = all.documents;
  const bool nothing = all.temporary || (all.documents_known && all.documents == 0);
  found.score = nothing ? 40 : 96;
  found.why = "database " + database + " dropped, which begins with the drop of its " +
              plural(all.collections, "collection") + " (" + shortened(all.names) + ")";
  if (all.documents_known) found.why += " with " + plural(all.documents, "document");
  suspects_.keep(std::move(found));
}

void Drops::weigh(Suspect& suspect) const {
  const auto* const again =
      anew_.find(hash_of(suspect.ns, suspect.limit.seconds) + suspect.limit.ordinal);
  if (again == nullptr) return;
  const std::uint32_t later = again->value.seconds - suspect.limit.seconds;
  suspect.why +=
      "; a program made it anew " + (later == 0 ? "at once" : print_duration(later) + " later");
  if (suspect.reason == Reason::kRenameAway) suspect.score = 82;
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
