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

#include "sequences/cached_state.h"

namespace idmint {

Result<void> CachedSequence::State::submit(std::span<std::int64_t> out,
                                           std::move_only_function<void(Result<void>)> done) {
  const SteadyTime until = latest_end();
  const std::unique_lock lock = locked();
  if (stopped) return std::unexpected(*stopped);
  if (requests.size() + in_service >= max_outstanding) {
    return std::unexpected(too_many_wait(definition.name, max_outstanding));
  }
  if (!serving && !serve_posted) {
    if (auto posted = post_serve(); !posted) return posted;
  }
  requests.push_back({out, until, std::move(done)});
  return {};
}

// Under the lock.
Result<void> CachedSequence::State::post_serve() {
  auto posted = executor.post([state = shared_from_this()] { state->serve(); });
  serve_posted = posted.has_value();
  return posted;
}

// One task at a time; while there are requests one serves, or is posted. noexcept: with no memory
// left it is better to end the process than to leave requests without an answer.
void CachedSequence::State::serve() noexcept {
  const SteadyTime end = std::chrono::steady_clock::now() + kTurn;
  std::unique_lock lock = locked();
  serve_posted = false;
  if (requests.empty()) return;  // closed
  serving = true;
  do {
    std::vector<Request> batch = std::exchange(requests, {});
    in_service = batch.size();
    lock.unlock();
    drop_after_pause();
    lock.lock();
    std::vector<Range> at_hand;
    if (!stopped) at_hand.swap(spare);
    lock.unlock();
    fill(batch, at_hand);
    batch.clear();
    lock.lock();
    in_service = 0;
    spare.insert(spare.end(), at_hand.begin(), at_hand.end());
  } while (!requests.empty() && std::chrono::steady_clock::now() < end);
  while (!requests.empty()) {
    const Result<void> posted = post_serve();
    if (posted) break;
    std::vector<Request> refused = std::exchange(requests, {});
    lock.unlock();
    for (Request& request : refused) request.done(std::unexpected(posted.error()));
    lock.lock();
  }
  serving = false;
  changed.notify_all();
}

// All of them share an error of the store, since each would wait for it in vain. That fewer are
// left than one wants says nothing to the others. Requests that have little time left would take
// the time of all.
void CachedSequence::State::fill(std::span<Request> batch, std::vector<Range>& at_hand) {
  const SteadyTime soon = std::chrono::steady_clock::now() + deadline / 4;
  const std::span<Request> in_time(
      std::ranges::find_if(batch, [&](const Request& request) { return request.until > soon; }),
      batch.end());
  for (Request& late : batch.first(batch.size() - in_time.size())) {
    late.done(std::unexpected(
        Error{Code::kUnavailable,
              "sequence " + definition.name +
                  ": nobody came to this request in time; nothing was taken for it; ask again"}));
  }
  std::int64_t wanted = 0;
  for (const Request& request : in_time) wanted += std::ssize(request.out);
  std::optional<Error> refused;  // of all that are left
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
    for (std::size_t i = 0; i < request.out.size();) {
      const Range run = pop(rest, std::ssize(request.out) - static_cast<std::int64_t>(i));
      for (std::int64_t k = 0; k < run.count; ++k) request.out[i++] = run.at(k);
    }
    at_hand.erase(at_hand.begin(), at_hand.end() - std::ssize(rest));
    extra.fetch_add(request.out.size() - 1, std::memory_order_relaxed);
    request.done({});
  }
}

}  // namespace idmint
