// Selects the operations that an analysis considers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/live.h"

namespace idmint::restore {

// An _id as people write it: extended JSON or plain text. Plain text also matches an ObjectId, a
// UUID or a number with that text.
class IdFilter {
 public:
  // kInvalidArgument: an empty text.
  [[nodiscard]] static Result<IdFilter> of(std::string_view text);
  [[nodiscard]] bool matches(const Operation& operation) const;

 private:
  struct Value {
    std::uint8_t type = 0;
    std::string bytes;
  };
  std::vector<Value> values_;
};

struct FindFilter {
  OplogSpan span{};
  // DATABASE or DATABASE.COLLECTION; * stands for any text in either. Empty: all.
  std::vector<std::string> namespaces{};
  // One of kKinds, or the name of a command. Empty: all.
  std::vector<std::string> operations{};
  std::optional<IdFilter> id{};
  std::string field{};        // dotted; matches the fields within it too. Empty: all
  std::size_t list_most = 0;  // operations in OplogAnswer::listed

  // False: every operation of the span matches.
  [[nodiscard]] bool narrows() const {
    return !namespaces.empty() || !operations.empty() || id || !field.empty();
  }
  // Whether the operation meets all conditions but the span. `path` is scratch memory.
  [[nodiscard]] bool matches(const Operation& operation, std::string& path) const;
};

}  // namespace idmint::restore
