// Checks whether the file is the one that was opened, and has everything that was handed out.
#include <algorithm>

#include "stores/sqlite/trusted_file.h"

namespace idmint::stores::sqlite {

// REQUIRES: `row` runs state_. The snapshot lives as long as `row`.
Result<TrustedFile::State> TrustedFile::read_state(Statement& row) {
  if (!row.next()) return std::unexpected(row.failure());
  State state{.inode = row.integer_or_null(0),
              .born = row.integer_or_null(1),
              .changes = row.integer(2),
              .unmarked = row.integer_or_null(3),
              .version = 0,
              .version_in_file = 0};
  Statement version(*this, user_version_, "read");
  if (!version.next()) return std::unexpected(version.failure());
  state.version = version.integer(0);
  const Result<std::int64_t> in_file = version_in_file();
  if (!in_file) return std::unexpected(in_file.error());
  state.version_in_file = *in_file;
  return state;
}

Result<void> TrustedFile::write_place(const std::optional<Place>& place, std::int64_t changes) {
  const auto inode = place ? std::optional(place->inode) : std::nullopt;
  const auto born = place ? place->born : std::nullopt;
  return Statement(*this, settle_, "write the place of", inode, born, changes).end();
}

// Whether the file is not in the place that it records.
bool TrustedFile::is_elsewhere(const State& state) const {
  const std::optional<Place> here = place_of(path());
  if (!state.inode || !here) return false;
  // If both birth times are known, they decide: an inode may change with a remount.
  return state.born && here->born ? *state.born != *here->born : *state.inode != here->inode;
}

// The count of changes that was seen in the place of the original of a copy.
std::int64_t TrustedFile::seen_where_it_was(const State& state) const {
  if (!state.inode || !is_elsewhere(state)) return 0;
  return SeenChanges(trust_folder_, id_, Place{*state.inode, state.born}, false).read();
}

// Whether the log belongs to another file, for example because a backup was copied over the file. A
// file lacks the nonce of its own log only until it is marked, and nothing is handed out before.
// REQUIRES: `seen` was read before `state`.
bool TrustedFile::has_log_of_another(const State& state, std::int64_t seen) const {
  if (state.has_nonce()) return false;
  return !state.unmarked || std::max({seen, changes_, seen_where_it_was(state)}) > *state.unmarked;
}

// The first of its files that was replaced since it was opened.
std::optional<std::string> TrustedFile::replaced_file() const {
  for (const File& file : files_)
    if (identity_of(file.path) != file.identity) return file.path;
  return std::nullopt;
}

Error TrustedFile::lose(Error why) {
  leave_log();
  lost_ = std::move(why);
  return *lost_;
}

Error TrustedFile::lose_replaced(const std::string& file) {
  return lose({Code::kDataLoss,
               file + " was moved, removed or replaced while it was open: other processes may "
                      "take the same values; end all programs that use the store, find out who "
                      "did it, and open it again, which says whether values are missing"});
}

Error TrustedFile::lose_log_of_another() {
  const std::string log = path() + "-wal";
  return lose({Code::kDataLoss,
               path() + " is not the file that its log " + log +
                   " was written for: an older state, such as a backup, was copied over it, and "
                   "what is read is a mixture of both; end all programs that use it, remove " +
                   log + " and " + path() + "-shm, copy the older state again, and raise it past " +
                   "every value in use",
               {Remedy::kRaiseStore, url()}});
}

// The count in the trust folder. A read may overlap a write.
std::int64_t TrustedFile::changes_seen() const {
  const std::int64_t seen = seen_.read();
  return seen <= changes_ ? seen : std::min(seen, seen_.read());
}

// Why the store may hold less than it handed out, or why this cannot be checked.
std::optional<Error> TrustedFile::look_for_doubt() {
  if (!has_places_) return std::nullopt;
  State state{};
  std::int64_t seen = 0;
  bool log_missing = true;
  bool log_of_another = true;
  // The log gets a page without the mark before the mark is written to the file. A reader that
  // began before the former and looked at the file after the latter sees another mark; the next
  // look does not.
  for (int look = 0; look < 3 && (log_missing || log_of_another); ++look) {
    seen = changes_seen();
    Statement row(*this, state_, "read");
    const Result<State> found = read_state(row);
    if (!found) return found.error();
    state = *found;
    log_missing = (state.version & kMark) != 0;
    log_of_another = has_log_of_another(state, seen);
  }
  if (log_of_another) return lose_log_of_another();
  // Nothing was handed out from a log whose mark is still missing.
  changes_ = std::max(changes_, state.has_nonce() ? state.changes : *state.unmarked);
  const bool moved = is_elsewhere(state);
  seen = std::max(seen, seen_where_it_was(state));
  lacks_values_ = log_missing || state.changes < seen;

  std::string why;
  if (log_missing) {
    why = "is without its log, " + path() +
          "-wal, which held values that were handed out: it was removed, or left out of a copy";
  } else if (moved) {
    why =
        "is a copy, or a backup, or was moved to another file system: what was handed out since "
        "is not in it";
  } else if (state.changes < seen) {
    why = "is older than it was: it counts " + std::to_string(state.changes) + " changes, and " +
          std::to_string(seen) + " were seen in it (" + trust_folder_ + ")";
  } else {
    return std::nullopt;
  }
  Advice advice{Remedy::kRaiseStore, url()};
  if (!lacks_values_) advice.values.emplace_back("moved");
  return Error{
      Code::kDataLoss,
      path() + " " + why +
          "; it can be read, and gives no value until it is raised past every value in use",
      std::move(advice)};
}

std::optional<Error> TrustedFile::doubt() {
  const Result<Lock> lock = enter();
  if (!lock) return lock.error();
  return look_for_doubt();
}

Result<void> TrustedFile::settle(Store::Settle how) {
  const Result<Lock> lock = enter();
  if (!lock) return std::unexpected(lock.error());
  std::optional<Error> doubt = look_for_doubt();
  if (!doubt) return {};
  if (doubt->code != Code::kDataLoss || (how == Store::Settle::kOnlyMoved && lacks_values_))
    return std::unexpected(*std::move(doubt));
  // Beyond every count that another user or another copy may have reached meanwhile.
  constexpr std::int64_t kEpoch = std::int64_t{1} << 40;
  const std::int64_t changes = std::max(changes_, changes_seen()) + kEpoch;
  const Result<void> done =
      transact("settle", [&] { return write_place(place_of(path()), changes); }, Doubt::kEnds);
  if (!done) return done;
  if (const auto file = replaced_file()) return std::unexpected(lose_replaced(*file));
  changes_ = changes;
  seen_.write(changes_);
  doubtful_ = false;
  return {};
}

}  // namespace idmint::stores::sqlite
