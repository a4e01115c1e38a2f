// What front ends are given as texts, read with messages in the words of each: the options of a
// command, or the parameters of a request.
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

// `name`: of the option, without its dashes.
[[nodiscard]] std::string spelled(Words words, std::string_view name);

// Here and below `option` is a name as it is spelled, and kInvalidArgument names it and says what
// it takes.

// An instant, as parse_time().
[[nodiscard]] Result<Instant> time_option(std::string_view option, const std::string& text);

// A whole number from `least` to `most`.
[[nodiscard]] Result<std::int64_t> whole_number(std::string_view option, std::string_view text,
                                                std::int64_t least, std::int64_t most);

// The layout that it names or spells.
[[nodiscard]] Result<SnowflakeLayout> layout_option(std::string_view option, std::string_view text);

// What an int holds; what an encoding takes is for validate() to say.
inline constexpr std::int64_t kMostWidth = std::numeric_limits<int>::max();

// A width of 1 to kMostWidth. 0: it was not given.
[[nodiscard]] Result<int> width_of(std::string_view option,
                                   const std::optional<std::string>& given);

}  // namespace idmint::advice
