// A user's description of a new sequence, and the definition that follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/definition.h"
#include "idmint/result.h"

namespace idmint {

// The largest `step`. A program that ends loses the rest of its range.
inline constexpr std::int64_t kLargestStep = 1'000'000'000;

// Nothing: not specified. Names are those of strategy_named(), encoding_named() and check_named().
struct SequenceSpec {
  std::string name{};
  std::optional<std::string> kind{};  // "sequence" or "pool"; a pool takes only the next two,
                                      // largest_count, prefix, encoding and check
  std::optional<std::string> layout{};
  std::optional<std::int64_t> workers{};
  std::optional<std::string> strategy{};
  std::optional<std::int64_t> start{};
  std::optional<std::int64_t> max{};
  std::optional<std::int64_t> stride{};  // both or none: see with_offset()
  std::optional<std::int64_t> offset{};
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
  // A record of another program, in its store's syntax (store/adoption.h).
  std::optional<std::string> adopt{};
  bool validator = false;  // the store must enforce the last value
  bool make = false;       // an adopted record that is missing is made
  // Extended JSON: the one document of MongoDB that has these fields is adopted.
  std::optional<std::string> where{};
  bool over_stores = false;  // each stripe is in a store of its own
};

// A valid definition. Unspecified members follow from the others:
//   - With stripes the strategy is striped, otherwise counter.
//   - The last value is the largest that fits the digits, the width or an integer. Digits with room
//     for more than an integer are rejected.
//   - The first value is 1. With digits and values without an order it is 0, or without leading
//     zeros the smallest number that has none (a prefix with digits supplies the first digit
//     itself).
//   - With a stride and an offset the first value moves up to the first one with this offset.
//   - A pool has the layout sequence-generator; create_pool() chooses the number of worker ids.
//   - The store supplies the defaults for an adopted record. `store` is its URL. If it is empty or
//     its stores adopt nothing, the definition has the spec itself, and create_sequence() fails.
//   - One over several stores is that of create_sequence() for all of them, which adds the stores.
// kInvalidArgument: the message says what is wrong.
[[nodiscard]] IDMINT_EXPORT Result<Definition> definition_of(const SequenceSpec& spec,
                                                             std::string_view store = {});

}  // namespace idmint
