#include "restore/find/runs.h"

#include <algorithm>

#include "base/figures.h"
#include "base/text.h"

namespace idmint::restore {
namespace {

constexpr std::uint64_t kMass = 20;          // operations that make a run
constexpr std::int64_t kTight = 25;          // milliseconds between operations of one command
constexpr std::uint64_t kTightChanges = 64;  // operations of others between them
constexpr std::int64_t kSessionTight = 250;  // milliseconds between operations of one session
constexpr double kUnusual = 4;               // times what another session does
constexpr std::int64_t kEarly = 2000;        // milliseconds from the beginning of the oplog
constexpr std::uint32_t kLongOplog = 120;    // seconds
constexpr std::size_t kCountsKept = std::size_t{8} << 20;  // bytes, of all runs

std::string span_text(Timestamp first, Timestamp last) {
  const std::uint32_t seconds = last.seconds - first.seconds;
  return seconds == 0 ? "within a second" : "within " + print_duration(seconds + 1);
}

}  // namespace

void Runs::deleted(const Operation& operation, const Place& place) {
  const std::uint64_t key = hash_of(operation.ns, 3);
  const std::uint64_t document = hash_of(document_id(operation).value, key);
  add({.group = key, .reason = Reason::kMassDelete, .document = document}, operation, place);
}

void Runs::updated(const Operation& operation, std::uint64_t document, const UpdateShape& shape,
                   const Place& place) {
  const std::span<const std::uint8_t> o = operation.o.bytes();
  const std::uint64_t content = hash_of(o.first(std::min<std::size_t>(o.size(), 256)), 2);
  add({.group = shape.hash(),
       .reason = shape.reason(),
       .document = document,
       .content = content,
       .fields = shape.fields(),
       .only_adds = shape.only_adds()},
      operation, place);
}

void Runs::begin(Run& run, const Operation& operation, const Place& place) {
  run.ns = operation.ns;
  run.begun = place;
  run.after.reset();
  run.first.set(operation);
  run.unbroken = 0;
  run.ahead = 0;
  run.held.reset();
  run.mass = false;
  run.same = 0;
  run.documents = {};
  begun_.emplace_back(&run, place.changes_before_entry);
}

void Runs::add(const Action& action, const Operation& operation, const Place& place) {
  if (!first_wall_) first_wall_ = place.wall;
  surges_.add(action.group, action.reason, operation, action.document, action.fields, place);
  auto& group_slot = groups_.take(action.group);
  group_slot.uses = static_cast<std::uint32_t>(place.changes);
  Group& all = group_slot.value;
  const std::uint64_t group_before = all.operations++;
  all.sessions.add(place.session);
  const std::uint64_t key = action.group ^ (place.session * 0x9e3779b97f4a7c15);
  auto& slot = runs_.take(key, [this](auto& old) { end(old.value); });
  slot.uses = static_cast<std::uint32_t>(place.changes);
  Run& run = slot.value;
  const std::int64_t gap = place.wall - run.seen;
  const bool tight = place.session != 0
                         ? gap <= kSessionTight
                         : gap <= kTight && place.changes - run.seen_at <= kTightChanges;
  run.seen = place.wall;
  run.seen_at = place.changes;
  if (run.count != 0 && !tight) {
    const bool paused = run.mass && place.wall - run.wall <= kPause;
    // Without a session, the operation may be another client's, unless the next one is close.
    if (paused && place.session == 0) {
      run.held = action.document;
      return;
    }
    if (!paused && (run.mass || run.unbroken < 2 || place.wall - run.begun.wall > kPause)) {
      end(run);
    } else if (!paused) {  // it may have paused at its beginning
      run.ahead = run.count;
      run.unbroken = 0;
    }
  }
  if (!place.in_span) {
    run.count = 0;
    return;
  }
  if (run.count == 0) {
    run.reason = action.reason;
    run.group = action.group;
    run.by_session = place.session != 0;
    run.only_adds = action.only_adds;
    run.fields = action.fields;
    run.group_before = group_before;
    begin(run, operation, place);
  } else if (action.content == run.content) {
    ++run.same;
  }
  run.content = action.content;
  if (run.held && tight) {
    run.documents.add(*run.held);
    ++run.count;
  }
  run.held.reset();
  run.documents.add(action.document);
  ++run.count;
  if (++run.unbroken == kMass && !run.mass) became_mass(run);
  run.group_after = all.operations;
  run.last = place.at;
  run.wall = place.wall;
}

void Runs::became_mass(Run& run) {
  run.mass = true;
  const std::size_t size = suspects_.counts().rows().size() * sizeof(KindCounts);
  if (counts_kept_ + size > kCountsKept) return;
  NamespaceCounts::Earlier earlier = suspects_.counts().at(run.begun.changes_before_entry);
  run.before_counts = std::move(earlier.counts);
  run.lost_is_least = !earlier.exact;
  counts_kept_ += size;
}

void Runs::next_entry(Timestamp at) {
  for (const auto& [run, changes_before] : begun_)
    if (run->count != 0 && run->begun.changes_before_entry == changes_before) run->after = at;
  begun_.clear();
}

bool Runs::is_usual(const Run& run, const Group& group, std::uint64_t count) const {
  // New in this oplog: these may be the threads of one script.
  const bool early = run.begun.wall - first_wall_.value_or(0) <= kEarly;
  if (run.group_before < kMass && !early) return false;
  const double sessions = group.sessions.estimate();
  // A group that was evicted meanwhile begins again.
  const std::uint64_t known = run.group_before + count;
  const auto others = static_cast<double>(run.group_after - std::min(run.group_after, known));
  if (sessions < 2) return false;
  return static_cast<double>(count) < kUnusual * others / (sessions - 1);
}

void Runs::end(Run& run) {
  const std::uint64_t count = std::exchange(run.count, 0);
  std::vector<KindCounts> before_counts = std::exchange(run.before_counts, {});
  counts_kept_ -= before_counts.size() * sizeof(KindCounts);
  Group& group = groups_.take(run.group).value;
  if (!run.mass) {
    group.recent.add(run.wall, count);
    return;
  }
  // A run changes many documents, not a few repeatedly.
  if (run.documents.estimate() < static_cast<double>(count) / 2) return;
  if (is_usual(run, group, count)) return;
  Suspect found = suspect_at(run.begun, run.reason, run.ns, run.first);
  found.last = run.last;
  found.after = run.after;
  found.operations = count;
  found.key = run.group | 1;
  found.field = run.fields;
  found.by_session = run.by_session;
  found.before_counts = std::move(before_counts);
  found.lost_is_least = run.lost_is_least;
  if (found.before_counts.empty()) {
    found.before_counts = suspects_.counts().at(found.changes_before).counts;
    found.lost_is_least = true;
  }
  // Only existing documents have delete entries, so these are counted; updates are estimated.
  const double estimate = run.documents.estimate();
  found.documents = run.reason == Reason::kMassDelete || estimate > 0.6 * static_cast<double>(count)
                        ? count
                        : static_cast<std::uint64_t>(estimate);
  if (run.reason == Reason::kMassDelete) {
    found.score = log_score(60, 6, count, 88);
  } else {
    const bool same = run.same + 1 >= count - count / 10;
    const bool replaced = run.fields == UpdateShape::kWhole;
    found.score = run.reason == Reason::kUnsetWave ? log_score(55, 6, count, 85)
                                                   : log_score(35, 6, count, 70) +
                                                         (same       ? 8
                                                          : replaced ? 12
                                                                     : 0) -
                                                         (run.only_adds ? 12 : 0);
    found.why = (run.only_adds ? ", with a new field: "
                 : same        ? ", all in the same way: "
                               : ", in the same fields: ") +
                shortened(run.fields);
  }
  const std::uint64_t others = group.recent.at(run.begun.wall);
  if (run.ahead != 0) {
    found.why += "; the first " + print_count(static_cast<double>(run.ahead)) +
                 " came a while before the others: look whether they are of it";
  } else if (others != 0 && !run.by_session) {
    found.why += "; " + print_count(static_cast<double>(others)) +
                 " more on it in the seconds before: look whether they are of it";
  }
  suspects_.keep_now(std::move(found));
}

void Runs::end() {
  for (auto& slot : runs_.slots())
    if (slot.key != 0 && slot.value.count != 0) end(slot.value);
  surges_.end();
}

void Runs::weigh(Suspect& run, Timestamp oplog_first, Timestamp oplog_last) {
  const std::uint64_t documents = run.documents.value_or(run.operations);
  run.why = (documents == run.operations
                 ? ""
                 : print_count(static_cast<double>(run.operations)) + " updates of about ") +
            plural(documents, "document") +
            (run.reason == Reason::kMassDelete ? " deleted "
             : documents == run.operations     ? " changed "
                                               : " ") +
            span_text(run.limit, run.last) +
            (!run.by_session     ? ""
             : run.sessions == 1 ? " by one client"
                                 : " through " + plural(run.sessions, "session")) +
            run.why;
  // A run from the beginning to the end is the work of a program.
  const std::uint32_t all = oplog_last.seconds - oplog_first.seconds;
  if (all >= kLongOplog && run.last.seconds - run.limit.seconds >= all - all / 4) run.score /= 5;
}

}  // namespace idmint::restore
