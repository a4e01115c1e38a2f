#include "restore/find/suspects.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/figures.h"

namespace idmint::restore {
namespace {

constexpr std::uint32_t kOneCommand = 30;  // seconds that one command may pause

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
  if (suspect.after || waiting_.size() == kMost) {
    keep_now(std::move(suspect));
  } else {
    waiting_.push_back(std::move(suspect));
  }
}

bool Suspects::keep_now(Suspect suspect) {
  const bool run = is_run(suspect.reason);
  std::size_t alike = 0;
  Suspect* least = nullptr;
  Suspect* least_alike = nullptr;
  for (Suspect& each : all_) {
    if (least == nullptr || each.score < least->score) least = &each;
    if (suspect.key == 0 || each.key != suspect.key) continue;
    ++alike;
    if (least_alike == nullptr || each.score < least_alike->score) least_alike = &each;
    // One command that paused.
    if (run && suspect.limit >= each.last &&
        suspect.limit.seconds - each.last.seconds <= kOneCommand) {
      each.last = suspect.last;
      each.operations += suspect.operations;
      each.score = std::max(each.score, suspect.score);
      return false;
    }
  }
  Suspect* const gives_way = run && alike >= kAlike ? least_alike
                             : all_.size() >= kMost ? least
                                                    : nullptr;
  if (gives_way == nullptr) {
    all_.push_back(std::move(suspect));
    return true;
  }
  ++left_out_;
  if (gives_way->score < suspect.score) *gives_way = std::move(suspect);
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

std::uint64_t Suspects::repeats(std::uint64_t key) const {
  return static_cast<std::uint64_t>(std::ranges::count(all_, key, &Suspect::key));
}

std::vector<Suspect> Suspects::take() {
  std::ranges::sort(all_, [](const Suspect& a, const Suspect& b) {
    return std::tuple(-a.score, a.limit, a.key) < std::tuple(-b.score, b.limit, b.key);
  });
  return std::move(all_);
}

}  // namespace idmint::restore
