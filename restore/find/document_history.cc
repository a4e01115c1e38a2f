#include "restore/find/document_history.h"

#include <algorithm>
#include <utility>

#include "restore/find/runs.h"
#include "restore/oplog/changes.h"
#include "restore/oplog/operation_text.h"

namespace idmint::restore {
namespace {

// The fields that an update removes: "replaced as a whole", or the removed fields. Empty: nothing.
std::string taken_away(const Operation& update) {
  std::string fields;
  std::string path;
  bool replaced = false;
  for_each_change(update.o, path, [&](std::string_view changed, Change change, const Field&) {
    replaced = replaced || change == Change::kReplaced;
    if (change == Change::kUnset && fields.size() < 100)
      fields += (fields.empty() ? "" : ", ") + std::string(changed);
  });
  if (replaced) return std::string(UpdateShape::kWhole);
  return fields.empty() ? "" : "without " + fields + " since then";
}

}  // namespace

void DocumentHistory::write(const Operation& operation, const Place& place) {
  const auto found = documents_.find(operation.ns);
  if (found == documents_.end() && documents_.size() == kNamespaces) return;
  Document& document =
      found != documents_.end() ? found->second : documents_[std::string(operation.ns)];
  ++document.writes;
  document.deleted = operation.op == Op::kDelete;
  if (!place.in_span || operation.op == Op::kInsert) return;
  const std::string taken = operation.op == Op::kUpdate ? taken_away(operation) : std::string();
  if (operation.op == Op::kUpdate && taken.empty()) return;
  Suspect suspect = suspect_at(place, Reason::kDocument, std::string(operation.ns), operation);
  suspect.documents = 1;
  // A user who asks for one document less likely means a multi-document delete.
  suspect.score = !document.deleted ? 64 : place.session != 0 ? 92 : 86;
  suspect.why = "_id " + print_value(document_id(operation)) +
                (document.deleted ? " was deleted" : " is " + taken);
  remember(document, std::move(suspect));
}

void DocumentHistory::remember(Document& document, Suspect suspect) {
  if (document.last.score != 0) {
    // An earlier one: the document was created again after it.
    if (document.last.reason == Reason::kDocument && document.last.score > 80)
      document.last.score = 60;
    suspects_.keep(std::move(document.last));
  }
  document.last = std::move(suspect);
  NamespaceCounts::Earlier earlier = suspects_.counts().at(document.last.changes_before);
  document.last.before_counts = std::move(earlier.counts);
  document.last.lost_is_least = !earlier.exact;
}

bool DocumentHistory::concerns(const Operation& command) const {
  const std::string target = target_of(command);
  if (documents_.contains(target)) return true;
  if (command.command() != "dropDatabase") return false;
  return std::ranges::any_of(documents_, [&](const auto& each) {
    return std::string_view(each.first).substr(0, each.first.find('.')) == target;
  });
}

void DocumentHistory::next_entry(Timestamp at) {
  for (auto& [ns, document] : documents_) {
    if (document.last.score != 0 && !document.last.after && document.last.limit < at)
      document.last.after = at;
  }
}

void DocumentHistory::end() {
  for (auto& [ns, document] : documents_) {
    if (document.last.score == 0) continue;
    if (!document.deleted && document.last.score > 80) {
      document.last.score = 60;
      document.last.why += "; it was inserted again later";
    }
    suspects_.keep_now(std::move(document.last));
  }
  documents_.clear();
}

}  // namespace idmint::restore
