// Operations of an oplog in words, for people.
#pragma once

#include <string>
#include <string_view>

#include "mongo/document.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {

// What an operation is about: of a command its collection, of dropDatabase the database.
[[nodiscard]] std::string target_of(const Operation& operation);
// Of a collection that MongoDB makes for itself and renames: $out, mapReduce, convertToCapped, a
// rename across databases.
[[nodiscard]] bool is_temporary_name(std::string_view collection);

// The _id of its document. Of type 0: it has none.
[[nodiscard]] Field document_id(const Operation& operation);
// As relaxed extended JSON, cut after about 100 characters.
[[nodiscard]] std::string print_value(const Field& value);

// Enough of an operation to put it into words later. Assigning one to another costs no memory
// that they do not have.
class Remembered {
 public:
  void set(const Operation& operation);
  // "insert into shop.orders, _id 5", "drop of shop.orders".
  [[nodiscard]] std::string text() const;

 private:
  Op op_ = Op::kUnknown;
  std::string ns_;
  std::uint8_t id_type_ = 0;
  std::string value_;  // of the _id; of a command its document, empty where that is long
};

}  // namespace idmint::restore
