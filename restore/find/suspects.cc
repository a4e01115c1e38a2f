#include "restore/find/suspects.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/figures.h"

namespace idmint::restore {
namespace {

constexpr std::uint32_t kOneCommand = 30;  // seconds that one command may pause
constexpr std::uint32_t kBeside = 2;       // seconds between the beginnings of one script's threads

// Whether `later` continues the same command after a pause.
bool goes_on(const Suspect& run, const Suspect& later) {
  return later.limit >= run.last && later.limit.seconds - run.last.seconds <= kOneCommand;
}

// Whether both are threads of one script.
bool is_beside(const Suspect& one, const Suspect& other) {
  const auto [first, second] = std::minmax(one.limit.seconds, other.limit.seconds);
  const std::uint64_t each = one.operations / one.sessions;
  const std::uint64_t another = other.operations / other.sessions;
  return second - first <= kBeside && each / 4 <= another && another / 4 <= each;
}

// Merges another suspect with the same key into `run`.
void unite(Suspect& run, Suspect other) {
  if (run.last > other.limit && run.limit < other.last) run.sessions += other.sessions;
  other.sessions = run.sessions;
  if (other.limit < run.limit) std::swap(run, other);
  run.last = std::max(run.last, other.last);
  run.operations += other.operations;
  if (run.documents && other.documents) *run.documents += *other.documents;
  run.score = std::max(run.score, other.score);
}

}  // namespace

std::string plural(std::uint64_t count, std::string_view one) {
  return print_count(static_cast<double>(count)) + " " + std::string(one) + (count == 1 ? "" : "s");
}

double log_score(double base, double step, std::uint64_t count, double most) {
  const auto operations = static_cast<double>(std::max<std::uint64_t>(1, count));
  return std::min(most, base + step * std::log10(operations));
}

Suspect suspect_at(const Place& place, Reason reason, std::string ns, const Remembered& first) {
  Suspect suspect;
  suspect.reason = reason;
  suspect.ns = std::move(ns);
  suspect.limit = place.at;
  suspect.last = place.at;
  suspect.operations = 1;
  suspect.first = first.text();
  suspect.before = place.previous_at;
  suspect.changes_before = place.changes_before_entry;
  if (!place.previous_at) return suspect;
  if (place.previous_operations > 1)
    suspect.before_text = "a transaction of " + plural(place.previous_operations, "operation") +
                          ", the first of them: ";
  suspect.before_text += place.previous.text();
  return suspect;
}

Suspect suspect_at(const Place& place, Reason reason, std::string ns, const Operation& first) {
  Remembered words;
  words.set(first);
  return suspect_at(place, reason, std::move(ns), words);
}

void weigh_repeats(Suspect& suspect, std::uint64_t times) {
  if (times < 2) return;
  suspect.score /= std::sqrt(static_cast<double>(times));
  suspect.why += "; that happened " + plural(times, "time");
}

void Suspects::keep(Suspect suspect) {
  if (suspect.before_counts.empty()) {
    NamespaceCounts::Earlier earlier = counts_.at(suspect.changes_before);
    suspect.before_counts = std::move(earlier.counts);
    suspect.lost_is_least = !earlier.exact;
  }
  if (suspect.after || waiting_.size() == kMost) {
    keep_now(std::move(suspect));
  } else {
    waiting_.push_back(std::move(suspect));
  }
}

bool Suspects::keep_now(Suspect suspect) {
  const bool run = is_run(suspect.reason);
  RecurringEvent* habit = nullptr;
  if (suspect.key != 0 && suspect.reason != Reason::kFall) {
    auto& slot = recurring_events_.take(suspect.key);
    ++slot.uses;
    habit = &slot.value;
  }
  std::size_t alike = 0;
  Suspect* least = nullptr;
  Suspect* first_alike = nullptr;
  for (Suspect& each : all_) {
    if (least == nullptr || each.score < least->score) least = &each;
    if (suspect.key == 0 || each.key != suspect.key) continue;
    ++alike;
    if (first_alike == nullptr || each.limit < first_alike->limit) first_alike = &each;
    if (run && each.surge == suspect.surge &&
        (goes_on(each, suspect) || is_beside(each, suspect))) {
      const std::uint64_t documents = each.documents.value_or(0);
      unite(each, std::move(suspect));
      habit->grow(documents, each.documents.value_or(0));
      return false;
    }
  }
  if (habit != nullptr) habit->add(suspect.limit, suspect.documents.value_or(0));
  Suspect* gives_way = nullptr;
  if (habit != nullptr && alike >= kAlike) {
    for (Suspect& each : all_) {
      if (each.key != suspect.key || &each == first_alike) continue;
      if (gives_way == nullptr || each.score < gives_way->score) gives_way = &each;
    }
    ++habit->left_out;
  } else if (all_.size() >= kMost) {
    gives_way = least;
    ++left_out_;
  }
  if (gives_way == nullptr) {
    all_.push_back(std::move(suspect));
  } else if (gives_way->score < suspect.score) {
    *gives_way = std::move(suspect);
  }
  return true;
}

void Suspects::next_entry(Timestamp at) {
  for (Suspect& each : waiting_) each.after = at;
  end();
}

void Suspects::end() {
  for (Suspect& each : waiting_) keep_now(std::move(each));
  waiting_.clear();
}

void Suspects::remove_drops(std::string_view database, Timestamp from) {
  const std::string prefix = std::string(database) + ".";
  const auto is_part = [&](const Suspect& each) {
    return each.reason == Reason::kDrop && each.limit >= from && each.ns.starts_with(prefix);
  };
  std::erase_if(waiting_, is_part);
  std::erase_if(all_, is_part);
}

std::vector<Suspect> Suspects::take() {
  std::ranges::sort(all_, [](const Suspect& a, const Suspect& b) {
    return std::tuple(-a.score, a.limit, a.key) < std::tuple(-b.score, b.limit, b.key);
  });
  return std::move(all_);
}

}  // namespace idmint::restore
