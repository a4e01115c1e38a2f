#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "sequences/cached_state.h"

namespace idmint {

// The values of requests in service were cut earlier, or come from `spare`, which are smaller
// still. So a cut made here has larger values, if no request waits or is served and there are no
// spare values.
bool CachedSequence::State::try_fill(std::span<std::int64_t> out) noexcept {
  if (!submitted.is_idle() || has_spare.load(std::memory_order_relaxed)) return false;
  const Instant now = coarse.now();
  if (paused_until(now)) return false;  // the next call drops the values held
  if (claimed_at.load(std::memory_order_relaxed) != now)
    claimed_at.store(now, std::memory_order_relaxed);
  const std::int64_t count = std::ssize(out);
  Range cut;
  if (!cut_at_cursor(count, cut, count)) return false;
  if (count > 1) extra.fetch_add(static_cast<std::uint64_t>(count - 1), std::memory_order_relaxed);
  const std::int64_t mark = cursor->mark.load();  // after the cut: set_mark()
  if (cut.first < mark && mark <= cut.first + count) have_prefetched();
  for (std::int64_t& value : out) value = value_of(cut.first++);
  return true;
}

void CachedSequence::State::serve(std::span<Request> batch) {
  drop_after_pause();
  std::vector<Range> at_hand;
  std::unique_lock lock = locked();
  if (!stopped) at_hand.swap(spare);
  lock.unlock();
  fill(batch, at_hand);
  lock.lock();
  spare.insert(spare.end(), at_hand.begin(), at_hand.end());
  has_spare.store(!spare.empty(), std::memory_order_relaxed);
}

// All requests share an error of the store, since each would wait for it in vain. An error of too
// few values concerns only the request that wants more. Requests with little time left are refused,
// because they would limit the time of all.
void CachedSequence::State::fill(std::span<Request> batch, std::vector<Range>& at_hand) {
  const SteadyTime soon = std::chrono::steady_clock::now() + deadline / 4;
  const std::span<Request> in_time(
      std::ranges::find_if(batch, [&](const Request& request) { return request.until > soon; }),
      batch.end());
  for (Request& late : batch.first(batch.size() - in_time.size())) {
    late.done(std::unexpected(
        about("sequence " + definition.name,
              {Code::kUnavailable,
               "nobody came to this request in time; nothing was taken for it; ask again"})));
  }
  std::int64_t wanted = 0;
  for (const Request& request : in_time) wanted += std::ssize(request.out);
  std::optional<Error> refused;  // the error of all remaining requests
  for (Request& request : in_time) {
    const std::int64_t count = std::ssize(request.out);
    std::optional<Error> lacking;
    for (std::int64_t there = values_in(at_hand); !refused && !lacking && there < count;) {
      SteadyTime until = in_time.front().until;
      const Result<Range> values =
          claim(nullptr,
                {.wanted = wanted - there, .most = wanted - there, .whole = count, .until = until});
      if (values) {
        at_hand.push_back(*values);
        there += values->count;
      } else {
        (values.error().code == Code::kOutOfRange ? lacking : refused) = values.error();
      }
    }
    wanted -= count;
    if (refused || lacking) {
      request.done(std::unexpected(refused ? *refused : *lacking));
      continue;
    }
    std::span<Range> rest = at_hand;
    pop_into(rest, count, request.out.data());
    values_of(request.out);
    at_hand.erase(at_hand.begin(), at_hand.end() - std::ssize(rest));
    extra.fetch_add(request.out.size() - 1, std::memory_order_relaxed);
    request.done({});
  }
}

}  // namespace idmint
