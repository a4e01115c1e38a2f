#include "sequences/gapless_queue.h"

#include <algorithm>
#include <utility>

namespace idmint {
namespace {

// The limits of a transaction with several calls: a longer one would keep others waiting.
constexpr std::size_t kMostDocuments = 1000;
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

}  // namespace

std::shared_ptr<GaplessQueue::Request> GaplessQueue::request_for(Documents documents) const {
  auto request = std::make_shared<Request>();
  request->until = std::chrono::steady_clock::now() + deadline;
  request->begun_by = request->until - deadline / 4;
  for (const auto& document : documents) request->bytes += document.size();
  request->documents = std::make_shared<const Documents>(std::move(documents));
  return request;
}

std::optional<Error> GaplessQueue::refusal() const {
  if (lost) return lost;
  if (closed) return Error{Code::kUnavailable, what_closed()};
  if (queue.size() >= max_outstanding) {
    return Error{Code::kResourceExhausted, std::to_string(queue.size()) +
                                               " calls wait for gapless numbers of " + what +
                                               "; nothing was inserted; ask again later"};
  }
  return std::nullopt;
}

std::string GaplessQueue::what_closed() const { return "gapless numbers of " + what + ": closed"; }

Error GaplessQueue::late() const {
  return {Code::kUnavailable,
          "no transaction with gapless numbers of " + what +
              " had begun in time, as others took long; nothing was inserted; ask again"};
}

Result<Range> GaplessQueue::insert(Documents documents) {
  const std::shared_ptr<Request> request = request_for(std::move(documents));
  Lock lock(mutex);
  if (auto why = refusal()) return std::unexpected(*std::move(why));
  queue.push_back(request);
  return wait_for(*request, lock);
}

Result<void> GaplessQueue::submit(Documents documents, Done done) {
  std::shared_ptr<Request> request = request_for(std::move(documents));
  request->done = std::move(done);
  const Lock lock(mutex);
  if (auto why = refusal()) return std::unexpected(*std::move(why));
  if (!led && !posted && queue.empty()) {
    if (auto will_lead = post(); !will_lead) return will_lead;
  }
  queue.push_back(std::move(request));
  return {};
}

// A call leads only if its own transaction includes it: it is the first in the queue, or behind
// asynchronous calls without a task yet. So the transaction ends by its deadline.
Result<Range> GaplessQueue::wait_for(Request& request, Lock& lock) {
  bool is_late = false;
  while (!request.answer) {
    if (request.taken) {
      request.changed.wait(lock);  // its transaction has a deadline
    } else if (!led && (queue.front().get() == &request || queue.front()->done)) {
      lead(lock);  // even if late: otherwise the others would stay asleep
    } else if (is_late) {
      std::erase_if(queue, [&](const auto& each) { return each.get() == &request; });
      return std::unexpected(late());
    } else {
      is_late = request.changed.wait_until(lock, request.begun_by) == std::cv_status::timeout;
    }
  }
  return *std::move(request.answer);
}

// Posts a task of the executor that leads, unless a blocking call does before it begins.
Result<void> GaplessQueue::post() {
  gate->queue = this;
  auto will_lead = executor.post([gate = gate] {
    Lock lock(gate->mutex);
    GaplessQueue* const there = gate->queue;
    if (there == nullptr) return;
    there->posted = false;
    if (!there->led && !there->queue.empty() && there->queue.front()->done) there->lead(lock);
  });
  posted = will_lead.has_value();
  return will_lead;
}

// Runs one transaction with the calls that have waited longest. If one call caused its failure, the
// others wait again; if the cause is unknown, each waits for a transaction of its own.
void GaplessQueue::lead(Lock& lock) {
  led = true;
  Requests answered;
  Requests batch;
  std::vector<std::shared_ptr<const Documents>> calls;
  const SteadyTime now = std::chrono::steady_clock::now();
  SteadyTime until = SteadyTime::max();
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (!queue.empty()) {
    const std::shared_ptr<Request> next = queue.front();
    if (next->done && next->begun_by <= now) {  // a blocking call leaves by itself
      queue.pop_front();
      answer(next, std::unexpected(late()), answered);
      continue;
    }
    count += next->documents->size();
    bytes += next->bytes;
    if (!batch.empty() && (count > kMostDocuments || bytes > kMostBytes || next->alone)) break;
    next->taken = true;
    batch.push_back(next);
    calls.push_back(next->documents);
    until = std::min(until, next->until);
    queue.pop_front();
    if (next->alone) break;
  }
  if (batch.empty()) {
    leave(lock, std::move(answered));
    return;
  }
  ++statistics.transactions;
  std::int64_t known = floor;
  if (issued != nullptr && issued->last() != LastIssued::kNothing)
    known = std::max(known, issued->last() + 1);
  const std::int64_t settled = issued != nullptr ? issued->known_settled() : 0;
  lock.unlock();
  const auto done = transactions->insert(std::move(calls), known, until);
  lock.lock();

  if (done) {
    std::int64_t next = done->first;
    for (const std::shared_ptr<Request>& request : batch) {
      const auto size = static_cast<std::int64_t>(request->documents->size());
      ++statistics.calls;
      statistics.documents += request->documents->size();
      answer(request, Range{next, 1, size}, answered);
      next += size;
    }
    floor = next;
    if (issued != nullptr) issued->raise(next - 1, settled);
    leave(lock, std::move(answered));
    return;
  }
  const GaplessTransactions::Refused& refused = done.error();
  if (refused.error.code == Code::kDataLoss) {
    lost = refused.error;
    batch.insert(batch.end(), queue.begin(), queue.end());
    queue.clear();
  }
  const bool again = !lost && (refused.call || (refused.retry_others && batch.size() > 1));
  for (std::size_t i = batch.size(); i-- > 0;) {
    const std::shared_ptr<Request>& request = batch[i];
    if (!again || refused.call == i) {
      answer(request, std::unexpected(refused.error), answered);
      continue;
    }
    request->taken = false;
    request->alone = request->alone || !refused.call;
    queue.push_front(request);
    request->changed.notify_one();
  }
  leave(lock, std::move(answered));
}

// The first in the queue leads next: itself if it blocks, or a task. If the executor refuses the
// task, a blocking call behind asynchronous ones leads; if there is none, all of them fail.
void GaplessQueue::leave(Lock& lock, Requests answered) {
  led = false;
  if (closed) end_all({Code::kUnavailable, what_closed() + "; nothing was inserted"}, answered);
  if (!queue.empty() && !queue.front()->done) {
    queue.front()->changed.notify_one();
  } else if (!queue.empty() && !posted) {
    if (const Result<void> will_lead = post(); !will_lead) {
      const auto heir = std::ranges::find_if(queue, [](const auto& each) { return !each->done; });
      if (heir != queue.end()) {
        (*heir)->changed.notify_one();
      } else {
        end_all(will_lead.error(), answered);
      }
    }
  }
  if (!answered.empty()) {
    ++calling_back;
    lock.unlock();
    for (const std::shared_ptr<Request>& request : answered) {
      std::optional<Result<Range>> its = std::move(request->answer);
      if (its) request->done(*std::move(its));
    }
    lock.lock();
    --calling_back;
  }
  idle.notify_all();
}

// Notifies a blocking call; an asynchronous one is called back after the lock is released.
void GaplessQueue::answer(const std::shared_ptr<Request>& request, Result<Range> result,
                          Requests& answered) {
  request->answer = std::move(result);
  if (request->done) {
    answered.push_back(request);
  } else {
    request->changed.notify_one();
  }
}

void GaplessQueue::end_all(const Error& why, Requests& answered) {
  for (const auto& request : std::exchange(queue, {})) {
    answer(request, std::unexpected(why), answered);
  }
}

void GaplessQueue::close() noexcept {
  Lock lock(mutex);
  closed = true;
  gate->queue = nullptr;
  if (!led) leave(lock);
  idle.wait(lock, [this] { return !led && queue.empty() && calling_back == 0; });
}

}  // namespace idmint
