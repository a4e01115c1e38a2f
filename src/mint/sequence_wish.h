// What a person says of a sequence to be made, and the definition that follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "idmint/definition.h"
#include "idmint/result.h"

namespace idmint {

// Nothing: not said. Names are those of strategy_named(), encoding_named() and check_named().
struct SequenceWish {
  std::string name{};
  std::optional<std::string> kind{};  // "sequence" or "pool"; a pool takes no more than the next
                                      // two, largest_count, prefix, encoding and check
  std::optional<std::string> layout{};
  std::optional<std::int64_t> workers{};
  std::optional<std::string> strategy{};
  std::optional<std::int64_t> start{};
  std::optional<std::int64_t> max{};
  std::optional<std::int64_t> stripes{};
  std::optional<std::int64_t> step{};
  std::optional<std::int64_t> largest_count{};
  std::optional<std::string> key{};
  std::optional<std::string> prefix{};
  std::optional<std::string> encoding{};
  std::optional<std::string> check{};
  std::optional<std::int64_t> digits{};
  std::optional<std::int64_t> width{};
  bool no_leading_zeros = false;
  // "counter", "counters" or "ids:NAME": the documents of MongoDB's classic recipes; or what
  // adopted_from_text() reads.
  std::optional<std::string> adopt{};
  bool validator = false;
};

// Valid. What is not said follows from the rest:
//   - With stripes the strategy is striped, otherwise counter.
//   - The last value is the largest that the digits, the width or an integer have room for. Digits
//     that have room for more than an integer has are refused.
//   - The first is 1; with digits, where values come in no order, it is 0; without leading zeros
//   the
//     smallest number that has none (a prefix with digits has the first digit itself).
//   - A pool has the layout sequence-generator, and how many worker ids is left to
//   create_pool().
//   - Of an adopted document the recipe says the rest, and where it does not, the first is 0 (1
//   where
//     the document holds the last value) and the last 2^53 - 2, up to which every program can
//     count.
// kInvalidArgument, naming what is wrong.
[[nodiscard]] IDMINT_EXPORT Result<Definition> definition_of(const SequenceWish& wish);

}  // namespace idmint
