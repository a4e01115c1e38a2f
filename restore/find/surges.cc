#include "restore/find/surges.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/figures.h"
#include "base/text.h"

namespace idmint::restore {
namespace {

constexpr std::uint32_t kLasts = 3;       // high seconds that make a surge
constexpr std::uint32_t kLow = 5;         // seconds in a row that end one
constexpr double kLeast = 20;             // operations in a high second
constexpr double kForget = 1.0 / 32;      // the weight of one second in the average
constexpr std::uint64_t kManyMore = 200;  // operations beyond the usual ones

double threshold(double usual) { return std::max(kLeast, 2 * usual + 5 * std::sqrt(usual)); }

}  // namespace

void Surges::add(std::uint64_t key, Reason reason, const Operation& operation,
                 std::uint64_t document, std::string_view fields, const Place& place) {
  if (!first_) first_ = place.at.seconds;
  auto& slot = rates_.take(key, [this](auto& old) { end(old.key, old.value); });
  slot.uses = static_cast<std::uint32_t>(place.changes);
  Rate& rate = slot.value;
  if (rate.now.at != place.at.seconds) {
    close_second(key, rate);
    // Seconds without an operation.
    const std::uint32_t known = rate.now.at == 0 ? *first_ : rate.now.at + 1;
    const std::uint32_t idle = place.at.seconds - std::min(place.at.seconds, known);
    if (rate.high == 0) {
      rate.usual *= std::pow(1 - kForget, idle);
    } else {
      rate.low += idle;
      if (rate.low >= kLow) end(key, rate);
    }
    std::swap(rate.before, rate.now);
    rate.now.at = place.at.seconds;
    rate.now.count = 0;
    rate.now.place = place;
    rate.now.first.set(operation);
    if (rate.high == 0) {
      rate.reason = reason;
      rate.ns = operation.ns;
      rate.fields = fields;
      rate.documents = {};
    }
  }
  ++rate.now.count;
  rate.documents.add(document);
}

void Surges::close_second(std::uint64_t key, Rate& rate) {
  if (rate.now.at == 0) return;
  const auto count = static_cast<double>(rate.now.count);
  const std::uint32_t age = rate.now.at - first_.value_or(rate.now.at);
  const bool high = age >= kWarmUp && count > threshold(rate.usual) && rate.now.place.in_span;
  if (rate.high == 0 && !high) {
    rate.usual += (count - rate.usual) * std::max(kForget, 1.0 / (age + 1));
    return;
  }
  if (high) {
    if (rate.high++ == 0) begin(rate);
    rate.low = 0;
    rate.end = rate.now.at;
    rate.count += rate.now.count;
  } else if (++rate.low >= kLow) {
    end(key, rate);
  }
}

void Surges::begin(Rate& rate) {
  rate.begun = rate.before.at + 1 == rate.now.at ? rate.before : rate.now;
  rate.count = 0;
  NamespaceCounts::Earlier earlier = suspects_.counts().at(rate.begun.place.changes_before_entry);
  rate.before_counts = std::move(earlier.counts);
  rate.lost_is_least = !earlier.exact;
}

void Surges::end(std::uint64_t key, Rate& rate) {
  const std::uint32_t high = std::exchange(rate.high, 0);
  rate.low = 0;
  std::vector<KindCounts> before_counts = std::exchange(rate.before_counts, {});
  const double usual = rate.usual * high;
  const double more = static_cast<double>(rate.count) - usual;
  if (high < kLasts || more < static_cast<double>(kManyMore)) return;
  // It changes many documents, not a few repeatedly.
  if (rate.documents.estimate() < static_cast<double>(rate.count) / 2) return;
  Suspect found = suspect_at(rate.begun.place, rate.reason, rate.ns, rate.begun.first);
  const auto operations = static_cast<std::uint64_t>(more);
  found.last = {.seconds = rate.end, .ordinal = UINT32_MAX};
  found.operations = operations;
  found.documents = operations;
  found.key = Surges::key_of(key);
  found.field = rate.fields;
  found.surge = true;
  found.before_counts = std::move(before_counts);
  found.lost_is_least = rate.lost_is_least;
  found.score = rate.reason == Reason::kMassDelete  ? log_score(56, 6, operations, 86)
                : rate.reason == Reason::kUnsetWave ? log_score(52, 6, operations, 84)
                                                    : log_score(33, 6, operations, 68);
  const double seconds = rate.end - rate.begun.at + 1;
  found.why = "about " + plural(operations, "document") +
              (rate.reason == Reason::kMassDelete ? " deleted" : " changed") + " within " +
              print_duration(seconds) + " beyond the usual, " +
              print_count(std::round(static_cast<double>(rate.count) / high)) +
              " a second where there had been " + print_count(std::round(rate.usual)) +
              (rate.fields.empty() ? "" : ": " + shortened(rate.fields)) +
              "; it began within 2 s after the limit";
  suspects_.keep_now(std::move(found));
}

void Surges::end() {
  for (auto& slot : rates_.slots()) {
    if (slot.key == 0) continue;
    close_second(slot.key, slot.value);
    if (slot.value.high != 0) end(slot.key, slot.value);
  }
}

}  // namespace idmint::restore
