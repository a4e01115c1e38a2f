#include "stores/gapless_queue.h"

#include <algorithm>

namespace idmint::stores {

Error GaplessTransactions::of_document(std::size_t position, const Error& why) {
  const std::string number = std::to_string(position + 1);
  return {why.code, "document " + number + ": " + why.message, {Remedy::kMendDocument, number}};
}

namespace {

// Of one transaction, if it is of several calls: what takes longer keeps others waiting.
constexpr std::size_t kMostDocuments = 1000;
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

}  // namespace

Result<Range> GaplessQueue::insert(GaplessTransactions::Documents documents) {
  Request request;
  request.until = std::chrono::steady_clock::now() + deadline;
  request.begun_by = request.until - deadline / 4;
  for (const auto& document : documents) request.bytes += document.size();
  request.documents = std::make_shared<const GaplessTransactions::Documents>(std::move(documents));
  std::unique_lock lock(mutex);
  if (lost) return std::unexpected(*lost);
  if (queue.size() >= max_outstanding)
    return std::unexpected(
        Error{Code::kResourceExhausted, std::to_string(queue.size()) +
                                            " calls wait for gapless numbers of " + what +
                                            "; nothing was inserted; ask again later"});
  queue.push_back(&request);
  return wait_for(request, lock);
}

// Only the first in the queue leads: so it is in the transaction that it waits for, which ends by
// its own deadline.
Result<Range> GaplessQueue::wait_for(Request& request, std::unique_lock<std::mutex>& lock) {
  bool late = false;
  while (!request.answer) {
    if (request.taken) {
      request.changed.wait(lock);  // its transaction has a deadline
    } else if (!led && queue.front() == &request) {
      lead(lock);  // late or not: who was woken to lead and went away would leave the others asleep
    } else if (late) {
      std::erase(queue, &request);
      return std::unexpected(
          Error{Code::kUnavailable,
                "no transaction with gapless numbers of " + what +
                    " had begun in time, as others took long; nothing was inserted; ask again"});
    } else {
      late = request.changed.wait_until(lock, request.begun_by) == std::cv_status::timeout;
    }
  }
  return *std::move(request.answer);
}

// One transaction, of those who wait longest. Where one call is to blame for its end, the others
// wait again, and where nobody is known to be, each for a transaction of its own.
void GaplessQueue::lead(std::unique_lock<std::mutex>& lock) {
  led = true;
  ++statistics.transactions;
  std::vector<Request*> batch;
  std::vector<std::shared_ptr<const GaplessTransactions::Documents>> calls;
  SteadyTime until = SteadyTime::max();
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (!queue.empty()) {
    Request& next = *queue.front();
    count += next.documents->size();
    bytes += next.bytes;
    if (!batch.empty() && (count > kMostDocuments || bytes > kMostBytes || next.alone)) break;
    next.taken = true;
    batch.push_back(&next);
    calls.push_back(next.documents);
    until = std::min(until, next.until);
    queue.pop_front();
    if (next.alone) break;
  }
  const std::int64_t known = floor;
  lock.unlock();
  const auto done = transactions->insert(std::move(calls), known, until);
  lock.lock();

  const auto answer = [](Request& request, Result<Range> result) {
    request.answer = std::move(result);
    request.changed.notify_one();
  };
  if (done) {
    std::int64_t next = done->first;
    for (Request* const request : batch) {
      const auto size = static_cast<std::int64_t>(request->documents->size());
      ++statistics.calls;
      statistics.documents += request->documents->size();
      answer(*request, Range{next, 1, size});
      next += size;
    }
    floor = next;
    leave();
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
    Request& request = *batch[i];
    if (!again || refused.call == i) {
      answer(request, std::unexpected(refused.error));
      continue;
    }
    request.taken = false;
    request.alone = request.alone || !refused.call;
    queue.push_front(&request);
    request.changed.notify_one();
  }
  leave();
}

void GaplessQueue::leave() {
  led = false;
  if (!queue.empty()) queue.front()->changed.notify_one();
}

}  // namespace idmint::stores
