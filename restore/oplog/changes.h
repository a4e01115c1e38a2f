// Walks over the changes that an update makes, in all forms that oplogs have:
//
//   {$v: 2, diff: {u: {changed}, i: {new}, d: {removed}, sNAME: {a diff of NAME}}}
//     for an array: {a: true, l: length, uINDEX: value, sINDEX: {a diff}}
//   {$v: 1, $set: {"a.b": value}, $unset: {"a.b": true}}, by old versions
//   anything else: the whole new document
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mongo/document.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {

enum class Change : std::uint8_t { kSet, kNew, kUnset, kReplaced };

inline constexpr int kDeepestChange = 180;  // MongoDB nests no deeper

namespace internal {

// Extends the path during its lifetime.
class PathStep {
 public:
  PathStep(std::string& path, std::string_view name) : path_(path), size_(path.size()) {
    if (!path.empty()) path += '.';
    path += name;
  }
  ~PathStep() { path_.resize(size_); }
  PathStep(const PathStep&) = delete;
  PathStep& operator=(const PathStep&) = delete;

 private:
  std::string& path_;
  const std::size_t size_;
};

template <class Take>
void walk_named(Document named, Change change, std::string& path, const Take& take) {
  for (const Field& field : Fields(named)) {
    const PathStep step(path, field.key);
    take(std::string_view(path), change, field);
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as documents are
template <class Take>
void walk_diff(Document diff, int depth, std::string& path, const Take& take) {
  bool array = false;
  for (const Field& field : Fields(diff)) {
    if (field.key.empty()) continue;
    const char section = field.key[0];
    const std::string_view name = field.key.substr(1);
    if (name.empty()) {
      if (section == 'a') array = true;
      if (section == 'u') walk_named(field.document(), Change::kSet, path, take);
      if (section == 'i') walk_named(field.document(), Change::kNew, path, take);
      if (section == 'd') walk_named(field.document(), Change::kUnset, path, take);
    } else if (section == 's' && depth < kDeepestChange) {
      const PathStep step(path, name);
      walk_diff(field.document(), depth + 1, path, take);
    } else if (section == 'u' && array) {
      const PathStep step(path, name);
      take(std::string_view(path), Change::kSet, field);
    }
  }
}

}  // namespace internal

// Calls take(path, change, field) for each change in `o` of an update. The path is dotted. The
// field has the new value, except when it was unset; its key may differ from the path's. `path` is
// scratch memory. Damaged parts are skipped.
template <class Take>
void for_each_change(Document o, std::string& path, const Take& take) {
  path.clear();
  bool modifiers = false;
  for (const Field& field : Fields(o)) {
    if (field.key.empty() || field.key[0] != '$') {
      if (modifiers && field.key == "diff") internal::walk_diff(field.document(), 0, path, take);
      if (!modifiers) break;
      continue;
    }
    modifiers = true;
    if (field.key == "$set") internal::walk_named(field.document(), Change::kSet, path, take);
    if (field.key == "$unset") internal::walk_named(field.document(), Change::kUnset, path, take);
  }
  if (!modifiers) internal::walk_named(o, Change::kReplaced, path, take);
}

}  // namespace idmint::restore
