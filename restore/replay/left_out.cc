#include "restore/replay/left_out.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "restore/oplog/command.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

constexpr const char* kRefusedIndexes = "refused indexes";
constexpr const char* kLeftOutAtEnd = "left out";
// The field of a specification with the reason and the entry that builds it.
constexpr const char* kRefusal = "idmint_refused";

Bson reason_of(const RefusedIndex& refused) {
  Bson reason = Bson("why", refused.why);
  if (refused.built != Timestamp{}) reason.append("built", to_bson(refused.built));
  return reason;
}

RefusedIndex refused_of(std::string ns, std::string name, Document reason) {
  RefusedIndex refused{.ns = std::move(ns), .name = std::move(name), .why = text_of(reason, "why")};
  refused.built = timestamp_in(reason, "built").value_or(Timestamp{});
  return refused;
}

Result<std::vector<RefusedIndex>> refused_in(Record& record) {
  const Result<std::optional<Bson>> found = record.get(kRefusedIndexes);
  if (!found) return error_in(found);
  std::vector<RefusedIndex> all;
  const std::optional<Bson>& kept = *found;
  if (!kept) return all;
  kept->view().each("list", [&](const Document& each) {
    RefusedIndex& refused = all.emplace_back(
        refused_of(text_of(each, "ns"), text_of(each, "name"), each.document("reason")));
    if (const Document spec = each.document("spec")) refused.spec = Bson::copy_of(spec);
  });
  return all;
}

}  // namespace

Result<void> LeftOut::read() {
  Result<std::vector<RefusedIndex>> kept = refused_in(*record_);
  if (!kept) return error_in(kept);
  all_ = std::move(*kept);
  for (const RefusedIndex& each : all_) {
    if (each.built == Timestamp{}) place(each);
  }
  return {};
}

void LeftOut::place(const RefusedIndex& refused) {
  if (!refused.spec) return;
  Bson spec = refused.spec.copy();
  spec.add(kRefusal, reason_of(refused));
  there_.add(refused.ns, spec.view());
}

Result<void> LeftOut::add(std::vector<RefusedIndex> refused) {
  for (RefusedIndex& each : refused) {
    place(each);
    const bool known = std::ranges::any_of(all_, [&](const RefusedIndex& other) {
      return other.ns == each.ns && other.name == each.name && other.built == each.built;
    });
    if (!known) all_.push_back(std::move(each));
  }
  return keep();
}

Result<void> LeftOut::keep() {
  if (all_.empty()) return {};
  const auto row_of = [](const RefusedIndex& each) {
    return Bson("ns", each.ns, "name", each.name, "spec", each.spec, "reason", reason_of(each));
  };
  return record_->put(kRefusedIndexes, Bson("list", array_of(all_, row_of)));
}

void LeftOut::follow(const Operation& command, Timestamp at) {
  if (all_.empty() || command.command() == "startIndexBuild") return;
  const std::string ns = namespace_of(command);
  const std::vector<Document> built = specs_of_build(command);
  if (built.empty()) {
    // An unknown change by collMod leaves the index left out.
    [[maybe_unused]] const Result<void> applied = there_.apply(command);
    return;
  }
  for (const Document spec : built) there_.remove(ns, text_of(spec, "name"));
  for (const RefusedIndex& each : all_)
    if (each.built == at && each.ns == ns) place(each);
}

Result<void> LeftOut::keep_end() {
  if (all_.empty()) return {};
  BsonArray list;
  for (const auto& [ns, indexes] : there_.all())
    for (const auto& [name, spec] : indexes)
      list.push(in_words(refused_of(ns, name, spec.view().document(kRefusal))));
  return record_->put(kLeftOutAtEnd, Bson("list", list));
}

Result<void> keep_left_out_at_end(Record& record, std::vector<RefusedIndex> refused) {
  Result<std::vector<std::string>> words = left_out_in_words(record);
  if (!words) return error_in(words);
  for (const RefusedIndex& each : refused) {
    const std::string text = in_words(each);
    if (std::ranges::find(*words, text) == words->end()) words->push_back(text);
  }
  LeftOut left_out(record);
  if (Result<void> known = left_out.read(); !known) return known;
  if (Result<void> kept = left_out.add(std::move(refused)); !kept) return kept;
  return record.put(kLeftOutAtEnd, Bson("list", array_of(*words)));
}

std::size_t LeftOut::of_base() const {
  return static_cast<std::size_t>(std::ranges::count(all_, Timestamp{}, &RefusedIndex::built));
}

Result<std::vector<std::string>> left_out_in_words(Record& record) {
  std::vector<std::string> words;
  const Result<std::optional<Bson>> found = record.get(kLeftOutAtEnd);
  if (!found) return error_in(found);
  if (const std::optional<Bson>& at_end = *found) {
    at_end->view().each_text("list", [&](std::string_view text) { words.emplace_back(text); });
    return words;
  }
  const Result<std::vector<RefusedIndex>> all = refused_in(record);
  if (!all) return error_in(all);
  for (const RefusedIndex& each : *all) words.push_back(in_words(each));
  return words;
}

}  // namespace idmint::restore
