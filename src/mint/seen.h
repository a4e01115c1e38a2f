// The last value that commands of this host got from each source of a store. doctor compares it
// with the store, which may have been set back since. Only a hint: it is never synced, and a failed
// write is ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint {

struct Seen {
  std::string source{};    // the name of a sequence or a pool
  Instant at{};            // when the source gave the value
  std::int64_t value = 0;  // for a pool, an id
  // "DATABASE.COLLECTION:FIELD", the place of the value; empty: unknown.
  std::string used_in{};

  friend bool operator==(const Seen&, const Seen&) = default;
};

// A store by its id and its URL. An SQLite file is identified by its place too: a copy that
// somebody tries out has the same id, and proves nothing about the store.
struct SeenStore {
  Uuid id;
  std::string url;
};

// Writes DATA/seen-ID (for an SQLite file seen-ID-PLACE), mode 0600. Replaces the line of that
// source in one step, and keeps the line's collection unless `seen` has one. Beyond 64 KiB the
// oldest lines are dropped. Replaces a symbolic link at the file's path, and does not follow it.
// Does nothing while another process writes the file.
IDMINT_EXPORT void note_seen(const SeenStore& store, Seen seen) noexcept;

// Oldest first; empty if nothing was noted or it cannot be read.
[[nodiscard]] IDMINT_EXPORT std::vector<Seen> read_seen(const SeenStore& store);
// The same for the store and all its copies, for a store that may be a copy itself: a backup that
// replaced the store has another place. A source may appear more than once.
[[nodiscard]] IDMINT_EXPORT std::vector<Seen> read_seen_anywhere(const Uuid& store);

}  // namespace idmint
