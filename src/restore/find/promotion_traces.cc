#include "restore/find/promotion_traces.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "restore/find/namespace_counts.h"
#include "restore/oplog/changes.h"
#include "restore/promotion_marks.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kIdLength = 15;  // of is_promotion_id()

// A namespace that promote gives to a collection.
struct PromotedName {
  std::string_view original{};
  std::string_view id{};
};

// No id: the name does not end in the suffix and an id.
PromotedName split_name(std::string_view ns, std::string_view suffix) {
  if (ns.size() <= suffix.size() + kIdLength) return {};
  const std::string_view id = ns.substr(ns.size() - kIdLength);
  if (!is_promotion_id(id)) return {};
  ns.remove_suffix(kIdLength);
  if (!ns.ends_with(suffix)) return {};
  ns.remove_suffix(suffix.size());
  return {.original = ns, .id = id};
}

// Whether `field` is among the options that promote's collMod has.
bool is_option_of_block(std::string_view field) {
  constexpr std::array<std::string_view, 4> all = {"collMod", "validator", "validationLevel",
                                                   "validationAction"};
  return std::ranges::find(all, field) != all.end();
}

}  // namespace

void PromotionTraces::learn(const std::string& id) {
  if (!is_promotion_id(id)) return;
  ids_.insert(id);
  if (ids_.size() > kMost) ids_.erase(ids_.begin());
}

bool PromotionTraces::wrote(const Operation& operation, std::string_view target) {
  if (operation.database() == kRecordDatabase) {
    read_record(operation);
    return true;
  }
  if (operation.op == Op::kCommand) return wrote_command(operation, target);
  return !split_name(target, kCopySuffix).id.empty();
}

void PromotionTraces::read_record(const Operation& operation) {
  if (operation.op == Op::kCommand) {
    // The record is gone.
    if (operation.command() == "drop" || operation.command() == "dropDatabase")
      taken_over_ = undoing_ = false;
    return;
  }
  if (operation.collection() != kPromoteCollection) return;
  if (operation.op == Op::kInsert) {
    learn(text_of(operation.o, "id"));
    taken_over_ = undoing_ = false;
    return;
  }
  if (operation.op != Op::kUpdate) return;
  taken_over_ = true;
  for_each_change(operation.o, path_, [&](std::string_view path, Change, const Field& field) {
    if (path != "owner") taken_over_ = false;
    if (path == "id") learn(std::string(field.text()));
    if (path == "undoing") undoing_ = field.truth();
  });
}

bool PromotionTraces::wrote_command(const Operation& command, std::string_view target) {
  const std::string_view name = command.command();
  if (name == "renameCollection") return renamed(command, target);
  if (name == "drop") return dropped(target);
  if ((name == "collMod" || name == "create") && changed_validator(command)) return true;
  constexpr std::array<std::string_view, 6> of_copies = {"create",          "createIndexes",
                                                         "startIndexBuild", "commitIndexBuild",
                                                         "abortIndexBuild", "collMod"};
  return std::ranges::find(of_copies, name) != of_copies.end() &&
         !split_name(target, kCopySuffix).id.empty();
}

bool PromotionTraces::renamed(const Operation& rename, std::string_view from) const {
  bson_iter_t at;
  if (!rename.o.find("to", &at)) return false;
  const std::string_view to = as_text(at);
  if (rename.o.find("dropTarget", &at) && bson_iter_as_bool(&at)) return false;
  const auto adds = [&](std::string_view suffix) {
    const PromotedName name = split_name(to, suffix);
    return name.original == from && ids_.contains(name.id);
  };
  const auto removes = [&](std::string_view suffix) {
    const PromotedName name = split_name(from, suffix);
    return name.original == to && ids_.contains(name.id);
  };
  return undoing_ ? adds(kPromotedSuffix) || removes(kOldSuffix)
                  : adds(kOldSuffix) || removes(kCopySuffix);
}

bool PromotionTraces::dropped(std::string_view ns) const {
  if (const PromotedName copy = split_name(ns, kCopySuffix); !copy.id.empty())
    return ids_.contains(copy.id);
  if (undoing_) return !split_name(ns, kPromotedSuffix).id.empty();
  return taken_over_ && !split_name(ns, kOldSuffix).id.empty();
}

// Whether it makes a collection refuse writers, or lets them in again.
bool PromotionTraces::changed_validator(const Operation& command) {
  const Document before = command.o2.document("collectionOptions_old");
  const std::string blocked = refused_by(command.o.document("validator"));
  const std::string opened = refused_by(before.document("validator"));
  learn(blocked);
  learn(opened);
  if (command.command() == "create") return !blocked.empty();
  bool alone = true;
  command.o.each_field(
      [&](const char* key, bson_iter_t*) { alone = alone && is_option_of_block(key); });
  return alone && (!blocked.empty() || (!opened.empty() && command.o.has("validator")));
}

void PromotionTraces::count(std::string_view target, Timestamp at) {
  const std::size_t dot = target.find('.');
  const std::string ns = target.substr(0, dot) == kRecordDatabase ? std::string(kRecordDatabase)
                                                                  : name_pattern(target);
  auto row = rows_.find(ns);
  if (row == rows_.end()) {
    if (rows_.size() == kMost) return;
    row = rows_.emplace(ns, Routine{.reason = Reason::kPromotion, .ns = ns, .first = at}).first;
  }
  ++row->second.times;
  row->second.last = at;
}

std::vector<Routine> PromotionTraces::take() {
  std::vector<Routine> all;
  for (auto& [ns, row] : rows_) {
    if (row.times > 1)
      row.every = static_cast<double>(row.last.seconds - row.first.seconds) /
                  static_cast<double>(row.times - 1);
    all.push_back(std::move(row));
  }
  std::ranges::sort(all, [](const Routine& a, const Routine& b) {
    return std::tuple(b.times, a.ns) < std::tuple(a.times, b.ns);
  });
  return all;
}

}  // namespace idmint::restore
