#include "restore/oplog/follow.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/errors.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {
namespace {

using namespace std::chrono_literals;
using Ticks = std::chrono::steady_clock;

constexpr auto kReconnects = 2min;  // the longest time without an answering member
constexpr int kRestBetween = 500;   // milliseconds before the next attempt
constexpr auto kBetweenSyncs = 1s;

std::unexpected<Error> rolled_over(const Member& member, Timestamp wanted, Timestamp oldest) {
  return fail(Code::kOutOfRange, "the oplog of " + member.host() + " begins at " +
                                     print_timestamp(oldest) + " (" + print_seconds(oldest) +
                                     ") and has rolled over what came from " +
                                     print_timestamp(wanted) + " on");
}

// Checks with the first entry read that no entry before it is missing.
Result<void> overlaps(Member& member, const OplogDump& dump, const OplogBegin& wanted,
                      Timestamp begin, const Entry& entry) {
  const std::span<const std::uint8_t> bytes = entry.document.bytes();
  if (dump.last()) {
    if (std::ranges::equal(bytes, dump.last_entry())) return {};
    if (entry.at.ts == begin)
      return fail(Code::kFailedPrecondition,
                  "entry " + print_timestamp(begin) + " of " + member.host() +
                      " is another than that of " + dump.path() +
                      ": it is of another replica set; name another one");
    return rolled_over(member, begin, entry.at.ts);
  }
  const std::unexpected<Error> foreign(
      Error{Code::kFailedPrecondition, "the oplog of " + member.host() + " has not the entry " +
                                           print_timestamp(begin) + " with which " + wanted.base +
                                           " begins: that is of another replica set"});
  if (entry.at.ts == begin && !wanted.entry.empty() && !std::ranges::equal(bytes, wanted.entry))
    return foreign;
  if (wanted.at == Timestamp{} || entry.at.ts == begin) return {};
  // Asked after the read, so it shows whether entries from `begin` on were overwritten meanwhile.
  const Result<OplogWindow> window = oplog_window(member);
  if (!window) return error_in(window);
  if (window->first > begin) return rolled_over(member, begin, window->first);
  return wanted.entry.empty() ? Result<void>{} : foreign;
}

class Following {
 public:
  Following(const FollowOptions& options, OplogDump& dump, Observer& observer)
      : options_(options), dump_(&dump), observer_(observer) {}

  Result<void> run() {
    for (;;) {
      Result<void> done = go_on();
      if (Result<void> synced = sync(); !synced) return synced;
      if (observer_.stopped()) return dump_->seal();
      if (done)
        if (Result<void> sealed = dump_->seal(); !sealed) return sealed;
      if (done || !options_.follow || done.error().code != Code::kUnavailable ||
          Ticks::now() - alive_ > kReconnects)
        return done;
      observer_.notice(done.error().message() + "; trying again");
      ::poll(nullptr, 0, kRestBetween);
      if (observer_.stopped()) return dump_->seal();
    }
  }

 private:
  // Reads over one connection until the end, a stop or a failure.
  Result<void> go_on() {
    Result<Member> member = connect_to_oplog(options_.uri, options_.connect);
    if (!member) return error_in(member);
    const Result<OplogWindow> window = oplog_window(*member);
    if (!window) return error_in(window);
    const bool goes_on = dump_->last().has_value();
    const Timestamp begin =
        dump_->last().value_or(options_.begin ? options_.begin->at : window->first);
    if (begin < window->first) return rolled_over(*member, begin, window->first);
    if (begin > window->last)
      return fail(goes_on ? Code::kUnavailable : Code::kFailedPrecondition,
                  "the oplog of " + member->host() + " ends at " + print_timestamp(window->last) +
                      ", before " + print_timestamp(begin) +
                      (goes_on ? ": this member is behind; ask another, or later"
                               : ": nothing was written from then on"));
    if (!std::exchange(knows_begin_, true))
      if (Result<void> has = has_all_since(*member); !has) return has;
    OplogSpan span{.from = begin};
    if (!options_.follow) span.to = window->last;
    LiveOplog oplog(*member, span, options_.follow);
    bool proven = false;
    while (!observer_.stopped()) {
      const Result<std::optional<Document>> next = oplog.next();
      if (!next) return error_in(next);
      const std::optional<Document>& document = *next;
      const auto now = Ticks::now();
      alive_ = now;
      if (!document || now - synced_ > kBetweenSyncs) {
        if (Result<void> synced = sync(); !synced) return synced;
        synced_ = now;
      }
      if (!document) {
        if (options_.follow) continue;
        break;
      }
      const Result<Entry> entry = parse_entry(*document);
      if (!entry) return error_in(entry);
      if (!proven) {
        Result<void> good =
            overlaps(*member, *dump_, options_.begin.value_or(OplogBegin{}), begin, *entry);
        if (!good) return good;
        proven = true;
        if (goes_on) continue;
      }
      if (Result<void> added = dump_->append(entry->at.ts, *document); !added) return added;
      if (Result<void> going = show(entry->at.ts, begin, span.to); !going) return going;
    }
    if (!observer_.stopped() && (!proven || dump_->last() < span.to))
      return fail(Code::kUnavailable,
                  "the oplog of " + member->host() + " ended before " + print_timestamp(span.to) +
                      ", which it had before: this member is behind; try again");
    return {};
  }

  Result<void> sync() {
    if (Result<void> synced = dump_->sync(); !synced) return synced;
    if (!options_.synced) return {};
    const Result<OplogDump*> next = options_.synced(*dump_);
    if (!next) return error_in(next);
    dump_ = *next;
    return {};
  }

  // Shows the number of entries while it follows, and otherwise how far it has come.
  Result<void> show(Timestamp at, Timestamp begin, Timestamp to) {
    const auto seconds = [&](Timestamp until) {
      return static_cast<std::uint64_t>(until.seconds - begin.seconds);
    };
    if (++appended_ == 1)
      observer_.begin(options_.follow ? "entries" : "s of oplog",
                      options_.follow ? std::nullopt : std::optional(seconds(to)));
    return observer_.advance(options_.follow ? appended_ : seconds(at));
  }

  // Checks that an existing dump begins with the first requested entry.
  Result<void> has_all_since(Member& member) {
    const Timestamp first = dump_->first().value_or(Timestamp{});
    const Timestamp since = options_.begin ? options_.begin->at : first;
    if (first <= since) return {};
    const Result<Bson> found = oplog_entry_from(member, since);
    if (!found) return error_in(found);
    if (found->get() == nullptr) return {};
    const Result<Entry> entry = parse_entry(found->view());
    if (!entry) return error_in(entry);
    if (entry->at.ts >= first) return {};
    return fail(Code::kFailedPrecondition,
                dump_->path() + " begins at " + print_timestamp(first) +
                    ", and the oplog has entries from " + print_timestamp(since) +
                    " up to that, which are asked for: name another file");
  }

  const FollowOptions& options_;
  OplogDump* dump_;
  Observer& observer_;
  std::uint64_t appended_ = 0;
  bool knows_begin_ = false;  // that the dump begins where it is to
  Ticks::time_point alive_ = Ticks::now();
  Ticks::time_point synced_ = Ticks::now();
};

}  // namespace

Result<void> follow_oplog(const FollowOptions& options, OplogDump& dump, Observer& observer) {
  return Following(options, dump, observer).run();
}

}  // namespace idmint::restore
