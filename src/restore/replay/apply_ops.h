// The command applyOps, by which a replay writes: operations of an oplog, all of them or none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mongo/bson.h"
#include "mongo/errors.h"
#include "restore/server.h"

namespace idmint::restore {

// Operations as the elements of an array.
class Operations {
 public:
  void append(std::string_view op, std::string_view ns, Document o, Document o2);
  void append(Document operation);

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return array_.get()->len; }
  [[nodiscard]] Document view() const { return array_.view(); }

 private:
  void begin(bson_t* each);

  Bson array_;
  std::uint32_t size_ = 0;
};

// What a server answered to an applyOps or another command.
struct Answer {
  bool ok = false;
  bool unavailable = false;              // it was done, or it was not
  Code why = Code::kFailedPrecondition;  // that of told(), where it is not ok
  std::int64_t code = 0;                 // of the server; 0: it did not answer
  std::string message;
  std::size_t results = 0;  // how many operations it looked at
};

// Of one that was refused. kAlreadyExists: a unique index has the key. kFailedPrecondition: else.
[[nodiscard]] inline Code code_of(const Answer& answer) {
  return answer.code == kDuplicateKey ? Code::kAlreadyExists : Code::kFailedPrecondition;
}

[[nodiscard]] Answer ask(Server& server, const std::string& database, const bson_t* command);

// Of an answer that is `unavailable`.
[[nodiscard]] Error lost(const Server& server, const Answer& answer);

// All of both, in one transaction of the server, or nothing; but for commands, and where a
// collection is missing (see "What applyOps does" in docs/design/006-restore.md). Durable as
// append_concern().
[[nodiscard]] Answer apply_ops(Server& server, const Operations& operations, const Operations& then,
                               bool durable);

}  // namespace idmint::restore
