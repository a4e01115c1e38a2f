#include "store/protocol/counters.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "store/backend.h"

namespace idmint::stores {
namespace {

constexpr std::chrono::microseconds kFirstPause{100};
constexpr std::chrono::microseconds kLongestPause{20'000};

}  // namespace

// The first counter of each name is made, and the others of that name are compared with it.
Result<std::vector<CounterState>> Counters::do_create(std::span<const NewCounter> counters) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kHandOut, SteadyTime::max());
  if (!until) return std::unexpected(until.error());
  std::vector<NewCounter> wanted;
  std::map<std::string_view, const NewCounter*> first;
  for (const NewCounter& each : counters) {
    const auto [at, is_new] = first.try_emplace(each.name, &each);
    if (is_new)
      wanted.push_back(each);
    else if (at->second->adopted != each.adopted)
      return std::unexpected(other_record(each.name, at->second->adopted, each.adopted));
    else if (at->second->bounds != each.bounds)
      return std::unexpected(other_bounds({each.name, at->second->bounds}, each.bounds));
  }
  const Result<CounterStates> there = rows_.make_counters(wanted, *until, "make counters in");
  if (!there) return std::unexpected(there.error());
  std::vector<CounterState> all;
  for (const NewCounter& each : counters) {
    const auto at = there->find(each.name);
    if (at == there->end()) {
      if (Result<void> trusted = engine_.expect_trust(*until); !trusted)
        return std::unexpected(std::move(trusted.error()));
      return std::unexpected(damaged_database(
          engine_.shown_url(), "counter " + shown(each.name) + " went away while it was made"));
    }
    if (at->second.bounds != each.bounds)
      return std::unexpected(other_bounds(at->second, each.bounds));
    all.push_back(at->second);
  }
  return all;
}

Result<Range> Counters::do_advance(std::string_view counter, std::int64_t count, Take take,
                                   SteadyTime by) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kHandOut, by);
  if (!until) return std::unexpected(until.error());
  const std::int64_t least = take == Take::kAll ? count : 1;
  // Another round only if somebody made or extended the counter, or settled the store, between the
  // two steps; or if the reading has shown that it is adopted.
  std::chrono::microseconds pause{};
  for (std::int64_t most = count;; pause = std::min(2 * pause + kFirstPause, kLongestPause)) {
    if (pause > kFirstPause) engine_.pause(pause);
    const Result<std::optional<Range>> taken =
        rows_.advance(counter, most, least, *until, "take values from");
    if (!taken) return std::unexpected(taken.error());
    if (const std::optional<Range>& range = *taken; range) return *range;
    if (Result<void> trusted = engine_.expect_trust(*until); !trusted)
      return std::unexpected(std::move(trusted.error()));
    const Result<CounterState> state = read(counter, *until);
    if (!state) return std::unexpected(state.error());
    if (const std::optional<Error>& set_back = state->set_back; set_back && !state->closed)
      return std::unexpected(*set_back);
    if (state->closed || state->left() < least)
      return std::unexpected(refused_advance(*state, count));
    most = std::min(count, state->left());
  }
}

Result<std::vector<std::int64_t>> Counters::do_raise(std::span<const std::string> counters,
                                                     std::int64_t floor, SteadyTime by) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kOperate, by);
  if (!until) return std::unexpected(until.error());
  const Result<std::vector<CounterState>> raised =
      lift_all(counters, {.next = floor}, *until, "raise a counter in");
  if (!raised) return std::unexpected(raised.error());
  std::vector<std::int64_t> next;
  for (const CounterState& state : *raised) next.push_back(state.next);
  return next;
}

Result<std::vector<CounterBounds>> Counters::do_extend(std::span<const std::string> counters,
                                                       std::int64_t last) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kOperate, SteadyTime::max());
  if (!until) return std::unexpected(until.error());
  // Before anything is changed, because the end could not be moved back.
  if (Result<void> possible = rows_.can_extend(counters, last, *until); !possible)
    return std::unexpected(std::move(possible.error()));
  const Result<std::vector<CounterState>> extended =
      lift_all(counters, {.last = last}, *until, "extend a counter in");
  if (!extended) return std::unexpected(extended.error());
  std::vector<CounterBounds> bounds;
  for (const auto& state : *extended) {
    if (last > largest_last(state.bounds.stride))
      return std::unexpected(too_large_an_end(state.name, last, state.bounds.stride));
    bounds.push_back(state.bounds);
  }
  return bounds;
}

Result<void> Counters::do_close(std::span<const std::string> counters) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kOperate, SteadyTime::max());
  if (!until) return std::unexpected(until.error());
  const Result<std::vector<CounterState>> closed =
      lift_all(counters, {.closed = true}, *until, "close a counter in");
  if (!closed) return std::unexpected(closed.error());
  return {};
}

Result<CounterState> Counters::do_peek(std::string_view counter, SteadyTime by) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kRead, by);
  if (!until) return std::unexpected(until.error());
  return read(counter, *until);
}

Result<std::vector<CounterState>> Counters::do_list(std::string_view prefix, SteadyTime by) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kRead, by);
  if (!until) return std::unexpected(until.error());
  return rows_.list_counters(prefix, *until);
}

Result<void> Counters::do_can_extend(std::span<const std::string> counters, std::int64_t last) {
  const Result<SteadyTime> until = engine_.enter(Purpose::kOperate, SteadyTime::max());
  if (!until) return std::unexpected(until.error());
  return rows_.can_extend(counters, last, *until);
}

Result<std::vector<CounterState>> Counters::lift_all(std::span<const std::string> counters,
                                                     const CounterLift& lift, SteadyTime until,
                                                     std::string_view doing) {
  const Result<CounterStates> lifted = rows_.lift(counters, lift, until, doing);
  if (!lifted) return std::unexpected(lifted.error());
  std::vector<CounterState> all;
  for (const std::string& counter : counters) {
    const auto at = lifted->find(counter);
    if (at == lifted->end()) return std::unexpected(no_counter(counter, engine_.shown_url()));
    all.push_back(at->second);
  }
  return all;
}

Result<CounterState> Counters::read(std::string_view counter, SteadyTime until) {
  const std::string name(counter);
  Result<CounterStates> found = rows_.read_counters(std::span(&name, 1), until);
  if (!found) return std::unexpected(std::move(found.error()));
  if (found->empty()) return std::unexpected(no_counter(counter, engine_.shown_url()));
  return std::move(found->begin()->second);
}

}  // namespace idmint::stores
