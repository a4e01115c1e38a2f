// What commands of this host saw last of a store: of each source the last value that it gave them.
// doctor compares it with the store, which may have been set back since. Only a hint: it is never
// synced, and whoever cannot write it goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "idmint/clock.h"
#include "idmint/export.h"
#include "idmint/uuid.h"

namespace idmint {

struct Seen {
  std::string source{};    // the name of a sequence or a pool
  Instant at{};            // when it gave the value
  std::int64_t value = 0;  // of a pool an id
  // "DATABASE.COLLECTION:FIELD" where the value was put in; empty: not known.
  std::string used_in{};

  friend bool operator==(const Seen&, const Seen&) = default;
};

// In DATA/seen-ID, mode 0600: replaces the line of that source in one step, and keeps the place
// that the line had unless there is another. Beyond 64 KiB the oldest lines go. A symbolic link in
// place of the file is replaced, not followed. One thread of a process at a time.
IDMINT_EXPORT void note_seen(const Uuid& store, Seen seen) noexcept;

// The oldest first; empty where nothing was noted or it cannot be read.
[[nodiscard]] IDMINT_EXPORT std::vector<Seen> read_seen(const Uuid& store);

}  // namespace idmint
