// Parsers for the texts that front ends get, with messages in the words of each front end: the
// options of a command, or the parameters of a request; and the stores that such a text may name.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"

namespace idmint::advice {

enum class Words : std::uint8_t {
  kOptions,     // "--round-trip"
  kParameters,  // "round_trip"
};

// `name` is the option without its dashes.
[[nodiscard]] std::string spelled(Words words, std::string_view name);

// Here and below, `option` is a name as spelled. kInvalidArgument: another text; the message names
// the option and what it accepts.

// An instant, as parse_time().
[[nodiscard]] Result<Instant> time_option(std::string_view option, const std::string& text);

// A whole number from `least` to `most`.
[[nodiscard]] Result<std::int64_t> whole_number(std::string_view option, std::string_view text,
                                                std::int64_t least, std::int64_t most);

// The layout that the text names or spells.
[[nodiscard]] Result<SnowflakeLayout> layout_option(std::string_view option, std::string_view text);

// The largest int; validate() checks the limit of the encoding.
inline constexpr std::int64_t kMostWidth = std::numeric_limits<int>::max();

// A width of 1 to kMostWidth. 0: not given.
[[nodiscard]] Result<int> width_of(std::string_view option,
                                   const std::optional<std::string>& given);

// One URL of each kind of store in this build: "sqlite:ids.db, mongodb://HOST/DATABASE, ...".
[[nodiscard]] std::string store_examples();

}  // namespace idmint::advice
