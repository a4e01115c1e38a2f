// Calls and their transactions, which are durable and marked before anything is handed out.
#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/outcome.h"
#include "engines/sqlite/trusted_file.h"
#include "store/backend.h"

namespace idmint::stores::sqlite {
namespace {

// An error after the COMMIT: the changes are durable, although the call has no answer.
std::unexpected<Error> after_commit(Error why) {
  if (was_not_applied(why.code)) {
    why.code = Code::kUnknown;
    why.outcome = "the changes were made all the same, and their values are lost";
  }
  return std::unexpected(std::move(why));
}

}  // namespace

Result<TrustedFile::Lock> TrustedFile::enter(SteadyTime by) {
  if (!is_owned()) return std::unexpected(inherited_handle(url()));
  const SteadyTime begun = std::chrono::steady_clock::now();
  const SteadyTime until = std::min(by, begun + options().deadline);
  Lock lock(mutex_, until);
  if (!lock)
    return std::unexpected(
        Error{Code::kUnavailable, path() + " was busy with this process's own calls for " +
                                      waited_since(begun) + "; ask again"});
  if (is_poisoned())
    return std::unexpected(
        Error{Code::kUnavailable, "an I/O error made this handle of " + path() +
                                      " unusable; check the disk, then open the store again"});
  if (lost_) return std::unexpected(*lost_);
  if (const auto amiss = file_amiss())
    return std::unexpected(amiss->is_replaced ? lose_replaced(amiss->file)
                                              : refuse_linked(amiss->file));
  begin_call(begun, until);
  return lock;
}

Result<SteadyTime> TrustedFile::enter(Purpose purpose, SteadyTime by) {
  if (purpose != Purpose::kRead && is_read_only()) {
    const Result<Lock> lock = enter(by);  // an error of the file comes first
    return std::unexpected(lock ? read_only_handle(url()) : lock.error());
  }
  return std::min(by, std::chrono::steady_clock::now() + options().deadline);
}

// A transaction that is taken back.
Result<void> TrustedFile::expect_trust(SteadyTime until) {
  bool trusted = false;
  const Result<void> taken_back = change({"read", until}, [&]() -> Result<void> {
    trusted = true;
    return std::unexpected(Error{Code::kUnavailable, "nothing is to be written"});
  });
  return trusted ? Result<void>{} : taken_back;
}

Result<void> TrustedFile::change(const Call& call, const Changes& changes) {
  const Result<Lock> lock = enter(call.until);
  if (!lock) return std::unexpected(lock.error());
  return atomically(call, changes);
}

Result<void> TrustedFile::atomically(const Call& call, const Changes& changes) {
  if (doubtful_) {
    std::optional<Error> doubt = look_for_doubt();
    doubtful_ = doubt.has_value();
    if (doubt && call.needs == Needs::kTrust) return std::unexpected(*std::move(doubt));
  }
  Result<void> done = transact(call.doing, [&]() -> Result<void> {
    if (lost_values_ && !doubtful_) {  // marked by another process since the latest look
      doubtful_ = lacks_values_ = true;
      if (call.needs == Needs::kTrust)
        return std::unexpected(in_doubt("lacks values that were handed out: " + *lost_values_));
    }
    // Not counted in a store in doubt: the count would reach the one that was seen, and end the
    // doubt.
    if (!doubtful_)
      if (Result<void> counted = count_change(); !counted) return counted;
    return changes();
  });
  if (!done) return done;
  // Before anything is handed out.
  if (const auto gone = replaced_file()) return std::unexpected(lose_replaced(*gone));
  remember_count();
  if (Result<void> moved = shorten_log(); !moved) return after_commit(std::move(moved.error()));
  return {};
}

// After success, the file itself shows if the log with the changes is lost.
Result<void> TrustedFile::transact(std::string_view doing, const Changes& changes, Doubt doubt) {
  begin_changes();
  const std::int64_t seen = changes_seen();
  if (!doubtful_) changes_ = std::max(changes_, seen);
  if (Result<void> begun = execute(begin_, doing); !begun) return begun;
  // If an older state was copied over the file meanwhile, this shows in the pages of the file.
  if (file_has_all_of_log()) forget_pages();
  bool committed = false;
  bool unmarked = false;  // by a checkpoint of another process during this transaction
  Result<void> done;
  {
    // A read that outlasts the COMMIT: until it ends, no checkpoint moves the changes of this
    // transaction into the file.
    Statement reading(*this, state_, "read");
    const Result<State> state = read_state(reading);
    if (!state)
      done = std::unexpected(state.error());
    else if (has_log_of_another(*state, seen))
      done = std::unexpected(lose_log_of_another());
    const bool marked = done && state->is_marked() && doubt == Doubt::kStays;
    std::int64_t version = done ? state->version & ~kMark : 0;
    if (done) {
      counted_ = state->changes;
      done = changes();
    }
    if (done && !marked) {
      // Otherwise the nonce stays: another process may be about to mark the file with it, and a
      // killed checkpoint may be repeated and write an older first page of this log.
      if (state->has_first_page() && file_has_all_of_log()) {
        version = with_new_nonce(version);
        done = Statement(*this, unmarked_, doing, std::max(state->changes, seen)).end();
      }
      const std::string first_page = "PRAGMA user_version = " + std::to_string(version);
      if (done) done = execute(first_page.c_str(), doing);
    } else if (done && state->unmarked) {
      // The process that wrote the mark may not have synced it yet.
      done = sync_mark(version);
      if (done) done = Statement(*this, unmarked_, doing).end();
    }
    if (done) done = execute(commit_, doing);
    committed = done.has_value();
    if (done && !marked) done = mark(version);
    if (done) {
      const Result<std::int64_t> still = version_in_file();
      if (!still) done = std::unexpected(still.error());
      unmarked = still && *still != (version | kMark);
    }
  }
  roll_back();
  // Later calls would be part of that transaction, and never durable.
  if (is_in_transaction()) poison();
  if (done && unmarked) done = protect();
  if (!done && committed) return after_commit(std::move(done.error()));
  return done;
}

std::int64_t TrustedFile::with_new_nonce(std::int64_t version) {
  constexpr std::int64_t kNonces = std::int64_t{1} << 22;
  std::array<std::byte, 3> random{};
  entropy().fill(random);
  std::int64_t nonce = 0;
  for (const std::byte each : random) nonce = nonce << 8 | std::to_integer<std::int64_t>(each);
  const std::int64_t drawn = (version & kVersionBits) | nonce % kNonces << 8;
  constexpr std::int64_t kOther = 1 << 8;
  return drawn == (version & ~kMark) ? drawn ^ kOther : drawn;
}

// A count that is not larger than the one known to this handle proves that the file was set back.
// REQUIRES: within transact().
Result<void> TrustedFile::count_change() {
  ++counted_;
  Statement run(*this, count_change_, "count a change of", counted_);
  if (Result<void> counted = run.end(); !counted || counted_ > changes_) return counted;
  return std::unexpected(
      lose({Code::kDataLoss, path() + " was set back while it was open: it counts " +
                                 std::to_string(counted_ - 1) + " changes, and " +
                                 std::to_string(changes_) +
                                 " were made; end all programs that use it, and open it again"}));
}

// REQUIRES: the transaction that counted is durable.
void TrustedFile::remember_count() {
  changes_ = std::max(changes_, counted_);
  if (!doubtful_) seen_.write(changes_);
}

// Moves a long log into the file. Replaces SQLite's automatic checkpoint, which hides its failures.
// The previous commit is durable and is acknowledged; an I/O error poisons the handle for later
// calls. A checkpoint that is not possible now (readers, a full disk) is repeated after a later
// commit. A checkpoint that readers stopped half-way has removed the mark while the log still has
// changes: the file is marked again.
Result<void> TrustedFile::shorten_log() {
  constexpr int kPages = 1000;
  if (log_pages() < kPages) return {};
  const Checkpoint done = checkpoint();
  if (done.io_error != 0) poison();
  if (!done.partial) return {};
  const Result<std::int64_t> version = version_in_file();
  if (!version) return std::unexpected(version.error());
  if ((*version & kMark) != 0) return {};
  Result<void> marked = protect();
  if (marked) remember_count();
  return marked;
}

// Marks the file again.
Result<void> TrustedFile::protect() {
  return transact("protect", [this] { return doubtful_ ? Result<void>() : count_change(); });
}

}  // namespace idmint::stores::sqlite
