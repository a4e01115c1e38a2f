// What commands of this host saw last of a store: of each source the last value that it gave them.
// doctor compares it with the store, which may have been set back since. Only a hint: it is never
// synced, and whoever cannot write it goes on.
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
  Instant at{};            // when it gave the value
  std::int64_t value = 0;  // of a pool an id
  // "DATABASE.COLLECTION:FIELD" where the value was put in; empty: not known.
  std::string used_in{};

  friend bool operator==(const Seen&, const Seen&) = default;
};

// A store by its id and its URL. An SQLite file is known by its place too: a copy of it that is
// tried out has the same id, and says nothing of the store.
struct SeenStore {
  Uuid id;
  std::string url;
};

// In DATA/seen-ID (of an SQLite file seen-ID-PLACE), mode 0600: replaces the line of that source in
// one step, and keeps the collection that the line had unless there is another. Beyond 64 KiB the
// oldest lines go. A symbolic link in place of the file is replaced, not followed. Notes nothing
// while another process writes the file.
IDMINT_EXPORT void note_seen(const SeenStore& store, Seen seen) noexcept;

// The oldest first; empty where nothing was noted or it cannot be read.
[[nodiscard]] IDMINT_EXPORT std::vector<Seen> read_seen(const SeenStore& store);
// The same of the store and of all its copies, for one that may itself be a copy: a backup that was
// put in the place of the store has another place. A source can be there more than once.
[[nodiscard]] IDMINT_EXPORT std::vector<Seen> read_seen_anywhere(const Uuid& store);

}  // namespace idmint
