// The formats of every mint, and the openers of their sources.
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

// The arguments of a mint.
struct MadeWith {
  const MintOptions& options;
  Clock& clock;
  Entropy& entropy;
};

[[nodiscard]] std::vector<Declaration> format_declarations();
[[nodiscard]] bool is_format(std::string_view name) noexcept;

// A layout in the names of state files, snowflake-LAYOUT-WORKER.state. Equal exactly for layouts
// that mint the same ids (see space_of), so it lacks the width of the time. Never a preset's name,
// because a later preset must not separate a layout from its state.
[[nodiscard]] std::string in_file_names(const SnowflakeLayout& layout);

// kInvalidArgument: no sequence can have this name, in any case, because some command reads it
// differently. The only list of such names.
[[nodiscard]] IDMINT_EXPORT Result<void> check_sequence_name(std::string_view name);
// kInvalidArgument: the definition has such a name, or is a pool whose layout has no ids of the
// time `now`.
[[nodiscard]] IDMINT_EXPORT Result<void> check_new(const Definition& definition, Instant now);
// The meaning of a name that is neither a format nor a sequence, and what to do instead of asking
// for its source.
struct Hint {
  std::string text;
  Advice advice;
};
// Nothing: the name has no meaning.
[[nodiscard]] std::optional<Hint> hint_for(std::string_view name);

// kInvalidArgument, naming the first option that only formats take; a pool takes the window.
[[nodiscard]] Result<void> check_made(const Definition& made, const FormatOptions& options);

// As Mint::source(). REQUIRES: is_format(name).
[[nodiscard]] Result<std::unique_ptr<Source>> open_format(std::string_view name,
                                                          const FormatOptions& options,
                                                          const MadeWith& mint);

}  // namespace idmint
