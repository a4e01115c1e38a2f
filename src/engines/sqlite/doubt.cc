// Checks whether the file is the one that was opened, and has everything that was handed out.
#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/data_folder.h"
#include "base/shell.h"
#include "engines/sqlite/trusted_file.h"
#include "store/backend.h"

namespace idmint::stores::sqlite {

// REQUIRES: `row` runs state_. The snapshot lives as long as `row`.
Result<TrustedFile::State> TrustedFile::read_state(Statement& row) {
  if (!row.next()) return std::unexpected(row.failure());
  State state{.place = std::nullopt,
              .changes = row.integer(2),
              .unmarked = row.integer_or_null(3),
              .version = 0,
              .version_in_file = 0};
  if (const auto inode = row.integer_or_null(0))
    state.place = Place{*inode, row.integer_or_null(1), row.integer_or_null(4)};
  settled_ = row.integer(5);
  lost_values_ = row.is_null(6) ? std::nullopt : std::optional(std::string(row.bytes(6)));
  Statement version(*this, user_version_, "read");
  if (!version.next()) return std::unexpected(version.failure());
  state.version = version.integer(0);
  const Result<std::int64_t> in_file = version_in_file();
  if (!in_file) return std::unexpected(in_file.error());
  state.version_in_file = *in_file;
  return state;
}

Result<void> TrustedFile::write_place(const std::optional<Place>& place, std::int64_t changes,
                                      std::int64_t settled) {
  const auto inode = place ? std::optional(place->inode) : std::nullopt;
  const auto born = place ? place->born : std::nullopt;
  const auto volume = place ? place->volume : std::nullopt;
  return Statement(*this, settle_, "write the place of", inode, born, volume, changes, settled)
      .end();
}

// Whether the file is not in the place that it records.
bool TrustedFile::is_elsewhere(const State& state) const {
  const std::optional<Place> here = place_of(full_path());
  const std::optional<Place>& there = state.place;
  if (!there || !here) return false;
  // A snapshot, or a copy on a file system without birth times, may have the inode of the original.
  if (there->volume && here->volume && *there->volume != *here->volume) return true;
  // If both birth times are known, they decide: an inode may change with a remount.
  return there->born && here->born ? *there->born != *here->born : there->inode != here->inode;
}

// The count of changes that was seen in the place of the original of a copy.
std::int64_t TrustedFile::seen_where_it_was(const State& state) const {
  if (!state.place || !is_elsewhere(state)) return 0;
  return SeenChanges(trust_folder_, id_, *state.place, false).read();
}

// Whether the log belongs to another file, for example because a backup was copied over the file. A
// file lacks the nonce of its own log only until it is marked, and nothing is handed out before.
// REQUIRES: `seen` was read before `state`.
bool TrustedFile::has_log_of_another(const State& state, std::int64_t seen) const {
  if (state.has_nonce()) return false;
  return !state.unmarked || std::max({seen, changes_, seen_where_it_was(state)}) > *state.unmarked;
}

std::optional<TrustedFile::Amiss> TrustedFile::file_amiss() const {
  std::optional<Amiss> linked;
  for (const File& file : files_) {
    const auto found = file_at(file.path);
    if (!found || found->identity != file.identity) return Amiss{file.path, true};
    if (found->names > 1 && !linked) linked = Amiss{file.path, false};
  }
  return linked;
}

std::optional<std::string> TrustedFile::replaced_file() const {
  const std::optional<Amiss> amiss = file_amiss();
  return amiss && amiss->is_replaced ? std::optional(amiss->file) : std::nullopt;
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

// Others may use the log by that name. When the name is gone the file is examined again.
Error TrustedFile::refuse_linked(const std::string& file) {
  doubtful_ = !is_read_only();
  return {Code::kFailedPrecondition,
          file +
              " got another name (a hard link) while it is open, and who uses that name would "
              "take the same values; remove that name (find FOLDER -samefile " +
              shell_word(file) + ") and ask again"};
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
  lacks_values_ = log_missing || state.changes < seen || lost_values_.has_value();

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
  } else if (lost_values_) {
    why = "lacks values that were handed out: " + *lost_values_;
  } else {
    return std::nullopt;
  }
  return in_doubt(why);
}

Error TrustedFile::in_doubt(const std::string& why) const {
  Advice advice{Remedy::kRaiseStore, url()};
  if (!lacks_values_) advice.values.emplace_back("moved");
  return {Code::kDataLoss,
          path() + " " + why +
              "; it can be read, and gives no value until it is raised past every value in use",
          std::move(advice)};
}

Result<std::int64_t> TrustedFile::read_settle_count(SteadyTime until) {
  const Result<Lock> lock = enter(until);
  if (!lock) return std::unexpected(lock.error());
  if (!has_places_) return 0;
  Statement row(*this, state_, "read");
  if (const Result<State> state = read_state(row); !state) return std::unexpected(state.error());
  return settled_;
}

Result<void> TrustedFile::mark_gone_back(std::string_view why, std::int64_t settled,
                                         SteadyTime until) {
  const Call call{.doing = "put in doubt", .until = until, .needs = Needs::kNothing};
  return change(call, [&] { return Statement(*this, gone_back_, call.doing, why, settled).end(); });
}

std::optional<Error> TrustedFile::doubt(SteadyTime until) {
  const Result<Lock> lock = enter(until);
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
  const std::int64_t changes = std::max(changes_, changes_seen()) + kSettlement;
  const std::int64_t settled = next_settle_count(settled_);
  const Result<void> done = transact(
      "settle", [&] { return write_place(place_of(full_path()), changes, settled); }, Doubt::kEnds);
  if (!done) return done;
  if (const auto file = replaced_file()) return std::unexpected(lose_replaced(*file));
  changes_ = changes;
  settled_ = settled;
  lost_values_.reset();
  seen_.write(changes_);
  doubtful_ = false;
  return {};
}

std::optional<Error> TrustedFile::unrecorded() {
  const Result<Lock> lock = enter();
  if (!lock) return std::nullopt;
  const auto unnoticed = [&](Code code, const std::string& why) {
    return Error{code, "the latest state of " + path() + " is not recorded: " + why +
                           "; without the record an older state in its place, such as a backup, "
                           "is not noticed"};
  };
  if (lacks_trust_folder_)
    return unnoticed(Code::kFailedPrecondition,
                     "there is no data folder, as neither XDG_DATA_HOME nor HOME holds an absolute "
                     "path; set one");
  if (trust_folder_.empty()) return std::nullopt;
  if (const Result<void> usable = can_keep_files(trust_folder_); !usable)
    return unnoticed(usable.error().code, usable.error().message());
  if (const int why = seen_.failure(); why != 0)
    return unnoticed(Code::kPermissionDenied,
                     why == EINVAL
                         ? "its file in " + trust_folder_ + " is not a plain file; move it away"
                         : "its file in " + trust_folder_ + " cannot be read and written (" +
                               std::generic_category().message(why) +
                               "); let this user read and write it");
  return std::nullopt;
}

}  // namespace idmint::stores::sqlite
