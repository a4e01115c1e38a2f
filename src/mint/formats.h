// The formats that every mint has, and how a source of each is opened.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/source.h"

namespace idmint {

// What a mint was made with.
struct MadeWith {
  const MintOptions& options;
  Clock& clock;
  Entropy& entropy;
};

[[nodiscard]] std::vector<Declaration> format_declarations();
[[nodiscard]] bool is_format(std::string_view name) noexcept;

// A layout as the names of state files have it, snowflake-LAYOUT-WORKER.state: equal for those that
// mint the same ids and no others (see space_of), so without the width of the time. Never a
// preset's name, as a preset that comes later must not part a layout from what it minted.
[[nodiscard]] std::string in_file_names(const SnowflakeLayout& layout);

// kInvalidArgument: no sequence can have the name, in any case of its letters, as it means
// something else to some command. The one list of such names.
[[nodiscard]] IDMINT_EXPORT Result<void> check_sequence_name(std::string_view name);
// kInvalidArgument: what is to be made has such a name, or is a pool of a layout that has no ids of
// the time `now`.
[[nodiscard]] IDMINT_EXPORT Result<void> check_new(const Definition& definition, Instant now);
// What a name stands for that is neither a format's nor a sequence's, and what to do instead of
// asking for a source of it.
struct Hint {
  std::string text;
  Advice advice;
};
// Nothing for a name that stands for nothing.
[[nodiscard]] std::optional<Hint> hint_for(std::string_view name);

// kInvalidArgument, naming the first of the options that are for formats, and not for a sequence
// or, but for the window, a pool.
[[nodiscard]] Result<void> check_made(const Definition& made, const FormatOptions& options);

// As Mint::source. REQUIRES: is_format(name).
[[nodiscard]] Result<std::unique_ptr<Source>> open_format(std::string_view name,
                                                          const FormatOptions& options,
                                                          const MadeWith& mint);

}  // namespace idmint
