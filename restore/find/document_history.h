// The history of the document that the user asked for by its _id.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "restore/find/suspects.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// Tracks the document with that _id in at most kNamespaces collections.
class DocumentHistory {
 public:
  static constexpr std::size_t kNamespaces = 256;

  explicit DocumentHistory(Suspects& suspects) : suspects_(suspects) {}

  // A write to a document of that _id.
  void write(const Operation& operation, const Place& place);
  // Whether the command may have removed the document: its collection or database had one.
  [[nodiscard]] bool concerns(const Operation& command) const;
  // The next entry that changes anything; completes the write of the entry before.
  void next_entry(Timestamp at);
  // At the end: keeps its suspects in `suspects`.
  void end();

 private:
  struct Document {
    std::size_t writes = 0;
    bool deleted = false;  // and not inserted again
    Suspect last{};        // the last delete or overwrite; score 0: none
  };

  void remember(Document& document, Suspect suspect);

  Suspects& suspects_;
  std::map<std::string, Document, std::less<>> documents_;  // by namespace
};

}  // namespace idmint::restore
