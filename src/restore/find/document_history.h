// What happened to the one document that was asked for by its _id.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "restore/find/suspects.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// A document of that _id in each of kNamespaces collections at most.
class DocumentHistory {
 public:
  static constexpr std::size_t kNamespaces = 256;

  explicit DocumentHistory(Suspects& suspects) : suspects_(suspects) {}

  // A write to a document of that _id.
  void write(const Operation& operation, const Place& place);
  // A command that may have removed the document: its collection or database had one.
  [[nodiscard]] bool concerns(const Operation& command) const;
  // The next entry that changes anything, for the write of the one before.
  void next_entry(Timestamp at);
  // At the end: hands its suspects over.
  void end();

 private:
  struct Document {
    std::size_t writes = 0;
    bool deleted = false;  // and not inserted since
    Suspect last{};        // its last delete or overwriting; with a score of 0: none
  };

  void remember(Document& document, Suspect suspect);

  Suspects& suspects_;
  std::map<std::string, Document, std::less<>> documents_;  // by namespace
};

}  // namespace idmint::restore
