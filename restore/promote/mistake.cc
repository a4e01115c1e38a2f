#include "restore/promote/mistake.h"

#include <algorithm>
#include <string_view>

#include "restore/oplog/changes.h"

namespace idmint::restore {
namespace {

// The changed fields of an update. Positions in arrays are left out; a new document has all.
std::set<std::string> fields_of(const Operation& update) {
  std::set<std::string> fields;
  std::string scratch;
  for_each_change(update.o, scratch, [&](std::string_view path, Change, const Field&) {
    std::string field;
    while (!path.empty()) {
      const std::string_view step = path.substr(0, path.find('.'));
      path.remove_prefix(std::min(step.size() + 1, path.size()));
      if (std::ranges::all_of(step, [](char c) { return c >= '0' && c <= '9'; })) continue;
      field.append(field.empty() ? "" : ".").append(step);
    }
    fields.insert(field);
  });
  return fields;
}

}  // namespace

void MistakeForm::add(const Operation& operation) {
  if (operation.op == Op::kInsert) inserts_.emplace(operation.ns);
  if (operation.op == Op::kDelete) deletes_.emplace(operation.ns);
  if (operation.op == Op::kUpdate) updates_[std::string(operation.ns)].merge(fields_of(operation));
}

bool MistakeForm::is_like(const Operation& write) const {
  if (write.op == Op::kInsert) return inserts_.contains(write.ns);
  if (write.op == Op::kDelete) return deletes_.contains(write.ns);
  const auto fields = updates_.find(write.ns);
  if (write.op != Op::kUpdate || fields == updates_.end()) return false;
  return std::ranges::any_of(
      fields_of(write), [&](const std::string& each) { return fields->second.contains(each); });
}

std::string MistakeForm::in_words() const {
  std::string text;
  const auto add = [&](std::string_view what) {
    text.append(text.empty() ? "" : ", ").append(what);
  };
  for (const std::string& ns : inserts_) add("inserts into " + ns);
  for (const auto& [ns, fields] : updates_) {
    std::string names = "updates of ";
    for (const std::string& each : fields)
      names.append(&each == &*fields.begin() ? "" : ", ").append(each);
    add(names.append(" in ").append(ns));
  }
  for (const std::string& ns : deletes_) add("deletes from " + ns);
  return text;
}

}  // namespace idmint::restore
