#include "restore/find/links.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "base/figures.h"
#include "restore/find/surges.h"

namespace idmint::restore {
namespace {

constexpr std::uint32_t kSeries = 60;       // seconds between two drops of a series
constexpr std::uint32_t kIndexSeries = 2;   // likewise between two of dropIndexes with *
constexpr std::uint64_t kRoutineKept = 64;  // lines

constexpr std::size_t kind_of(Reason reason) {
  switch (reason) {
    case Reason::kMassDelete:
      return static_cast<std::size_t>(Op::kDelete);
    case Reason::kFall:
    case Reason::kUnsetWave:
    case Reason::kMassUpdate:
      return static_cast<std::size_t>(Op::kUpdate);
    default:
      return static_cast<std::size_t>(Op::kCommand);
  }
}

// Moves `effect` into the effects of `cause`, which becomes at least as likely.
void move_into(Suspect& cause, Suspect& effect, std::string text, double score) {
  cause.effects.push_back({.text = std::move(text),
                           .first = effect.limit,
                           .last = effect.last,
                           .ns = effect.ns,
                           .kind = kind_of(effect.reason),
                           .operations = effect.operations});
  cause.score = std::max(cause.score, score);
  effect.score = -1;
}

bool is_gone(const Suspect& suspect) { return suspect.score < 0; }

void remove_moved(std::vector<Suspect>& all) { std::erase_if(all, is_gone); }

// Expired documents are deleted within a minute, and then every minute.
void link_expiry(std::vector<Suspect>& all) {
  for (Suspect& cause : all) {
    if (cause.reason != Reason::kTimeToLive) continue;
    for (Suspect& each : all) {
      if (each.reason != Reason::kMassDelete || each.by_session || each.ns != cause.ns ||
          each.limit < cause.limit)
        continue;
      move_into(cause, each, plural(each.operations, "document") + " of " + each.ns + " deleted",
                std::min(97.0, each.score + 8));
    }
  }
  remove_moved(all);
}

// A run has a known beginning, so it replaces a surge of the same operations. But a run from the
// beginning of the oplog on is the usual work, and the surge is in it.
void weigh_surges(std::vector<Suspect>& all, Timestamp oplog_first) {
  for (Suspect& surge : all) {
    if (!surge.surge) continue;
    for (Suspect& run : all) {
      if (run.surge || Surges::key_of(run.key) != surge.key || run.limit > surge.last ||
          surge.limit > run.last || run.operations < surge.operations / 2)
        continue;
      const bool usual = run.limit.seconds - oplog_first.seconds < Surges::kWarmUp &&
                         run.limit.seconds + 2 < surge.limit.seconds;
      (usual ? run : surge).score = -1;
    }
  }
  remove_moved(all);
}

// An $inc with the wrong sign: many documents got the same change, and the number fell in some. A
// number that fell alone while others rose remains a suspect.
void link_falls(std::vector<Suspect>& all) {
  for (Suspect& run : all) {
    if (run.reason != Reason::kMassUpdate) continue;
    const std::string fields = ", " + run.field + ",";
    std::vector<Suspect*> falls;
    for (Suspect& fall : all) {
      if (fall.reason == Reason::kFall && fall.ns == run.ns && fall.limit >= run.limit &&
          fall.limit <= run.last && fields.contains(" " + fall.field + ","))
        falls.push_back(&fall);
    }
    if (falls.size() < 2) continue;
    run.score = std::min(90.0, run.score + 20);
    run.why += "; numbers fell by it: " + falls.front()->why;
    for (Suspect* const fall : falls) fall->score = -1;
  }
  remove_moved(all);
}

// Weighs the suspects of irregular habits by their repeats. Removes those of routines, unless they
// are far larger than usual.
void fold_routines(Suspects& suspects, Timestamp oplog_first, Timestamp oplog_last,
                   std::map<std::uint64_t, Routine>& routines) {
  std::map<std::uint64_t, Suspect*> first;  // of each habit
  for (Suspect& each : suspects.all()) {
    const auto* const slot = each.reason == Reason::kFall || each.key == 0
                                 ? nullptr
                                 : suspects.recurring_events().find(each.key);
    if (slot == nullptr) continue;
    const RecurringEvent& habit = slot->value;
    if (!habit.is_routine(oplog_first, oplog_last)) {
      auto [at, added] = first.try_emplace(each.key, &each);
      if (!added && each.limit < at->second->limit) at->second = &each;
      continue;
    }
    routines.try_emplace(each.key, Routine{.reason = each.reason,
                                           .ns = name_pattern(each.ns),
                                           .times = habit.times(),
                                           .every = habit.every(),
                                           .documents = habit.usual(),
                                           .first = habit.first(),
                                           .last = habit.last()});
    if (is_run(each.reason) || each.documents) {
      if (habit.is_outlier(each.documents.value_or(0))) {
        each.why += "; usually there are about " + plural(habit.usual(), "document") + ", every " +
                    print_duration(habit.every());
        continue;
      }
    }
    each.score = -1;
  }
  for (Suspect& each : suspects.all()) {
    if (is_gone(each) || !first.contains(each.key)) continue;
    const RecurringEvent& habit = suspects.recurring_events().find(each.key)->value;
    // A TTL index that is created and changed later is no repetition.
    if (habit.times() >= 2 && each.reason != Reason::kTimeToLive)
      weigh_repeats(each, habit.similar(each.documents.value_or(0)));
  }
  remove_moved(suspects.all());
}

// Joins consecutive drops: of a database's collections, or of a collection's indexes.
void link_series(std::vector<Suspect>& all, Reason reason, std::uint32_t pause) {
  std::vector<Suspect*> found;
  for (Suspect& each : all)
    if (each.reason == reason) found.push_back(&each);
  std::ranges::sort(found, {}, [](const Suspect* each) { return each->limit; });
  const auto whole = [&](const Suspect& each) {
    return reason == Reason::kDropIndex ? std::string_view(each.ns)
                                        : std::string_view(each.ns).substr(0, each.ns.find('.'));
  };
  std::map<std::string, std::pair<Suspect*, Timestamp>, std::less<>> begun;  // with its last drop
  for (Suspect* each : found) {
    auto& [cause, last] = begun[std::string(whole(*each))];
    if (cause == nullptr || each->limit.seconds - last.seconds > pause || each->score < 20 ||
        cause->score < 20) {
      cause = each;
    } else {
      move_into(*cause, *each, each->why, each->score);
    }
    last = each->last;
  }
  remove_moved(all);
}

bool is_own(std::string_view ns) { return ns.starts_with("config.") || ns.starts_with("local."); }

void tell_losses(Suspect& suspect, const NamespaceCounts& counts) {
  std::map<std::string, KindCounts, std::less<>> own;
  const auto owns = [&](const std::string& ns, std::size_t kind, std::uint64_t operations) {
    own[name_pattern(ns)][kind] += operations;
  };
  const bool update = suspect.reason == Reason::kDocument && !suspect.why.ends_with("deleted");
  const std::size_t kind = suspect.reason == Reason::kDocument
                               ? static_cast<std::size_t>(update ? Op::kUpdate : Op::kDelete)
                               : kind_of(suspect.reason);
  owns(suspect.ns, kind, suspect.reason == Reason::kDropDatabase ? 1 : suspect.operations);
  for (const Effect& each : suspect.effects) owns(each.ns, each.kind, each.operations);
  const bool whole = suspect.reason == Reason::kDropDatabase;
  for (std::size_t row = 0; row < counts.rows().size(); ++row) {
    const NamespaceCounts::Row& now = counts.rows()[row];
    if (is_own(now.ns)) continue;
    NamespaceLoss loss{.ns = now.ns, .counts = now.counts};
    const auto mine = own.find(now.ns);
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      if (row < suspect.before_counts.size()) loss.counts[i] -= suspect.before_counts[row][i];
      if (mine != own.end()) loss.counts[i] -= std::min(loss.counts[i], mine->second[i]);
    }
    // Without the drops of the database's collections.
    std::uint64_t& commands = loss.counts[static_cast<std::size_t>(Op::kCommand)];
    if (whole && now.ns.starts_with(suspect.ns + ".") && commands != 0) --commands;
    if (loss.counts != KindCounts{}) suspect.lost.push_back(std::move(loss));
  }
  std::ranges::sort(suspect.lost, {}, [](const NamespaceLoss& each) {
    return std::tuple(~std::accumulate(each.counts.begin(), each.counts.end(), std::uint64_t{0}),
                      each.ns);
  });
  suspect.before_counts = {};
}

}  // namespace

std::vector<Routine> link(Suspects& suspects, Timestamp oplog_first, Timestamp oplog_last) {
  std::vector<Suspect>& all = suspects.all();
  std::map<std::uint64_t, Routine> routines;
  weigh_surges(all, oplog_first);
  link_expiry(all);
  fold_routines(suspects, oplog_first, oplog_last, routines);
  link_falls(all);
  link_series(all, Reason::kDrop, kSeries);
  link_series(all, Reason::kDropIndex, kIndexSeries);
  for (Suspect& each : all) {
    std::ranges::sort(each.effects, {}, &Effect::first);
    tell_losses(each, suspects.counts());
  }
  std::vector<Routine> lines;
  for (auto& [key, routine] : routines) lines.push_back(std::move(routine));
  std::ranges::sort(lines, [](const Routine& a, const Routine& b) {
    return std::tuple(b.times, a.ns, a.reason) < std::tuple(a.times, b.ns, b.reason);
  });
  if (lines.size() > kRoutineKept) lines.resize(kRoutineKept);
  return lines;
}

}  // namespace idmint::restore
