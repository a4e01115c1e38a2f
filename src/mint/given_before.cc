#include "mint/given_before.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "idmint/worker_pool.h"
#include "mint/seen.h"

namespace idmint {

std::optional<GivenBefore> given_before(std::string_view url, std::string_view source) {
  std::optional<Seen> value;    // in order
  std::optional<Seen> printed;  // by a command
  std::optional<Seen> other;
  std::optional<std::int64_t> bound;
  Instant bound_at{};
  for (const Seen& seen : read_seen_at(url, source)) {
    if (!seen.kind) {
      printed = seen;
    } else if (seen.kind == LastIssued::Kind::kValue) {
      if (!value || seen.value > value->value) value = seen;
    } else {
      other = seen;
      if (seen.kind != LastIssued::Kind::kBound) continue;
      bound = std::max(bound.value_or(seen.value), seen.value);
      bound_at = seen.at;
    }
  }
  const std::string before = "this host was given ";
  if (value)
    return GivenBefore{.words = before + std::string(source) + " up to " +
                                std::to_string(value->value) + " (" + format_time(value->at) + ")",
                       .last = value->value};
  if (bound)
    return GivenBefore{
        .words = before + "ids of " + std::string(source) + " (" + format_time(bound_at) + ")",
        .bound = bound};
  if (printed && !other)
    return GivenBefore{.words = before + std::to_string(printed->value) + " of " +
                                std::string(source) + " (" + format_time(printed->at) + ")",
                       .printed = printed->value};
  if (other) {
    const Seen& latest = printed.value_or(*other);
    return GivenBefore{.words = before +
                                (printed ? std::to_string(latest.value) + " of " : "values of ") +
                                std::string(source) + " (" + format_time(latest.at) + ")"};
  }
  return std::nullopt;
}

std::optional<Repeats> would_repeat(std::string_view url, const Definition& wanted, Instant now) {
  const auto* const sequence = std::get_if<SequenceDefinition>(&wanted);
  if (sequence != nullptr && !sequence->adopted.empty()) return std::nullopt;
  std::optional<GivenBefore> before = given_before(url, name(wanted));
  if (!before) return std::nullopt;
  std::string below;
  if (sequence == nullptr) {
    const auto& layout = std::get<PoolDefinition>(wanted).layout;
    const std::optional<Instant> end = before->bound ? time_of(layout, *before->bound) : Instant{};
    if (end && *end <= now) return std::nullopt;
    below = ", and their time has not passed";
  } else {
    const std::optional<std::int64_t> known = before->last ? before->last : before->printed;
    if (before->bound || (known && sequence->first > *known)) return std::nullopt;
    below = ", and it would begin at " + std::to_string(sequence->first);
  }
  return Repeats{std::move(before->words) + " from a store that was at " + std::string(url) + below,
                 before->last};
}

}  // namespace idmint
