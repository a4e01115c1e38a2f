// What a person says of a sequence to be made, and the definition that follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
  // A record of other programs, in words of its store (stores/spi/adoption.h).
  std::optional<std::string> adopt{};
  bool validator = false;  // the store is to guard its end
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
//   - The store says the rest of a record that is adopted. `store`: the URL of the store. Where
//   that
//     is empty or its stores adopt nothing, the definition has what is wished: create_sequence() is
//     refused there.
// kInvalidArgument, naming what is wrong.
[[nodiscard]] IDMINT_EXPORT Result<Definition> definition_of(const SequenceWish& wish,
                                                             std::string_view store = {});

}  // namespace idmint
