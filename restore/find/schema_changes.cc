#include "restore/find/schema_changes.h"

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

constexpr std::uint32_t kReplacement = 3'600;  // seconds from an index to the drop of the old one

std::uint64_t index_key(std::string_view ns, std::string_view name) {
  return hash_of(name, hash_of(ns, 11));
}

std::optional<std::int64_t> seconds_in(Document document) {
  return document.numeric("expireAfterSeconds");
}

std::string key_text(Document spec) {
  const Document key = spec.document("key");
  return key ? shortened(to_relaxed_json(key)) : "unknown fields";
}

}  // namespace

void SchemaChanges::command(const Operation& operation, const Place& place, bool wanted) {
  const std::string_view command = operation.command();
  if (command == "createIndexes") return built(operation, operation.o, place, wanted);
  if (command == "startIndexBuild")
    return operation.o.each("indexes",
                            [&](Document spec) { built(operation, spec, place, wanted); });
  if (command == "abortIndexBuild")
    return operation.o.each("indexes", [&](Document spec) {
      auto& slot = built_.take(index_key(target_of(operation), text_of(spec, "name")));
      slot.uses = place.at.seconds;
      slot.value = {.at = place.at, .fate = Fate::kFailed};
    });
  if (!wanted) return;
  if (command == "dropIndexes" || command == "deleteIndexes" || command == "deleteIndex")
    return dropped_index(operation, place);
  if (command == "collMod") modified(operation, place);
}

void SchemaChanges::built(const Operation& command, Document spec, const Place& place,
                          bool wanted) {
  const std::string ns = target_of(command);
  const std::string name = text_of(spec, "name");
  for (const std::uint64_t key : {index_key(ns, name), index_key(ns, "")}) {
    auto& slot = built_.take(key);
    slot.uses = place.at.seconds;
    slot.value = {.at = place.at, .fate = Fate::kBuilt};
  }
  const std::optional<std::int64_t> seconds = seconds_in(spec);
  if (!wanted || !seconds || is_temporary_name(collection_of(ns))) return;
  // This entry means that the collection was empty, so no document was removed.
  const bool empty = command.command() == "createIndexes";
  expires(command, place,
          "the new index " + name + " on " + key_text(spec) + " has documents of " + ns +
              " deleted " + print_duration(static_cast<double>(*seconds)) +
              " after the time in that field",
          empty ? 15 : 55);
}

void SchemaChanges::expires(const Operation& command, const Place& place, std::string why,
                            double score) {
  Suspect found = suspect_at(place, Reason::kTimeToLive, target_of(command), command);
  found.key = hash_of(found.ns, 12) | 1;
  found.score = score;
  found.why = std::move(why);
  suspects_.keep(std::move(found));
}

void SchemaChanges::modified(const Operation& command, const Place& place) {
  const std::string ns = target_of(command);
  // A time-series collection has the expiry as an option, others have it in an index.
  const bool series = command.o.has("expireAfterSeconds");
  const Document index = command.o.document("index");
  const std::optional<std::int64_t> now = seconds_in(series ? command.o : index);
  const std::optional<std::int64_t> before = seconds_in(
      command.o2 ? command.o2.document(series ? "collectionOptions_old" : "indexOptions_old")
                 : Document{});
  if (now && (!before || *now < *before))
    return expires(command, place,
                   "documents of " + ns + " are deleted after " +
                       print_duration(static_cast<double>(*now)) + " instead of " +
                       (before ? print_duration(static_cast<double>(*before)) : "never"),
                   72);
  if (now) return;
  Suspect found = suspect_at(place, Reason::kOptions, ns, command);
  found.key = hash_of(ns, 13) | 1;
  found.score = 35;
  found.why = "collMod changed the options of " + ns;
  suspects_.keep(std::move(found));
}

void SchemaChanges::dropped_index(const Operation& command, const Place& place) {
  const std::string ns = target_of(command);
  if (is_temporary_name(collection_of(ns))) return;
  const std::string name = text_of(command.o, "index");
  const Document spec = command.o2;
  const bool unique = spec.truthy("unique");
  const bool temporal = seconds_in(spec).has_value();
  Suspect found = suspect_at(place, Reason::kDropIndex, ns, command);
  found.key = index_key(ns, name) | 1;
  found.field = name;
  found.score = unique ? 74 : 54;
  found.why = "index " + name + " of " + ns + (spec ? " on " + key_text(spec) : "") + " dropped";
  if (unique) found.why += "; it was unique, so duplicates can come in since";
  if (temporal) found.why += "; documents expired by it, and do not any more";
  const auto* const newer = built_.find(index_key(ns, ""));
  if (newer != nullptr && !unique && place.at.seconds - newer->value.at.seconds <= kReplacement) {
    found.score -= 16;
    found.why += "; another index of it had been built before";
  }
  suspects_.keep(std::move(found));
}

void SchemaChanges::weigh(Suspect& suspect) const {
  if (suspect.reason != Reason::kDropIndex) return;
  const auto* const again = built_.find(index_key(suspect.ns, suspect.field));
  if (again == nullptr || again->value.at <= suspect.limit) return;
  if (again->value.fate == Fate::kFailed) {
    suspect.score = std::max(suspect.score, 86.0);
    suspect.why += "; an attempt to build it again failed at " + print_timestamp(again->value.at);
  } else {
    suspect.score /= 2;
    suspect.why += "; it was built again at " + print_timestamp(again->value.at);
  }
}

}  // namespace idmint::restore
