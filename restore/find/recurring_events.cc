#include "restore/find/recurring_events.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace idmint::restore {
namespace {

constexpr std::uint64_t kRegular = 4;    // occurrences from which regularity is known
constexpr std::uint64_t kFrequent = 10;  // occurrences that need less regularity
constexpr double kShortest = 5;          // seconds between two; faster ones are one script

std::size_t size_of_documents(std::uint64_t documents) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(documents)), 32);
}

}  // namespace

void RecurringEvent::add(Timestamp at, std::uint64_t documents) {
  if (times_ == 0) first_ = at;
  if (times_ != 0 && at >= last_) {
    const double interval = at.seconds - last_.seconds;
    intervals_ += interval;
    squares_ += interval * interval;
  }
  first_ = std::min(first_, at);
  last_ = std::max(last_, at);
  ++times_;
  ++sizes_[size_of_documents(documents)];
  documents_[size_of_documents(documents)] += documents;
}

void RecurringEvent::grow(std::uint64_t documents, std::uint64_t more) {
  const std::size_t was = size_of_documents(documents);
  if (sizes_[was] == 0) return;
  --sizes_[was];
  documents_[was] -= std::min(documents_[was], documents);
  ++sizes_[size_of_documents(more)];
  documents_[size_of_documents(more)] += more;
}

double RecurringEvent::every() const { return times_ < 2 ? 0 : intervals_ / (times_ - 1); }

bool RecurringEvent::is_routine(Timestamp oplog_first, Timestamp oplog_last) const {
  const double mean = every();
  if (times_ < kRegular || mean < kShortest) return false;
  const double variance = std::max(0.0, squares_ / (times_ - 1) - mean * mean);
  const double most = times_ < kFrequent ? 0.8 : 2;  // standard deviations in a mean
  if (std::sqrt(variance) > most * mean) return false;
  // A late start may be a faulty program.
  const double quiet = first_.seconds - std::min(first_.seconds, oplog_first.seconds);
  const double all = oplog_last.seconds - std::min(oplog_last.seconds, oplog_first.seconds);
  return quiet <= std::max(2 * mean, all / 4);
}

std::uint64_t RecurringEvent::similar(std::uint64_t documents) const {
  const std::size_t size = size_of_documents(documents);
  std::uint64_t all = 0;
  for (std::size_t i = size < 2 ? 0 : size - 2; i < sizes_.size(); ++i) all += sizes_[i];
  return all;
}

bool RecurringEvent::is_outlier(std::uint64_t documents) const {
  return documents >= 8 * std::max<std::uint64_t>(1, usual()) &&
         similar(documents) <= 1 + times_ / 20;
}

std::uint64_t RecurringEvent::usual() const {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    below += sizes_[i];
    if (2 * below >= times_) return sizes_[i] == 0 ? 0 : documents_[i] / sizes_[i];
  }
  return 0;
}

}  // namespace idmint::restore
