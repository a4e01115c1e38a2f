// Recognizes the operations of idmint-restore promote in production's oplog, those of its --undo
// and
// --finish too. They are no suspects.
//
// An operation of a user that merely looks alike is not taken for one. So a rename must have the id
// of a promotion that this oplog shows, and the collections that were replaced must be dropped as
// --finish does it: after it has made itself the owner of the record. If the oplog begins too late
// to show that, the operations stay suspects.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "restore/find/answer.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

class PromotionTraces {
 public:
  // Takes every operation of the oplog, in order. `target`: target_of() it. True: idmint-restore
  // wrote it.
  [[nodiscard]] bool wrote(const Operation& operation, std::string_view target);
  // Counts an operation that it wrote.
  void count(std::string_view target, Timestamp at);
  // At the end, once. One for each namespace, the most frequent first; kMost of them.
  [[nodiscard]] std::vector<Routine> take();

 private:
  static constexpr std::size_t kMost = 64;  // namespaces; also ids, of which it keeps the latest

  void read_record(const Operation& operation);
  void learn(const std::string& id);
  [[nodiscard]] bool wrote_command(const Operation& command, std::string_view target);
  [[nodiscard]] bool renamed(const Operation& rename, std::string_view from) const;
  [[nodiscard]] bool dropped(std::string_view ns) const;
  [[nodiscard]] bool changed_validator(const Operation& command);

  std::set<std::string, std::less<>> ids_;  // of promotions
  bool taken_over_ = false;                 // the last write to the record changed its owner alone
  bool undoing_ = false;
  std::string path_;  // scratch memory
  std::map<std::string, Routine, std::less<>> rows_;
};

}  // namespace idmint::restore
