// The command applyOps, by which a replay writes: operations of an oplog, all of them or none.
#pragma once

#include <mongoc/mongoc.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "restore/document.h"
#include "restore/server.h"

namespace idmint::restore {

// Answers of a server (error_codes.yml).
inline constexpr std::int64_t kNamespaceNotFound = 26;
inline constexpr std::int64_t kIndexNotFound = 27;
inline constexpr std::int64_t kUpdateOperationFailed = 218;  // it found no document

// Operations as the elements of an array.
class Operations {
 public:
  Operations() : array_(own(bson_new())) {}

  void append(std::string_view op, std::string_view ns, Document o, Document o2);
  void append(Document operation);

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return array_.get()->len; }
  [[nodiscard]] Document view() const { return array_.view(); }

 private:
  void begin(bson_t* each);

  OwnDocument array_;
  std::uint32_t size_ = 0;
};

// What a server answered to an applyOps or another command.
struct Answer {
  bool ok = false;
  bool unavailable = false;  // it was done, or it was not
  std::int64_t code = 0;
  std::string message;
  std::size_t results = 0;  // how many operations it looked at
};

[[nodiscard]] Answer ask(Server& server, const std::string& database, const bson_t* command);

// Of an answer that is `unavailable`.
[[nodiscard]] Error lost(const Server& server, const Answer& answer);

// All of both, in one transaction of the server, or nothing; but for commands, and where a
// collection is missing (see "What applyOps does" in docs/design/006-restore.md). Durable as
// append_concern().
[[nodiscard]] Answer apply_ops(Server& server, const Operations& operations, const Operations& then,
                               bool durable);

}  // namespace idmint::restore
