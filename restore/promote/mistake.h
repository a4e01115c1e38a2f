// Tells the entries of a mistake from those that programs write at the same time.
#pragma once

#include <map>
#include <set>
#include <string>

#include "restore/oplog/entry.h"

namespace idmint::restore {

// The form of the first and the last entry of a mistake. A write is like them if it inserts into or
// deletes from the same collection, or updates one of the same fields there. For one thread.
class MistakeForm {
 public:
  void add(const Operation& operation);
  [[nodiscard]] bool is_like(const Operation& write) const;
  // "updates of status in shop.orders, deletes in shop.stock"; empty: only commands.
  [[nodiscard]] std::string in_words() const;

 private:
  std::set<std::string, std::less<>> inserts_;  // namespaces
  std::set<std::string, std::less<>> deletes_;
  std::map<std::string, std::set<std::string>, std::less<>> updates_;  // fields, by namespace
};

}  // namespace idmint::restore
