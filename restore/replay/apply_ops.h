// The command applyOps, with which a replay writes: all of its operations, or none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/bson.h"
#include "mongo/errors.h"
#include "restore/server.h"

namespace idmint::restore {

// Operations, as the elements of an array.
class Operations {
 public:
  // `upsert`: an update inserts the document if it is missing.
  void append(std::string_view op, std::string_view ns, Document o, Document o2,
              bool upsert = false);
  void append(Document operation);

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(begins_.size()); }
  [[nodiscard]] std::size_t bytes() const { return array_.get()->len; }
  [[nodiscard]] Document view() const { return array_.view(); }
  // Valid until the next one is appended.
  [[nodiscard]] Document operator[](std::size_t index) const;

 private:
  void begin(bson_t* each);

  Bson array_;
  std::vector<std::uint32_t> begins_;  // offsets of the operations in the array
};

// The reply of a server to applyOps or another command.
struct Answer {
  bool ok = false;
  bool unavailable = false;              // unknown whether it was done
  Code why = Code::kFailedPrecondition;  // if not ok: the code of told()
  std::int64_t code = 0;                 // the server's; 0: it did not answer
  std::string message;
  std::size_t results = 0;  // operations that the server processed
};

// The code of a refusal. kAlreadyExists: a unique index has the key. Otherwise kFailedPrecondition.
[[nodiscard]] inline Code code_of(const Answer& answer) {
  return answer.code == kDuplicateKey ? Code::kAlreadyExists : Code::kFailedPrecondition;
}

[[nodiscard]] Answer ask(Server& server, const std::string& database, const Bson& command);

// The error for an `unavailable` answer.
[[nodiscard]] Error lost(const Server& server, const Answer& answer);
// The error for an answer that is not ok: lost(), or that `tried` failed.
[[nodiscard]] std::unexpected<Error> failed(const Server& server, const Answer& answer,
                                            const std::string& tried);

// Applies `operations` and then `then` in one transaction of the server, all or nothing. Exceptions
// are commands and missing collections; see "What applyOps does" in docs/design/006-restore.md.
// `durable`: as with_concern(). `max_time` in milliseconds: after it the server gives up and has
// done nothing (mongo::kMaxTimeExpired); 0: never.
[[nodiscard]] Answer apply_ops(Server& server, const Operations& operations, const Operations& then,
                               bool durable, std::int32_t max_time = 0);

// Runs the command in an applyOps of its own.
[[nodiscard]] Answer apply_command(Server& server, std::string_view database, const Bson& command);

// Applies each operation in a transaction of its own; after an error the others are still applied.
// A new document is inserted as it is, with zero timestamps.
[[nodiscard]] Answer apply_one_by_one(Server& server, const Operations& operations);

}  // namespace idmint::restore
