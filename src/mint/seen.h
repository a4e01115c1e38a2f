// This host's record of what its programs were given from a store, in the data folder. The first
// take of a process is compared with it (mint/records.h), and doctor compares the store with it.
// It is never synced, and a failed read or write is no error for the one who mints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/uuid.h"
#include "ids/last_issued.h"

namespace idmint {

struct Seen {
  std::string source{};    // a sequence, a pool, or one counter of it, NAME/K
  Instant at{};            // when the source gave the value, or within a second after
  std::int64_t value = 0;  // by `kind`
  // "DATABASE.COLLECTION:FIELD", the place of the value; empty: unknown.
  std::string used_in{};
  // The kind of `value`. Nothing: the last value that a command printed or inserted, for a pool an
  // id.
  std::optional<LastIssued::Kind> kind{};
  std::int64_t settled = 0;  // the store's settle count
  bool lost_claims = false;  // kClaim: claims were found missing

  friend bool operator==(const Seen&, const Seen&) = default;
};

// A store. The place counts too: a copy that somebody tries out has the same id, and proves nothing
// about the store.
struct SeenStore {
  std::string name;  // Store::name_on_host()
  std::string url;   // without passwords
};

struct SeenFile {
  enum class State : std::uint8_t {
    kMissing,     // nothing was noted yet
    kRead,        //
    kDamaged,     // some of it is lost; `all` has the rest
    kUnreadable,  // `why`: the system's reason
  };
  State state = State::kMissing;
  std::string path{};
  std::string why{};
  std::string url{};        // of the store, place_of() it; empty: unknown
  std::vector<Seen> all{};  // oldest first
};

// Writes DATA/seen-NAME, mode 0600, in one step: of each source and
// kind one line, which never goes down within one settle count; a value that a command printed
// replaces the one before, and keeps the line's collection unless it has one. Beyond 1 MiB, some
// 15,000 lines, the oldest are dropped, those of worker ids first. Replaces a symbolic link at the
// file's path, and does not follow it. Waits at most 50 ms for another process that writes the
// file. A file that cannot be read is left alone. False: nothing was written.
IDMINT_EXPORT bool note_seen(const SeenStore& store, std::span<const Seen> seen) noexcept;
IDMINT_EXPORT bool note_seen(const SeenStore& store, const Seen& seen) noexcept;

// For an operator who has raised the store past everything that it gave: lines with a later settle
// count than `settled`, of a state that was lost, get that count.
IDMINT_EXPORT void accept_seen(const SeenStore& store, std::int64_t settled) noexcept;
// For an operator who has settled the store: removes what is compared with it. What commands
// printed stays, for doctor.
IDMINT_EXPORT void void_seen(const SeenStore& store) noexcept;

// The record of the store in its place.
[[nodiscard]] IDMINT_EXPORT SeenFile read_seen_file(const SeenStore& store);
// Its lines, oldest first; empty if nothing was noted or it cannot be read.
[[nodiscard]] IDMINT_EXPORT std::vector<Seen> read_seen(const SeenStore& store);
// The same for the store and all its copies, for a store that may be a copy itself: a backup that
// replaced the store has another place. A source may appear more than once.
[[nodiscard]] IDMINT_EXPORT std::vector<Seen> read_seen_anywhere(const Uuid& store);
// The notes about `source` and its counters from stores at this URL, whatever their ids, for a
// store that is gone. The largest, or latest, of each.
[[nodiscard]] IDMINT_EXPORT std::vector<Seen> read_seen_at(std::string_view url,
                                                           std::string_view source);

}  // namespace idmint
