#include "mint/submitted_ids.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/errors.h"

namespace idmint {
namespace {

constexpr std::size_t kMostOutstanding = 1'000'000;  // as SequenceOptions::max_outstanding
constexpr std::int64_t kMostTogether = 4096;         // ids of one call for several requests

}  // namespace

Result<void> Source::submit(std::span<Id> /*out*/, MoveOnlyFunction<void(Result<void>)> /*done*/) {
  return fail(Code::kUnimplemented, "this source has no submit(); use next()");
}

SubmittedIds::SubmittedIds(Source& source, std::string owner, Executor* executor,
                           std::chrono::milliseconds deadline)
    : source_(source),
      owner_(std::move(owner)),
      deadline_(deadline),
      submitted_(owner_, kMostOutstanding, executor != nullptr ? *executor : shared_executor(),
                 [this](std::span<Request> batch) { serve(batch); }) {}

Result<void> SubmittedIds::submit(std::span<Id> out, MoveOnlyFunction<void(Result<void>)> done) {
  if (!submitted_.owned())
    return std::unexpected(about(
        owner_, {Code::kFailedPrecondition, "opened before fork(); open it again in the child"}));
  return submitted_.submit({out, std::chrono::steady_clock::now() + deadline_, std::move(done)});
}

// Requests that wait together share the deadline of the oldest. One with less than a quarter of its
// time left must not cut the others short: it is unavailable, and nothing was taken for it.
void SubmittedIds::serve(std::span<Request> batch) {
  const SteadyTime late = std::chrono::steady_clock::now() + deadline_ / 4;
  for (; !batch.empty() && batch.front().until <= late; batch = batch.subspan(1))
    batch.front().done(std::unexpected(
        about(owner_, {Code::kUnavailable, "earlier requests took too long; ask again"})));
  const std::int64_t largest = source_.declaration().largest_count;
  const std::int64_t most = largest != 0 ? std::min(largest, kMostTogether) : kMostTogether;
  Refusal refusal;
  while (!batch.empty()) {
    std::int64_t ids = std::ssize(batch.front().out);
    std::size_t size = 1;
    while (size < batch.size() && ids + std::ssize(batch[size].out) <= most)
      ids += std::ssize(batch[size++].out);
    serve_together(batch.first(size), refusal);
    batch = batch.subspan(size);
  }
}

void SubmittedIds::serve_together(std::span<Request> requests, Refusal& refusal) {
  std::size_t size = 0;
  for (const Request& each : requests) size += each.out.size();
  if (size < refusal.size) {
    const bool alone = requests.size() == 1;
    if (!alone) ids_.resize(size);
    Result<void> filled =
        source_.next(alone ? requests.front().out : std::span<Id>(ids_), requests.front().until);
    if (filled || filled.error().code != Code::kOutOfRange) {
      auto from = ids_.cbegin();
      for (Request& each : requests) {
        if (filled && !alone) std::copy_n(from, each.out.size(), each.out.begin());
        if (!alone) from += std::ssize(each.out);
        each.done(filled);
      }
      return;
    }
    refusal = {size, std::move(filled.error())};
  }
  if (requests.size() == 1) return requests.front().done(std::unexpected(refusal.why));
  // So many are not left, but perhaps as many as some of the requests want.
  serve_together(requests.first(requests.size() / 2), refusal);
  serve_together(requests.subspan(requests.size() / 2), refusal);
}

}  // namespace idmint
