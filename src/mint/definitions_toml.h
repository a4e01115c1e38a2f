// Definitions of sequences as a TOML file, for people to write and to keep under version control.
//
//   [sequence.accounts]      # its name; in quotes where it has a dot
//   strategy = "striped"     # counter, or striped where there are stripes
//   start = 1
//   max = 999_999_999_999
//   stripes = 1000
//   step, key, largest_count, prefix, encoding, check, digits, no_leading_zeros
//
// Omitted keys follow from the others: see sequence_spec.h. A file is for one store: a sequence
// over several is not in it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/definition.h"
#include "idmint/result.h"

namespace idmint {

inline constexpr std::size_t kLongestToml = std::size_t{1} << 20;

// All definitions of the file, in its order; each is valid. `store` is the URL of the store that
// they are for, which parses adopted records; empty: their text stays as in the file.
// kInvalidArgument, with the line: not TOML, an unknown key, a value of the wrong type, a
// definition that validate() rejects, or a file longer than kLongestToml.
[[nodiscard]] IDMINT_EXPORT Result<std::vector<Definition>> definitions_from_toml(
    std::string_view text, std::string_view store = {});

// The inverse: reads back as the same definitions, except for those that only comments name, with
// the reason: sequences over several stores, those that move or were moved, and what is retired.
// REQUIRES: each is valid.
[[nodiscard]] IDMINT_EXPORT std::string to_toml(std::span<const Definition> definitions);

}  // namespace idmint
