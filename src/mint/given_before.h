// The values that this host was given of a source from a store that is gone. A new store must begin
// above them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/definition.h"

namespace idmint {

// The latest value that programs of this host were given of a source, from a store at this URL that
// is gone.
struct GivenBefore {
  std::string words;                   // "this host was given orders up to 40"
  std::optional<std::int64_t> last{};  // of a sequence in order
  // The last value that a command printed, if nothing else is known, as after the store was
  // settled.
  std::optional<std::int64_t> printed{};
  // For a pool: the latest bound of a worker id, in its units.
  std::optional<std::int64_t> bound{};
};
// Nothing: none is known.
[[nodiscard]] IDMINT_EXPORT std::optional<GivenBefore> given_before(std::string_view url,
                                                                    std::string_view source);

// Why a source that is made now in a store at this URL would repeat what this host was given.
struct Repeats {
  std::string why;  // "this host was given orders up to 40 (...) from a store that was at URL, ..."
  std::optional<std::int64_t> last{};  // of a sequence in order; it may begin above
};
// Nothing: it is not known to repeat anything. What is adopted goes on from its record.
[[nodiscard]] IDMINT_EXPORT std::optional<Repeats> would_repeat(std::string_view url,
                                                                const Definition& wanted,
                                                                Instant now);

}  // namespace idmint
