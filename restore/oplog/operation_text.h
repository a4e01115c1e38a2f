// Operations of an oplog in words.
#pragma once

#include <string>
#include <string_view>

#include "mongo/document.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {

// The collection that an operation concerns; the database for dropDatabase.
[[nodiscard]] std::string target_of(const Operation& operation);
// Whether MongoDB generated the name, for a collection that it renames later: $out, mapReduce,
// convertToCapped, a rename across databases.
[[nodiscard]] bool is_temporary_name(std::string_view collection);

// The _id of its document. Type 0: there is none.
[[nodiscard]] Field document_id(const Operation& operation);
// Relaxed extended JSON, cut after about 100 characters.
[[nodiscard]] std::string print_value(const Field& value);

// The part of an operation that is needed to describe it later. Assignment reuses memory.
class Remembered {
 public:
  void set(const Operation& operation);
  // "insert into shop.orders, _id 5", "drop of shop.orders".
  [[nodiscard]] std::string text() const;

 private:
  Op op_ = Op::kUnknown;
  std::string ns_;
  std::uint8_t id_type_ = 0;
  std::string value_;  // the _id; or the document of a command, unless it is long
};

}  // namespace idmint::restore
